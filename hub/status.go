package hub

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// hiddenPaths are the addresses where the Hub answers 401 for a repository
// that does not exist or that the caller may not see.
var hiddenPaths = regexp.MustCompile(`/api/(models|datasets|spaces)/[^?]+|/[^?]+/resolve/[^?]+`)

const (
	msgDisabled = "Access to this resource is disabled."
	msgBadToken = "Invalid credentials in Authorization header"
)

// statusError maps an answer of 400 and above to a typed error. The order of
// the cases follows the Hub's own client: an error code says more than the
// status does.
func (c *Client) statusError(method string, a *answer) error {
	h := a.Header
	code := h.Get("X-Error-Code")
	message := c.errorMessage(method, a)
	e := &Error{
		Status:    a.StatusCode,
		URL:       redactURL(a.url),
		Message:   message,
		RequestID: cmp.Or(requestID(h), a.trace),
	}
	if cm := h.Get("X-Repo-Commit"); IsCommit(cm) {
		e.commit = Commit(cm)
	}
	path := a.url.EscapedPath()
	onHub := c.isHub(a.url)
	e.offHub = !onHub
	switch {
	case code == "RevisionNotFound":
		e.Kind = ErrRevisionNotFound
	case code == "EntryNotFound":
		e.Kind = ErrEntryNotFound
	case code == "GatedRepo":
		e.Kind = ErrGated
		if a.authed {
			e.Hint = "your account is not on the list yet: open the repository's page, accept its terms or ask for access, then try again"
		} else {
			e.Hint = "accept the terms on the repository's page, make an access token in your account's settings, and set HF_TOKEN to it"
		}
	case h.Get("X-Error-Message") == msgDisabled:
		e.Kind = ErrDisabled
	case code == "RepoNotFound",
		a.StatusCode == 401 && onHub && !strings.Contains(message, msgBadToken) && hiddenPaths.MatchString(path):
		e.Kind = ErrRepoNotFound
		e.Hint = "check the name; a private repository needs a token that may read it"
		if a.authed {
			e.Hint = "check the name, and that the token may read this repository"
		}
	case a.StatusCode == 401:
		e.Kind = ErrUnauthorized
		e.Hint = "the token is wrong or has expired; make a new one in your account's settings"
	case a.StatusCode == 400:
		e.Kind = ErrBadRequest
	case a.StatusCode == 403:
		e.Kind = ErrForbidden
		if onHub && a.authed {
			e.Hint = "a fine-grained token needs read access to this repository"
		}
	case a.StatusCode == 404:
		e.Kind = ErrEntryNotFound
		if strings.Contains(path, "/api/") {
			e.Kind = ErrRepoNotFound
		}
	case a.StatusCode == 416:
		e.Kind = ErrMetadata
		e.Message = refusedRange(a.Request.Header.Get("Range"), h.Get("Content-Range"), message)
	case a.StatusCode == 429:
		e.Kind = ErrRateLimited
		e.Hint = "a token raises the limit"
		if a.authed {
			e.Hint = ""
		}
		e.RetryAfter, _ = rateWait(h, c.now())
	case a.StatusCode >= 500:
		e.Kind = ErrServer
		e.RetryAfter, _ = retryAfter(h.Get("Retry-After"), c.now())
	default:
		e.Kind = ErrMetadata
	}
	return e
}

// errorMessage collects what the server says, without repeats.
func (c *Client) errorMessage(method string, a *answer) string {
	var out []string
	add := func(s string) {
		s = strings.TrimSpace(strings.Join(strings.Fields(s), " "))
		if c.opts.Token != "" {
			s = strings.ReplaceAll(s, c.opts.Token, "***")
		}
		if s = clip(s, 500); s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	add(a.Header.Get("X-Error-Message"))
	if method == http.MethodHead {
		return strings.Join(out, "; ")
	}
	body, _ := io.ReadAll(io.LimitReader(a.Body, maxErrorBody))
	var j struct {
		Error            json.RawMessage `json:"error"`
		ErrorDescription string          `json:"error_description"`
		Errors           []struct {
			Message string `json:"message"`
		} `json:"errors"`
	}
	if json.Unmarshal(body, &j) == nil {
		var one string
		var many []string
		if json.Unmarshal(j.Error, &one) == nil {
			add(one)
		} else if json.Unmarshal(j.Error, &many) == nil {
			for _, m := range many {
				add(m)
			}
		}
		add(j.ErrorDescription)
		for _, m := range j.Errors {
			add(m.Message)
		}
	} else if !looksHTML(body) && !strings.Contains(a.Header.Get("Content-Type"), "html") {
		add(strings.ToValidUTF8(string(body), "�"))
	}
	return strings.Join(out, "; ")
}

func requestID(h http.Header) string {
	for _, n := range []string{"X-Request-Id", "X-Amzn-Trace-Id", "X-Amz-Cf-Id"} {
		if v := h.Get(n); v != "" {
			return clip(headerText(v), 128)
		}
	}
	return ""
}

// looksHTML reports whether data starts like a web page.
func looksHTML(b []byte) bool {
	s := strings.ToLower(strings.TrimLeft(string(b[:min(len(b), 512)]), "\ufeff \t\r\n"))
	return strings.HasPrefix(s, "<!doctype html") || strings.HasPrefix(s, "<html")
}

// refusedRange puts a 416 into words; either header may be missing.
func refusedRange(asked, stated, message string) string {
	s := "no range was asked for, and it was refused"
	if asked != "" {
		s = "range " + clip(asked, 64) + " refused"
	}
	if stated != "" {
		s += ", server states " + clip(stated, 64)
	}
	return strings.TrimSpace(s + " " + message)
}

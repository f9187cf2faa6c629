package hub

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"
)

// The kinds of failure. Match them with errors.Is.
var (
	ErrInvalidRepo        = errors.New("invalid repository id")
	ErrInvalidRevision    = errors.New("invalid revision")
	ErrUnsafePath         = errors.New("unsafe file name")
	ErrRepoNotFound       = errors.New("repository not found")
	ErrRevisionNotFound   = errors.New("revision not found")
	ErrEntryNotFound      = errors.New("file not found in repository")
	ErrGated              = errors.New("repository is gated")
	ErrDisabled           = errors.New("repository is disabled")
	ErrUnauthorized       = errors.New("token refused")
	ErrForbidden          = errors.New("access forbidden")
	ErrBadRequest         = errors.New("bad request")
	ErrRateLimited        = errors.New("rate limited")
	ErrServer             = errors.New("server error")
	ErrNetwork            = errors.New("network error")
	ErrOffline            = errors.New("offline mode")
	ErrLocalEntryNotFound = errors.New("file not in the local cache")
	ErrIncomplete         = errors.New("incomplete snapshot")
	ErrChecksum           = errors.New("checksum mismatch")
	ErrSize               = errors.New("size mismatch")
	ErrContent            = errors.New("not the file's content")
	ErrMetadata           = errors.New("unusable answer from the server")
	ErrRedirect           = errors.New("redirect refused")
	ErrDiskSpace          = errors.New("not enough disk space")
	ErrCache              = errors.New("cache error")
)

// Error is what every method returns when it fails. Kind is one of the Err
// values above, or [context.Canceled] or [context.DeadlineExceeded] where the
// caller's context ended the call; Err, when set, is the cause. Both match
// with errors.Is.
type Error struct {
	Kind      error
	Op        string // resolve, list, metadata, download, snapshot, …
	Repo      Repo
	Revision  string
	File      string
	Status    int    // HTTP status, 0 if there was none
	URL       string // without query and user information
	RequestID string // what the server calls the request, for its support
	Message   string // the server's or our own words
	Hint      string // what the user can do
	// RetryAfter is how long the server asked to wait (rate limits).
	RetryAfter time.Duration
	Err        error

	// commit is the X-Repo-Commit beside an error, for .no_exist.
	commit Commit
	// offHub marks an answer of another origin than the Hub's.
	offHub bool
}

// Error gives one line. It holds no token and no query of a URL.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("hub: ")
	switch {
	case e.Repo.ID == "" && e.Op == "validate":
		// The kind says it all.
	case e.Repo.ID == "" && e.Op != "":
		b.WriteString(e.Op + ": ")
	case e.Op != "":
		b.WriteString(e.Op + " ")
	}
	if e.Repo.ID != "" {
		b.WriteString(e.Repo.String())
		if e.Revision != "" {
			b.WriteString("@" + e.Revision)
		}
		if e.File != "" {
			b.WriteString("/" + e.File)
		}
		b.WriteString(": ")
	}
	if e.Kind != nil {
		b.WriteString(e.Kind.Error())
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	if e.Err != nil && !errors.Is(e.Kind, e.Err) {
		b.WriteString(": " + e.Err.Error())
	}
	var notes []string
	if e.Status != 0 {
		notes = append(notes, fmt.Sprintf("HTTP %d", e.Status))
	}
	if e.URL != "" {
		notes = append(notes, e.URL)
	}
	if e.RequestID != "" {
		notes = append(notes, "request "+e.RequestID)
	}
	if len(notes) > 0 {
		b.WriteString(" (" + strings.Join(notes, ", ") + ")")
	}
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return redactText(oneLine(b.String()))
}

// oneLine takes line ends and control characters out of a text: a server's
// words must not steer the terminal that shows them.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r):
			return -1
		}
		return r
	}, s)
}

// Unwrap lets errors.Is and errors.As see the kind and the cause.
func (e *Error) Unwrap() []error {
	var out []error
	if e.Kind != nil {
		out = append(out, e.Kind)
	}
	if e.Err != nil {
		out = append(out, e.Err)
	}
	return out
}

// ChecksumError says that a complete file has the wrong digest. Algorithm is
// "sha256" (LFS files) or "git-sha1" (plain files).
type ChecksumError struct {
	File      string
	Algorithm string
	Expected  string
	Actual    string
}

func (e *ChecksumError) Error() string {
	return fmt.Sprintf("%s: %s is %s, expected %s", e.File, e.Algorithm, e.Actual, e.Expected)
}

// Is makes the error match [ErrChecksum].
func (e *ChecksumError) Is(target error) bool { return target == ErrChecksum }

// SizeError says that a server offers another number of bytes than the
// repository states.
type SizeError struct {
	File     string
	Expected int64
	Actual   int64
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("%s: server offers %d bytes, expected %d", e.File, e.Actual, e.Expected)
}

// Is makes the error match [ErrSize].
func (e *SizeError) Is(target error) bool { return target == ErrSize }

// ContentError says that a server sent something else in place of the file:
// an "LFS pointer", an "HTML page" or an "encoded body".
type ContentError struct {
	File string
	Got  string
}

func (e *ContentError) Error() string {
	return fmt.Sprintf("%s: server sent an %s in place of the file", e.File, e.Got)
}

// Is makes the error match [ErrContent].
func (e *ContentError) Is(target error) bool { return target == ErrContent }

// IncompleteError lists the files that a snapshot lacks on disk while no
// network may be used. Missing holds up to 16 names, Count all of them.
type IncompleteError struct {
	Dir     string
	Missing []string
	Count   int
}

func (e *IncompleteError) Error() string {
	s := fmt.Sprintf("%d file(s) missing from %s: %s", e.Count, e.Dir, strings.Join(e.Missing, ", "))
	if e.Count > len(e.Missing) {
		s += ", …"
	}
	return s
}

// Is makes the error match [ErrIncomplete].
func (e *IncompleteError) Is(target error) bool { return target == ErrIncomplete }

// DiskSpaceError says how many bytes a download needs and how many are free.
type DiskSpaceError struct {
	Dir  string
	Need int64
	Free int64
}

func (e *DiskSpaceError) Error() string {
	return fmt.Sprintf("%s: %d bytes needed, %d free", e.Dir, e.Need, e.Free)
}

// Is makes the error match [ErrDiskSpace].
func (e *DiskSpaceError) Is(target error) bool { return target == ErrDiskSpace }

var (
	tokenText = regexp.MustCompile(`\b(hf|api_org|hf_oauth|hf_jwt)_[A-Za-z0-9._\-]{4,}`)
	bearer    = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[^\s"',;)]+`)
	urlQuery  = regexp.MustCompile(`(https?://[^\s"'<>?]+)\?[^\s"'<>)]*`)
	urlUser   = regexp.MustCompile(`(https?://)[^\s/"'<>@]+@`)
)

// redactText removes whatever looks like a token, an authorisation value or
// the query of a URL: signed URLs carry their secret there.
func redactText(s string) string {
	s = urlUser.ReplaceAllString(s, "${1}")
	s = urlQuery.ReplaceAllString(s, "${1}?…")
	s = bearer.ReplaceAllString(s, "${1} ***")
	return tokenText.ReplaceAllString(s, "${1}_***")
}

// redactURL keeps scheme, host and path.
func redactURL(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}

// withPlace fills in the operation and the place of an error that came from
// a lower layer, where they are not set yet.
func withPlace(err error, op string, r Repo, revision, file string) error {
	var he *Error
	if !errors.As(err, &he) {
		kind := ErrCache
		for _, k := range []error{ErrChecksum, ErrSize, ErrContent, ErrIncomplete, ErrDiskSpace, context.Canceled, context.DeadlineExceeded} {
			if errors.Is(err, k) {
				kind = k
			}
		}
		return &Error{Kind: kind, Op: op, Repo: r, Revision: revision, File: file, Err: err}
	}
	e := *he
	if e.Op == "" || e.Op == "validate" {
		e.Op = op
	}
	if e.Repo.ID == "" {
		e.Repo = r
	}
	if e.Revision == "" {
		e.Revision = revision
	}
	if e.File == "" {
		e.File = file
	}
	return &e
}

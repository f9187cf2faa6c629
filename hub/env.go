package hub

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// Env is what [OptionsFromEnv] found. Warnings are values that were ignored
// because they cannot be read; a command shows them.
type Env struct {
	Options  Options
	Warnings []string
	// Home is HF_HOME after expansion; TokenPath the token file.
	Home      string
	TokenPath string
	// TokenSource says where the token came from: a variable's name, a
	// file's path, or empty.
	TokenSource string
	// DisableXet, DisableTelemetry and DisableProgress mirror their
	// variables.
	DisableXet       bool
	DisableTelemetry bool
	DisableProgress  bool
}

// OptionsFromEnv reads the Hub's usual variables through getenv (os.Getenv in
// a command) and the token file. home is the user's home directory; it may
// be empty if HF_HOME or HF_HUB_CACHE is set.
//
// Variables: HF_HOME, XDG_CACHE_HOME, HF_HUB_CACHE (before
// HUGGINGFACE_HUB_CACHE), HF_ENDPOINT, HF_TOKEN (before
// HUGGING_FACE_HUB_TOKEN, before the file HF_TOKEN_PATH or $HF_HOME/token),
// HF_HUB_DISABLE_IMPLICIT_TOKEN, HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE,
// HF_HUB_ETAG_TIMEOUT, HF_HUB_DOWNLOAD_TIMEOUT, HF_HUB_DISABLE_SYMLINKS,
// HF_HUB_DISABLE_XET, HF_HUB_DISABLE_SHARED_BLOBS,
// HF_HUB_DISABLE_PROGRESS_BARS,
// HF_HUB_DISABLE_TELEMETRY, DISABLE_TELEMETRY, DO_NOT_TRACK,
// HF_HUB_USER_AGENT_ORIGIN, HTTP_PROXY, HTTPS_PROXY, NO_PROXY (either case),
// REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE. A switch is on for 1, on, yes and
// true in any case, and off for everything else.
func OptionsFromEnv(getenv func(string) string, home string) (Env, error) {
	var e Env
	first := func(names ...string) (value, name string) {
		for _, n := range names {
			if v := getenv(n); v != "" {
				return v, n
			}
		}
		return "", ""
	}
	on := func(names ...string) bool {
		for _, n := range names {
			if isTrue(getenv(n)) {
				return true
			}
		}
		return false
	}
	expand := func(p string) string { return expandPath(p, getenv, home) }

	switch {
	case getenv("HF_HOME") != "":
		e.Home = expand(getenv("HF_HOME"))
	case getenv("XDG_CACHE_HOME") != "":
		e.Home = filepath.Join(expand(getenv("XDG_CACHE_HOME")), "huggingface")
	case home != "":
		e.Home = filepath.Join(home, ".cache", "huggingface")
	}
	if v, _ := first("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"); v != "" {
		e.Options.CacheDir = expand(v)
	} else if e.Home != "" {
		e.Options.CacheDir = filepath.Join(e.Home, "hub")
	} else {
		return e, &Error{Kind: ErrCache, Op: "configure", Message: "no home directory and neither HF_HOME nor HF_HUB_CACHE is set"}
	}

	e.Options.Endpoint = strings.TrimRight(getenv("HF_ENDPOINT"), "/")
	e.Options.Offline = on("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
	e.Options.DisableSymlinks = on("HF_HUB_DISABLE_SYMLINKS")
	e.Options.DisableSharedBlobs = on("HF_HUB_DISABLE_SHARED_BLOBS", "HF_HUB_DISABLE_XET")
	e.DisableXet = on("HF_HUB_DISABLE_XET")
	e.Options.DisableXet = e.DisableXet
	e.DisableProgress = on("HF_HUB_DISABLE_PROGRESS_BARS")
	e.DisableTelemetry = on("HF_HUB_DISABLE_TELEMETRY", "DISABLE_TELEMETRY", "DO_NOT_TRACK")
	if o := getenv("HF_HUB_USER_AGENT_ORIGIN"); o != "" && !e.DisableTelemetry {
		e.Options.UserAgent = "origin/" + headerText(o)
	}

	seconds := func(name string) time.Duration {
		v := strings.TrimSpace(getenv(name))
		if v == "" {
			return 0
		}
		s, err := strconv.ParseFloat(v, 64)
		if err != nil || !(s > 0 && s < 1e6) {
			e.Warnings = append(e.Warnings, fmt.Sprintf("%s=%q is not a number of seconds, ignored", name, clip(v, 32)))
			return 0
		}
		return time.Duration(s * float64(time.Second))
	}
	e.Options.MetadataTimeout = seconds("HF_HUB_ETAG_TIMEOUT")
	e.Options.StallTimeout = seconds("HF_HUB_DOWNLOAD_TIMEOUT")

	e.TokenPath = expand(getenv("HF_TOKEN_PATH"))
	if e.TokenPath == "" && e.Home != "" {
		e.TokenPath = filepath.Join(e.Home, "token")
	}
	if !on("HF_HUB_DISABLE_IMPLICIT_TOKEN") {
		for _, n := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} {
			if t := cleanToken(getenv(n)); t != "" {
				e.Options.Token, e.TokenSource = t, n
				break
			}
		}
		if e.Options.Token == "" && e.TokenPath != "" {
			t, err := readTokenFile(e.TokenPath)
			if err != nil {
				e.Warnings = append(e.Warnings, err.Error())
			} else if t != "" {
				e.Options.Token, e.TokenSource = t, e.TokenPath
				e.warnExpired()
			}
		}
	}

	httpP, _ := first("http_proxy", "HTTP_PROXY")
	httpsP, _ := first("https_proxy", "HTTPS_PROXY")
	noP, _ := first("no_proxy", "NO_PROXY")
	if all, _ := first("all_proxy", "ALL_PROXY"); all != "" {
		if httpP == "" {
			httpP = all
		}
		if httpsP == "" {
			httpsP = all
		}
	}
	if httpP != "" || httpsP != "" {
		f := (&httpproxy.Config{HTTPProxy: httpP, HTTPSProxy: httpsP, NoProxy: noP}).ProxyFunc()
		e.Options.Proxy = func(r *http.Request) (*url.URL, error) { return f(r.URL) }
	}

	if ca, name := first("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"); ca != "" {
		pool, err := loadCAs(expand(ca))
		if err != nil {
			return e, &Error{Kind: ErrNetwork, Op: "configure", Message: name, Err: err}
		}
		e.Options.RootCAs = pool
	}
	return e, nil
}

// warnExpired says so if the token of the token file is known to have expired.
func (e *Env) warnExpired() {
	stored, err := StoredTokens(filepath.Join(filepath.Dir(e.TokenPath), "stored_tokens"))
	if err != nil {
		return
	}
	for _, t := range stored {
		if t.Token == e.Options.Token && !t.Expires.IsZero() && time.Now().After(t.Expires) {
			e.Warnings = append(e.Warnings, fmt.Sprintf("the token %q expired on %s; log in again", t.Name, t.Expires.UTC().Format(time.DateTime)))
		}
	}
}

// isTrue is the Hub's rule for switches.
func isTrue(v string) bool {
	switch strings.ToUpper(v) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
}

// expandPath replaces a leading ~ and $VAR or ${VAR}.
func expandPath(p string, getenv func(string) string, home string) string {
	if p == "" {
		return ""
	}
	p = os.Expand(p, func(name string) string {
		if v := getenv(name); v != "" {
			return v
		}
		// An unset variable stays as written, as in Python's expandvars.
		return "$" + name
	})
	if home != "" && (p == "~" || strings.HasPrefix(p, "~/") || strings.HasPrefix(p, `~\`)) {
		p = filepath.Join(home, p[1:])
	}
	return p
}

// headerText keeps printable ASCII, so that a variable cannot break a header.
func headerText(s string) string {
	return clip(strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return -1
		}
		return r
	}, s), 256)
}

func loadCAs(path string) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	files := []string{path}
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		files, _ = filepath.Glob(filepath.Join(path, "*.pem"))
	}
	found := false
	for _, f := range files {
		pem, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		found = pool.AppendCertsFromPEM(pem) || found
	}
	if !found {
		return nil, errors.New(path + " holds no PEM certificate")
	}
	return pool, nil
}

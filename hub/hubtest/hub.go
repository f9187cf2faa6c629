package hubtest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// serveHub is the first origin: API and resolve.
func (s *Server) serveHub(x *exchange) {
	x.Header().Set("X-Request-Id", "hubtest-"+strconv.FormatInt(s.now().UnixNano(), 36))
	esc := x.r.URL.EscapedPath()
	segs, err := splitPath(esc)
	if err != nil {
		x.fail(http.StatusBadRequest, "", "malformed path")
		return
	}
	if !s.admit(x, esc) {
		return
	}
	authed, ok := s.auth(x)
	if !ok {
		return
	}
	switch {
	case len(segs) >= 2 && segs[0] == "api" && segs[1] == "whoami-v2":
		s.whoami(x, authed)
	case len(segs) >= 2 && segs[0] == "api" && segs[1] == "resolve-cache":
		s.resolveCache(x, segs[2:], authed)
	case len(segs) >= 3 && segs[0] == "api":
		s.api(x, segs[1], segs[2:], authed)
	case slices.Contains(segs, "resolve"):
		s.resolve(x, esc, segs, authed)
	default:
		x.fail(http.StatusNotFound, "", "Not Found")
	}
}

// splitPath decodes the segments one by one: %2F stays inside its segment.
func splitPath(esc string) ([]string, error) {
	var out []string
	for _, p := range strings.Split(strings.Trim(esc, "/"), "/") {
		d, err := url.PathUnescape(p)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// auth checks the Authorization header. A bad token is refused everywhere.
func (s *Server) auth(x *exchange) (authed, ok bool) {
	h := x.r.Header.Get("Authorization")
	if h == "" {
		return false, true
	}
	tok, bearer := strings.CutPrefix(h, "Bearer ")
	if !bearer || !slices.Contains(s.opts.Tokens, tok) {
		x.fail(http.StatusUnauthorized, "", "Invalid credentials in Authorization header")
		return false, false
	}
	return true, true
}

// repoOf finds the repository at the start of segments and returns the rest.
// It answers by itself if the caller may not see it.
func (s *Server) repoOf(x *exchange, plural string, segs []string, authed bool) (*repo, []string) {
	s.mu.Lock()
	var r *repo
	rest := segs
	if len(segs) >= 2 {
		if r = s.repos[plural+"/"+segs[0]+"/"+segs[1]]; r != nil {
			rest = segs[2:]
		}
	}
	if r == nil && len(segs) >= 1 {
		if r = s.repos[plural+"/"+segs[0]]; r != nil {
			rest = segs[1:]
		}
	}
	s.mu.Unlock()
	switch {
	case r == nil && authed:
		x.fail(http.StatusNotFound, "RepoNotFound", "Repository not found")
	case r == nil, r.Private && !authed:
		// The Hub does not say whether a repository exists.
		x.fail(http.StatusUnauthorized, "RepoNotFound", "Invalid username or password.")
		return nil, nil
	case r.Disabled:
		x.fail(http.StatusForbidden, "", "Access to this resource is disabled.")
		return nil, nil
	}
	return r, rest
}

func (s *Server) commitOf(x *exchange, r *repo, revision string) *commit {
	s.mu.Lock()
	c := r.find(revision)
	s.mu.Unlock()
	if c == nil {
		x.fail(http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+revision)
	}
	return c
}

// resolve serves /[plural/]id/resolve/revision/file.
func (s *Server) resolve(x *exchange, esc string, segs []string, authed bool) {
	plural := "models"
	if len(segs) > 1 && slices.Contains(repoTypes, strings.TrimSuffix(segs[0], "s")) && strings.HasSuffix(segs[0], "s") {
		plural, segs = segs[0], segs[1:]
	}
	at := slices.Index(segs, "resolve")
	if at < 1 || at > 2 || len(segs) < at+3 {
		x.fail(http.StatusNotFound, "", "Not Found")
		return
	}
	x.file = strings.Join(segs[at+2:], "/")
	if x.r.Method == http.MethodHead && x.r.Header.Get("Accept-Encoding") != "identity" {
		s.violate("HEAD without Accept-Encoding: identity: " + esc)
	}
	if strings.ContainsAny(esc, " \"<>\\^`{|}+$&=:@,;'()!*") {
		s.violate("path is not percent-encoded: " + esc)
	}
	r, _ := s.repoOf(x, plural, segs[:at], authed)
	if r == nil {
		return
	}
	if s.gate(x, r, authed) {
		return
	}
	c := s.commitOf(x, r, segs[at+1])
	if c == nil {
		return
	}
	x.Header().Set("X-Repo-Commit", c.hash)
	f := c.byPath[x.file]
	if f == nil {
		x.fail(http.StatusNotFound, "EntryNotFound", "Entry not found")
		return
	}
	if f.sha256 != "" {
		x.Header().Set("X-Linked-Etag", `"`+f.sha256+`"`)
		x.Header().Set("X-Linked-Size", strconv.FormatInt(f.size, 10))
	}
	s.offerXet(x, r, plural, c, f)
	x.redirects = f.sha256 != "" || s.opts.PlainRedirect
	if x.misbehave() {
		return
	}
	if x.fault != nil && f.sha256 != "" && (x.fault.Kind == Pointer || x.fault.Kind == HTML) {
		x.content(f, f.gitOID)
		return
	}
	switch {
	case f.xet != "" && x.r.Method == http.MethodGet && strings.Contains(x.r.Header.Get("Accept"), xetFileInfo):
		s.fileInfo(x, f)
	case f.sha256 != "":
		x.redirect(http.StatusFound, s.sign(f))
	case s.opts.PlainRedirect:
		id := r.ID
		x.Header().Set("ETag", `"`+f.gitOID+`"`)
		x.redirect(http.StatusTemporaryRedirect, "/api/resolve-cache/"+plural+"/"+id+"/"+c.hash+"/"+escapeFile(f.path)+"?etag="+url.QueryEscape(`"`+f.gitOID+`"`))
	default:
		x.content(f, f.gitOID)
	}
}

// gate refuses callers who may not read a gated repository's files, and
// reports whether it did.
func (s *Server) gate(x *exchange, r *repo, authed bool) bool {
	switch {
	case r.Gated && !authed:
		x.fail(http.StatusUnauthorized, "GatedRepo", "Access to model "+r.ID+" is restricted. You must have access to it and be authenticated to access it. Please log in.")
	case r.Gated && r.Deny:
		x.fail(http.StatusForbidden, "GatedRepo", "Access to model "+r.ID+" is restricted and you are not in the authorized list. Visit the repository's page to ask for access.")
	default:
		return false
	}
	return true
}

func (x *exchange) redirect(code int, to string) {
	x.Header().Set("Location", to)
	x.Header().Set("Content-Type", "text/plain; charset=utf-8")
	body := "Redirecting to " + to
	x.Header().Set("Content-Length", strconv.Itoa(len(body)))
	x.WriteHeader(code)
	if x.r.Method != http.MethodHead {
		_, _ = io.WriteString(x, body)
	}
}

func escapeFile(p string) string {
	segs := strings.Split(p, "/")
	for i := range segs {
		segs[i] = url.PathEscape(segs[i])
	}
	return strings.Join(segs, "/")
}

// resolveCache is where plain files are redirected to. The etag in the query
// must have survived the redirect.
func (s *Server) resolveCache(x *exchange, segs []string, authed bool) {
	if len(segs) < 3 {
		x.fail(http.StatusNotFound, "", "Not Found")
		return
	}
	r, rest := s.repoOf(x, segs[0], segs[1:], authed)
	if r == nil {
		return
	}
	if len(rest) < 2 {
		x.fail(http.StatusNotFound, "", "Not Found")
		return
	}
	x.file = strings.Join(rest[1:], "/")
	c := s.commitOf(x, r, rest[0])
	if c == nil {
		return
	}
	f := c.byPath[x.file]
	if f == nil || r.Gated && !authed {
		x.fail(http.StatusNotFound, "EntryNotFound", "Entry not found")
		return
	}
	if x.r.URL.Query().Get("etag") != `"`+f.gitOID+`"` {
		s.violate("the query of a relative redirect was lost: " + x.r.URL.String())
		x.fail(http.StatusBadRequest, "", "etag missing")
		return
	}
	if x.misbehave() {
		return
	}
	x.Header().Set("X-Repo-Commit", c.hash)
	x.content(f, f.gitOID)
}

// sign makes an address of the second origin that is valid for an hour.
func (s *Server) sign(f *file) string {
	expires := strconv.FormatInt(s.now().Add(time.Hour).Unix(), 10)
	p := "/xet-bridge/" + f.sha256
	return s.cdnURL + p + "?Expires=" + expires + "&Signature=" + s.mac(p, expires) + "&response-content-disposition=" + url.QueryEscape(`inline; filename="`+path.Base(f.path)+`"`)
}

func (s *Server) mac(p, expires string) string {
	m := hmac.New(sha256.New, []byte(s.secret))
	fmt.Fprintf(m, "%s\n%s", p, expires)
	return hex.EncodeToString(m.Sum(nil))
}

// serveCDN is the second origin. It knows signed addresses and no tokens.
func (s *Server) serveCDN(x *exchange) {
	oid := path.Base(x.r.URL.Path)
	s.mu.Lock()
	f := s.byOID[oid]
	s.mu.Unlock()
	if f != nil {
		x.file = f.path
	}
	for _, h := range []string{"Authorization", "Cookie"} {
		if x.r.Header.Get(h) != "" {
			s.violate(h + " was sent to the second origin")
			x.fail(http.StatusBadRequest, "", "Only one auth mechanism allowed")
			return
		}
	}
	q := x.r.URL.Query()
	exp, err := strconv.ParseInt(q.Get("Expires"), 10, 64)
	good := err == nil && s.now().Unix() <= exp && hmac.Equal([]byte(q.Get("Signature")), []byte(s.mac(x.r.URL.Path, q.Get("Expires"))))
	if !good || f == nil {
		x.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(x, `<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>`)
		return
	}
	if x.misbehave() {
		return
	}
	// The second origin's own etag has the shape of a digest but is none.
	sum := sha256.Sum256([]byte("cdn " + oid))
	x.content(f, hex.EncodeToString(sum[:]))
}

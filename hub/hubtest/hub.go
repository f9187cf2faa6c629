package hubtest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"sort"
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

func (s *Server) whoami(x *exchange, authed bool) {
	if !authed {
		x.fail(http.StatusUnauthorized, "", "Invalid username or password.")
		return
	}
	x.json(map[string]any{"type": "user", "name": "tester", "auth": map[string]any{"type": "access_token"}})
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

func (s *Server) api(x *exchange, plural string, segs []string, authed bool) {
	r, rest := s.repoOf(x, plural, segs, authed)
	if r == nil {
		return
	}
	if x.misbehave() {
		return
	}
	rev := "main"
	op := ""
	if len(rest) > 0 {
		op = rest[0]
	}
	if len(rest) > 1 {
		rev = rest[1]
	}
	switch op {
	case "", "revision":
		if c := s.commitOf(x, r, rev); c != nil {
			x.json(info(r, c, x.r.URL.Query().Get("blobs") == "true"))
		}
	case "tree":
		sub := ""
		if len(rest) > 2 {
			sub = strings.Join(rest[2:], "/")
		}
		if c := s.commitOf(x, r, rev); c != nil {
			s.tree(x, r, c, sub)
		}
	case "paths-info":
		if c := s.commitOf(x, r, rev); c != nil {
			s.pathsInfo(x, c)
		}
	case "refs":
		s.refs(x, r)
	case "xet-read-token":
		if c := s.commitOf(x, r, rev); c != nil {
			s.xetToken(x, r, authed)
		}
	case "auth-check":
		x.json(map[string]any{})
	default:
		x.fail(http.StatusNotFound, "", "Not Found")
	}
}

func info(r *repo, c *commit, blobs bool) map[string]any {
	sib := make([]map[string]any, 0, len(c.files))
	for _, f := range c.files {
		m := map[string]any{"rfilename": f.path}
		if blobs {
			m["size"], m["blobId"] = f.size, f.gitOID
			if f.sha256 != "" {
				m["lfs"] = map[string]any{"sha256": f.sha256, "size": f.size, "pointerSize": len(f.pointer)}
			}
		}
		sib = append(sib, m)
	}
	var gated any = false
	if r.Gated {
		gated = "auto"
	}
	author, _, _ := strings.Cut(r.ID, "/")
	return map[string]any{
		"_id": "0123456789abcdef01234567", "id": r.ID, "modelId": r.ID, "author": author, "sha": c.hash,
		"private": r.Private, "gated": gated, "disabled": r.Disabled, "downloads": 0, "likes": 0, "tags": []string{},
		"lastModified": "2026-01-01T00:00:00.000Z", "createdAt": "2026-01-01T00:00:00.000Z", "siblings": sib,
	}
}

func entry(f *file) map[string]any {
	m := map[string]any{"type": "file", "path": f.path, "oid": f.gitOID, "size": f.size}
	if f.sha256 != "" {
		m["lfs"] = map[string]any{"oid": f.sha256, "size": f.size, "pointerSize": len(f.pointer)}
	}
	if f.xet != "" {
		m["xetHash"] = f.xet
	}
	return m
}

// tree lists a commit in pages. The cursor is opaque to clients.
func (s *Server) tree(x *exchange, r *repo, c *commit, sub string) {
	q := x.r.URL.Query()
	var all []map[string]any
	dirs := map[string]bool{}
	for _, f := range c.files {
		if sub != "" && !strings.HasPrefix(f.path, sub+"/") {
			continue
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(f.path, sub), "/")
		recursive := q.Get("recursive") == "true" || q.Get("recursive") == "1" || strings.EqualFold(q.Get("recursive"), "true")
		for i, ch := range rel {
			if ch != '/' {
				continue
			}
			d := strings.TrimPrefix(sub+"/"+rel[:i], "/")
			if !dirs[d] {
				dirs[d] = true
				all = append(all, map[string]any{"type": "directory", "path": d, "oid": strings.Repeat("0", 40), "size": 0})
			}
			if !recursive {
				break
			}
		}
		if recursive || !strings.Contains(rel, "/") {
			all = append(all, entry(f))
		}
	}
	start := 0
	if cur := q.Get("cursor"); cur != "" {
		b, err := base64.RawURLEncoding.DecodeString(cur)
		if err == nil {
			start, err = strconv.Atoi(string(b))
		}
		if err != nil || start < 0 || start > len(all) {
			x.fail(http.StatusBadRequest, "", "Invalid cursor")
			return
		}
	}
	end := min(start+s.opts.PageSize, len(all))
	if end < len(all) {
		q.Set("cursor", base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(end))))
		x.Header().Set("Link", fmt.Sprintf(`<%s%s?%s>; rel="next"`, s.hubURL, x.r.URL.EscapedPath(), q.Encode()))
	}
	page := all[start:end]
	if page == nil {
		page = []map[string]any{}
	}
	x.json(page)
}

func (s *Server) pathsInfo(x *exchange, c *commit) {
	if x.r.Method != http.MethodPost {
		x.fail(http.StatusMethodNotAllowed, "", "POST expected")
		return
	}
	body, err := io.ReadAll(io.LimitReader(x.r.Body, 1<<20))
	var req struct {
		Paths []string `json:"paths"`
	}
	if err == nil && strings.HasPrefix(x.r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		var q url.Values
		q, err = url.ParseQuery(string(body))
		req.Paths = q["paths"]
	} else if err == nil {
		err = json.Unmarshal(body, &req)
	}
	if err != nil {
		x.fail(http.StatusBadRequest, "", "paths expected")
		return
	}
	out := []map[string]any{}
	for _, p := range req.Paths {
		if f := c.byPath[p]; f != nil {
			out = append(out, entry(f))
		}
	}
	x.json(out)
}

func (s *Server) refs(x *exchange, r *repo) {
	s.mu.Lock()
	list := func(prefix string, m map[string]string, byName bool) []map[string]string {
		out := []map[string]string{}
		for name, target := range m {
			hash := target
			if byName {
				hash = r.find(target).hash
			}
			out = append(out, map[string]string{"name": name, "ref": prefix + name, "targetCommit": hash})
		}
		sort.Slice(out, func(i, j int) bool { return out[i]["name"] < out[j]["name"] })
		return out
	}
	v := map[string]any{"branches": list("refs/heads/", r.branches, false), "tags": list("refs/tags/", r.Tags, true), "converts": []string{}}
	if x.r.URL.Query().Get("include_prs") == "1" {
		v["pullRequests"] = list("refs/pr/", r.PRs, true)
	}
	s.mu.Unlock()
	x.json(v)
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
	if r.Gated && !authed {
		x.fail(http.StatusUnauthorized, "GatedRepo", "Access to model "+r.ID+" is restricted. You must have access to it and be authenticated to access it. Please log in.")
		return
	}
	if r.Gated && r.Deny {
		x.fail(http.StatusForbidden, "GatedRepo", "Access to model "+r.ID+" is restricted and you are not in the authorized list. Visit the repository's page to ask for access.")
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

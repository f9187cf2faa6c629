package hubtest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
)

func (s *Server) whoami(x *exchange, authed bool) {
	if !authed {
		x.fail(http.StatusUnauthorized, "", "Invalid username or password.")
		return
	}
	x.json(map[string]any{"type": "user", "name": "tester", "fullname": "A Tester", "orgs": []map[string]string{{"name": "org"}},
		"auth": map[string]any{"type": "access_token", "accessToken": map[string]string{"displayName": "test", "role": "read"}}})
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
			q := x.r.URL.Query()
			if len(q["expand"]) > 0 && (q.Get("blobs") != "" || q.Get("securityStatus") != "") {
				x.fail(http.StatusBadRequest, "", "expand excludes blobs and securityStatus")
				return
			}
			x.json(chosen(info(r, c, q.Get("blobs") == "true"), q["expand"]))
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
	case "commits":
		if c := s.commitOf(x, r, rev); c != nil {
			s.page(x, history(r, c))
		}
	case "xet-read-token":
		if c := s.commitOf(x, r, rev); c != nil {
			s.xetToken(x, r, authed)
		}
	case "auth-check":
		if !s.gate(x, r, authed) {
			x.json(map[string]any{})
		}
	default:
		x.fail(http.StatusNotFound, "", "Not Found")
	}
}

func info(r *repo, c *commit, blobs bool) map[string]any {
	sib := make([]map[string]any, 0, len(c.files))
	used := int64(0)
	for _, f := range c.files {
		used += f.size
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
		"pipeline_tag": "text-generation", "library_name": "transformers", "usedStorage": used,
		"safetensors": map[string]any{"parameters": map[string]int64{"F32": 1}, "total": 1},
	}
}

// chosen keeps the properties that were asked for, or all.
func chosen(all map[string]any, names []string) map[string]any {
	if len(names) == 0 {
		return all
	}
	out := map[string]any{"_id": all["_id"], "id": all["id"]}
	for _, n := range names {
		if v, ok := all[n]; ok {
			out[n] = v
		}
	}
	return out
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

// expand adds what the Hub gives on demand alone.
func expand(e map[string]any, c *commit) {
	e["lastCommit"] = map[string]string{"id": c.hash, "title": "commit", "date": "2026-01-01T00:00:00.000Z"}
	if e["type"] == "file" {
		e["securityFileStatus"] = map[string]any{"status": "safe", "avScan": map[string]string{"status": "safe"}, "pickleImportScan": nil}
	}
}

// tree lists a commit in pages.
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
	if q.Get("expand") == "true" {
		for _, e := range all {
			expand(e, c)
		}
	}
	s.page(x, all)
}

// history is the log of a commit: itself and made-up older ones.
func history(r *repo, c *commit) []map[string]any {
	var out []map[string]any
	hash := c.hash
	for i := range r.History + 1 {
		out = append(out, map[string]any{
			"id": hash, "title": fmt.Sprintf("commit %d", r.History-i), "message": "", "date": "2026-01-01T00:00:00.000Z",
			"authors": []map[string]string{{"user": "tester"}},
		})
		sum := sha256.Sum256([]byte(hash))
		hash = hex.EncodeToString(sum[:20])
	}
	return out
}

// page answers with one page of a listing. The cursor is opaque to clients.
func (s *Server) page(x *exchange, all []map[string]any) {
	q := x.r.URL.Query()
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
		Paths  []string `json:"paths"`
		Expand bool     `json:"expand"`
	}
	if err == nil && strings.HasPrefix(x.r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		var q url.Values
		q, err = url.ParseQuery(string(body))
		req.Paths, req.Expand = q["paths"], strings.EqualFold(q.Get("expand"), "true")
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
		} else if slices.ContainsFunc(c.files, func(f *file) bool { return strings.HasPrefix(f.path, p+"/") }) {
			out = append(out, map[string]any{"type": "directory", "path": p, "oid": strings.Repeat("0", 40), "size": 0})
		}
	}
	if req.Expand {
		for _, e := range out {
			expand(e, c)
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

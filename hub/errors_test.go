package hub_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
)

func errorRepos() []hubtest.Repo {
	files := map[string]hubtest.Files{"main": demoFiles()}
	return []hubtest.Repo{
		{ID: "org/demo", Revisions: files},
		{ID: "org/private", Private: true, Revisions: files},
		{ID: "org/gated", Gated: true, Revisions: files},
		{ID: "org/closed", Gated: true, Deny: true, Revisions: files},
		{ID: "org/disabled", Disabled: true, Revisions: files},
	}
}

func TestErrorKinds(t *testing.T) {
	s := newHub(t, hubtest.Options{Repos: errorRepos(), Tokens: []string{token}})
	anon, authed := newClient(t, s), newClient(t, s, withToken)
	wrong := newClient(t, s, func(o *hub.Options) { o.Token = "hf_wrongwrongwrong" })
	for _, tc := range []struct {
		name, id, rev, file string
		c                   *hub.Client
		kind                error
		words               []string
	}{
		{"no such repo", "org/none", "main", "config.json", anon, hub.ErrRepoNotFound, []string{"org/none", "private repository needs a token"}},
		{"no such repo, token", "org/none", "main", "config.json", authed, hub.ErrRepoNotFound, []string{"token may read"}},
		{"no such revision", "org/demo", "v9", "config.json", anon, hub.ErrRevisionNotFound, []string{"v9"}},
		{"no such file", "org/demo", "main", "x.txt", anon, hub.ErrEntryNotFound, []string{"x.txt"}},
		{"private", "org/private", "main", "config.json", anon, hub.ErrRepoNotFound, nil},
		{"gated, no token", "org/gated", "main", "config.json", anon, hub.ErrGated, []string{"accept the terms", "HF_TOKEN"}},
		{"gated, not on list", "org/closed", "main", "config.json", authed, hub.ErrGated, []string{"not on the list"}},
		{"disabled", "org/disabled", "main", "config.json", anon, hub.ErrDisabled, nil},
		{"bad token", "org/demo", "main", "config.json", wrong, hub.ErrUnauthorized, []string{"token is wrong"}},
		{"bad id", "a/b/c", "main", "config.json", anon, hub.ErrInvalidRepo, []string{"a/b/c"}},
		{"bad revision", "org/demo", "../x", "config.json", anon, hub.ErrInvalidRevision, nil},
		{"bad file", "org/demo", "main", "../config.json", anon, hub.ErrUnsafePath, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := tc.c.Download(t.Context(), hub.ModelRepo(tc.id), tc.rev, tc.file)
			wantErr(t, err, tc.kind, tc.words...)
			var e *hub.Error
			if !errors.As(err, &e) || e.Op != "download" {
				t.Errorf("%#v", err)
			}
			if strings.Contains(err.Error(), "wrongwrong") {
				t.Errorf("token in %q", err)
			}
			_, err = tc.c.Snapshot(t.Context(), hub.ModelRepo(tc.id), tc.rev, hub.SnapshotOptions{Files: []string{tc.file}})
			wantErr(t, err, tc.kind)
		})
	}
	for _, id := range []string{"org/private", "org/gated"} {
		if _, err := authed.Snapshot(t.Context(), hub.ModelRepo(id), "", hub.SnapshotOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// What failed before a repository was named starts with the operation or, for
// a name that is refused, with the kind.
func TestErrorWithoutRepository(t *testing.T) {
	c := newClient(t, newHub(t, hubtest.Options{}))
	_, err := c.Download(t.Context(), hub.ModelRepo("a/../b"), "main", "x")
	if err == nil || !strings.HasPrefix(err.Error(), `hub: download a/../b@main/x: invalid repository id: `) && !strings.HasPrefix(err.Error(), `hub: invalid repository id: `) {
		t.Errorf("%v", err)
	}
	if err := hub.CheckPath("../x"); err == nil || !strings.HasPrefix(err.Error(), `hub: unsafe file name: file name "../x"`) {
		t.Errorf("%v", err)
	}
	dir := filepath.Join(t.TempDir(), "none")
	_, err = hub.ScanCache(dir)
	if err == nil || !strings.HasPrefix(err.Error(), "hub: scan: cache error: ") || !strings.Contains(err.Error(), dir) {
		t.Errorf("%v", err)
	}
}

// A call that its caller ended is no failure of the cache.
func TestCancelledIsNoCacheError(t *testing.T) {
	s := newHub(t, hubtest.Options{})
	c := newClient(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	past, stop := context.WithTimeout(t.Context(), -1)
	defer stop()
	for _, tc := range []struct {
		ctx  context.Context
		kind error
	}{{ctx, context.Canceled}, {past, context.DeadlineExceeded}} {
		_, err := c.Download(tc.ctx, demo, "main", "config.json")
		var e *hub.Error
		if !errors.As(err, &e) || !errors.Is(e.Kind, tc.kind) || errors.Is(err, hub.ErrCache) || !strings.Contains(err.Error(), "config.json: "+tc.kind.Error()) {
			t.Errorf("%v", err)
		}
		_, err = c.Snapshot(tc.ctx, demo, "main", hub.SnapshotOptions{})
		if !errors.Is(err, tc.kind) || errors.Is(err, hub.ErrCache) {
			t.Errorf("%v", err)
		}
	}
}

func TestNoExistIsRemembered(t *testing.T) {
	s := newHub(t, hubtest.Options{})
	c := newClient(t, s)
	_, err := c.Download(t.Context(), demo, "main", "adapter_config.json")
	wantErr(t, err, hub.ErrEntryNotFound)
	p := filepath.Join(c.CacheDir(), "models--org--demo", ".no_exist", s.Commit("", "org/demo", "main"), "adapter_config.json")
	if st, err := os.Stat(p); err != nil || st.Size() != 0 {
		t.Fatal(err)
	}
	off := newClient(t, s, withCache(c.CacheDir()), offline)
	_, err = off.Download(t.Context(), demo, "main", "adapter_config.json")
	wantErr(t, err, hub.ErrEntryNotFound, "remembers")
}

func TestStatusMapping(t *testing.T) {
	hdr := func(kv ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(kv); i += 2 {
			h.Set(kv[i], kv[i+1])
		}
		return h
	}
	for _, tc := range []struct {
		name  string
		fault hubtest.Fault
		kind  error
		words []string
	}{
		{"400", hubtest.Fault{Code: 400, Body: `{"error":["first","second"]}`}, hub.ErrBadRequest, []string{"first; second"}},
		{"403", hubtest.Fault{Code: 403, Header: hdr("X-Error-Message", "scope missing")}, hub.ErrForbidden, []string{"scope missing"}},
		{"403 description", hubtest.Fault{Code: 403, Body: `{"error_description":"a","errors":[{"message":"b"}]}`}, hub.ErrForbidden, []string{"a; b"}},
		{"404 page", hubtest.Fault{Code: 404, Body: "<html>secret page</html>"}, hub.ErrRepoNotFound, nil},
		{"500 plain", hubtest.Fault{Code: 500, Body: "boom\nwith lines"}, hub.ErrServer, []string{"boom with lines", "HTTP 500"}},
		{"503", hubtest.Fault{Code: 503, Header: hdr("X-Request-Id", "req-7")}, hub.ErrServer, []string{"req-7"}},
		{"429", hubtest.Fault{Code: 429, Header: hdr("Retry-After", "9999")}, hub.ErrRateLimited, nil},
		{"416 without a range", hubtest.Fault{Code: 416}, hub.ErrMetadata, []string{"no range was asked for", "HTTP 416"}},
		{"418", hubtest.Fault{Code: 418, Header: hdr("X-Error-Message", "see https://x/y?Signature=abc and Bearer hf_abcdefgh")}, hub.ErrMetadata, []string{"https://x/y?…", "Bearer ***"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newHub(t, hubtest.Options{})
			tc.fault.Kind, tc.fault.Count = hubtest.Status, -1
			s.Inject(tc.fault)
			c := newClient(t, s, func(o *hub.Options) { o.Retries = 2 })
			_, err := c.Resolve(t.Context(), demo, "main")
			wantErr(t, err, tc.kind, tc.words...)
			if strings.Contains(err.Error(), "secret page") || strings.Contains(err.Error(), "hf_abc") {
				t.Errorf("%q", err)
			}
			want := 1
			if errors.Is(err, hub.ErrServer) {
				want = 3
			}
			if n := s.Count(nil); n != want {
				t.Errorf("%d requests, want %d", n, want)
			}
		})
	}
}

func TestTemporaryFailuresPass(t *testing.T) {
	for _, code := range []int{408, 429, 500, 502, 503, 504} {
		s := newHub(t, hubtest.Options{})
		s.Inject(hubtest.Fault{Kind: hubtest.Status, Code: code, Count: 2})
		s.Inject(hubtest.Fault{Kind: hubtest.Status, Code: code, Count: 2, Origin: "cdn"})
		c := newClient(t, s)
		if _, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{}); err != nil {
			t.Errorf("%d: %v", code, err)
		}
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	s := newHub(t, hubtest.Options{})
	s.Inject(hubtest.Fault{Kind: hubtest.Status, Code: 429, Header: http.Header{"Retry-After": {"0"}}})
	rec := &recorder{}
	c := newClient(t, s, func(o *hub.Options) { o.Progress = rec })
	if _, err := c.Resolve(t.Context(), demo, "main"); err != nil {
		t.Fatal(err)
	}
	// Retry-After: 0 and the safety second.
	if e := rec.kinds(hub.Retrying); len(e) != 1 || e[0].Wait < time.Second || e[0].Wait > 2*time.Second {
		t.Errorf("%+v", e)
	}
}

func TestFallBackToCacheWhenUnreachable(t *testing.T) {
	s := newHub(t, hubtest.Options{})
	cache := filepath.Join(t.TempDir(), "hub")
	if _, err := newClient(t, s, withCache(cache)).Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{}); err != nil {
		t.Fatal(err)
	}
	var d dials
	c := newClient(t, s, withCache(cache), d.refuse)
	if _, err := c.Download(t.Context(), demo, "main", "config.json"); err != nil {
		t.Error(err)
	}
	if _, err := c.Resolve(t.Context(), demo, "main"); err != nil {
		t.Error(err)
	}
	if snap, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{}); err != nil || snap.Unverified {
		t.Error(err)
	}
	if n := d.n.Load(); n != 3 {
		t.Errorf("%d dials, want one per call", n)
	}
	_, err := c.Download(t.Context(), demo, "other", "config.json")
	wantErr(t, err, hub.ErrNetwork)
	// An answer about the revision is not overruled by the cache.
	c = newClient(t, s, withCache(cache))
	s.Inject(hubtest.Fault{Kind: hubtest.Status, Code: 404, Count: -1, Header: http.Header{"X-Error-Code": {"RevisionNotFound"}}})
	_, err = c.Download(t.Context(), demo, "main", "config.json")
	wantErr(t, err, hub.ErrRevisionNotFound)
}

func TestIncompleteSnapshotOffline(t *testing.T) {
	s := newHub(t, hubtest.Options{})
	c := newClient(t, s)
	snap, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{Allow: []string{"*.json"}})
	if err != nil {
		t.Fatal(err)
	}
	off := newClient(t, s, withCache(c.CacheDir()), offline)
	_, err = off.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
	wantErr(t, err, hub.ErrIncomplete, "model.safetensors")
	var inc *hub.IncompleteError
	if !errors.As(err, &inc) || inc.Count != len(demoFiles())-1 {
		t.Errorf("%+v", inc)
	}
	if got, err := off.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{Allow: []string{"*.json"}}); err != nil || got.Unverified {
		t.Error(err)
	}
	// Without a listing nobody can tell what is missing.
	if err := os.RemoveAll(filepath.Join(c.CacheDir(), "models--org--demo", "trees")); err != nil {
		t.Fatal(err)
	}
	got, err := off.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
	if err != nil || !got.Unverified || len(got.Files) != 1 || got.Dir != snap.Dir {
		t.Errorf("%+v, %v", got, err)
	}
	// That is no answer where the network was wanted and failed, unless the
	// files asked for by name are all there.
	var d dials
	broken := newClient(t, s, withCache(c.CacheDir()), d.refuse)
	_, err = broken.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
	wantErr(t, err, hub.ErrNetwork)
	if _, err := broken.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{Files: []string{"config.json"}}); err != nil {
		t.Error(err)
	}
}

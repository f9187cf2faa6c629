package hub_test

import (
	"crypto/sha1"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
	"github.com/hfcompress/compress/hub/xet/xettest"
)

func gitOID(b []byte) string {
	return fmt.Sprintf("%x", sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(b)), b...)))
}

func TestDownloadLayout(t *testing.T) {
	for _, plain := range []bool{false, true} {
		t.Run(fmt.Sprintf("plainRedirect=%v", plain), func(t *testing.T) {
			s := newHub(t, hubtest.Options{PlainRedirect: plain})
			c := newClient(t, s)
			commit := s.Commit("", "org/demo", "main")
			for name, data := range demoFiles() {
				p, err := c.Download(t.Context(), demo, "main", name)
				if err != nil {
					t.Fatal(err)
				}
				wantFile(t, p, data)
				want := filepath.Join(c.CacheDir(), "models--org--demo", "snapshots", commit, filepath.FromSlash(name))
				if p != want {
					t.Errorf("path %s, want %s", p, want)
				}
				target, err := os.Readlink(p)
				if err != nil {
					t.Fatal(err)
				}
				etag := gitOID(data)
				if strings.HasSuffix(name, ".safetensors") || strings.HasSuffix(name, ".bin") {
					etag = sha(data)
				}
				up := strings.Repeat("../", 2+strings.Count(name, "/"))
				if target != up+"blobs/"+etag {
					t.Errorf("%s links to %s, want %s", name, target, up+"blobs/"+etag)
				}
			}
			ref, err := os.ReadFile(filepath.Join(c.CacheDir(), "models--org--demo", "refs", "main"))
			if err != nil || string(ref) != commit {
				t.Errorf("ref is %q, %v; want %q", ref, err, commit)
			}
			tag, err := os.ReadFile(filepath.Join(c.CacheDir(), "CACHEDIR.TAG"))
			if err != nil || !strings.HasPrefix(string(tag), "Signature: 8a477f597d28d172789f06886806bc55\n") {
				t.Errorf("CACHEDIR.TAG: %q, %v", tag, err)
			}
			wantClean(t, c.CacheDir())
			if p := partials(t, c.CacheDir()); len(p) > 0 {
				t.Errorf("left behind: %v", p)
			}
		})
	}
}

func TestSnapshot(t *testing.T) {
	s := newHub(t, hubtest.Options{PageSize: 2})
	rec := &recorder{}
	c := newClient(t, s, func(o *hub.Options) { o.Progress = rec })
	snap, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	commit := s.Commit("", "org/demo", "main")
	if string(snap.Commit) != commit || snap.Unverified || len(snap.Files) != len(demoFiles()) {
		t.Fatalf("%+v", snap)
	}
	for _, f := range snap.Files {
		wantFile(t, filepath.Join(snap.Dir, f.Path), demoFiles()[f.Path])
	}
	if n := len(rec.kinds(hub.FileDone)); n != len(demoFiles()) {
		t.Errorf("%d files done", n)
	}
	if e := rec.kinds(hub.PlanReady); len(e) != 1 || e[0].Files != len(demoFiles()) || e[0].Total < 350_000 {
		t.Errorf("plan: %+v", e)
	}
	wantClean(t, c.CacheDir())

	// Warm: one request for a branch, none for a commit.
	s.Forget()
	if _, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := s.Count(nil); n != 1 {
		t.Errorf("a warm snapshot of a branch made %d requests", n)
	}
	s.Forget()
	if _, err := c.Snapshot(t.Context(), demo, commit, hub.SnapshotOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Download(t.Context(), demo, commit, "config.json"); err != nil {
		t.Fatal(err)
	}
	if n := s.Count(nil); n != 0 {
		t.Errorf("a warm snapshot of a commit made %d requests", n)
	}
}

func TestOfflineRerunDialsNothing(t *testing.T) {
	s := newHub(t, hubtest.Options{})
	cache := filepath.Join(t.TempDir(), "hub")
	if _, err := newClient(t, s, withCache(cache)).Snapshot(t.Context(), demo, "", hub.SnapshotOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Forget()
	var d dials
	c := newClient(t, s, withCache(cache), offline, d.refuse)
	snap, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{Allow: []string{"*.safetensors"}})
	if err != nil || len(snap.Files) != 1 || snap.Unverified {
		t.Fatalf("%+v, %v", snap, err)
	}
	if _, err := c.Download(t.Context(), demo, "main", "config.json"); err != nil {
		t.Fatal(err)
	}
	if cm, err := c.Resolve(t.Context(), demo, ""); err != nil || cm != snap.Commit {
		t.Fatal(cm, err)
	}
	if _, err := c.List(t.Context(), demo, snap.Commit); err != nil {
		t.Fatal(err)
	}
	_, err = c.Download(t.Context(), demo, "main", "absent.txt")
	wantErr(t, err, hub.ErrLocalEntryNotFound, "absent.txt", "org/demo")
	_, err = c.Download(t.Context(), demo, "other", "config.json")
	wantErr(t, err, hub.ErrLocalEntryNotFound)
	_, err = c.Metadata(t.Context(), demo, "main", "config.json")
	wantErr(t, err, hub.ErrOffline)
	if d.n.Load() != 0 || s.Count(nil) != 0 {
		t.Errorf("%d dials, %d requests", d.n.Load(), s.Count(nil))
	}
}

// All transfers of a client share one budget of connections.
func TestConnectionBudget(t *testing.T) {
	files := hubtest.Files{}
	for i := range 6 {
		files[fmt.Sprintf("model-%d.safetensors", i)] = noise(uint64(50+i), 3<<20)
	}
	s := newHub(t, hubtest.Options{Repos: []hubtest.Repo{{ID: "org/demo", Revisions: map[string]hubtest.Files{"main": files}}}})
	s.Inject(hubtest.Fault{Kind: hubtest.Slow, Rate: 100 << 20, Count: -1, Origin: "cdn"})
	c := newClient(t, s, func(o *hub.Options) { o.MaxConns, o.ConnsPerFile, o.Workers = 3, 8, 6 })
	c.ParallelFromForTest(0)
	snap, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for n, data := range files {
		wantFile(t, filepath.Join(snap.Dir, n), data)
	}
	// A request may begin before the server has closed the books on the one
	// before it; without a budget there would be 36.
	if n := s.PeakActive(); n > 5 || n < 2 {
		t.Errorf("%d requests at once, want 3", n)
	}
	if n := s.BodyBytes(onCDN); n != 6*3<<20 {
		t.Errorf("%d bytes sent", n)
	}
}

// TestRequestCounts holds the client to what a call may cost: cold the commit,
// the listing's pages and each file, warm one question, for a commit hash none.
func TestRequestCounts(t *testing.T) {
	files := demoFiles()
	delete(files, "empty.txt") // needs no request
	commit := func(s *hubtest.Server) string { return s.Commit("", "org/demo", "main") }
	for name, tc := range map[string]struct {
		xet       *xettest.Options
		hub, cold int // requests to the Hub, and to the storage
	}{
		// Commit, three pages, three plain files, two redirects.
		"http": {nil, 1 + 3 + 3 + 2, 2},
		// Commit, three pages, three plain files, one token; no question for
		// a Xet file.
		"xet": {&xettest.Options{}, 1 + 3 + 3 + 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHub(t, hubtest.Options{PageSize: 3, Xet: tc.xet, Repos: []hubtest.Repo{{ID: "org/demo", Revisions: map[string]hubtest.Files{"main": files}}}})
			count := func(what string, wantHub, wantCDN int, call func() error) {
				t.Helper()
				s.Forget()
				if err := call(); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				atCDN := s.Count(onCDN)
				if atHub := s.Count(nil) - atCDN; atHub != wantHub || atCDN != wantCDN {
					t.Errorf("%s: %d requests to the Hub and %d to the storage, want %d and %d", what, atHub, atCDN, wantHub, wantCDN)
				}
			}
			c := newClient(t, s)
			snapshot := func(rev string) func() error {
				return func() error { return second(c.Snapshot(t.Context(), demo, rev, hub.SnapshotOptions{})) }
			}
			count("cold", tc.hub, tc.cold, snapshot("main"))
			count("warm", 1, 0, snapshot("main"))
			count("warm by hash", 0, 0, snapshot(commit(s)))
			count("file by hash", 0, 0, func() error { return second(c.Download(t.Context(), demo, commit(s), "config.json")) })
			count("warm file", 1, 0, func() error { return second(c.Download(t.Context(), demo, "main", "config.json")) })
			count("listing by hash", 0, 0, func() error { return second(c.List(t.Context(), demo, hub.Commit(commit(s)))) })
			dir := t.TempDir()
			to := func() error { return second(c.SnapshotTo(t.Context(), demo, commit(s), dir, hub.SnapshotOptions{})) }
			count("directory from the cache", 0, 0, to)
			count("directory again", 0, 0, to)
			c = newClient(t, s)
			count("cold by hash", tc.hub-1, tc.cold, snapshot(commit(s)))
		})
	}
}

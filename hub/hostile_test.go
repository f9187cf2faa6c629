package hub_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
)

// Names that are legal and awkward: in addresses, in paths, in patterns.
func TestAwkwardNames(t *testing.T) {
	files := hubtest.Files{
		"100%.txt": []byte("1"), "a%2Fb.txt": []byte("2"), "%2e%2e": []byte("3"), "a+b&c=d.txt": []byte("4"), "ü/ü.txt": []byte("5"),
		"日本語.safetensors": noise(5, 3000), "e\u0301.txt": []byte("6"), "\u00e9.txt": []byte("7"), " lead": []byte("8"), "a;b,c'd(e)!*.bin": noise(6, 3000),
		"#": []byte("9"), "x.incomplete": []byte("10"), "x.lock": []byte("11"), ".hidden": []byte("12"), "main": []byte("13"), "resolve/resolve": []byte("14"),
		"[x].txt": []byte("15"), strings.Repeat("n", 200) + ".txt": []byte("16"), "...": []byte("17"), "a..b": []byte("18"), "~": []byte("19"), "$HOME": []byte("20"),
	}
	if runtime.GOOS == "darwin" {
		delete(files, "e\u0301.txt") // the same name there
	}
	revisions := map[string]hubtest.Files{"main": files, "feature/x": files, "50% off": files, "ünï/cødé": files, "v1.0": files, "a#b": files}
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such names")
	}
	s := newHub(t, hubtest.Options{PlainRedirect: true, Repos: []hubtest.Repo{{ID: "org/demo", Revisions: revisions, PRs: map[string]string{"1": "v1.0"}}}})
	c := newClient(t, s)
	dir := t.TempDir()
	for _, rev := range []string{"main", "feature/x", "50% off", "ünï/cødé", "v1.0", "a#b", "refs/pr/1"} {
		snap, err := c.Snapshot(t.Context(), demo, rev, hub.SnapshotOptions{})
		if err != nil {
			t.Fatalf("%s: %v", rev, err)
		}
		for n, data := range files {
			wantFile(t, filepath.Join(snap.Dir, n), data)
		}
		off := newClient(t, s, withCache(c.CacheDir()), offline)
		if again, err := off.Snapshot(t.Context(), demo, rev, hub.SnapshotOptions{}); err != nil || again.Dir != snap.Dir {
			t.Errorf("%s offline: %v", rev, err)
		}
		if _, err := off.Download(t.Context(), demo, rev, "a%2Fb.txt"); err != nil {
			t.Errorf("%s offline: %v", rev, err)
		}
	}
	for n, data := range files {
		p, err := newClient(t, s).Download(t.Context(), demo, "ünï/cødé", n)
		if err != nil {
			t.Errorf("%q: %v", n, err)
			continue
		}
		wantFile(t, p, data)
	}
	if _, err := c.SnapshotTo(t.Context(), demo, "a#b", dir, hub.SnapshotOptions{}); err != nil {
		t.Fatal(err)
	}
	if v, err := c.Verify(t.Context(), demo, "a#b", hub.VerifyOptions{LocalDir: dir}); err != nil || !v.OK() || len(v.Missing)+len(v.Extra) != 0 {
		t.Errorf("%+v, %v", v, err)
	}
	if info, err := hub.ScanCache(c.CacheDir()); err != nil || len(info.Warnings) != 0 {
		t.Errorf("%+v, %v", info.Warnings, err)
	}
}

// A cache, and a directory, behind a symbolic link.
func TestLinkedRoots(t *testing.T) {
	s := newHub(t, hubtest.Options{})
	real, links := t.TempDir(), t.TempDir()
	link := filepath.Join(links, "hub")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, s, withCache(link))
	snap, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, filepath.Join(snap.Dir, "model.safetensors"), demoFiles()["model.safetensors"])
	// The links hold from the other side as well.
	p, err := newClient(t, s, withCache(real), offline).Download(t.Context(), demo, "main", "model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, p, demoFiles()["model.safetensors"])
	dir := filepath.Join(links, "dir")
	if err := os.Symlink(t.TempDir(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SnapshotTo(t.Context(), demo, "main", dir, hub.SnapshotOptions{}); err != nil {
		t.Fatal(err)
	}
	wantFile(t, filepath.Join(dir, "model.safetensors"), demoFiles()["model.safetensors"])
}

// Names that one file system cannot hold beside each other.
func TestNamesThatCollide(t *testing.T) {
	s := newHub(t, hubtest.Options{Repos: []hubtest.Repo{{ID: "org/demo", Revisions: map[string]hubtest.Files{"main": {
		"README.md": []byte("one"), "readme.md": []byte("two"), "Sub/a": []byte("three"), "sub/b": []byte("four"),
	}}}}})
	c := newClient(t, s)
	// As on a system that takes capitals for small letters.
	c.FoldsCaseForTest(true)
	_, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
	wantErr(t, err, hub.ErrUnsafePath, "README.md", "readme.md")
	dir := t.TempDir()
	_, err = c.SnapshotTo(t.Context(), demo, "main", dir, hub.SnapshotOptions{})
	wantErr(t, err, hub.ErrUnsafePath, "README.md", "readme.md")
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 0 {
		t.Errorf("made %v", left)
	}
	// One of them alone is no trouble, nor are folders.
	if _, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{Ignore: []string{"readme.md"}}); err != nil {
		t.Error(err)
	}
	c = newClient(t, s)
	c.FoldsCaseForTest(false)
	if _, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{}); err != nil {
		t.Error(err)
	}
}

// A file in the place of a folder, in listings and among refs.
func TestFileInPlaceOfFolder(t *testing.T) {
	s := newHub(t, hubtest.Options{Repos: []hubtest.Repo{{ID: "org/demo", Revisions: map[string]hubtest.Files{
		"main": {"a": []byte("1"), "a/b": []byte("2")}, "x": {"f": []byte("3")}, "x/y": {"f": []byte("4")},
	}}}})
	c := newClient(t, s)
	_, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
	wantErr(t, err, hub.ErrMetadata, "a/b")
	// A branch may have been replaced by one that needs its name as a folder,
	// or the other way round.
	for _, order := range [][]string{{"x", "x/y"}, {"x/y", "x"}} {
		c := newClient(t, s)
		for _, rev := range order {
			if _, err := c.Download(t.Context(), demo, rev, "f"); err != nil {
				t.Errorf("%v: %v", order, err)
			}
			if _, err := c.Snapshot(t.Context(), demo, rev, hub.SnapshotOptions{}); err != nil {
				t.Errorf("%v: %v", order, err)
			}
		}
		if info, err := hub.ScanCache(c.CacheDir()); err != nil || len(info.Warnings) != 0 {
			t.Errorf("%+v, %v", info, err)
		}
	}
}

// Servers whose listings never end, loop, lead elsewhere or are nonsense.
func TestHostileAnswers(t *testing.T) {
	oid := strings.Repeat("a", 40)
	info := fmt.Sprintf(`{"sha":%q}`, oid)
	page := func(link func(r *http.Request) string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/tree/") {
				w.Header().Set("Link", link(r))
				_, _ = io.WriteString(w, "[]")
				return
			}
			_, _ = io.WriteString(w, info)
		}
	}
	body := func(text string, h ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for i := 0; i+1 < len(h); i += 2 {
				w.Header().Set(h[i], h[i+1])
			}
			_, _ = io.WriteString(w, text)
		}
	}
	tree := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/tree/") {
				_, _ = io.WriteString(w, text)
				return
			}
			_, _ = io.WriteString(w, info)
		}
	}
	n := 0
	for name, tc := range map[string]struct {
		serve http.HandlerFunc
		kind  error
		word  string
	}{
		"page that follows itself": {page(func(r *http.Request) string { return "<" + r.URL.RequestURI() + `>; rel="next"` }), hub.ErrMetadata, "do not end"},
		"pages in a circle": {page(func(r *http.Request) string {
			n++
			return fmt.Sprintf(`</api/models/org/demo/tree/main?c=%d>; rel=next`, n%3)
		}), hub.ErrMetadata, "do not end"},
		"page of another host": {page(func(r *http.Request) string { return `<http://192.0.2.1/x>; rel="next"` }), hub.ErrRedirect, "another host"},
		"page that is a file":  {page(func(r *http.Request) string { return `<file:///etc/passwd>; rel="next"` }), hub.ErrRedirect, "http address"},
		"gzip unasked":         {body("\x1f\x8b\x08\x00", "Content-Encoding", "gzip"), hub.ErrMetadata, "encoded as gzip"},
		"endless answer": {func(w http.ResponseWriter, r *http.Request) {
			b := []byte(strings.Repeat("[", 1<<20))
			for range 80 {
				if _, err := w.Write(b); err != nil {
					return
				}
			}
		}, hub.ErrMetadata, "64 MiB"},
		"web page":             {body("<html>log in</html>"), hub.ErrMetadata, "names no commit"},
		"short commit":         {body(`{"sha":"abc"}`), hub.ErrMetadata, "names no commit"},
		"capital commit":       {body(fmt.Sprintf(`{"sha":%q}`, strings.Repeat("A", 40))), hub.ErrMetadata, "names no commit"},
		"no body":              {body(""), hub.ErrMetadata, "names no commit"},
		"listing is an object": {tree(`{"error":"no"}`), hub.ErrMetadata, "not valid JSON"},
		"negative size":        {tree(`[{"type":"file","path":"a","oid":"` + oid + `","size":-1}]`), hub.ErrMetadata, "size -1"},
		"size too large":       {tree(`[{"type":"file","path":"a","oid":"` + oid + `","size":1e30}]`), hub.ErrMetadata, "not valid JSON"},
		"oid is a path":        {tree(`[{"type":"file","path":"a","oid":"../../x","size":1}]`), hub.ErrMetadata, "blob id"},
		"listed twice":         {tree(`[{"type":"file","path":"a","oid":"` + oid + `","size":1},{"type":"file","path":"a","oid":"` + oid + `","size":2}]`), hub.ErrMetadata, "twice"},
		"no length":            {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) }, hub.ErrMetadata, "HTTP 204"},
		"redirect loop": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", r.URL.RequestURI())
			w.WriteHeader(302)
		}, hub.ErrRedirect, "loop"},
		"long error": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(400)
			_, _ = io.WriteString(w, strings.Repeat("x\n\x1b[31m", 1<<20))
		}, hub.ErrBadRequest, ""},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(tc.serve)
			defer srv.Close()
			c, err := hub.New(hub.Options{Endpoint: srv.URL, CacheDir: filepath.Join(t.TempDir(), "hub"), Retries: -1})
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
			wantErr(t, err, tc.kind, tc.word)
			if len(err.Error()) > 4<<10 || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("an error of %d bytes: %q", len(err.Error()), err.Error()[:100])
			}
			if _, serr := os.Stat(c.CacheDir()); serr == nil {
				t.Error("the cache was touched")
			}
		})
	}
}

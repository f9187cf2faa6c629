package hub_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
	"github.com/hfcompress/compress/hub/xet/xettest"
)

// TestConformance is what a Hub must give for the client to work: everything
// that a download needs, on any server. It runs against hubtest in its
// variants, and against the server at HFCOMPRESS_HUB where that is set: then
// HFCOMPRESS_HUB_REPO names a repository there (a model by default) and
// HFCOMPRESS_HUB_DIR a folder with the files of its branch main.
func TestConformance(t *testing.T) {
	for name, o := range map[string]hubtest.Options{
		"hubtest":          {},
		"hubtest as a Hub": {PlainRedirect: true, PageSize: 2},
		"hubtest with Xet": {PlainRedirect: true, Xet: &xettest.Options{}},
	} {
		t.Run(name, func(t *testing.T) {
			o.Repos = []hubtest.Repo{{ID: "org/demo", Revisions: map[string]hubtest.Files{"main": demoFiles()}}}
			conformance(t, newHub(t, o).URL(), demo, demoFiles())
		})
	}
	endpoint := os.Getenv("HFCOMPRESS_HUB")
	if endpoint == "" {
		return
	}
	r, err := hub.ParseRepo(os.Getenv("HFCOMPRESS_HUB_REPO"))
	if err != nil {
		t.Fatal(err)
	}
	files := hubtest.Files{}
	dir := os.DirFS(os.Getenv("HFCOMPRESS_HUB_DIR"))
	err = fs.WalkDir(dir, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		if err == nil && !d.IsDir() {
			files[p], err = fs.ReadFile(dir, p)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files in HFCOMPRESS_HUB_DIR: %v", len(files), err)
	}
	t.Run(endpoint, func(t *testing.T) { conformance(t, endpoint, r, files) })
}

func conformance(t *testing.T, endpoint string, r hub.Repo, files hubtest.Files) {
	cache := filepath.Join(t.TempDir(), "hub")
	client := func(change ...func(*hub.Options)) *hub.Client {
		t.Helper()
		o := hub.Options{Endpoint: endpoint, CacheDir: cache}
		for _, f := range change {
			f(&o)
		}
		c, err := hub.New(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.CloseIdle)
		return c
	}
	c := client()
	cm, err := c.Resolve(t.Context(), r, "main")
	if err != nil || !hub.IsCommit(string(cm)) {
		t.Fatalf("resolve: %q, %v", cm, err)
	}
	var names []string
	for n := range files {
		names = append(names, n)
	}
	slices.Sort(names)
	t.Run("list", func(t *testing.T) {
		list, err := c.List(t.Context(), r, cm)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range list {
			if got = append(got, f.Path); f.Size != int64(len(files[f.Path])) {
				t.Errorf("%s has %d bytes, want %d", f.Path, f.Size, len(files[f.Path]))
			}
			if f.SHA256 != "" && f.SHA256 != sha(files[f.Path]) {
				t.Errorf("%s: sha256 %s", f.Path, f.SHA256)
			}
			if f.SHA256 == "" && f.BlobID != gitOID(files[f.Path]) {
				t.Errorf("%s: blob id %s", f.Path, f.BlobID)
			}
		}
		if !slices.Equal(got, names) {
			t.Errorf("listed %q, want %q", got, names)
		}
	})
	t.Run("snapshot", func(t *testing.T) {
		snap, err := c.Snapshot(t.Context(), r, "main", hub.SnapshotOptions{})
		if err != nil || snap.Commit != cm {
			t.Fatalf("%s, %v", snap.Commit, err)
		}
		for n, data := range files {
			wantFile(t, filepath.Join(snap.Dir, filepath.FromSlash(n)), data)
		}
		var d dials
		if again, err := client(offline, d.refuse).Snapshot(t.Context(), r, "main", hub.SnapshotOptions{}); err != nil || again.Unverified || d.n.Load() != 0 {
			t.Errorf("offline: %+v, %v", again, err)
		}
		if v, err := c.Verify(t.Context(), r, "main", hub.VerifyOptions{}); err != nil || !v.OK() || v.Checked != len(files) {
			t.Errorf("verify: %+v, %v", v, err)
		}
	})
	t.Run("files", func(t *testing.T) {
		alone := client(func(o *hub.Options) { o.CacheDir = filepath.Join(t.TempDir(), "hub") })
		for n, data := range files {
			p, err := alone.Download(t.Context(), r, "main", n)
			if err != nil {
				t.Errorf("%s: %v", n, err)
				continue
			}
			wantFile(t, p, data)
		}
	})
	t.Run("ranges", func(t *testing.T) {
		for n, data := range files {
			f, err := c.OpenRemote(t.Context(), r, "main", n)
			if err != nil || f.Size() != int64(len(data)) {
				t.Errorf("%s: %v", n, err)
				continue
			}
			from := len(data) / 3
			got := make([]byte, len(data)/2)
			if m, err := f.ReadAt(got, int64(from)); err != nil || string(got) != string(data[from:from+m]) || m != len(got) {
				t.Errorf("%s: %d bytes at %d, %v", n, m, from, err)
			}
			if m, err := f.ReadAt(make([]byte, 4), int64(len(data))); m != 0 || !errors.Is(err, io.EOF) {
				t.Errorf("%s: %d bytes behind the end, %v", n, m, err)
			}
		}
	})
	t.Run("what is not there", func(t *testing.T) {
		if _, err := c.Download(t.Context(), r, "main", "not/there.bin"); !errors.Is(err, hub.ErrEntryNotFound) {
			t.Errorf("file: %v", err)
		}
		_, err := c.Resolve(t.Context(), r, "no-such-branch")
		if !errors.Is(err, hub.ErrRevisionNotFound) && !errors.Is(err, hub.ErrRepoNotFound) {
			t.Errorf("revision: %v", err)
		}
		if _, err := c.Resolve(t.Context(), hub.ModelRepo("no-such/repository"), "main"); !errors.Is(err, hub.ErrRepoNotFound) {
			t.Errorf("repository: %v", err)
		}
	})
	t.Run("questions", func(t *testing.T) {
		if i, err := c.Info(t.Context(), r, "main", hub.InfoOptions{}); err != nil || i.Commit != cm {
			t.Errorf("info: %+v, %v", i, err)
		}
		refs, err := c.Refs(t.Context(), r, false)
		if err != nil || !slices.ContainsFunc(refs.Branches, func(b hub.Ref) bool { return b.Name == "main" && b.Commit == cm }) {
			t.Errorf("refs: %+v, %v", refs, err)
		}
		n := 0
		for _, err := range c.Commits(t.Context(), r, "main") {
			if n++; err != nil {
				t.Errorf("commits: %v", err)
			}
		}
		if n == 0 {
			t.Error("no commits")
		}
		if got, err := c.PathsInfo(t.Context(), r, "main", []string{names[0], "not/there.bin"}, false); err != nil || len(got) != 1 || got[0].Path != names[0] {
			t.Errorf("paths: %+v, %v", got, err)
		}
	})
}

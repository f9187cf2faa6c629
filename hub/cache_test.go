package hub_test

import (
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
)

// TestNoSymlinks checks the layout of systems without symbolic links: a new
// blob is moved into the snapshot, one that exists is copied.
func TestNoSymlinks(t *testing.T) {
	for name, change := range map[string]func(*hub.Client, *hub.Options){
		"switched off": func(_ *hub.Client, o *hub.Options) { o.DisableSymlinks = true },
		"refused":      nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := newHub(t, hubtest.Options{})
			c := newClient(t, s, func(o *hub.Options) {
				if change != nil {
					change(nil, o)
				}
			})
			if change == nil {
				c.SetSymlinkForTest(func(string, string) error { return errors.New("ERROR_PRIVILEGE_NOT_HELD (1314)") })
			}
			snap, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for n, data := range demoFiles() {
				p := filepath.Join(snap.Dir, n)
				wantFile(t, p, data)
				if st, err := os.Lstat(p); err != nil || !st.Mode().IsRegular() {
					t.Errorf("%s is no plain file", n)
				}
			}
			blobs, err := os.ReadDir(filepath.Join(c.CacheDir(), "models--org--demo", "blobs"))
			if err != nil || len(blobs) != 0 {
				t.Errorf("blobs/ holds %v, %v", blobs, err)
			}
		})
	}
}

// The result of the probe is published after the probe, not before.
func TestSymlinkProbeIsNotRaced(t *testing.T) {
	s := newHub(t, hubtest.Options{})
	c := newClient(t, s)
	c.SetSymlinkForTest(func(string, string) error { return errors.New("refused") })
	var wg sync.WaitGroup
	for n, data := range demoFiles() {
		wg.Add(1)
		go func() {
			defer wg.Done()
			p, err := c.Download(t.Context(), demo, "main", n)
			if err != nil {
				t.Error(err)
				return
			}
			wantFile(t, p, data)
		}()
	}
	wg.Wait()
}

func TestExistingBlobIsLinked(t *testing.T) {
	data := noise(9, 4000)
	s := newHub(t, hubtest.Options{Repos: []hubtest.Repo{{ID: "org/demo", Revisions: map[string]hubtest.Files{
		"main": {"a.bin": data, "copy/b.bin": data}, "v2": {"a.bin": data, "new.txt": []byte("x")},
	}}}})
	for _, links := range []bool{true, false} {
		c := newClient(t, s, func(o *hub.Options) { o.DisableSymlinks = !links; o.Workers = 1 })
		s.Forget()
		for _, rev := range []string{"main", "v2"} {
			snap, err := c.Snapshot(t.Context(), demo, rev, hub.SnapshotOptions{})
			if err != nil {
				t.Fatal(err)
			}
			wantFile(t, filepath.Join(snap.Dir, "a.bin"), data)
		}
		if n := s.Count(onCDN); links && n != 1 {
			t.Errorf("the same content was downloaded %d times", n)
		}
	}
}

// A cache that cannot be written serves what it has, and is not touched.
func TestReadOnlyCache(t *testing.T) {
	s := newHub(t, hubtest.Options{})
	cache := filepath.Join(t.TempDir(), "hub")
	snap, err := newClient(t, s, withCache(cache)).Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The super-user ignores modes, so the test looks for changes instead.
	before := listing(t, cache)
	setModes(t, cache, 0o555, 0o444)
	defer setModes(t, cache, 0o755, 0o644)
	c := newClient(t, s, withCache(cache))
	for _, rev := range []string{"main", string(snap.Commit)} {
		if _, err := c.Download(t.Context(), demo, rev, "config.json"); err != nil {
			t.Error(err)
		}
		if _, err := c.Snapshot(t.Context(), demo, rev, hub.SnapshotOptions{}); err != nil {
			t.Error(err)
		}
	}
	if after := listing(t, cache); after != before {
		t.Errorf("the cache changed:\n%s\nbecame\n%s", before, after)
	}
}

func listing(t *testing.T, dir string) string {
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err == nil {
			b.WriteString(p + " " + st.ModTime().Format(time.RFC3339Nano) + "\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func setModes(t *testing.T, dir string, dirMode, fileMode fs.FileMode) {
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
		case d.IsDir():
			return os.Chmod(p, dirMode)
		case d.Type().IsRegular():
			return os.Chmod(p, fileMode)
		}
		return nil
	})
}

func TestFileModes(t *testing.T) {
	s := newHub(t, hubtest.Options{})
	c := newClient(t, s)
	p, err := c.Download(t.Context(), demo, "main", "model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	probe := filepath.Join(c.CacheDir(), "fresh")
	if err := os.WriteFile(probe, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	want, _ := os.Stat(probe)
	if got, err := os.Stat(p); err != nil || got.Mode() != want.Mode() {
		t.Errorf("blob has mode %v, a fresh file %v", got.Mode(), want.Mode())
	}
}

// TestNewCommitSharesBlobs moves a branch and takes the new commit: only what
// changed is fetched, and the ref follows.
func TestNewCommitSharesBlobs(t *testing.T) {
	s := newHub(t, hubtest.Options{})
	c := newClient(t, s)
	first, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	files := demoFiles()
	files["config.json"] = []byte(`{"model_type":"other"}`)
	if _, err := s.SetBranch("", "org/demo", "main", files); err != nil {
		t.Fatal(err)
	}
	s.Forget()
	second, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
	if err != nil || second.Commit == first.Commit {
		t.Fatal(second.Commit, err)
	}
	wantFile(t, filepath.Join(second.Dir, "config.json"), files["config.json"])
	wantFile(t, filepath.Join(first.Dir, "config.json"), demoFiles()["config.json"])
	if n := s.Count(func(r hubtest.Request) bool { return r.File != "" }); n != 1 {
		t.Errorf("%d file requests for one changed file", n)
	}
	if cm, err := newClient(t, s, withCache(c.CacheDir()), offline).Resolve(t.Context(), demo, "main"); err != nil || cm != second.Commit {
		t.Error(cm, err)
	}
}

func TestTypesAndRefs(t *testing.T) {
	files := map[string]hubtest.Files{"main": {"data.csv": []byte("1,2\n")}, "v1.0": {"data.csv": []byte("1\n")}}
	repo := func(typ string) hubtest.Repo {
		return hubtest.Repo{Type: typ, ID: "org/demo", Revisions: files, Tags: map[string]string{"first": "v1.0"}, PRs: map[string]string{"3": "v1.0"}}
	}
	s := newHub(t, hubtest.Options{Repos: []hubtest.Repo{repo("model"), repo("dataset"), repo("space"), repo("kernel"), {ID: "single", Revisions: files}}})
	c := newClient(t, s)
	for _, r := range []hub.Repo{{ID: "org/demo"}, {Type: hub.Dataset, ID: "org/demo"}, {Type: hub.Space, ID: "org/demo"}, {Type: hub.Kernel, ID: "org/demo"}, {ID: "single"}} {
		revs := []string{"", "v1.0"}
		if r.ID != "single" {
			revs = append(revs, "first", "refs/pr/3")
		}
		for _, rev := range revs {
			want := "1\n"
			if rev == "" {
				want = "1,2\n"
			}
			p, err := c.Download(t.Context(), r, rev, "data.csv")
			if err != nil {
				t.Fatal(r, rev, err)
			}
			wantFile(t, p, []byte(want))
			snap, err := c.Snapshot(t.Context(), r, rev, hub.SnapshotOptions{})
			if err != nil {
				t.Fatal(r, rev, err)
			}
			if filepath.Join(snap.Dir, "data.csv") != p {
				t.Errorf("%s and %s", snap.Dir, p)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(c.CacheDir(), "datasets--org--demo", "refs", "refs", "pr", "3")); err != nil {
		t.Error(err)
	}
}

// TestHostileListing has names that would leave the cache. Nothing is made.
func TestHostileListing(t *testing.T) {
	for _, name := range []string{"../evil", "a/../../evil", `..\evil`, `C:\evil`, `\\h\s\evil`, "D:evil", "/evil", "a\x00evil"} {
		s := newHub(t, hubtest.Options{Repos: []hubtest.Repo{{ID: "org/demo", Revisions: map[string]hubtest.Files{"main": {name: []byte("x"), "ok.txt": []byte("y")}}}}})
		c := newClient(t, s)
		_, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
		wantErr(t, err, hub.ErrUnsafePath)
		root := filepath.Dir(c.CacheDir())
		_ = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if err == nil && strings.Contains(p, "evil") {
				t.Errorf("%q made %s", name, p)
			}
			return nil
		})
		if _, err := c.Download(t.Context(), demo, "main", name); !errors.Is(err, hub.ErrUnsafePath) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestLocksExclude(t *testing.T) {
	p := filepath.Join(t.TempDir(), "x.lock")
	release, err := hub.AcquireLockForTest(p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hub.AcquireLockForTest(p); !errors.Is(err, hub.ErrLockedForTest) {
		t.Fatal(err)
	}
	// A lock on a file that was removed is no lock.
	if err := os.Remove(p); err != nil {
		t.Fatal(err)
	}
	again, err := hub.AcquireLockForTest(p)
	if err != nil {
		t.Fatal(err)
	}
	release()
	if _, err := hub.AcquireLockForTest(p); !errors.Is(err, hub.ErrLockedForTest) {
		t.Fatal(err)
	}
	again()
	if _, err := os.Stat(p); err != nil {
		t.Error("the lock file must stay:", err)
	}
	if release, err = hub.AcquireLockForTest(p); err != nil {
		t.Fatal(err)
	}
	release()
	// The file belongs to a group that may wait.
	if st, err := os.Stat(p); err != nil || st.Mode().Perm() != 0o664 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}

// Where the system has no locks, the lock file itself is the lock.
func TestSoftLocks(t *testing.T) {
	s := newHub(t, hubtest.Options{})
	c := newClient(t, s)
	c.NoLocksForTest()
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			p, err := c.Download(t.Context(), demo, "main", "model.safetensors")
			if err != nil {
				t.Error(err)
				return
			}
			wantFile(t, p, demoFiles()["model.safetensors"])
		}()
	}
	wg.Wait()
	if n := s.Count(onCDN); n != 1 {
		t.Errorf("%d downloads", n)
	}
	lock := filepath.Join(c.CacheDir(), ".locks", "models--org--demo", sha(demoFiles()["model.safetensors"])+".lock")
	if _, err := os.Stat(lock); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the soft lock is still there: %v", err)
	}
	// One that a dead process left is displaced.
	if err := os.WriteFile(lock, nil, 0o664); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-hub.SoftStaleForTest)
	if err := os.Chtimes(lock, old, old); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(c.CacheDir(), "models--org--demo")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Download(t.Context(), demo, "main", "model.safetensors"); err != nil {
		t.Fatal(err)
	}
}

// A process that dies after it has given a file its name and before it has
// removed the journal leaves litter; the next run takes it away.
func TestJournalOfFinishedFileIsRemoved(t *testing.T) {
	s, data := big(t)
	c := newClient(t, s)
	dir := t.TempDir()
	notes := filepath.Join(dir, ".cache", "huggingface", "download")
	left := sha(data) + ".0123abcd.journal.incomplete"
	for name, tc := range map[string]struct {
		get           func() (string, error)
		journal, last string // last is what such a process had still to make
	}{
		"cache": {
			func() (string, error) { return c.Download(t.Context(), bigRepo, "main", "model.safetensors") },
			filepath.Join(c.CacheDir(), "models--org--big", "blobs", left),
			filepath.Join(c.CacheDir(), "models--org--big", "snapshots", s.Commit("", "org/big", "main"), "model.safetensors"),
		},
		"directory": {
			func() (string, error) { return c.DownloadTo(t.Context(), bigRepo, "main", "model.safetensors", dir) },
			filepath.Join(notes, localStem("model.safetensors")+"."+left),
			filepath.Join(notes, "model.safetensors.metadata"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := tc.get(); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(tc.journal, []byte("{}\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(tc.last); err != nil {
				t.Fatal(err)
			}
			p, err := tc.get()
			if err != nil {
				t.Fatal(err)
			}
			wantFile(t, p, data)
			if _, err := os.Lstat(tc.journal); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the journal is still there: %v", err)
			}
		})
	}
}

// localStem is how temporary files of a directory begin.
func localStem(file string) string {
	h := sha1.Sum([]byte(file + ".metadata"))
	return base64.URLEncoding.EncodeToString(h[:])
}

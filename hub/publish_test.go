package hub_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
	"github.com/hfcompress/compress/hub/xet/xettest"
)

func publish(o *hub.Options) { o.PublishShared = true }

// twoRepos serves the same weights in two repositories over Xet.
func twoRepos(t testing.TB) (s *hubtest.Server, weights []byte, xet string) {
	t.Helper()
	weights = noise(71, 400_000)
	s = newHub(t, hubtest.Options{Xet: &xettest.Options{}, Repos: []hubtest.Repo{
		{ID: "org/one", Revisions: map[string]hubtest.Files{"main": {"model.safetensors": weights, "config.json": []byte("{}")}}},
		{ID: "org/two", Revisions: map[string]hubtest.Files{"main": {"other.bin": weights}}},
	}})
	m, err := newClient(t, s).Metadata(t.Context(), hub.ModelRepo("org/one"), "main", "model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	return s, weights, m.XetHash
}

// With PublishShared the store is made, marked and filled; a second
// repository with the same content downloads nothing.
func TestPublishShared(t *testing.T) {
	s, weights, xet := twoRepos(t)
	c := newClient(t, s, publish)
	root := c.CacheDir()
	p, err := c.Download(t.Context(), hub.ModelRepo("org/one"), "main", "model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, p, weights)
	payload := filepath.Join(root, "blobs", xet[:2], xet)
	st, err := os.Lstat(payload)
	if err != nil || !st.Mode().IsRegular() {
		t.Fatalf("%v, %v", st, err)
	}
	if rootMode, _ := os.Stat(root); runtime.GOOS != "windows" {
		want := 0o400 | rootMode.Mode()&0o011<<2
		if st.Mode().Perm() != want {
			t.Errorf("payload has mode %v, want %v", st.Mode(), want)
		}
		for _, dir := range []string{filepath.Dir(payload), filepath.Join(root, "blobs")} {
			if d, _ := os.Stat(dir); d.Mode().Perm() != rootMode.Mode().Perm() {
				t.Errorf("%s has mode %v, the cache %v", dir, d.Mode(), rootMode.Mode())
			}
		}
	}
	if b, err := os.ReadFile(filepath.Join(root, "blobs", ".huggingface-shared-blobs")); err != nil || string(b) != "1\n" {
		t.Errorf("mark %q, %v", b, err)
	}
	blob := filepath.Join(root, "models--org--one", "blobs", sha(weights))
	if to, err := os.Readlink(blob); err != nil || filepath.ToSlash(to) != "../../blobs/"+xet[:2]+"/"+xet {
		t.Errorf("%s, %v", to, err)
	}
	// A plain file stays with its repository.
	if p, err = c.Download(t.Context(), hub.ModelRepo("org/one"), "main", "config.json"); err != nil {
		t.Fatal(err)
	}
	if to, _ := filepath.EvalSymlinks(p); filepath.Dir(to) != filepath.Dir(evalDir(t, blob)) {
		t.Errorf("config.json lies at %s", to)
	}
	before := len(s.Xet().Requests())
	plan, err := c.Plan(t.Context(), hub.ModelRepo("org/two"), "main", hub.SnapshotOptions{})
	if err != nil || plan.Missing != 0 {
		t.Errorf("%+v, %v", plan, err)
	}
	// A client that does not publish links too.
	p, err = newClient(t, s, withCache(root)).Download(t.Context(), hub.ModelRepo("org/two"), "main", "other.bin")
	if err != nil || len(s.Xet().Requests()) != before || s.Count(onCDN) != 0 {
		t.Errorf("%v: the store was asked %d times", err, len(s.Xet().Requests())-before)
	}
	wantFile(t, p, weights)
	refs, err := os.ReadFile(payload + ".refs")
	if want := "models--org--one/blobs/" + sha(weights) + "\nmodels--org--two/blobs/" + sha(weights) + "\n"; err != nil || string(refs) != want {
		t.Errorf("manifest %q, %v", refs, err)
	}
	// Forced, the payload is replaced by its like, never written through.
	if _, err := newClient(t, s, withCache(root), publish, force).Download(t.Context(), hub.ModelRepo("org/two"), "main", "other.bin"); err != nil {
		t.Fatal(err)
	}
	wantFile(t, payload, weights)
	info, err := hub.ScanCache(root)
	if err != nil || len(info.Warnings) != 0 || len(info.UnusedShared) != 0 {
		t.Errorf("%+v, %v", info, err)
	}
	// When the last link goes, so does the payload.
	done, err := info.PlanDelete(hub.CacheTarget{Repo: hub.ModelRepo("org/one")}, hub.CacheTarget{Repo: hub.ModelRepo("org/two")}).Delete(t.Context())
	if err != nil || len(done.Kept) != 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	if _, err := os.Lstat(payload); !os.IsNotExist(err) {
		t.Errorf("the payload is still there: %v", err)
	}
}

func evalDir(t *testing.T, blob string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(filepath.Dir(blob))
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, filepath.Base(blob))
}

// The store is not touched where it may not be.
func TestPublishSharedRefuses(t *testing.T) {
	s, weights, xet := twoRepos(t)
	for name, set := range map[string]struct {
		prepare func(root string) error
		change  func(*hub.Options)
		fault   func()
	}{
		"not asked":           {change: func(*hub.Options) {}},
		"switched off":        {change: func(o *hub.Options) { o.PublishShared, o.DisableSharedBlobs = true, true }},
		"no links":            {change: func(o *hub.Options) { o.PublishShared, o.DisableSymlinks = true, true }},
		"somebody else's dir": {change: publish, prepare: func(root string) error { return os.WriteFile(filepath.Join(root, "blobs", "notes"), nil, 0o644) }},
		"another layout": {change: publish, prepare: func(root string) error {
			return os.WriteFile(filepath.Join(root, "blobs", ".huggingface-shared-blobs"), []byte("2\n"), 0o644)
		}},
		"a link in its place": {change: publish, prepare: func(root string) error {
			if err := os.Remove(filepath.Join(root, "blobs")); err != nil {
				return err
			}
			return os.Symlink(t.TempDir(), filepath.Join(root, "blobs"))
		}},
		// The Hub's word for the Xet hash is not enough: others trust the name.
		"a false hash": {change: func(o *hub.Options) { o.PublishShared = true }, fault: func() {
			s.Inject(hubtest.Fault{Kind: hubtest.SetHeader, Method: "HEAD", Path: "model.safetensors", Count: -1, Header: map[string][]string{"X-Xet-Hash": {sha([]byte("false"))}}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			defer s.ClearFaults()
			root := filepath.Join(t.TempDir(), "hub")
			if set.prepare != nil {
				if err := os.MkdirAll(filepath.Join(root, "blobs"), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := set.prepare(root); err != nil {
					t.Fatal(err)
				}
			}
			if set.fault != nil {
				set.fault()
			}
			p, err := newClient(t, s, withCache(root), set.change).Download(t.Context(), hub.ModelRepo("org/one"), "main", "model.safetensors")
			if err != nil {
				t.Fatal(err)
			}
			wantFile(t, p, weights)
			_ = filepath.WalkDir(filepath.Join(root, "blobs"), func(p string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() && len(d.Name()) == 64 {
					t.Errorf("%s was published", p)
				}
				return nil
			})
			if _, err := os.Lstat(filepath.Join(root, "blobs", xet[:2], xet)); err == nil {
				t.Error("published")
			}
		})
	}
}

// Several clients publish and link the same content at once.
func TestPublishSharedAtOnce(t *testing.T) {
	s, weights, _ := twoRepos(t)
	root := filepath.Join(t.TempDir(), "hub")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			r, file := hub.ModelRepo("org/one"), "model.safetensors"
			if i%2 == 1 {
				r, file = hub.ModelRepo("org/two"), "other.bin"
			}
			p, err := newClient(t, s, withCache(root), publish).Download(t.Context(), r, "main", file)
			if err != nil {
				t.Error(err)
				return
			}
			if b, err := os.ReadFile(p); err != nil || sha(b) != sha(weights) {
				t.Errorf("%s: %v", p, err)
			}
		})
	}
	wg.Wait()
	info, err := hub.ScanCache(root)
	if err != nil || len(info.Warnings)+len(info.Incomplete)+len(info.Unused)+len(info.UnusedShared) != 0 {
		t.Errorf("%+v, %v", info, err)
	}
}

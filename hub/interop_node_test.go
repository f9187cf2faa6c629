package hub_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
	"github.com/hfcompress/compress/hub/xet/xettest"
)

// node runs a script of package interop with npm's @huggingface/hub.
func node(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	modules := peer(t, "HFCOMPRESS_NODE", "a folder in which @huggingface/hub is installed")
	cmd := exec.Command("node", append([]string{filepath.Join("interop", name), modules}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// jsFiles are the demo's files but for the name that the package does not
// escape and the empty file, whose size it cannot learn from a range.
func jsFiles() hubtest.Files {
	f := demoFiles()
	delete(f, "sub/dir/b é+#1 ?.txt")
	delete(f, "empty.txt")
	f["sub/dir/vocab.txt"] = []byte("a\nb\n")
	return f
}

func jsHub(t *testing.T, x *xettest.Options) *hubtest.Server {
	return newHub(t, hubtest.Options{Xet: x, Repos: []hubtest.Repo{{ID: "org/demo", Revisions: map[string]hubtest.Files{"main": jsFiles()}}}})
}

func TestInteropJavaScriptReadsOurCache(t *testing.T) {
	s := jsHub(t, nil)
	c := newClient(t, s)
	snap, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := node(t, "read_cache.mjs", c.CacheDir(), "org/demo", string(snap.Commit), "config.json", "model.safetensors", "sub/dir/vocab.txt")
	var got struct {
		Warnings, Repos, Commits []string
		Paths                    map[string]string
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if len(got.Warnings) != 0 || !slices.Equal(got.Repos, []string{"org/demo"}) || !slices.Equal(got.Commits, []string{string(snap.Commit)}) || len(got.Paths) != 3 {
		t.Errorf("%s", out)
	}
	for f, p := range got.Paths {
		wantFile(t, p, jsFiles()[f])
	}
}

// The package downloads from hubtest, over HTTP and over Xet, and we read the
// cache that it makes.
func TestInteropWeReadJavaScriptsCache(t *testing.T) {
	for name, x := range map[string]*xettest.Options{"http": nil, "xet": {}} {
		t.Run(name, func(t *testing.T) {
			s := jsHub(t, x)
			cache := filepath.Join(t.TempDir(), "hub")
			dir := strings.TrimSpace(string(node(t, "snapshot.mjs", s.URL(), cache, "org/demo", "main")))
			if over := s.Count(onCDN) > 0; over != (x == nil) {
				t.Errorf("plain HTTP was used: %v", over)
			}
			for f, data := range jsFiles() {
				wantFile(t, filepath.Join(dir, filepath.FromSlash(f)), data)
			}
			var d dials
			snap, err := newClient(t, s, withCache(cache), offline, d.refuse).Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
			if err != nil {
				t.Fatal(err)
			}
			// It leaves no listing, so nobody can say that all is there.
			if snap.Dir != dir || !snap.Unverified || len(snap.Files) != len(jsFiles()) || d.n.Load() != 0 {
				t.Errorf("%+v, want %s", snap, dir)
			}
		})
	}
}

package hub_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
)

const token = "hf_testtoken0123456789"

// noise gives n bytes that do not compress and depend on the seed alone.
func noise(seed uint64, n int) []byte {
	var key [32]byte
	key[0], key[1], key[2] = byte(seed), byte(seed>>8), byte(seed>>16)
	b := make([]byte, n)
	_, _ = rand.NewChaCha8(key).Read(b)
	return b
}

func sha(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// demoFiles is a small model repository: plain and LFS files, folders, and a
// name that needs escaping.
func demoFiles() hubtest.Files {
	return hubtest.Files{
		"config.json":          []byte(`{"model_type":"llama"}` + "\n"),
		"README.md":            []byte("# demo\n"),
		"empty.txt":            {},
		"model.safetensors":    noise(1, 300_000),
		"sub/dir/b é+#1 ?.txt": []byte("odd name\n"),
		"sub/pytorch.bin":      noise(2, 50_000),
	}
}

// newHub serves repositories and fails the test on violations.
func newHub(t testing.TB, o hubtest.Options) *hubtest.Server {
	t.Helper()
	if o.Repos == nil && o.FS == nil {
		o.Repos = []hubtest.Repo{{ID: "org/demo", Revisions: map[string]hubtest.Files{"main": demoFiles()}}}
	}
	s, err := hubtest.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		for _, v := range s.Violations() {
			t.Errorf("violation: %s", v)
		}
	})
	return s
}

var demo = hub.ModelRepo("org/demo")

// newClient makes a client with short waits and an empty cache.
func newClient(t testing.TB, s *hubtest.Server, change ...func(*hub.Options)) *hub.Client {
	t.Helper()
	o := hub.Options{
		Endpoint: s.URL(), CacheDir: filepath.Join(t.TempDir(), "hub"),
		RetryBase: time.Millisecond, RetryCap: 2 * time.Millisecond,
		StallTimeout: 20 * time.Second,
	}
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

func withCache(dir string) func(*hub.Options) { return func(o *hub.Options) { o.CacheDir = dir } }
func withToken(o *hub.Options)                { o.Token = token }
func offline(o *hub.Options)                  { o.Offline = true }
func singleStream(o *hub.Options)             { o.ConnsPerFile = 1 }

// dials counts connection attempts and refuses them.
type dials struct{ n atomic.Int64 }

func (d *dials) refuse(o *hub.Options) {
	o.DialContext = func(context.Context, string, string) (net.Conn, error) {
		d.n.Add(1)
		return nil, errors.New("no network in this test")
	}
}

func wantFile(t testing.TB, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Fatalf("%s: %d bytes with digest %s, want %d with %s", path, len(got), sha(got), len(want), sha(want))
	}
}

// wantClean checks what must hold for a cache at any time between calls:
// every blob matches its name, and nothing but blobs, links and known
// temporary files is there.
func wantClean(t testing.TB, cache string) {
	t.Helper()
	err := filepath.WalkDir(cache, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(cache, p)
		rel = filepath.ToSlash(rel)
		switch {
		case strings.Contains(rel, "/blobs/") && strings.HasSuffix(rel, ".incomplete"):
		case strings.Contains(rel, "/blobs/"):
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			if name := filepath.Base(p); name != sha(b) && name != gitOID(b) {
				t.Errorf("%s: content does not match the name", rel)
			}
		case strings.HasPrefix(rel, ".locks/.deleted-"):
			// A killed process left it, and a prune takes it.
		case strings.HasSuffix(rel, ".tmp"), strings.Contains(rel, "probe"):
			t.Errorf("stray file %s", rel)
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}

// partials lists temporary files of a cache.
func partials(t testing.TB, cache string) []string {
	t.Helper()
	var out []string
	_ = filepath.WalkDir(cache, func(p string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(p, ".incomplete") {
			out = append(out, p)
		}
		return nil
	})
	slices.Sort(out)
	return out
}

// recorder keeps all events.
type recorder struct {
	mu     sync.Mutex
	events []hub.Event
}

func (r *recorder) Observe(e hub.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) kinds(k hub.EventKind) []hub.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []hub.Event
	for _, e := range r.events {
		if e.Kind == k {
			out = append(out, e)
		}
	}
	return out
}

func onCDN(r hubtest.Request) bool                     { return r.Origin == "cdn" }
func copyBody(w io.Writer, r io.Reader) (int64, error) { return io.Copy(w, r) }

func wantErr(t testing.TB, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("got %v, want %v", err, kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	if strings.ContainsAny(err.Error(), "\n") {
		t.Errorf("error has several lines: %q", err)
	}
	if strings.Contains(err.Error(), token) || strings.Contains(err.Error(), "Signature") {
		t.Errorf("error leaks a secret: %q", err)
	}
}

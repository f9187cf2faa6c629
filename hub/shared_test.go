package hub_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
)

// sharedStore makes a cache whose shared store holds the demo's weights, and
// a Hub that states their Xet hash.
func sharedStore(t testing.TB) (s *hubtest.Server, cache, xet string) {
	t.Helper()
	xet = sha([]byte("a xet hash"))
	s = newHub(t, hubtest.Options{})
	s.Inject(hubtest.Fault{Kind: hubtest.SetHeader, Method: "HEAD", Path: "model.safetensors", Count: -1, Header: map[string][]string{"X-Xet-Hash": {xet}}})
	cache = filepath.Join(t.TempDir(), "hub")
	dir := filepath.Join(cache, "blobs", xet[:2])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for p, data := range map[string][]byte{
		filepath.Join(cache, "blobs", ".huggingface-shared-blobs"): []byte("1\n"),
		filepath.Join(dir, xet): demoFiles()["model.safetensors"],
	} {
		if err := os.WriteFile(p, data, 0o444); err != nil {
			t.Fatal(err)
		}
	}
	return s, cache, xet
}

func TestSharedStore(t *testing.T) {
	s, cache, xet := sharedStore(t)
	payload := filepath.Join(cache, "blobs", xet[:2], xet)
	etag := sha(demoFiles()["model.safetensors"])
	blob := filepath.Join(cache, "models--org--demo", "blobs", etag)
	get := func(c *hub.Client) int {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(cache, "models--org--demo")); err != nil {
			t.Fatal(err)
		}
		s.Forget()
		p, err := c.Download(t.Context(), demo, "main", "model.safetensors")
		if err != nil {
			t.Fatal(err)
		}
		wantFile(t, p, demoFiles()["model.safetensors"])
		return s.Count(onCDN)
	}
	for range 2 {
		if n := get(newClient(t, s, withCache(cache))); n != 0 {
			t.Errorf("%d downloads of what the store has", n)
		}
		if target, err := os.Readlink(blob); err != nil || filepath.ToSlash(target) != "../../blobs/"+xet[:2]+"/"+xet {
			t.Errorf("%s, %v", target, err)
		}
		// Named once, however often it is linked.
		if b, err := os.ReadFile(payload + ".refs"); err != nil || string(b) != "models--org--demo/blobs/"+etag+"\n" {
			t.Errorf("%q, %v", b, err)
		}
	}
	if n := get(newClient(t, s, withCache(cache), func(o *hub.Options) { o.DisableSharedBlobs = true })); n != 1 {
		t.Errorf("switched off: %d downloads", n)
	}
	if n := get(newClient(t, s, withCache(cache), func(o *hub.Options) { o.DisableSymlinks = true })); n != 1 {
		t.Errorf("without links: %d downloads", n)
	}
	// A damaged entry, one of another size, and a store without its mark are
	// left alone.
	bad := demoFiles()["model.safetensors"]
	bad[77] ^= 1
	for _, change := range []func() error{
		func() error { return os.WriteFile(payload, bad, 0o644) },
		func() error { return os.WriteFile(payload, bad[:10], 0o644) },
		func() error {
			return os.WriteFile(filepath.Join(cache, "blobs", ".huggingface-shared-blobs"), []byte("2\n"), 0o644)
		},
	} {
		if err := os.Chmod(payload, 0o644); err != nil {
			t.Fatal(err)
		}
		_ = os.Chmod(filepath.Join(cache, "blobs", ".huggingface-shared-blobs"), 0o644)
		if err := change(); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(payload)
		if n := get(newClient(t, s, withCache(cache))); n != 1 {
			t.Errorf("%d downloads", n)
		}
		if after, _ := os.ReadFile(payload); string(after) != string(before) {
			t.Error("the store was changed")
		}
		if entries, _ := os.ReadDir(filepath.Dir(blob)); len(entries) != 1 || strings.HasPrefix(entries[0].Name(), ".") {
			t.Errorf("%v", entries)
		}
	}
}

package hub_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
)

func force(o *hub.Options) { o.Force = true }

// spoil changes a byte of a file through whatever links lead to it.
func spoil(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Force brings files that are there already anew, whatever the cache says,
// and nothing cached stands in for a Hub that fails.
func TestForce(t *testing.T) {
	s := newHub(t, hubtest.Options{})
	plain := newClient(t, s)
	forced := newClient(t, s, withCache(plain.CacheDir()), force)
	snap, err := plain.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	weights := filepath.Join(snap.Dir, "model.safetensors")
	for _, revision := range []string{"main", string(snap.Commit)} {
		spoil(t, weights)
		s.Forget()
		if _, err := plain.Download(t.Context(), demo, revision, "model.safetensors"); err != nil || s.Count(onCDN) != 0 {
			t.Errorf("without force: %v, %d downloads", err, s.Count(onCDN))
		}
		p, err := forced.Download(t.Context(), demo, revision, "model.safetensors")
		if err != nil || p != weights || s.Count(onCDN) != 1 {
			t.Fatalf("%s, %v, %d downloads", p, err, s.Count(onCDN))
		}
		wantFile(t, weights, demoFiles()["model.safetensors"])
		spoil(t, weights)
		if _, err := forced.Snapshot(t.Context(), demo, revision, hub.SnapshotOptions{}); err != nil {
			t.Fatal(err)
		}
		for n, data := range demoFiles() {
			wantFile(t, filepath.Join(snap.Dir, n), data)
		}
	}
	p, err := forced.Plan(t.Context(), demo, "main", hub.SnapshotOptions{})
	if err != nil || p.Missing != p.Total || p.Total == 0 {
		t.Errorf("%+v, %v", p, err)
	}
	wantClean(t, plain.CacheDir())

	// A directory.
	dir := t.TempDir()
	if _, err := plain.SnapshotTo(t.Context(), demo, "main", dir, hub.SnapshotOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Forget()
	if _, err := forced.SnapshotTo(t.Context(), demo, string(snap.Commit), dir, hub.SnapshotOptions{}); err != nil || s.Count(onCDN) != 2 {
		t.Errorf("%v, %d downloads", err, s.Count(onCDN))
	}
	if _, err := forced.DownloadTo(t.Context(), demo, string(snap.Commit), "model.safetensors", dir); err != nil || s.Count(onCDN) != 3 {
		t.Errorf("%v, %d downloads", err, s.Count(onCDN))
	}
	if p, err := forced.PlanTo(t.Context(), demo, "main", dir, hub.SnapshotOptions{}); err != nil || p.Missing != p.Total {
		t.Errorf("%+v, %v", p, err)
	}

	// What cannot be replaced stays, and the failure is told.
	for _, call := range []func(*hub.Client) error{
		func(c *hub.Client) error { return second(c.Download(t.Context(), demo, "main", "model.safetensors")) },
		func(c *hub.Client) error { return second(c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})) },
		func(c *hub.Client) error { return second(c.DownloadTo(t.Context(), demo, "main", "config.json", dir)) },
		func(c *hub.Client) error {
			return second(c.SnapshotTo(t.Context(), demo, "main", dir, hub.SnapshotOptions{}))
		},
		func(c *hub.Client) error { return second(c.Resolve(t.Context(), demo, "main")) },
	} {
		s.Inject(hubtest.Fault{Kind: hubtest.Status, Code: 500, Count: -1, Origin: "hub"})
		if err := call(plain); err != nil {
			t.Errorf("without force: %v", err)
		}
		wantErr(t, call(forced), hub.ErrServer)
		s.ClearFaults()
	}
	s.Inject(hubtest.Fault{Kind: hubtest.Corrupt, Count: -1, Origin: "cdn", Path: "model.safetensors", At: 5})
	_, err = forced.Download(t.Context(), demo, "main", "model.safetensors")
	wantErr(t, err, hub.ErrChecksum)
	wantFile(t, weights, demoFiles()["model.safetensors"])

	_, err = forced.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{LocalOnly: true})
	wantErr(t, err, hub.ErrBadRequest)
	_, err = hub.New(hub.Options{CacheDir: dir, Force: true, Offline: true})
	wantErr(t, err, hub.ErrBadRequest)
}

// Without links too: the file of the snapshot itself is replaced.
func TestForceWithoutSymlinks(t *testing.T) {
	s := newHub(t, hubtest.Options{})
	c := newClient(t, s, force, func(o *hub.Options) { o.DisableSymlinks = true })
	for range 2 {
		p, err := c.Download(t.Context(), demo, "main", "model.safetensors")
		if err != nil {
			t.Fatal(err)
		}
		wantFile(t, p, demoFiles()["model.safetensors"])
		spoil(t, p)
	}
	if n := s.Count(onCDN); n != 2 {
		t.Errorf("%d downloads", n)
	}
}

package hub_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
)

func TestVerify(t *testing.T) {
	s := newHub(t, hubtest.Options{})
	c := newClient(t, s)
	snap, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "plain")
	if _, err := c.SnapshotTo(t.Context(), demo, "main", dir, hub.SnapshotOptions{}); err != nil {
		t.Fatal(err)
	}
	// Offline: the cache knows all that is needed.
	off := newClient(t, s, withCache(c.CacheDir()), offline)
	for _, d := range []string{"", dir} {
		v, err := off.Verify(t.Context(), demo, "main", d)
		if err != nil || v.Good != len(demoFiles()) || len(v.Wrong)+len(v.Missing)+len(v.Extra) != 0 || v.Commit != snap.Commit {
			t.Errorf("%+v, %v", v, err)
		}
	}
	for _, d := range []string{snap.Dir, dir} {
		// Same length and other content; other length; absent; too many.
		for n, change := range map[string]func(p string) error{
			"model.safetensors": func(p string) error {
				b, err := os.ReadFile(p)
				if err != nil {
					return err
				}
				b[1000] ^= 4
				return os.WriteFile(p, b, 0o644)
			},
			"config.json": func(p string) error { return os.WriteFile(p, []byte("{}"), 0o644) },
			"README.md":   os.Remove,
			"mine.txt":    func(p string) error { return os.WriteFile(p, nil, 0o644) },
		} {
			if err := change(filepath.Join(d, n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, d := range []string{"", dir} {
		v, err := off.Verify(t.Context(), demo, "main", d)
		if err != nil {
			t.Fatal(err)
		}
		if v.Good != len(demoFiles())-3 || fmt.Sprint(v.Missing, v.Extra) != "[README.md] [mine.txt]" || len(v.Wrong) != 2 ||
			v.Wrong[0].File != "config.json" || v.Wrong[0].Algorithm != "git-sha1" || v.Wrong[1].File != "model.safetensors" || v.Wrong[1].Algorithm != "sha256" {
			t.Errorf("%+v", v)
		}
	}
}

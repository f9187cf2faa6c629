package hub_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
)

// flipByte changes one bit of a file in place.
func flipByte(t testing.TB, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
}

func verify(t testing.TB, c *hub.Client, rev string, o hub.VerifyOptions) *hub.Verification {
	t.Helper()
	v, err := c.Verify(t.Context(), demo, rev, o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVerify(t *testing.T) {
	for name, tt := range map[string]struct {
		links   bool
		offline bool
	}{"online": {true, false}, "offline": {true, true}, "online copies": {false, false}, "offline copies": {false, true}} {
		t.Run(name, func(t *testing.T) {
			c, s := filledCache(t, func(o *hub.Options) { o.DisableSymlinks = !tt.links })
			var d dials
			var seen recorder
			c = newClient(t, s, withCache(c.CacheDir()), func(o *hub.Options) {
				o.Progress = &seen
				if o.Offline = tt.offline; tt.offline {
					d.refuse(o)
				}
			})
			v := verify(t, c, "", hub.VerifyOptions{})
			if !v.OK() || v.Checked != len(demoFiles()) || v.Unlisted || len(v.Missing)+len(v.Extra)+len(v.Unknown) != 0 || string(v.Commit) != s.Commit("", "org/demo", "main") {
				t.Fatalf("%+v", v)
			}
			if done := seen.kinds(hub.FileDone); len(done) != len(demoFiles()) {
				t.Errorf("%d files reported", len(done))
			}
			// Damage of every kind at once.
			before := v
			lfs, plain := filepath.Join(v.Dir, "model.safetensors"), filepath.Join(v.Dir, "config.json")
			flipByte(t, lfs)
			flipByte(t, plain)
			if err := os.WriteFile(filepath.Join(v.Dir, "sub", "pytorch.bin"), []byte("short"), 0o666); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(v.Dir, "README.md")); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(v.Dir, "more", "notes.txt"), "mine")
			v = verify(t, c, "main", hub.VerifyOptions{})
			var got []string
			for _, m := range v.Mismatches {
				got = append(got, m.Path+" "+m.Algorithm+" "+m.Problem)
			}
			want := []string{"config.json git-sha1 ", "model.safetensors sha256 ", "sub/pytorch.bin  5 bytes, expected 50000"}
			if !slices.Equal(got, want) || !slices.Equal(v.Missing, []string{"README.md"}) || !slices.Equal(v.Extra, []string{"more/notes.txt"}) || v.OK() {
				t.Errorf("%q, %+v", got, v)
			}
			if m := v.Mismatches[1]; m.Expected != sha(demoFiles()["model.safetensors"]) || m.Actual == m.Expected || len(m.Actual) != 64 {
				t.Errorf("%+v", m)
			}
			if v.Bytes >= before.Bytes || d.n.Load() != 0 {
				t.Errorf("%d bytes, %d dials", v.Bytes, d.n.Load())
			}
		})
	}
}

// Without a listing the names of the blobs say what they hold.
func TestVerifyUnlisted(t *testing.T) {
	c, s := filledCache(t)
	if err := os.RemoveAll(filepath.Join(c.CacheDir(), "models--org--demo", "trees")); err != nil {
		t.Fatal(err)
	}
	local := hub.VerifyOptions{LocalOnly: true}
	v := verify(t, c, "main", local)
	if !v.OK() || !v.Unlisted || v.Checked != len(demoFiles()) {
		t.Fatalf("%+v", v)
	}
	write(t, filepath.Join(v.Dir, "notes.txt"), "mine")
	flipByte(t, filepath.Join(v.Dir, "README.md"))
	if v = verify(t, c, "main", local); v.OK() || !slices.Equal(v.Unknown, []string{"notes.txt"}) || v.Mismatches[0].Path != "README.md" {
		t.Errorf("%+v", v)
	}
	// A Hub that cannot be reached makes no difference.
	s.Close()
	c = newClient(t, s, withCache(c.CacheDir()), func(o *hub.Options) { o.Retries = -1 })
	if v = verify(t, c, "main", hub.VerifyOptions{}); !v.Unlisted || v.OK() {
		t.Errorf("%+v", v)
	}
}

// The Hub's listing counts, not a cached one that agrees with the damage.
func TestVerifyTrustsTheHub(t *testing.T) {
	c, s := filledCache(t)
	cm := s.Commit("", "org/demo", "main")
	listing := filepath.Join(c.CacheDir(), "models--org--demo", "trees", cm+".json")
	data, err := os.ReadFile(listing)
	if err != nil {
		t.Fatal(err)
	}
	good, bad := demoFiles()["model.safetensors"], noise(9, 300_000)
	if data = bytes.ReplaceAll(data, []byte(sha(good)), []byte(sha(bad))); os.WriteFile(listing, data, 0o666) != nil {
		t.Fatal("cannot write")
	}
	if err := os.WriteFile(filepath.Join(c.CacheDir(), "models--org--demo", "snapshots", cm, "model.safetensors"), bad, 0o666); err != nil {
		t.Fatal(err)
	}
	if v := verify(t, c, cm, hub.VerifyOptions{LocalOnly: true}); !v.OK() {
		t.Errorf("the listing was not used: %+v", v)
	}
	if v := verify(t, c, cm, hub.VerifyOptions{}); v.OK() {
		t.Error("the damage was not found")
	}
}

func TestVerifyRefuses(t *testing.T) {
	c, s := filledCache(t)
	for rev, kind := range map[string]error{"v9": hub.ErrLocalEntryNotFound, "../x": hub.ErrInvalidRevision, strings.Repeat("a", 40): hub.ErrLocalEntryNotFound} {
		_, err := c.Verify(t.Context(), demo, rev, hub.VerifyOptions{})
		wantErr(t, err, kind)
	}
	_, err := c.Verify(t.Context(), hub.ModelRepo("org/none"), "", hub.VerifyOptions{})
	wantErr(t, err, hub.ErrLocalEntryNotFound)
	// Two commits and no main.
	if err := os.Remove(filepath.Join(c.CacheDir(), "models--org--demo", "refs", "main")); err != nil {
		t.Fatal(err)
	}
	_, err = c.Verify(t.Context(), demo, "", hub.VerifyOptions{})
	wantErr(t, err, hub.ErrInvalidRevision)
	deleteAll(t, scan(t, c.CacheDir()).PlanDelete(hub.CacheTarget{Commit: hub.Commit(s.Commit("", "org/demo", "dev"))}))
	if v := verify(t, c, "", hub.VerifyOptions{}); !v.OK() {
		t.Errorf("%+v", v)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Verify(ctx, demo, "", hub.VerifyOptions{LocalOnly: true}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestVerifyLocalDir(t *testing.T) {
	s := twoRevisions(t)
	c := newClient(t, s)
	dir := filepath.Join(t.TempDir(), "plain")
	if _, err := c.SnapshotTo(t.Context(), demo, "main", dir, hub.SnapshotOptions{}); err != nil {
		t.Fatal(err)
	}
	o := hub.VerifyOptions{LocalDir: dir}
	if v := verify(t, c, "main", o); !v.OK() || v.Checked != len(demoFiles()) || len(v.Extra) != 0 {
		t.Errorf("%+v", v)
	}
	flipByte(t, filepath.Join(dir, "sub", "pytorch.bin"))
	write(t, filepath.Join(dir, ".git", "HEAD"), "x")
	if v := verify(t, c, "main", o); len(v.Mismatches) != 1 || len(v.Extra) != 0 {
		t.Errorf("%+v", v)
	}
}

func TestPlanTo(t *testing.T) {
	s := twoRevisions(t)
	c := newClient(t, s)
	dir := filepath.Join(t.TempDir(), "plain")
	plan := func(o hub.SnapshotOptions) *hub.Plan {
		t.Helper()
		p, err := c.PlanTo(t.Context(), demo, "main", dir, o)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := plan(hub.SnapshotOptions{Allow: []string{"*.bin", "*.safetensors"}}); p.Missing != 350_000 || p.Total != 350_000 || p.Files[0].Target != filepath.Join(dir, "model.safetensors") {
		t.Errorf("%+v", p)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a plan wrote something: %v", err)
	}
	write(t, filepath.Join(dir, "README.md"), string(demoFiles()["README.md"]))
	write(t, filepath.Join(dir, "config.json"), strings.Repeat("x", len(demoFiles()["config.json"])))
	if _, err := c.Download(t.Context(), demo, "main", "model.safetensors"); err != nil {
		t.Fatal(err)
	}
	cached := map[string]bool{"README.md": true, "model.safetensors": true}
	for _, f := range plan(hub.SnapshotOptions{}).Files {
		if f.Cached != cached[f.Path] {
			t.Errorf("%+v", f)
		}
	}
	_, err := c.PlanTo(t.Context(), demo, "main", dir, hub.SnapshotOptions{Files: []string{"none"}})
	wantErr(t, err, hub.ErrEntryNotFound)
	_, err = c.PlanTo(t.Context(), demo, "v9", dir, hub.SnapshotOptions{})
	wantErr(t, err, hub.ErrRevisionNotFound)
	_, err = c.PlanTo(t.Context(), demo, "main", "", hub.SnapshotOptions{})
	wantErr(t, err, hub.ErrCache)
}

// Damaged or foreign entries never make a verification hang or read outside.
func TestVerifySpecialFiles(t *testing.T) {
	c, s := filledCache(t)
	cm := s.Commit("", "org/demo", "main")
	readme := filepath.Join(c.CacheDir(), "models--org--demo", "snapshots", cm, "README.md")
	if err := os.Remove(readme); err != nil {
		t.Fatal(err)
	}
	symlink(t, os.DevNull, readme)
	v := verify(t, c, cm, hub.VerifyOptions{})
	if len(v.Mismatches) != 1 || v.Mismatches[0].Problem != "not a regular file" {
		t.Errorf("%+v", v)
	}
}

func ExampleScanCache() {
	s, err := hubtest.New(hubtest.Options{Repos: []hubtest.Repo{{ID: "org/tiny", Revisions: map[string]hubtest.Files{"main": {"config.json": []byte("{}\n")}}}}})
	if err != nil {
		panic(err)
	}
	defer s.Close()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	c, _ := hub.New(hub.Options{Endpoint: s.URL(), CacheDir: dir})
	if _, err := c.Snapshot(ctx, hub.ModelRepo("org/tiny"), "main", hub.SnapshotOptions{}); err != nil {
		panic(err)
	}
	v, err := c.Verify(ctx, hub.ModelRepo("org/tiny"), "main", hub.VerifyOptions{})
	if err != nil {
		panic(err)
	}
	fmt.Println(v.OK(), v.Checked)
	info, err := hub.ScanCache(dir)
	if err != nil {
		panic(err)
	}
	for _, r := range info.Repos {
		fmt.Println(r.Repo.String(), r.SizeOnDisk, r.Refs()[0])
	}
	plan := info.PlanDelete(hub.CacheTarget{Repo: hub.ModelRepo("org/tiny")})
	done, err := plan.Delete(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(plan.Size, done.Freed, len(done.Kept))
	// Output:
	// true 1
	// org/tiny 3 main
	// 3 3 0
}

// Offline the cache knows all that is needed, for itself and for a directory.
func TestVerifyOffline(t *testing.T) {
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
	off := newClient(t, s, withCache(c.CacheDir()), offline)
	for _, d := range []string{"", dir} {
		v, err := off.Verify(t.Context(), demo, "main", hub.VerifyOptions{LocalDir: d})
		if err != nil || v.Checked != len(demoFiles()) || !v.OK() || len(v.Missing)+len(v.Extra) != 0 || v.Unlisted || v.Commit != snap.Commit {
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
		v, err := off.Verify(t.Context(), demo, "main", hub.VerifyOptions{LocalDir: d})
		if err != nil {
			t.Fatal(err)
		}
		m := v.Mismatches
		if v.Checked != len(demoFiles())-1 || v.OK() || fmt.Sprint(v.Missing, v.Extra) != "[README.md] [mine.txt]" || len(m) != 2 ||
			m[0].Path != "config.json" || m[0].Problem == "" || m[1].Path != "model.safetensors" || m[1].Algorithm != "sha256" || m[1].Actual == m[1].Expected {
			t.Errorf("%+v", v)
		}
	}
}

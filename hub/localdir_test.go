package hub_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
)

func fileRequests(r hubtest.Request) bool { return r.Method == "GET" && r.File != "" }

func TestLocalDir(t *testing.T) {
	s := newHub(t, hubtest.Options{PlainRedirect: true})
	c := newClient(t, s)
	dir := filepath.Join(t.TempDir(), "model")
	snap, err := c.SnapshotTo(t.Context(), demo, "main", dir, hub.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if snap.Dir != dir || len(snap.Files) != len(demoFiles()) {
		t.Errorf("%+v", snap)
	}
	for n, data := range demoFiles() {
		p := filepath.Join(dir, n)
		wantFile(t, p, data)
		if st, err := os.Lstat(p); err != nil || !st.Mode().IsRegular() {
			t.Errorf("%s is no plain file", n)
		}
		note, err := os.ReadFile(filepath.Join(dir, ".cache", "huggingface", "download", n+".metadata"))
		etag := gitOID(data)
		if strings.HasSuffix(n, ".safetensors") || strings.HasSuffix(n, ".bin") {
			etag = sha(data)
		}
		if err != nil || !regexp.MustCompile(`^`+string(snap.Commit)+"\n"+etag+"\n"+`\d+\.\d+`+"\n$").Match(note) {
			t.Errorf("%s: note %q, %v", n, note, err)
		}
	}
	for n, want := range map[string]string{".gitignore": "*", "CACHEDIR.TAG": "Signature: 8a477f597d28d172789f06886806bc55"} {
		if b, err := os.ReadFile(filepath.Join(dir, ".cache", "huggingface", n)); err != nil || !strings.HasPrefix(string(b), want) {
			t.Errorf("%s: %q, %v", n, b, err)
		}
	}
	if _, err := os.Stat(filepath.Join(c.CacheDir(), "models--org--demo")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the cache was filled:", err)
	}
	if left := partials(t, dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}

	// Again: nothing is fetched, for a commit nothing is asked.
	s.Forget()
	if _, err := c.SnapshotTo(t.Context(), demo, "main", dir, hub.SnapshotOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := s.Count(nil); n != 1 {
		t.Errorf("%d requests for a directory that is up to date", n)
	}
	s.Forget()
	if _, err := c.SnapshotTo(t.Context(), demo, string(snap.Commit), dir, hub.SnapshotOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.DownloadTo(t.Context(), demo, string(snap.Commit), "config.json", dir); err != nil {
		t.Fatal(err)
	}
	if n := s.Count(nil); n != 0 {
		t.Errorf("%d requests for a commit", n)
	}

	// A file that somebody changed is replaced; one that was only touched
	// is recognised by its digest, plain files as well.
	future := time.Now().Add(time.Hour)
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte("# mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"README.md", "config.json", "model.safetensors"} {
		if err := os.Chtimes(filepath.Join(dir, n), future, future); err != nil {
			t.Fatal(err)
		}
	}
	s.Forget()
	if _, err := c.SnapshotTo(t.Context(), demo, "main", dir, hub.SnapshotOptions{}); err != nil {
		t.Fatal(err)
	}
	wantFile(t, filepath.Join(dir, "README.md"), demoFiles()["README.md"])
	if n := s.Count(func(r hubtest.Request) bool { return fileRequests(r) && r.File != "README.md" }); n != 0 {
		t.Errorf("%d files were fetched again", n)
	}

	// Offline.
	var d dials
	off := newClient(t, s, withCache(c.CacheDir()), offline, d.refuse)
	if got, err := off.SnapshotTo(t.Context(), demo, string(snap.Commit), dir, hub.SnapshotOptions{}); err != nil || got.Unverified {
		t.Errorf("%+v, %v", got, err)
	}
	if err := os.Remove(filepath.Join(dir, "config.json")); err != nil {
		t.Fatal(err)
	}
	_, err = off.SnapshotTo(t.Context(), demo, string(snap.Commit), dir, hub.SnapshotOptions{})
	wantErr(t, err, hub.ErrIncomplete, "config.json")
	_, err = off.DownloadTo(t.Context(), demo, "main", "config.json", dir)
	wantErr(t, err, hub.ErrLocalEntryNotFound)
}

// The old file stays until the new one is verified.
func TestLocalDirKeepsOldFileOnFailure(t *testing.T) {
	s := newHub(t, hubtest.Options{})
	c := newClient(t, s)
	dir := t.TempDir()
	p := filepath.Join(dir, "model.safetensors")
	if err := os.WriteFile(p, []byte("older content"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.Inject(hubtest.Fault{Kind: hubtest.Corrupt, Origin: "cdn", At: 5, Count: -1})
	_, err := c.DownloadTo(t.Context(), demo, "main", "model.safetensors", dir)
	wantErr(t, err, hub.ErrChecksum)
	wantFile(t, p, []byte("older content"))
	s.ClearFaults()
	if _, err := c.DownloadTo(t.Context(), demo, "main", "model.safetensors", dir); err != nil {
		t.Fatal(err)
	}
	wantFile(t, p, demoFiles()["model.safetensors"])
}

// Files come from the cache where it has them, and only if they are right.
func TestLocalDirUsesCache(t *testing.T) {
	s := newHub(t, hubtest.Options{})
	c := newClient(t, s)
	if _, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{}); err != nil {
		t.Fatal(err)
	}
	blob := filepath.Join(c.CacheDir(), "models--org--demo", "blobs", gitOID(demoFiles()["config.json"]))
	bad := []byte(strings.Repeat("x", len(demoFiles()["config.json"])))
	if err := os.WriteFile(blob, bad, 0o644); err != nil {
		t.Fatal(err)
	}
	s.Forget()
	dir := filepath.Join(t.TempDir(), "a")
	if _, err := c.SnapshotTo(t.Context(), demo, "main", dir, hub.SnapshotOptions{}); err != nil {
		t.Fatal(err)
	}
	for n, data := range demoFiles() {
		wantFile(t, filepath.Join(dir, n), data)
	}
	if n := s.Count(fileRequests); n != 1 {
		t.Errorf("%d files were fetched, want the one that is damaged in the cache", n)
	}
	// Offline from the cache alone.
	off := newClient(t, s, withCache(c.CacheDir()), offline)
	dir = filepath.Join(t.TempDir(), "b")
	if _, err := off.SnapshotTo(t.Context(), demo, "main", dir, hub.SnapshotOptions{Allow: []string{"*.safetensors"}}); err != nil {
		t.Fatal(err)
	}
	wantFile(t, filepath.Join(dir, "model.safetensors"), demoFiles()["model.safetensors"])
}

func TestLocalDirResumes(t *testing.T) {
	s, data := big(t)
	c := newClient(t, s, singleStream, func(o *hub.Options) { o.Retries = -1 })
	dir := t.TempDir()
	s.Inject(hubtest.Fault{Kind: hubtest.Truncate, At: bigSize / 2})
	_, err := c.DownloadTo(t.Context(), bigRepo, "main", "model.safetensors", dir)
	wantErr(t, err, hub.ErrNetwork)
	left := partials(t, dir)
	if len(left) != 2 || !strings.Contains(left[0], filepath.Join(".cache", "huggingface", "download", "xGOKKLRSlIhH692hSVvI1-gpoa8=."+sha(data)+".")) {
		t.Errorf("%v", left)
	}
	s.Forget()
	p, err := c.DownloadTo(t.Context(), bigRepo, "main", "model.safetensors", dir)
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, p, data)
	if n := s.BodyBytes(onCDN); n > bigSize/2+1<<20 {
		t.Errorf("%d bytes fetched after half was there", n)
	}
}

func TestLocalDirHostileNames(t *testing.T) {
	for _, name := range []string{"../evil", `C:\evil`, ".cache/huggingface/download/config.json.metadata", ".Cache/HuggingFace/x"} {
		s := newHub(t, hubtest.Options{Repos: []hubtest.Repo{{ID: "org/demo", Revisions: map[string]hubtest.Files{"main": {name: []byte("x")}}}}})
		c := newClient(t, s)
		dir := filepath.Join(t.TempDir(), "d")
		_, err := c.SnapshotTo(t.Context(), demo, "main", dir, hub.SnapshotOptions{})
		wantErr(t, err, hub.ErrUnsafePath)
		_, err = c.DownloadTo(t.Context(), demo, "main", name, dir)
		wantErr(t, err, hub.ErrUnsafePath)
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestInteropLocalDir(t *testing.T) {
	py := python(t)
	s := newHub(t, hubtest.Options{PlainRedirect: true})
	env := []string{"HF_ENDPOINT=" + s.URL()}
	dir := filepath.Join(t.TempDir(), "ours")
	if _, err := newClient(t, s).SnapshotTo(t.Context(), demo, "main", dir, hub.SnapshotOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Forget()
	if out, err := script(t, py, env, "local_dir.py", dir, "org/demo", "main").Output(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if n := s.Count(fileRequests); n != 0 {
		t.Errorf("Python fetched %d files again", n)
	}
	dir = filepath.Join(t.TempDir(), "theirs")
	if out, err := script(t, py, env, "local_dir.py", dir, "org/demo", "main").Output(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	s.Forget()
	if _, err := newClient(t, s).SnapshotTo(t.Context(), demo, "main", dir, hub.SnapshotOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := s.Count(fileRequests); n != 0 {
		t.Errorf("we fetched %d files again", n)
	}
}

// Offline and without a listing a directory gives what lies in it, and says
// that nobody can tell what is missing.
func TestLocalDirUnverified(t *testing.T) {
	s := newHub(t, hubtest.Options{})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, s, offline)
	snap, err := c.SnapshotTo(t.Context(), demo, "main", dir, hub.SnapshotOptions{Files: []string{"config.json"}})
	if err != nil || !snap.Unverified || len(snap.Files) != 1 || snap.Files[0].Size != 2 {
		t.Errorf("%+v, %v", snap, err)
	}
	_, err = c.SnapshotTo(t.Context(), demo, "main", dir, hub.SnapshotOptions{Files: []string{"model.safetensors"}})
	wantErr(t, err, hub.ErrLocalEntryNotFound)
	_, err = c.SnapshotTo(t.Context(), demo, "main", filepath.Join(dir, "none"), hub.SnapshotOptions{})
	wantErr(t, err, hub.ErrLocalEntryNotFound)
	// A complete directory stands in for a Hub that fails, an incomplete one
	// does not.
	full := t.TempDir()
	c = newClient(t, s)
	if _, err := c.SnapshotTo(t.Context(), demo, "main", full, hub.SnapshotOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Download(t.Context(), demo, "main", "config.json"); err != nil { // remembers the ref
		t.Fatal(err)
	}
	s.Inject(hubtest.Fault{Kind: hubtest.Status, Code: 500, Count: -1, Origin: "hub"})
	if snap, err = c.SnapshotTo(t.Context(), demo, "main", full, hub.SnapshotOptions{}); err != nil || len(snap.Files) != len(demoFiles()) {
		t.Errorf("%+v, %v", snap, err)
	}
	if err := os.Remove(filepath.Join(full, "README.md")); err != nil {
		t.Fatal(err)
	}
	_, err = c.SnapshotTo(t.Context(), demo, "main", full, hub.SnapshotOptions{})
	wantErr(t, err, hub.ErrIncomplete, "README.md")
	_, err = c.SnapshotTo(t.Context(), demo, "main", dir, hub.SnapshotOptions{})
	wantErr(t, err, hub.ErrServer)
}

package hub_test

import (
	"bufio"
	"encoding/json"
	"errors"
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

// python is the interpreter of the interoperation tests, see package interop.
func python(t *testing.T) string {
	t.Helper()
	return peer(t, "HFCOMPRESS_PYTHON", "a Python with huggingface_hub")
}

// peer is where another client lies. In CI it must be there, or the variable
// says "none", which is to be seen where it was set.
func peer(t *testing.T, variable, what string) string {
	t.Helper()
	switch v := os.Getenv(variable); {
	case v == "none":
		t.Skipf("%s is none: not tested against %s", variable, what)
	case v != "":
		return v
	case os.Getenv("CI") == "true":
		t.Fatalf("%s must name %s in CI, or be none", variable, what)
	}
	t.Skipf("%s names no %s", variable, what)
	return ""
}

// script prepares a run of a script with a clean set of Hub variables.
func script(t *testing.T, py string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(py, args...)
	cmd.Dir = "interop"
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "HF_") && !strings.HasPrefix(kv, "HUGGING") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, append([]string{"HF_HOME=" + t.TempDir(), "HF_HUB_DISABLE_TELEMETRY=1", "HF_HUB_DISABLE_PROGRESS_BARS=1", "PYTHONDONTWRITEBYTECODE=1"}, env...)...)
	cmd.Stderr = os.Stderr
	return cmd
}

func TestInteropPythonReadsOurCache(t *testing.T) {
	py := python(t)
	for _, links := range []bool{true, false} {
		s := newHub(t, hubtest.Options{PlainRedirect: true})
		c := newClient(t, s, func(o *hub.Options) { o.DisableSymlinks = !links })
		snap, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Download(t.Context(), demo, "main", "not_there.json"); !errors.Is(err, hub.ErrEntryNotFound) {
			t.Fatal(err)
		}
		// A partial of an interrupted download must not disturb.
		release, err := hub.HoldPartialForTest(c, demo, sha([]byte("other")), 5<<20)
		if err != nil {
			t.Fatal(err)
		}
		out, err := script(t, py, nil, "read_cache.py", c.CacheDir(), "org/demo", "main", string(snap.Commit), "config.json", "model.safetensors", "sub/dir/b é+#1 ?.txt").Output()
		release()
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Warnings, Repos []string
			Refs            map[string][]string
			Folder          string
			Paths           map[string]string
			KnownMissing    bool `json:"known_missing"`
		}
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if len(got.Warnings) != 0 || !slices.Equal(got.Repos, []string{"org/demo"}) || !slices.Equal(got.Refs["org/demo"], []string{"main"}) || got.Folder != snap.Dir || !got.KnownMissing {
			t.Errorf("%s", out)
		}
		for f, p := range got.Paths {
			wantFile(t, p, demoFiles()[f])
		}
	}
}

func TestInteropWeReadPythonsCache(t *testing.T) {
	py := python(t)
	s := newHub(t, hubtest.Options{PlainRedirect: true, PageSize: 2})
	cache := filepath.Join(t.TempDir(), "hub")
	out, err := script(t, py, []string{"HF_ENDPOINT=" + s.URL()}, "make_cache.py", cache, "org/demo", "main").Output()
	if err != nil {
		t.Fatal(err)
	}
	var d dials
	c := newClient(t, s, withCache(cache), offline, d.refuse)
	snap, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if snap.Dir != strings.TrimSpace(string(out)) || snap.Unverified || len(snap.Files) != len(demoFiles()) {
		t.Errorf("%+v, want %s", snap, out)
	}
	for f, data := range demoFiles() {
		p, err := c.Download(t.Context(), demo, "main", f)
		if err != nil {
			t.Fatal(err)
		}
		wantFile(t, p, data)
	}
	if d.n.Load() != 0 {
		t.Errorf("%d dials", d.n.Load())
	}
	// Online, nothing of it is fetched again.
	s.Forget()
	if _, err := newClient(t, s, withCache(cache)).Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := s.Count(nil); n != 1 {
		t.Errorf("%d requests on a cache that Python filled", n)
	}
}

func TestInteropLocks(t *testing.T) {
	py := python(t)
	p := filepath.Join(t.TempDir(), "x.lock")
	try := func() string {
		out, err := script(t, py, nil, "lock.py", "try", p).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	release, err := hub.AcquireLockForTest(p)
	if err != nil {
		t.Fatal(err)
	}
	if got := try(); got != "locked" {
		t.Errorf("Python finds our lock %s", got)
	}
	release()
	if got := try(); got != "free" {
		t.Errorf("Python finds the released lock %s", got)
	}

	hold := script(t, py, nil, "lock.py", "hold", p)
	in, err := hold.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := hold.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := hold.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "locked\n" {
		t.Fatal(line, err)
	}
	if _, err := hub.AcquireLockForTest(p); !errors.Is(err, hub.ErrLockedForTest) {
		t.Errorf("we get a lock that Python holds: %v", err)
	}
	_ = in.Close()
	if err := hold.Wait(); err != nil {
		t.Fatal(err)
	}
	if release, err = hub.AcquireLockForTest(p); err != nil {
		t.Fatal(err)
	}
	release()
}

// Python's client downloads from hubtest, over HTTP and over Xet with hf_xet.
func TestInteropPythonDownloads(t *testing.T) {
	py := python(t)
	for name, x := range map[string]*xettest.Options{"http": nil, "xet": {}} {
		t.Run(name, func(t *testing.T) {
			s := newHub(t, hubtest.Options{PlainRedirect: true, Xet: x, Tokens: []string{token},
				Repos: []hubtest.Repo{{ID: "org/demo", Private: true, Revisions: map[string]hubtest.Files{"main": demoFiles()}}}})
			out, err := script(t, py, []string{"HF_ENDPOINT=" + s.URL(), "HF_TOKEN=" + token}, "make_cache.py", filepath.Join(t.TempDir(), "hub"), "org/demo", "main").Output()
			if err != nil {
				t.Fatal(err)
			}
			for f, data := range demoFiles() {
				wantFile(t, filepath.Join(strings.TrimSpace(string(out)), filepath.FromSlash(f)), data)
			}
			if over := s.Count(onCDN) > 0; over != (x == nil) {
				t.Errorf("plain HTTP was used: %v", over)
			}
		})
	}
}

// Sixteen processes of both languages fill one cache: one download.
func TestInteropMixedProcesses(t *testing.T) {
	for name, x := range map[string]*xettest.Options{"http": nil, "xet": {MaxXorb: 2 << 20}} {
		t.Run(name, func(t *testing.T) { mixedProcesses(t, python(t), x) })
	}
}

func mixedProcesses(t *testing.T, py string, x *xettest.Options) {
	data := bigData()
	s := newHub(t, hubtest.Options{Xet: x, Repos: []hubtest.Repo{{ID: "org/big", Revisions: map[string]hubtest.Files{"main": {"model.safetensors": data}}}}})
	// Slow enough that all are there before the first has finished.
	s.Inject(hubtest.Fault{Kind: hubtest.Slow, Rate: 4 << 20, Count: -1, Origin: "cdn"})
	if x != nil {
		s.Xet().Inject(xettest.Fault{Kind: xettest.Slow, Rate: 2 << 20, Count: -1, Call: xettest.Content})
	}
	cache := filepath.Join(t.TempDir(), "hub")
	var cmds []*exec.Cmd
	for i := range 16 {
		cmd := startHelper(t, helperJob{Endpoint: s.URL(), Cache: cache, Repo: "org/big", File: "model.safetensors", Conns: 2})
		if i%2 == 0 {
			cmd = script(t, py, []string{"HF_ENDPOINT=" + s.URL()}, "make_cache.py", cache, "org/big", "main")
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	for _, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	wantFile(t, filepath.Join(cache, "models--org--big", "snapshots", s.Commit("", "org/big", "main"), "model.safetensors"), data)
	wantClean(t, cache)
	switch {
	case x == nil:
		if n := s.BodyBytes(onCDN); n != bigSize {
			t.Errorf("%d bytes sent for one file of %d", n, bigSize)
		}
	default:
		if n := xetBytes(s); n < bigSize || n > bigSize+bigSize/10 || s.Count(onCDN) > 0 {
			t.Errorf("%d bytes sent for one file of %d", n, bigSize)
		}
	}
}

// "hf cache prune" takes what interrupted downloads left, ours as well, and
// nothing else.
func TestInteropPrune(t *testing.T) {
	py := python(t)
	s := newHub(t, hubtest.Options{})
	c := newClient(t, s)
	snap, err := c.Snapshot(t.Context(), demo, "main", hub.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	release, err := hub.HoldPartialForTest(c, demo, sha([]byte("other")), 5<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if n := len(partials(t, c.CacheDir())); n != 2 {
		t.Fatalf("%d temporary files", n)
	}
	if out, err := script(t, py, nil, "-m", "huggingface_hub.cli.hf", "cache", "prune", "--cache-dir", c.CacheDir(), "-y").Output(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if left := partials(t, c.CacheDir()); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	for n, data := range demoFiles() {
		wantFile(t, filepath.Join(snap.Dir, n), data)
	}
}

// A cache with a shared store, as newer versions of Python's client make it.
func TestInteropSharedStore(t *testing.T) {
	py := python(t)
	s, cache, xet := sharedStore(t)
	c := newClient(t, s, withCache(cache))
	p, err := c.Download(t.Context(), demo, "main", "model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	out, err := script(t, py, nil, "shared_store.py", cache).Output()
	if err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if got := strings.TrimSpace(string(out)); got != "0 warnings, 0 unreferenced" {
		t.Errorf("%s", got)
	}
	wantFile(t, p, demoFiles()["model.safetensors"])
	if target, err := filepath.EvalSymlinks(p); err != nil || filepath.Base(target) != xet {
		t.Errorf("%s, %v", target, err)
	}
}

// The store that we fill on demand is Python's: it finds our payloads by their
// Xet hash and downloads nothing, we find its, and each collects what the
// other has left.
func TestInteropPublishedShared(t *testing.T) {
	py := python(t)
	for name, ours := range map[string]bool{"we publish": true, "python publishes": false} {
		t.Run(name, func(t *testing.T) {
			s, weights, xet := twoRepos(t)
			cache := filepath.Join(t.TempDir(), "hub")
			pythons := func(repo string) {
				t.Helper()
				if err := script(t, py, []string{"HF_ENDPOINT=" + s.URL()}, "make_cache.py", cache, repo, "main").Run(); err != nil {
					t.Fatal(err)
				}
			}
			mine := func(repo string) {
				t.Helper()
				if _, err := newClient(t, s, withCache(cache), publish).Snapshot(t.Context(), hub.ModelRepo(repo), "main", hub.SnapshotOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			first, second := mine, pythons
			if !ours {
				first, second = pythons, mine
			}
			first("org/one")
			payload := filepath.Join(cache, "blobs", xet[:2], xet)
			wantFile(t, payload, weights)
			before := xetBytes(s)
			second("org/two")
			if n := xetBytes(s) - before; n != 0 || s.Count(onCDN) != 0 {
				t.Errorf("%d bytes were fetched again", n)
			}
			for repo, file := range map[string]string{"one": "model.safetensors", "two": "other.bin"} {
				p := filepath.Join(cache, "models--org--"+repo, "snapshots", s.Commit("", "org/"+repo, "main"), file)
				wantFile(t, p, weights)
				if to, err := filepath.EvalSymlinks(p); err != nil || filepath.Base(to) != xet {
					t.Errorf("%s lies at %s, %v", p, to, err)
				}
			}
			out, err := script(t, py, nil, "shared_store.py", cache).Output()
			if got := strings.TrimSpace(string(out)); err != nil || got != "0 warnings, 0 unreferenced" {
				t.Errorf("%s, %v", got, err)
			}
			info, err := hub.ScanCache(cache)
			if err != nil || len(info.Warnings)+len(info.UnusedShared) != 0 {
				t.Fatalf("%+v, %v", info, err)
			}
			done, err := info.PlanDelete(hub.CacheTarget{Repo: hub.ModelRepo("org/one")}).Delete(t.Context())
			if err != nil || len(done.Kept) != 0 {
				t.Fatalf("%+v, %v", done, err)
			}
			wantFile(t, payload, weights)
		})
	}
}

//go:build unix

package hub_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
	"github.com/hfcompress/compress/hub/xet/xettest"
)

// A lock file of mode 0644 that another user made can be waited for: the lock
// needs no right to write.
func TestLockOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs the right to run a process as another user")
	}
	dir := t.TempDir()
	for p := dir; p != filepath.Dir(p) && p != os.TempDir(); p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	lock := filepath.Join(dir, "x.lock")
	if err := os.WriteFile(lock, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(lock, 0o644); err != nil {
		t.Fatal(err)
	}
	// The other user cannot reach the test binary's own place.
	exe := filepath.Join(dir, "helper")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copyExe(t, self, exe)
	try := func() error {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), fmt.Sprintf(`HUB_TEST_HELPER={"Lock":%q}`, lock))
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		return cmd.Run()
	}
	if err := try(); err != nil {
		t.Errorf("a free lock cannot be taken: %v", err)
	}
	release, err := hub.AcquireLockForTest(lock)
	if err != nil {
		t.Fatal(err)
	}
	if err := try(); err == nil {
		t.Error("a held lock was taken")
	}
	release()
	if err := try(); err != nil {
		t.Errorf("a released lock cannot be taken: %v", err)
	}
}

// A cache of another user that may only be read serves what it has: no error,
// nothing is written, and what it lacks is an error that says so.
func TestReadOnlyCacheOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs the right to run a process as another user")
	}
	s := newHub(t, hubtest.Options{})
	dir := t.TempDir()
	for p := dir; p != filepath.Dir(p) && p != os.TempDir(); p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cache := filepath.Join(dir, "hub")
	if _, err := newClient(t, s, withCache(cache)).Download(t.Context(), demo, "main", "model.safetensors"); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "helper")
	copyExe(t, self, exe)
	setModes(t, cache, 0o555, 0o444)
	before := listing(t, cache)
	get := func(file string) (string, error) {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), fmt.Sprintf(`HUB_TEST_HELPER={"Endpoint":%q,"Cache":%q,"Repo":"org/demo","File":%q}`, s.URL(), cache, file))
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := get("model.safetensors"); err != nil {
		t.Errorf("a cached file: %s, %v", out, err)
	}
	if out, err := get("config.json"); err == nil || !strings.Contains(out, "permission denied") {
		t.Errorf("a file that is not cached: %s, %v", out, err)
	}
	if after := listing(t, cache); after != before {
		t.Errorf("the cache changed:\n%s\nbecame\n%s", before, after)
	}
}

func copyExe(t *testing.T, from, to string) {
	src, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(dst, src); err != nil {
		t.Fatal(err)
	}
	if err := dst.Close(); err != nil {
		t.Fatal(err)
	}
}

// Memory does not grow with the file: a process that downloads 256 MiB over
// eight connections stays small.
func TestMemoryIsBounded(t *testing.T) {
	wantMemory(t, 128, 256<<20, 0, nil)
}

// The store repeats a chunk of zeros, so that all but a few of the file's
// bytes come from memory that the transfers hold.
func TestXetMemoryIsBounded(t *testing.T) {
	wantMemory(t, 160, 512<<20, 48<<20, &xettest.Options{})
}

// wantMemory downloads a sparse file that starts with random bytes, in a
// process that may have so many MiB resident.
func wantMemory(t *testing.T, limit int, size, random int64, x *xettest.Options) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the figures are Linux's")
	}
	dir := t.TempDir()
	p := filepath.Join(dir, "org", "big", "main", "model.safetensors")
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, noise(3, int(random)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(p, size); err != nil { // sparse
		t.Fatal(err)
	}
	s := newHub(t, hubtest.Options{FS: os.DirFS(dir), Xet: x})
	figures := filepath.Join(dir, "status")
	cmd := startHelper(t, helperJob{Endpoint: s.URL(), Cache: filepath.Join(dir, "hub"), Repo: "org/big", File: "model.safetensors", Conns: 8, Memory: figures})
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if n := s.Count(onCDN); x != nil && n > 0 {
		t.Errorf("%d requests over HTTP", n)
	}
	b, err := os.ReadFile(figures)
	if err != nil {
		t.Fatal(err)
	}
	var kib int
	_, after, ok := strings.Cut(string(b), "VmHWM:")
	if n, err := fmt.Sscan(after, &kib); !ok || n != 1 {
		t.Fatal(err)
	}
	if raceDetector {
		limit *= 4 // its own memory is counted too
	}
	if kib > limit<<10 {
		t.Errorf("%d MiB resident for a file of %d MiB", kib>>10, size>>20)
	}
	t.Logf("%d MiB resident for a file of %d MiB", kib>>10, size>>20)
}

// The system does not name a directory that is a loop of links.
func TestScanCacheLoop(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "loop")
	if err := os.Symlink("loop", dir); err != nil {
		t.Fatal(err)
	}
	_, err := hub.ScanCache(dir)
	wantErr(t, err, hub.ErrCache, dir)
}

package hub_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/hub/hubtest"
)

// TestMain runs the test binary as a helper process where the environment
// says so, for tests that kill or compete with another process.
func TestMain(m *testing.M) {
	if job := os.Getenv("HUB_TEST_HELPER"); job != "" {
		if err := helper(job); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// helperJob is what a helper process does.
type helperJob struct {
	Endpoint, Cache, Repo, File string
	Conns, MaxConns             int
	// Lock, if set, is a lock file to take and hold until stdin closes.
	Lock string
	// NoLocks makes every lock succeed, as on some cluster file systems.
	NoLocks bool
	// Memory is where the process writes its memory figures at the end.
	Memory string
	// Parallel fetches files of every size in ranges.
	Parallel bool
}

// helper downloads a file and prints how far it is, or holds a lock.
func helper(job string) error {
	var j helperJob
	if err := json.Unmarshal([]byte(job), &j); err != nil {
		return err
	}
	if j.Lock != "" {
		release, err := hub.AcquireLockForTest(j.Lock)
		if err != nil {
			return err
		}
		fmt.Println("locked")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		release()
		return nil
	}
	c, err := hub.New(hub.Options{Endpoint: j.Endpoint, CacheDir: j.Cache, ConnsPerFile: j.Conns, MaxConns: j.MaxConns,
		RetryBase: time.Millisecond, RetryCap: time.Millisecond, StallTimeout: 5 * time.Second, MaxRateWait: time.Nanosecond,
		Progress: hub.ObserverFunc(func(e hub.Event) {
			if e.Kind == hub.FileStarted || e.Kind == hub.FileProgress {
				fmt.Println(e.Done)
			}
		})})
	if err != nil {
		return err
	}
	if j.NoLocks {
		c.StubLocksForTest()
	}
	if j.Parallel {
		c.ParallelFromForTest(0)
	}
	_, err = c.Download(context.Background(), hub.ModelRepo(j.Repo), "main", j.File)
	if err == nil && j.Memory != "" {
		// The kernel's figure for a finished child would include what its
		// parent had resident when it was forked.
		var status []byte
		if status, err = os.ReadFile("/proc/self/status"); err == nil {
			err = os.WriteFile(j.Memory, status, 0o600)
		}
	}
	return err
}

func startHelper(t testing.TB, j helperJob) *exec.Cmd {
	t.Helper()
	b, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "HUB_TEST_HELPER="+string(b))
	cmd.Stderr = os.Stderr
	return cmd
}

// killAt runs a download in another process and kills it (SIGKILL) once it has
// written so many bytes. It returns how many it reported.
func killAt(t testing.TB, j helperJob, at int64) int64 {
	t.Helper()
	cmd := startHelper(t, j)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var done int64
	for sc := bufio.NewScanner(out); sc.Scan(); {
		if done, err = strconv.ParseInt(sc.Text(), 10, 64); err != nil {
			t.Fatal(err)
		}
		if done >= at {
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if done < at {
		t.Fatalf("the helper stopped at %d of %d bytes", done, at)
	}
	return done
}

// killSometime is killAt for a helper that may fail or finish before.
func killSometime(t testing.TB, j helperJob, at int64) {
	t.Helper()
	cmd := startHelper(t, j)
	cmd.Stderr = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for sc := bufio.NewScanner(out); sc.Scan(); {
		if done, err := strconv.ParseInt(sc.Text(), 10, 64); err != nil || done >= at {
			break
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func TestKilledDownloadResumes(t *testing.T) {
	const part = 1 << 20
	for _, conns := range []int{1, 4} {
		t.Run(fmt.Sprintf("conns=%d", conns), func(t *testing.T) {
			s, data := big(t)
			// Slow enough that the process cannot finish before the kill.
			s.Inject(hubtest.Fault{Kind: hubtest.Slow, Rate: int64(40<<20) / int64(conns), Count: -1})
			cache := filepath.Join(t.TempDir(), "hub")
			job := helperJob{Endpoint: s.URL(), Cache: cache, Repo: "org/big", File: "model.safetensors", Conns: conns}
			done := killAt(t, job, bigSize*3/10)
			blob := filepath.Join(cache, "models--org--big", "blobs", sha(data))
			if _, err := os.Lstat(blob); err == nil {
				t.Fatal("a killed download left its final name")
			}
			// Killed twice: the second run adopts, goes on and dies as well.
			done2 := killAt(t, job, bigSize*6/10)
			if _, err := os.Lstat(blob); err == nil {
				t.Fatal("a killed download left its final name")
			}
			if n := len(partials(t, cache)); n != 2 {
				t.Errorf("%d temporary files, want data and journal: %v", n, partials(t, cache))
			}
			s.ClearFaults()
			s.Forget()
			c := newClient(t, s, withCache(cache), func(o *hub.Options) { o.ConnsPerFile = conns })
			p, err := c.Download(t.Context(), bigRepo, "main", "model.safetensors")
			if err != nil {
				t.Fatal(err)
			}
			wantFile(t, p, data)
			wantClean(t, cache)
			if left := partials(t, cache); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
			got := s.BodyBytes(onCDN)
			limit := bigSize - done2 + int64(conns)*part
			if got > limit {
				t.Errorf("fetched %d bytes again, want at most %d (killed at %d and %d)", got, limit, done, done2)
			}
			t.Logf("killed at %d %% and %d %%, then fetched %.1f %%", done*100/bigSize, done2*100/bigSize, float64(got)*100/bigSize)
		})
	}
}

// A part that was damaged on disk after it was written is fetched again, and
// only that part.
func TestDamagedPartialIsRepaired(t *testing.T) {
	s, data := big(t)
	s.Inject(hubtest.Fault{Kind: hubtest.Slow, Rate: 40 << 20, Count: -1})
	cache := filepath.Join(t.TempDir(), "hub")
	done := killAt(t, helperJob{Endpoint: s.URL(), Cache: cache, Repo: "org/big", File: "model.safetensors", Conns: 1}, bigSize/2)
	for _, p := range partials(t, cache) {
		if strings.Contains(p, ".journal.") {
			continue
		}
		f, err := os.OpenFile(p, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{data[3<<20] ^ 0x80}, 3<<20); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	s.ClearFaults()
	s.Forget()
	c := newClient(t, s, withCache(cache), singleStream)
	p, err := c.Download(t.Context(), bigRepo, "main", "model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, p, data)
	if got, limit := s.BodyBytes(onCDN), bigSize-done+2<<20; got > limit {
		t.Errorf("fetched %d bytes, want at most %d", got, limit)
	}
}

// A partial that a living process works on is left to it.
func TestLivePartialIsNotAdopted(t *testing.T) {
	s, data := big(t)
	cache := filepath.Join(t.TempDir(), "hub")
	c := newClient(t, s, withCache(cache))
	release, err := hub.HoldPartialForTest(c, bigRepo, sha(data), bigSize)
	if err != nil {
		t.Fatal(err)
	}
	before := partials(t, cache)
	if _, err := c.Download(t.Context(), bigRepo, "main", "model.safetensors"); err != nil {
		t.Fatal(err)
	}
	if after := partials(t, cache); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("temporary files changed from %v to %v", before, after)
	}
	release()
}

// Where locks do nothing, private names and atomic renames keep the cache
// right: several processes download the same file at once.
func TestProcessesWithoutLocks(t *testing.T) {
	s, data := big(t)
	cache := filepath.Join(t.TempDir(), "hub")
	var cmds []*exec.Cmd
	for range 8 {
		cmd := startHelper(t, helperJob{Endpoint: s.URL(), Cache: cache, Repo: "org/big", File: "model.safetensors", Conns: 2, NoLocks: true})
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
}

// With locks, several processes make one download.
func TestProcessesShareOneDownload(t *testing.T) {
	s, data := big(t)
	cache := filepath.Join(t.TempDir(), "hub")
	var cmds []*exec.Cmd
	for range 6 {
		cmd := startHelper(t, helperJob{Endpoint: s.URL(), Cache: cache, Repo: "org/big", File: "model.safetensors", Conns: 2})
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
	if n := s.BodyBytes(onCDN); n != bigSize {
		t.Errorf("%d bytes sent for one file of %d", n, bigSize)
	}
}

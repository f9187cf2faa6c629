package compress_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/pack"
)

// killEnv holds source and destination of a run that is to be killed.
const killEnv = "HFCOMPRESS_TEST_KILL"

// A process that is killed while it saves leaves the old package as it was, and
// a rerun completes and removes the remains.
func TestKilledWhileSaving(t *testing.T) {
	if job := os.Getenv(killEnv); job != "" {
		runUntilKilled(t, job)
		return
	}
	source, parent := demoDir(t, nil), t.TempDir()
	out := filepath.Join(parent, "package")
	run := func(o compress.Options) {
		t.Helper()
		o.Out = out
		r, err := compress.Local(context.Background(), source, quick(o))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, stage := range []compress.Stage{compress.StagePack, compress.StageReload} {
		for _, before := range []bool{false, true} {
			if before {
				run(compress.Options{Overwrite: true})
			}
			kill(t, source, out, stage)
			if _, err := os.Stat(filepath.Join(out, pack.ManifestName)); (err == nil) != before {
				t.Fatalf("%s: a package under the final name: %v, before: %v", stage, err == nil, before)
			}
			if entries, _ := os.ReadDir(parent); len(entries) < 1 {
				t.Fatalf("%s: the killed run had written nothing, so that the test proves nothing", stage)
			}
			if before {
				loaded, err := compress.Load(context.Background(), out, compress.LoadOptions{})
				if err != nil {
					t.Fatalf("%s: the old package: %v", stage, err)
				}
				loaded.Close()
			}
			run(compress.Options{Overwrite: before})
			if entries, _ := os.ReadDir(parent); len(entries) != 1 {
				t.Errorf("%s: left behind: %v", stage, entries)
			}
			if err := os.RemoveAll(out); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// kill starts a run in another process and kills it in the middle of a stage.
func kill(t *testing.T, source, out string, stage compress.Stage) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWhileSaving$")
	cmd.Env = append(os.Environ(), killEnv+"="+strings.Join([]string{source, out, string(stage)}, "\n"))
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "in the middle") {
		t.Errorf("the run said %q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
}

// runUntilKilled is the other process: it stops in the middle of the stage and
// waits.
func runUntilKilled(t *testing.T, job string) {
	fields := strings.Split(job, "\n")
	o := quick(compress.Options{Out: fields[1], Overwrite: true})
	o.Observe = func(e compress.Event) {
		if string(e.Stage) == fields[2] && e.Done > 2 {
			os.Stdout.WriteString("in the middle\n")
			select {}
		}
	}
	_, err := compress.Local(context.Background(), fields[0], o)
	t.Fatalf("not killed: %v", err)
}

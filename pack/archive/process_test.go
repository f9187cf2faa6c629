package archive_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/pack/archive"
	"github.com/hfcompress/compress/pack/floatcodec"
	"github.com/hfcompress/compress/tensor"
)

// TestMain runs the test binary as a helper process where the environment says
// so: for tests that kill it, and for measuring its memory.
func TestMain(m *testing.M) {
	if job := os.Getenv("ARCHIVE_TEST_HELPER"); job != "" {
		if err := helper(job); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// helperJob is what a helper process does: Op is pack, unpack or verify.
type helperJob struct {
	Op, Archive, Dir string
	Level            floatcodec.Level
	Overwrite        bool
	// Report prints how many bytes are done, as they are.
	Report bool
	// Room, if not 0, is how long a file may become: what is written beyond fails as
	// it does on a full disk.
	Room uint64
}

func helper(job string) error {
	var j helperJob
	if err := json.Unmarshal([]byte(job), &j); err != nil {
		return err
	}
	if j.Room > 0 {
		if err := limitFiles(j.Room); err != nil {
			return err
		}
	}
	ctx := context.Background()
	report := func(n int64) {
		if j.Report {
			fmt.Println(n)
		}
	}
	if j.Op == "pack" {
		o := archive.PackOptions{Overwrite: j.Overwrite}
		o.Level = j.Level
		o.Progress = func(_ string, done, _ int64) { report(done) }
		_, err := archive.Pack(ctx, j.Archive, []string{j.Dir}, o)
		return err
	}
	r, err := archive.Open(j.Archive, archive.ReadOptions{})
	if err != nil {
		return err
	}
	defer r.Close()
	if j.Op == "verify" {
		_, err = r.Verify(ctx, nil)
		return err
	}
	return r.Unpack(ctx, j.Dir, archive.UnpackOptions{Overwrite: j.Overwrite, Progress: func(_ string, done, _ int64) { report(done) }})
}

func startHelper(t testing.TB, j helperJob) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "ARCHIVE_TEST_HELPER="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// killAt kills a helper (SIGKILL) when it has reported so many bytes, and says
// whether it was still at work.
func killAt(t *testing.T, j helperJob, at int64) {
	t.Helper()
	j.Report = true
	cmd, out := startHelper(t, j)
	for out.Scan() {
		var n int64
		if _, err := fmt.Sscan(out.Text(), &n); err != nil {
			t.Fatal(err)
		}
		if n >= at {
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed, or done before that
}

// Killed at any time, a writer leaves the old archive or the new one, and the
// next writer removes what it left.
func TestKilledPack(t *testing.T) {
	rng := rand.New(rand.NewPCG(61, 1))
	data := f32(rng, 2<<20)
	src := writeTree(t, map[string][]byte{"m.safetensors": safetensors([]part{{name: "w", dtype: tensor.F32, shape: []int{2 << 20}, data: data}}, nil)})
	dir := t.TempDir()
	dest := filepath.Join(dir, "x.hfa")
	fresh := filepath.Join(t.TempDir(), "new.hfa")
	if _, err := archive.Pack(t.Context(), fresh, []string{src}, archive.PackOptions{}); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(fresh)
	if err != nil {
		t.Fatal(err)
	}
	for _, old := range []string{"", "old"} {
		for at := int64(0); at <= 8<<20; at += 1 << 20 {
			os.Remove(dest)
			if old != "" {
				if err := os.WriteFile(dest, []byte(old), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			killAt(t, helperJob{Op: "pack", Archive: dest, Dir: src, Overwrite: true}, at)
			got, err := os.ReadFile(dest)
			if err != nil && (old != "" || !os.IsNotExist(err)) {
				t.Fatal(err)
			}
			if string(got) != old && string(got) != string(want) {
				t.Errorf("killed at %d: neither the old state nor the new, but %d bytes", at, len(got))
			}
		}
	}
	if _, err := archive.Pack(t.Context(), dest, []string{src}, archive.PackOptions{Overwrite: true}); err != nil {
		t.Fatal(err)
	}
	wantNoTemp(t, dir)
}

// Killed while unpacking, a new directory is there whole or not at all.
func TestKilledUnpack(t *testing.T) {
	files := map[string][]byte{}
	rng := rand.New(rand.NewPCG(71, 1))
	for i := range 4 {
		files[fmt.Sprintf("part%d", i)] = random(rng, 2<<20)
	}
	path := filepath.Join(t.TempDir(), "x.hfa")
	if err := os.WriteFile(path, packTree(t, files, archive.Options{}), 0o644); err != nil {
		t.Fatal(err)
	}
	for at := int64(0); at <= 8<<20; at += 1 << 20 {
		dir := filepath.Join(t.TempDir(), "out")
		killAt(t, helperJob{Op: "unpack", Archive: path, Dir: dir}, at)
		if _, err := os.Stat(dir); err != nil {
			if !os.IsNotExist(err) {
				t.Error(err)
			}
			continue
		}
		got := listing(t, dir)
		if len(got) != len(files) {
			t.Errorf("killed at %d: %d of %d files", at, len(got), len(files))
		}
		for name, b := range files {
			if len(got[name]) != len(b)+len("-rw-r-----") {
				t.Errorf("killed at %d: %s has %d bytes", at, name, len(got[name]))
			}
		}
	}
}

// What a killed process left is removed by the next one, and nothing that another
// is still writing.
func TestKilledUnpackIsCleared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.hfa")
	files := map[string][]byte{"a": random(rand.New(rand.NewPCG(72, 1)), 4<<20), "b": {1}}
	if err := os.WriteFile(path, packTree(t, files, archive.Options{}), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, existing := range []bool{false, true} {
		parent := t.TempDir()
		dir := filepath.Join(parent, "out")
		if existing {
			dir = parent
		}
		killAt(t, helperJob{Op: "unpack", Archive: path, Dir: dir, Overwrite: true}, 1<<20)
		foreign := filepath.Join(parent, ".out.keep.tmp")
		if err := os.WriteFile(foreign, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := mustOpen(t, path, archive.ReadOptions{}).Unpack(t.Context(), dir, archive.UnpackOptions{Overwrite: true}); err != nil {
			t.Fatal(err)
		}
		var left []string
		entries, err := os.ReadDir(parent)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			left = append(left, e.Name())
		}
		want := []string{".out.keep.tmp", "out"}
		if existing {
			want = []string{".out.keep.tmp", "a", "b"}
		}
		if canLockDirs && !slices.Equal(left, want) {
			t.Errorf("left %q, want %q", left, want)
		}
	}
}

// A disk that is full: one clear error, and everything as it was.
func TestNoRoom(t *testing.T) {
	if !canLimitFiles {
		t.Log("this system has no limit on the length of files")
		return
	}
	files := map[string][]byte{"a.bin": random(rand.New(rand.NewPCG(73, 1)), 3<<20), "b.bin": {1, 2}}
	src := writeTree(t, files)
	dir := t.TempDir()
	path := filepath.Join(dir, "x.hfa")
	for _, room := range []uint64{1, 1000, 1 << 20, 3 << 20} {
		fails(t, helperJob{Op: "pack", Archive: path, Dir: src, Room: room})
		wantEntries(t, dir)
	}
	if err := os.WriteFile(path, packTree(t, files, archive.Options{}), 0o644); err != nil {
		t.Fatal(err)
	}
	wantEntries(t, dir, "x.hfa")
	for _, room := range []uint64{1, 1 << 20, 3<<20 - 1} {
		fails(t, helperJob{Op: "unpack", Archive: path, Dir: filepath.Join(dir, "out"), Room: room})
		fails(t, helperJob{Op: "unpack", Archive: path, Dir: dir, Room: room})
		wantEntries(t, dir, "x.hfa")
	}
}

// fails runs a helper that must fail with a line that names what happened.
func fails(t *testing.T, j helperJob) {
	t.Helper()
	cmd, _ := startHelper(t, j)
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%+v: %v", j, err)
	}
}

func wantEntries(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s has %q, want %q", dir, got, want)
	}
}

var (
	bigMB    = flag.Int("big", 64, "megabytes of the checkpoint of BenchmarkCheckpoint")
	bigLevel = flag.String("biglevel", "fast", "level of BenchmarkCheckpoint")
	bigDir   = flag.String("bigdir", "", "where BenchmarkCheckpoint puts its files; they are removed")
)

// weights yields n BF16 values drawn from a normal distribution.
type weights struct {
	rng   *rand.PCG
	table []uint16
	left  int64 // bytes
}

func (w *weights) Read(b []byte) (int, error) {
	if w.left == 0 {
		return 0, io.EOF
	}
	b = b[:min(int64(len(b)/8*8), w.left)]
	for i := 0; i < len(b); i += 8 {
		x := w.rng.Uint64()
		y := uint64(w.table[x&0xffff]) | uint64(w.table[x>>16&0xffff])<<16 | uint64(w.table[x>>32&0xffff])<<32 | uint64(w.table[x>>48])<<48
		binary.LittleEndian.PutUint64(b[i:], y)
	}
	w.left -= int64(len(b))
	return len(b), nil
}

// BenchmarkCheckpoint packs, verifies and unpacks a generated checkpoint in
// processes of their own and reports their peak memory. -big gives its size.
func BenchmarkCheckpoint(b *testing.B) {
	dir := *bigDir
	if dir == "" {
		dir = b.TempDir()
	}
	level, err := floatcodec.ParseLevel(*bigLevel)
	if err != nil {
		b.Fatal(err)
	}
	src := filepath.Join(dir, "src")
	if err := os.MkdirAll(src, 0o777); err != nil {
		b.Fatal(err)
	}
	table := make([]uint16, 1<<16)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range table {
		table[i] = uint16(math.Float32bits(float32(rng.NormFloat64()*0.02)) >> 16)
	}
	slices.Sort(table)
	total := int64(*bigMB) * 1_000_000
	var entries []loader.Entry
	for left, i := total, uint64(0); left > 0; i++ {
		rows := min(32_000, (left+8191)/8192)
		entries = append(entries, loader.Entry{Name: fmt.Sprintf("layers.%d.weight", i), DType: tensor.BF16, Shape: tensor.Shape{int(rows), 4096},
			Data: &weights{rand.NewPCG(i, 9), table, rows * 8192}})
		left -= rows * 8192
	}
	if _, err := loader.WriteSharded(src, entries, 5_000_000_000, loader.WriteOptions{Overwrite: true}); err != nil {
		b.Fatal(err)
	}
	path, out := filepath.Join(dir, "x.hfa"), filepath.Join(dir, "out")
	defer func() {
		if err := errors.Join(os.RemoveAll(src), os.RemoveAll(out), os.RemoveAll(path)); err != nil {
			b.Error(err)
		}
	}()
	for _, j := range []helperJob{{Op: "pack", Archive: path, Dir: src, Level: level}, {Op: "verify", Archive: path}, {Op: "unpack", Archive: path, Dir: out}} {
		b.Run(j.Op, func(b *testing.B) {
			b.SetBytes(total)
			for b.Loop() {
				if j.Op == "pack" {
					os.Remove(path)
				} else {
					os.RemoveAll(out)
				}
				cmd, _ := startHelper(b, j)
				if err := cmd.Wait(); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(peakMiB(cmd.ProcessState), "peak-MiB")
			}
			if info, err := os.Stat(path); err == nil {
				b.ReportMetric(100*float64(info.Size())/float64(total), "%size")
			}
		})
	}
	b.Logf("%d MB on %d processors", *bigMB, runtime.GOMAXPROCS(0))
}

package archive_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hfcompress/compress/pack/archive"
)

// listing gives the names below dir with their modes and content.
func listing(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		out[filepath.ToSlash(name)] = info.Mode().Perm().String() + string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func equalTrees(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s differs", name)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s was not there before", name)
		}
	}
}

func mustOpen(t testing.TB, path string, o archive.ReadOptions) *archive.Reader {
	t.Helper()
	r, err := archive.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func TestPackAndUnpack(t *testing.T) {
	src := writeTree(t, sample(rand.New(rand.NewPCG(21, 1))))
	if err := os.Chmod(filepath.Join(src, "noise.bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	want := listing(t, src)
	dir := t.TempDir()
	dest := filepath.Join(dir, "x.hfa")
	stats, err := archive.Pack(t.Context(), dest, []string{src}, archive.PackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if stats.Files != len(want) || stats.Repeated == 0 {
		t.Errorf("%+v", stats)
	}
	r := mustOpen(t, dest, archive.ReadOptions{})
	if r.Digest() != stats.Digest {
		t.Error("digests differ")
	}

	out := filepath.Join(dir, "new", "deep")
	if err := r.Unpack(t.Context(), out, archive.UnpackOptions{}); err != nil {
		t.Fatal(err)
	}
	equalTrees(t, listing(t, out), want)

	// Again: everything exists, nothing changes.
	if err := os.WriteFile(filepath.Join(out, "config.json"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	before := listing(t, out)
	if err := r.Unpack(t.Context(), out, archive.UnpackOptions{}); !errors.Is(err, archive.ErrExists) {
		t.Error(err)
	}
	equalTrees(t, listing(t, out), before)
	if err := r.Unpack(t.Context(), out, archive.UnpackOptions{Overwrite: true, Workers: 1}); err != nil {
		t.Error(err)
	}
	equalTrees(t, listing(t, out), want)

	// Beside other files.
	beside := t.TempDir()
	if err := os.WriteFile(filepath.Join(beside, "other"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.Unpack(t.Context(), beside, archive.UnpackOptions{}); err != nil {
		t.Error(err)
	}
	if n := len(listing(t, beside)); n != len(want)+1 {
		t.Errorf("%d files", n)
	}

	// The last file is in the way: what was made before it goes again.
	blocked := t.TempDir()
	if err := os.Mkdir(filepath.Join(blocked, "onnx"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(blocked, "onnx", "model.onnx"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.Unpack(t.Context(), blocked, archive.UnpackOptions{}); !errors.Is(err, archive.ErrExists) {
		t.Error(err)
	}
	if left := listing(t, blocked); len(left) != 1 {
		t.Errorf("%d files left", len(left))
	}

	ctx, cancel := context.WithCancel(t.Context())
	canceled := filepath.Join(dir, "canceled")
	err = r.Unpack(ctx, canceled, archive.UnpackOptions{Progress: func(string, int64, int64) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("left behind: %v", entries)
	}
}

// A link in the destination must not lead out of it.
func TestUnpackStaysInside(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "onnx")); err != nil {
		t.Fatal(err)
	}
	b := packTree(t, map[string][]byte{"a": []byte("1"), "onnx/b": []byte("2")}, archive.Options{})
	for _, overwrite := range []bool{false, true} {
		if err := open(t, b, archive.ReadOptions{}).Unpack(t.Context(), dir, archive.UnpackOptions{Overwrite: overwrite}); err == nil {
			t.Error("unpacked through a link")
		}
		if left := listing(t, outside); len(left) > 0 {
			t.Errorf("outside: %v", left)
		}
	}
}

func TestPackRefuses(t *testing.T) {
	src := writeTree(t, map[string][]byte{"a.txt": []byte("a"), "sub/b.txt": []byte("b")})
	dir := t.TempDir()
	dest := filepath.Join(dir, "x.hfa")
	pack := func(dest string, o archive.PackOptions, paths ...string) error {
		_, err := archive.Pack(t.Context(), dest, paths, o)
		return err
	}
	if err := pack(dest, archive.PackOptions{}, src); err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(dest)
	if err != nil {
		t.Fatal(err)
	}
	overwrite := archive.PackOptions{Overwrite: true}
	if err := pack(dest, archive.PackOptions{}, src); !errors.Is(err, archive.ErrExists) {
		t.Errorf("existing: %v", err)
	}
	a := filepath.Join(src, "a.txt")
	if err := pack(a, overwrite, src); err == nil {
		t.Error("a source was overwritten")
	}
	hard, soft := filepath.Join(dir, "hard"), filepath.Join(dir, "soft")
	if err := errors.Join(os.Link(a, hard), os.Symlink(a, soft)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{hard, soft} {
		if err := pack(path, overwrite, src); err == nil {
			t.Errorf("%s leads to a source and was overwritten", path)
		}
	}
	if err := pack(filepath.Join(dir, "y.hfa"), archive.PackOptions{}, filepath.Join(src, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := pack(filepath.Join(dir, "none", "y.hfa"), archive.PackOptions{}, src); err == nil {
		t.Error("a directory that is not there")
	}
	if err := pack(filepath.Join(dir, "y.hfa"), archive.PackOptions{}, a, filepath.Join(src, "a.txt")); !errors.Is(err, archive.ErrName) {
		t.Errorf("one file twice: %v", err)
	}
	base := mustOpen(t, dest, archive.ReadOptions{})
	if err := pack(dest, archive.PackOptions{Options: archive.Options{Base: base}, Overwrite: true}, src); err == nil {
		t.Error("the base was overwritten")
	}
	between := filepath.Join(dir, "between.hfa")
	if err := pack(between, archive.PackOptions{Options: archive.Options{Base: base}}, src); err != nil {
		t.Fatal(err)
	}
	second := mustOpen(t, between, archive.ReadOptions{Base: base})
	if _, ok := second.Base(); !ok {
		t.Fatal("the second archive needs no base")
	}
	if err := pack(dest, archive.PackOptions{Options: archive.Options{Base: second}, Overwrite: true}, src); err == nil {
		t.Error("the base of the base was overwritten")
	}
	if now, _ := os.ReadFile(dest); !bytes.Equal(now, old) {
		t.Error("a refused destination changed")
	}
	// A link to an unrelated file is replaced, its target is not.
	other := filepath.Join(dir, "other")
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(other, []byte("keep"), 0o644), os.Symlink(other, link)); err != nil {
		t.Fatal(err)
	}
	if err := pack(link, overwrite, src); err != nil {
		t.Error(err)
	}
	if b, _ := os.ReadFile(other); string(b) != "keep" {
		t.Error("the target of a link was overwritten")
	}
	mustOpen(t, link, archive.ReadOptions{})
	wantNoTemp(t, dir)
}

func wantNoTemp(t *testing.T, dir string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, ".*.tmp"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestSpecialFilesAreNamed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no such files on Windows")
	}
	for name, make := range map[string]func(path string) error{
		"pipe": func(path string) error { return exec.Command("mkfifo", path).Run() },
		"socket": func(path string) error {
			l, err := net.Listen("unix", path)
			t.Cleanup(func() { l.Close() })
			return err
		},
		"link":   func(path string) error { return os.Symlink("/etc/passwd", path) },
		"inner":  func(path string) error { return os.Symlink("a.txt", path) },
		"dangle": func(path string) error { return os.Symlink("nothing", path) },
		"dir":    func(path string) error { return os.Symlink(".", path) },
	} {
		src := writeTree(t, map[string][]byte{"a.txt": []byte("a")})
		path := filepath.Join(src, name)
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Sources(src); !errors.Is(err, archive.ErrNotRegular) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The Hub's cache: files of a snapshot are links to blobs.
// A rename would put an ordinary file in place of /dev/null.
func TestSpecialFilesAreNotReplaced(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no such files on Windows")
	}
	src := writeTree(t, map[string][]byte{"a.txt": []byte("a"), "b.txt": []byte("b")})
	dir := t.TempDir()
	arc := filepath.Join(dir, "x.hfa")
	if _, err := archive.Pack(t.Context(), arc, []string{src}, archive.PackOptions{}); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "b.txt")
	if err := exec.Command("mkfifo", pipe).Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Pack(t.Context(), pipe, []string{src}, archive.PackOptions{Overwrite: true}); !errors.Is(err, archive.ErrNotRegular) {
		t.Errorf("pack: %v", err)
	}
	err := mustOpen(t, arc, archive.ReadOptions{}).Unpack(t.Context(), dir, archive.UnpackOptions{Overwrite: true})
	if !errors.Is(err, archive.ErrExists) || !strings.Contains(err.Error(), pipe) {
		t.Errorf("unpack: %v", err)
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		t.Errorf("the pipe was replaced: %v, %v", info, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "a.txt")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was written all the same: %v", err)
	}
	wantNoTemp(t, dir)
}

func TestHubSnapshot(t *testing.T) {
	repo := filepath.Join(t.TempDir(), "models--org--name")
	snapshot := filepath.Join(repo, "snapshots", strings.Repeat("0a", 20))
	blobs := filepath.Join(repo, "blobs")
	outside := filepath.Join(filepath.Dir(repo), "secret")
	err := errors.Join(os.MkdirAll(filepath.Join(snapshot, "sub"), 0o777), os.MkdirAll(blobs, 0o777),
		os.WriteFile(filepath.Join(blobs, "b1"), []byte("one"), 0o644), os.WriteFile(filepath.Join(blobs, "b2"), []byte("two"), 0o644),
		os.WriteFile(outside, []byte("secret"), 0o644),
		os.Symlink("../../blobs/b1", filepath.Join(snapshot, "config.json")),
		os.Symlink("../../../blobs/b2", filepath.Join(snapshot, "sub", "model.bin")))
	if err != nil {
		t.Fatal(err)
	}
	dest := filepath.Join(t.TempDir(), "x.hfa")
	if _, err := archive.Pack(t.Context(), dest, []string{snapshot}, archive.PackOptions{}); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, mustOpen(t, dest, archive.ReadOptions{}), map[string][]byte{"config.json": []byte("one"), "sub/model.bin": []byte("two")})
	if err := os.Symlink(outside, filepath.Join(snapshot, "leak")); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Sources(snapshot); !errors.Is(err, archive.ErrNotRegular) {
		t.Error(err)
	}
}

// Several sources are named by their last elements.
func TestSourceNames(t *testing.T) {
	src := writeTree(t, map[string][]byte{"m/a": nil, "m/b/c": nil, "d": nil})
	got, err := archive.Sources(filepath.Join(src, "m"), filepath.Join(src, "d"))
	if err != nil {
		t.Fatal(err)
	}
	names := ""
	for _, s := range got {
		names += s.Name + " "
	}
	if names != "d m/a m/b/c " {
		t.Error(names)
	}
}

// growing changes its file after the first reads.
type growing struct {
	*os.File
	reads int
}

func (g *growing) ReadAt(b []byte, off int64) (int, error) {
	if g.reads++; g.reads == 3 {
		if err := g.Truncate(10); err != nil {
			return 0, err
		}
	}
	return g.File.ReadAt(b, off)
}

func TestSourceChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, random(rand.New(rand.NewPCG(1, 1)), 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := archive.NewWriter(io.Discard, archive.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.AddFile(t.Context(), "x", 0o644, &growing{File: f}, 1<<20); !errors.Is(err, archive.ErrChanged) {
		t.Error(err)
	}
	if err := w.Close(); !errors.Is(err, archive.ErrChanged) {
		t.Error(err)
	}

	// Touched while it is packed.
	for name, touch := range map[string]func(path string) error{
		"time": func(p string) error { return os.Chtimes(p, time.Time{}, time.Unix(1, 0)) },
		"size": func(p string) error {
			f, err := os.OpenFile(p, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString("more")
			return errors.Join(err, f.Close())
		},
		"file": func(p string) error {
			if err := os.WriteFile(p+".new", make([]byte, 100), 0o644); err != nil {
				return err
			}
			return os.Rename(p+".new", p)
		},
		"gone": os.Remove,
	} {
		src := writeTree(t, map[string][]byte{"x": make([]byte, 100)})
		dir := t.TempDir()
		o := archive.PackOptions{}
		o.Progress = func(string, int64, int64) {
			if err := touch(filepath.Join(src, "x")); err != nil {
				t.Error(err)
			}
		}
		if _, err := archive.Pack(t.Context(), filepath.Join(dir, "x.hfa"), []string{src}, o); !errors.Is(err, archive.ErrChanged) {
			t.Errorf("%s: %v", name, err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: left behind %v", name, left)
		}
	}
}

// Somebody else takes the name while an archive is made.
func TestRacingWriterWins(t *testing.T) {
	src := writeTree(t, map[string][]byte{"x": make([]byte, 100)})
	dir := t.TempDir()
	dest := filepath.Join(dir, "x.hfa")
	o := archive.PackOptions{}
	o.Progress = func(string, int64, int64) {
		if err := os.WriteFile(dest, []byte("first"), 0o644); err != nil {
			t.Error(err)
		}
	}
	if _, err := archive.Pack(t.Context(), dest, []string{src}, o); !errors.Is(err, archive.ErrExists) {
		t.Error(err)
	}
	if b, _ := os.ReadFile(dest); string(b) != "first" {
		t.Error("the other writer's file was replaced")
	}
	wantNoTemp(t, dir)
}

// full fails like a disk that is full.
type full struct{ room int }

var errFull = errors.New("no space left")

func (f *full) Write(b []byte) (int, error) {
	if f.room -= len(b); f.room < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestWriteErrors(t *testing.T) {
	files := sample(rand.New(rand.NewPCG(31, 1)))
	size := len(packTree(t, files, archive.Options{}))
	for _, room := range []int{0, 16, 1000, size / 2, size - 100, size - 1} {
		w, err := archive.NewWriter(&full{room}, archive.Options{})
		if err != nil {
			if room > 16 || !errors.Is(err, errFull) {
				t.Error(err)
			}
			continue
		}
		// As packTree does, so that the archive would have the same size.
		for _, name := range slices.Sorted(mapKeys(files)) {
			data := files[name]
			if err := w.AddFile(t.Context(), name, 0o640, bytes.NewReader(data), int64(len(data))); err != nil {
				if !errors.Is(err, errFull) {
					t.Error(err)
				}
				break
			}
		}
		if err := w.Close(); !errors.Is(err, errFull) {
			t.Errorf("room for %d bytes: %v", room, err)
		}
	}
}

func TestCanceledPack(t *testing.T) {
	src := writeTree(t, sample(rand.New(rand.NewPCG(41, 1))))
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	o := archive.PackOptions{}
	o.Progress = func(string, int64, int64) { cancel() }
	if _, err := archive.Pack(ctx, filepath.Join(dir, "x.hfa"), []string{src}, o); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind %v", left)
	}
}

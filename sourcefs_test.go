package compress_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/hub/hubtest"
	"github.com/hfcompress/compress/internal/demomodel"
	"github.com/hfcompress/compress/pack/archive"
)

// packed makes an archive of a directory.
func packed(t testing.TB, dir string, o archive.Options) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.hfa")
	if _, err := archive.Pack(context.Background(), path, []string{dir}, archive.PackOptions{Options: o}); err != nil {
		t.Fatal(err)
	}
	return path
}

// allFiles reads every file below a directory.
func allFiles(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		out[filepath.ToSlash(name)] = read(t, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// An archive gives the package that its files give, to the byte, and can be
// inspected and compared with like a directory.
func TestArchiveAsSource(t *testing.T) {
	ctx := context.Background()
	for _, revision := range []string{demomodel.RevisionMain, demomodel.RevisionSharded} {
		t.Run(revision, func(t *testing.T) {
			dir := t.TempDir()
			for name, data := range demoFiles(t, revision) {
				write(t, filepath.Join(dir, name), data)
			}
			path := packed(t, dir, archive.Options{})
			out := t.TempDir()
			for name, source := range map[string]string{"dir": dir, "archive": path} {
				r, err := compress.Local(ctx, source, quick(compress.Options{Out: filepath.Join(out, name)}))
				if err != nil {
					t.Fatal(err)
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}
			want, got := allFiles(t, filepath.Join(out, "dir")), allFiles(t, filepath.Join(out, "archive"))
			if want["weights.bin"] == nil || want["files/tokenizer.json"] == nil {
				t.Errorf("the package has no weights or no companions")
			}
			for name := range want {
				if !bytes.Equal(want[name], got[name]) {
					t.Errorf("%s differs", name)
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d files, expected %d", len(got), len(want))
			}

			a, err := compress.InspectLocal(dir, compress.Options{})
			if err != nil {
				t.Fatal(err)
			}
			b, err := compress.InspectLocal(path, compress.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if a.Problem != "" || b.Path != path {
				t.Errorf("problem %q, path %s", a.Problem, b.Path)
			}
			if b.Path = a.Path; !reflect.DeepEqual(a, b) {
				t.Errorf("%+v\nexpected %+v", b, a)
			}
			report, err := compress.Verify(ctx, filepath.Join(out, "archive"), compress.VerifyOptions{AgainstDir: path})
			if err != nil || !report.Verified || !report.Against.Bitwise {
				t.Errorf("verify against the archive: %+v, %v", report, err)
			}
		})
	}
}

// Archives that cannot be a source are refused by name, and nothing is left.
func TestBadArchiveAsSource(t *testing.T) {
	without := func(name string) string {
		return packed(t, demoDir(t, func(f hubtest.Files) { delete(f, name) }), archive.Options{})
	}
	good := packed(t, demoDir(t, nil), archive.Options{})
	changed := func(change func([]byte) []byte) string {
		path := filepath.Join(t.TempDir(), "model.hfa")
		write(t, path, change(read(t, good)))
		return path
	}
	base, err := archive.Open(good, archive.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	for _, c := range []struct {
		name, path string
		is         error
		says       []string
	}{
		{"no config", without("config.json"), os.ErrNotExist, []string{"config.json", "model.hfa"}},
		{"no weights", without("model.safetensors"), nil, []string{"no safetensors file", "model.hfa"}},
		{"cut", changed(func(b []byte) []byte { return b[:len(b)/2] }), archive.ErrCorrupt, []string{"model.hfa"}},
		{"altered", changed(func(b []byte) []byte { b[len(b)/2] ^= 1; return b }), archive.ErrCorrupt, []string{"model.hfa", "tensor"}},
		{"another format", changed(func(b []byte) []byte { return []byte("PK\x03\x04 and so on, long enough for a header") }), archive.ErrFormat, []string{"model.hfa", "neither a directory nor an archive"}},
		{"against a base", packed(t, demoDir(t, nil), archive.Options{Base: base}), archive.ErrBase, []string{"model.hfa", "unpacked first"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			parent := t.TempDir()
			_, err := compress.Local(context.Background(), c.path, quick(compress.Options{Out: filepath.Join(parent, "out")}))
			if err == nil || c.is != nil && !errors.Is(err, c.is) {
				t.Fatalf("%v is not %v", err, c.is)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("the error does not say %q: %v", s, err)
				}
			}
			if entries, _ := os.ReadDir(parent); len(entries) != 0 {
				t.Errorf("left behind: %v", entries)
			}
		})
	}
}

package loader_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// shardedFS is a sharded checkpoint in memory, whose files can be read anywhere.
func shardedFS(t *testing.T) fs.FS {
	t.Helper()
	dir := t.TempDir()
	var entries []loader.Entry
	for _, name := range []string{"a", "b", "c"} {
		x, err := tensor.FromFloat32s([]float32{1, 2, float32(len(name))}, 3)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, loader.Entry{Name: name, Tensor: x})
	}
	if _, err := loader.WriteSharded(dir, entries, 12, loader.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	out := fstest.MapFS{}
	if err := fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := fs.ReadFile(os.DirFS(dir), path)
		out["sub/"+path] = &fstest.MapFile{Data: b}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestOpenFS(t *testing.T) {
	fsys := shardedFS(t)
	for _, name := range []string{"sub", "sub/model.safetensors.index.json"} {
		c, err := loader.OpenFS(fsys, name, loader.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(c.Names(), " "); got != "a b c" || c.Path() != "sub/model.safetensors.index.json" {
			t.Errorf("%s has %s", c.Path(), got)
		}
		x, err := c.Tensor("b")
		if err != nil {
			t.Fatal(err)
		}
		if x.Float32s()[1] != 2 {
			t.Error(x.Float32s())
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := loader.OpenFS(fsys, ".", loader.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// closing is a container that remembers that it was closed.
type closing struct {
	fs.FS
	closed int
}

func (c *closing) Close() error { c.closed++; return nil }

func TestContainers(t *testing.T) {
	inner, err := fs.Sub(shardedFS(t), "sub")
	if err != nil {
		t.Fatal(err)
	}
	box := &closing{FS: inner}
	loader.RegisterContainer("TESTBOX1", func(string) (loader.Container, error) { return box, nil })
	path := t.TempDir() + "/box"
	if err := os.WriteFile(path, bytes.Repeat([]byte("TESTBOX1"), 2), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := loader.Open(path, loader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Path() != path+":model.safetensors.index.json" || len(c.Names()) != 3 {
		t.Error(c.Path(), c.Names())
	}
	if err := c.Close(); err != nil || box.closed != 1 {
		t.Error(err, box.closed)
	}
	// What it does not hold is an error, and it is closed.
	if _, err := loader.Open(path, loader.Options{File: "none.safetensors"}); !errors.Is(err, fs.ErrNotExist) || box.closed != 2 {
		t.Error(err, box.closed)
	}
	defer func() {
		if recover() == nil {
			t.Error("registered twice")
		}
	}()
	loader.RegisterContainer("TESTBOX1", nil)
}

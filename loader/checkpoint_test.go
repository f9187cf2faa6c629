package loader_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func put(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
		t.Fatal(err)
	}
}

// shards writes a.weight and b to one shard, c to another, and the index.
func shards(t *testing.T) (dir string, tensors map[string]*tensor.Tensor) {
	t.Helper()
	dir = t.TempDir()
	tensors = map[string]*tensor.Tensor{
		"a.weight": must(tensor.FromFloat32s([]float32{1, 2, 3, 4}, 2, 2)),
		"b":        must(tensor.FromInt64s([]int64{-1}, 1)),
		"c":        must(tensor.FromBytes(tensor.BF16, tensor.Shape{3}, []byte{1, 2, 3, 4, 5, 6})),
	}
	var entries []loader.Entry
	for _, name := range []string{"a.weight", "b", "c"} {
		entries = append(entries, loader.Entry{Name: name, Tensor: tensors[name]})
	}
	names, err := loader.WriteSharded(dir, entries, 24, loader.WriteOptions{})
	if err != nil || len(names) != 3 {
		t.Fatal(names, err)
	}
	return dir, tensors
}

const (
	indexName = "model.safetensors.index.json"
	shard1    = "model-00001-of-00002.safetensors"
	shard2    = "model-00002-of-00002.safetensors"
)

func TestOpenSharded(t *testing.T) {
	dir, tensors := shards(t)
	// As in the Hub's cache: a folder of links to blobs elsewhere.
	links := t.TempDir()
	for _, name := range []string{indexName, shard1, shard2} {
		if err := os.Symlink(filepath.Join(dir, name), filepath.Join(links, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{dir, links, filepath.Join(dir, indexName)} {
		for _, noMap := range []bool{false, true} {
			c, err := loader.Open(path, loader.Options{NoMap: noMap})
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(c.Names()); got != "[a.weight b c]" {
				t.Errorf("names %s", got)
			}
			if c.TotalBytes() != 30 || c.Index().TotalSize != 30 || len(c.Files()) != 2 || c.FileOf("c") != shard2 || c.FileOf("d") != "" {
				t.Errorf("%d bytes, index %+v, files %+v", c.TotalBytes(), c.Index(), c.Files())
			}
			for _, f := range c.Files() {
				if info, err := os.Stat(f.Path); err != nil || info.Size() != f.Size || f.Size != f.Header.FileBytes() {
					t.Errorf("file %+v: %v", f, err)
				}
			}
			for name, want := range tensors {
				got, err := c.Tensor(name)
				if err != nil || !tensor.BitEqual(got, want) {
					t.Errorf("%s is %v, %v", name, got, err)
				}
				r, err := c.Reader(name)
				if err != nil {
					t.Fatal(err)
				}
				raw, err := io.ReadAll(r)
				if err != nil || !bytes.Equal(raw, want.Bytes()) {
					t.Errorf("%s streams as %x, %v", name, raw, err)
				}
				info, err := c.Info(name)
				if err != nil || info.DType != want.DType() || !info.Shape.Equal(want.Shape()) || info.Bytes() != r.Size() {
					t.Errorf("%s: %+v, %v", name, info, err)
				}
			}
			if err := errors.Join(c.Close(), c.Close()); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestIndexAndShardsMustAgree(t *testing.T) {
	for _, c := range []struct {
		name, index string
		says        []string
	}{
		{"tensor that no shard has", `"a.weight":"1","b":"1","c":"2","d":"2"`, []string{`tensor "d" is not in ` + shard2}},
		{"tensor that is not listed", `"a.weight":"1","c":"2"`, []string{`tensor "b" is in ` + shard1 + ", the index does not list it"}},
		{"tensor in the other shard", `"a.weight":"1","b":"2","c":"2"`, []string{
			`tensor "b" is in ` + shard1 + ", the index places it in " + shard2,
			`tensor "b" is not in ` + shard2 + ", where the index places it"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, _ := shards(t)
			text := strings.NewReplacer(`"1"`, `"`+shard1+`"`, `"2"`, `"`+shard2+`"`).Replace(`{"weight_map":{` + c.index + `}}`)
			put(t, dir, indexName, []byte(text))
			_, err := loader.Open(dir, loader.Options{})
			var e *loader.IndexError
			if !errors.As(err, &e) || !strings.Contains(err.Error(), indexName) || len(e.Problems) != len(c.says) {
				t.Fatalf("%v", err)
			}
			for i, says := range c.says {
				if !strings.Contains(e.Problems[i], says) {
					t.Errorf("problem %q does not say %q", e.Problems[i], says)
				}
			}
		})
	}
}

func TestTensorInTwoShards(t *testing.T) {
	dir, _ := shards(t)
	x := must(tensor.FromBytes(tensor.U8, tensor.Shape{1}, []byte{1}))
	if err := loader.WriteFile(filepath.Join(dir, shard2), []loader.Entry{{Name: "c", Tensor: x}, {Name: "b", Tensor: x}}, loader.WriteOptions{Overwrite: true}); err != nil {
		t.Fatal(err)
	}
	_, err := loader.Open(dir, loader.Options{})
	if err == nil || !strings.Contains(err.Error(), `tensor "b" is in `+shard2+", the index places it in "+shard1) {
		t.Error(err)
	}
}

func TestMissingShard(t *testing.T) {
	dir, _ := shards(t)
	if err := os.Remove(filepath.Join(dir, shard1)); err != nil {
		t.Fatal(err)
	}
	_, err := loader.Open(dir, loader.Options{})
	var e *loader.MissingShardError
	if !errors.As(err, &e) || !errors.Is(err, fs.ErrNotExist) || e.Shard != shard1 || e.Tensors != 2 ||
		!strings.HasSuffix(err.Error(), indexName+`: missing shard "`+shard1+`", which should hold 2 tensors`) {
		t.Errorf("%v", err)
	}
}

func TestTruncatedShardIsNamed(t *testing.T) {
	dir, _ := shards(t)
	path := filepath.Join(dir, shard1)
	info := must(os.Stat(path))
	if err := os.Truncate(path, info.Size()-1); err != nil {
		t.Fatal(err)
	}
	_, err := loader.Open(dir, loader.Options{})
	var e *loader.TruncatedError
	if !errors.As(err, &e) || e.File != path || e.Tensor != "b" || e.Expected != info.Size() || e.Found != info.Size()-1 {
		t.Errorf("%v", err)
	}
}

func TestTruncatedAfterOpen(t *testing.T) {
	for _, noMap := range []bool{false, true} {
		dir, _ := shards(t)
		c, err := loader.Open(dir, loader.Options{NoMap: noMap})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Tensor("b"); err != nil { // mapped at full length
			t.Fatal(err)
		}
		path := filepath.Join(dir, shard1)
		if err := os.Truncate(path, c.Files()[0].Size-4); err != nil {
			t.Fatal(err)
		}
		var e *loader.TruncatedError
		if _, err := c.Tensor("b"); !errors.As(err, &e) || e.File != path || e.Tensor != "b" {
			t.Errorf("%v", err)
		}
		if _, err := c.Tensor("a.weight"); err != nil {
			t.Errorf("a tensor that is whole: %v", err)
		}
		r, err := c.Reader("b")
		if err != nil {
			t.Fatal(err)
		}
		if raw, err := io.ReadAll(r); !errors.As(err, &e) || len(raw) != 4 {
			t.Errorf("the stream gives %d bytes and %v", len(raw), err)
		}
	}
}

func TestDirectories(t *testing.T) {
	one := file(`{`+record("a", "U8", "[1]", 0, 1)+`}`, 1)
	for _, c := range []struct {
		name  string
		files []string
		file  string
		want  string // the file opened
		says  string
	}{
		{"one file of any name", []string{"weights.safetensors", "config.json", "README.md"}, "", "weights.safetensors", ""},
		{"no file", []string{"config.json"}, "", "", "no .safetensors file"},
		{"two files", []string{"b.safetensors", "a.safetensors"}, "", "", "2 checkpoints, choose one by file name: a.safetensors, b.safetensors"},
		{"two files and a choice", []string{"b.safetensors", "a.safetensors"}, "b.safetensors", "b.safetensors", ""},
		{"a choice that is not there", []string{"a.safetensors"}, "b.safetensors", "", "b.safetensors"},
		{"a choice outside", []string{"a.safetensors"}, "../a.safetensors", "", "outside the directory"},
		{"an unfinished write", []string{"a.safetensors", ".a.safetensors.X.tmp", ".hidden.safetensors"}, "", "a.safetensors", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range c.files {
				put(t, dir, name, one)
			}
			got, err := loader.Open(dir, loader.Options{File: c.file})
			if c.want == "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer got.Close()
			if got.Path() != filepath.Join(dir, c.want) {
				t.Errorf("opened %s", got.Path())
			}
		})
	}
}

func TestShardsAreNoCandidates(t *testing.T) {
	dir, _ := shards(t)
	put(t, dir, "other.safetensors", file(`{}`, 0))
	_, err := loader.Open(dir, loader.Options{})
	var e *loader.ChoiceError
	if !errors.As(err, &e) || fmt.Sprint(e.Candidates) != "[model.safetensors.index.json other.safetensors]" {
		t.Errorf("%v", err)
	}
	for _, name := range []string{indexName, "other.safetensors", shard1} {
		c, err := loader.Open(dir, loader.Options{File: name})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c.Close()
	}
}

func TestOpenFaults(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "bad.safetensors", file(`{`+record("w", "F31", "[1]", 0, 4)+`}`, 4))
	path := filepath.Join(dir, "bad.safetensors")
	_, err := loader.Open(path, loader.Options{})
	var he *loader.HeaderError
	if !errors.As(err, &he) || he.File != path || he.Tensor != "w" || !errors.Is(err, tensor.ErrDType) {
		t.Errorf("%v", err)
	}
	c, err := loader.Open(path, loader.Options{Limits: loader.Limits{OpaqueDTypes: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Tensor("w"); !errors.Is(err, tensor.ErrDType) || !strings.Contains(err.Error(), `"F31"`) {
		t.Errorf("opaque tensor: %v", err)
	}
	r, err := c.Reader("w")
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := io.ReadAll(r); err != nil || len(raw) != 4 {
		t.Errorf("opaque bytes: %x, %v", raw, err)
	}
	if _, err := c.Tensor("nothing"); !errors.Is(err, loader.ErrNoTensor) {
		t.Errorf("%v", err)
	}
	if _, err := c.Info("nothing"); !errors.Is(err, loader.ErrNoTensor) {
		t.Errorf("%v", err)
	}
	if _, err := c.Reader("nothing"); !errors.Is(err, loader.ErrNoTensor) {
		t.Errorf("%v", err)
	}
	if _, err := loader.Open(filepath.Join(dir, "none"), loader.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"dir.safetensors", "dir.safetensors.index.json"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
		if _, err := loader.Open(dir, loader.Options{File: name}); err == nil || !strings.Contains(err.Error(), name+": expected a regular file, found one of mode d") {
			t.Errorf("%v", err)
		}
	}
	if _, err := loader.Open(path, loader.Options{File: "x"}); err == nil {
		t.Error("a choice within a file was accepted")
	}
}

func TestClosed(t *testing.T) {
	dir, _ := shards(t)
	c, err := loader.Open(dir, loader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Reader("b")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Tensor("b"); !errors.Is(err, loader.ErrClosed) {
		t.Errorf("%v", err)
	}
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, loader.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// A tensor whose bytes lie askew is copied: typed views need alignment.
func TestMisaligned(t *testing.T) {
	dir := t.TempDir()
	// One byte before the F32 tensor.
	put(t, dir, "x.safetensors", file(`{`+record("u", "U8", "[1]", 0, 1)+`,`+record("f", "F32", "[2]", 1, 9)+`}`, 9))
	c, err := loader.Open(dir, loader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	x, err := c.Tensor("f")
	if err != nil {
		t.Fatal(err)
	}
	if uintptr(unsafe.Pointer(&x.Bytes()[0]))%4 != 0 || !bytes.Equal(x.Bytes(), []byte{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("bytes %x at %p", x.Bytes(), &x.Bytes()[0])
	}
}

func TestConcurrentUse(t *testing.T) {
	dir, tensors := shards(t)
	for range 20 {
		c, err := loader.Open(dir, loader.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for name, want := range tensors {
					if i == 0 { // the one that closes reads nothing mapped
						continue
					}
					r, err := c.Reader(name)
					if err != nil {
						t.Error(err)
						continue
					}
					raw, err := io.ReadAll(r)
					if err != nil && !errors.Is(err, loader.ErrClosed) || err == nil && !bytes.Equal(raw, want.Bytes()) {
						t.Errorf("%s: %x, %v", name, raw, err)
					}
					if _, err := c.Tensor(name); err != nil && !errors.Is(err, loader.ErrClosed) {
						t.Error(err)
					}
				}
				if i == 0 {
					if err := c.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}
}

// Scalars and tensors without elements have no bytes to map.
func TestEmptyTensors(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "x.safetensors", file(`{`+record("e", "F32", "[0,3]", 0, 0)+`}`, 0))
	for _, noMap := range []bool{false, true} {
		c, err := loader.Open(dir, loader.Options{NoMap: noMap})
		if err != nil {
			t.Fatal(err)
		}
		x, err := c.Tensor("e")
		if err != nil || x.Len() != 0 || x.Shape().String() != "[0,3]" {
			t.Errorf("%v, %v", x, err)
		}
		c.Close()
	}
}

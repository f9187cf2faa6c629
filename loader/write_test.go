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
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

func TestWriteRefuses(t *testing.T) {
	one := tensor.Shape{1}
	x := f32s(one, 1)
	stream := func(n int) io.Reader { return bytes.NewReader(make([]byte, n)) }
	broken := errors.New("broken pipe")
	for _, c := range []struct {
		name    string
		entries []loader.Entry
		o       loader.WriteOptions
		kind    error
		says    string
	}{
		{"two of a name", []loader.Entry{{Name: "a", Tensor: x}, {Name: "a", Tensor: x}}, loader.WriteOptions{}, nil, "duplicate name"},
		{"reserved name", []loader.Entry{{Name: "__metadata__", Tensor: x}}, loader.WriteOptions{}, nil, "not __metadata__"},
		{"name of bytes", []loader.Entry{{Name: "\xff", Tensor: x}}, loader.WriteOptions{}, nil, "valid UTF-8"},
		{"metadata of bytes", nil, loader.WriteOptions{Metadata: map[string]string{"k": "\xff"}}, nil, "valid UTF-8"},
		{"no dtype", []loader.Entry{{Name: "a", Shape: one, Data: stream(4)}}, loader.WriteOptions{}, tensor.ErrDType, `tensor "a"`},
		{"bad shape", []loader.Entry{{Name: "a", DType: tensor.F4, Shape: one, Data: stream(1)}}, loader.WriteOptions{}, tensor.ErrShape, `tensor "a"`},
		{"no data", []loader.Entry{{Name: "a", DType: tensor.F32, Shape: one}}, loader.WriteOptions{}, nil, "neither Tensor nor Data"},
		{"stream too short", []loader.Entry{{Name: "a", DType: tensor.F32, Shape: one, Data: stream(3)}}, loader.WriteOptions{}, nil, `tensor "a": data of another length than declared: expected 4 bytes, found 3`},
		{"stream too long", []loader.Entry{{Name: "a", DType: tensor.F32, Shape: one, Data: stream(5)}}, loader.WriteOptions{}, nil, "expected 4 bytes, found more"},
		{"stream too long for nothing", []loader.Entry{{Name: "a", DType: tensor.F32, Shape: tensor.Shape{0}, Data: stream(1)}}, loader.WriteOptions{}, nil, "expected 0 bytes, found more"},
		{"stream that fails", []loader.Entry{{Name: "a", DType: tensor.F32, Shape: one, Data: iotest.ErrReader(broken)}}, loader.WriteOptions{}, broken, `tensor "a"`},
		{"stream that fails at its end", []loader.Entry{{Name: "a", DType: tensor.F32, Shape: one, Data: io.MultiReader(stream(4), iotest.ErrReader(broken))}}, loader.WriteOptions{}, broken, `tensor "a"`},
		{"rank above what readers take", []loader.Entry{{Name: "a", Tensor: must(tensor.New(tensor.U8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1))}}, loader.WriteOptions{}, loader.ErrLimit, "rank"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "x.safetensors")
		err := loader.WriteFile(path, c.entries, c.o)
		if err == nil || c.kind != nil && !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
		if left := must(os.ReadDir(dir)); len(left) > 0 {
			t.Errorf("%s: %v is left behind", c.name, left)
		}
		if len(c.entries) > 0 && c.entries[0].Data != nil {
			continue // read already
		}
		if _, err := loader.WriteSharded(dir, c.entries, 1, c.o); err == nil {
			t.Errorf("%s: accepted as shards", c.name)
		}
	}
}

// A writer that fails at any byte gives an error, and the count is what it took.
func TestWriteToAFailingWriter(t *testing.T) {
	entries := []loader.Entry{{Name: "a", Tensor: f32s(tensor.Shape{2}, 1, 2)}, {Name: "b", Tensor: f32s(tensor.Shape{}, 3)}}
	var whole bytes.Buffer
	if _, err := loader.Write(&whole, entries, loader.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	for room := range whole.Len() {
		w := &fullWriter{room: room}
		n, err := loader.Write(w, entries, loader.WriteOptions{})
		if !errors.Is(err, errFull) || n != int64(room) {
			t.Fatalf("room for %d: %d written, %v", room, n, err)
		}
	}
}

var errFull = errors.New("no space left")

type fullWriter struct{ room int }

func (w *fullWriter) Write(p []byte) (int, error) {
	if len(p) > w.room {
		n := w.room
		w.room = 0
		return n, errFull
	}
	w.room -= len(p)
	return len(p), nil
}

func TestStreamsAndTensorsGiveTheSameBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := drawTensors(t, allDTypes)
		var streams []loader.Entry
		for _, e := range entries {
			streams = append(streams, loader.Entry{Name: e.Name, DType: e.Tensor.DType(), Shape: e.Tensor.Shape(),
				Data: iotest.OneByteReader(bytes.NewReader(e.Tensor.Bytes()))})
		}
		var a, b bytes.Buffer
		if _, err := loader.Write(&a, entries, loader.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := loader.Write(&b, streams, loader.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Error("the bytes differ")
		}
	})
}

func TestWriteFileRefusesToReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.safetensors")
	put(t, dir, "x.safetensors", []byte("precious"))
	entries := []loader.Entry{{Name: "a", Tensor: f32s(tensor.Shape{1}, 1)}}
	if err := loader.WriteFile(path, entries, loader.WriteOptions{}); !errors.Is(err, loader.ErrExists) || !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v", err)
	}
	if got := must(os.ReadFile(path)); string(got) != "precious" {
		t.Errorf("the file is now %q", got)
	}
	if err := loader.WriteFile(path, entries, loader.WriteOptions{Overwrite: true}); err != nil {
		t.Error(err)
	}
	c, err := loader.Open(path, loader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	// Replacing fails without harm too.
	entries[0].Tensor, entries[0].DType, entries[0].Shape, entries[0].Data = nil, tensor.F32, tensor.Shape{1}, iotest.ErrReader(io.ErrClosedPipe)
	before := must(os.ReadFile(path))
	if err := loader.WriteFile(path, entries, loader.WriteOptions{Overwrite: true}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v", err)
	}
	if !bytes.Equal(before, must(os.ReadFile(path))) || len(must(os.ReadDir(dir))) != 1 {
		t.Error("a failed write changed the directory")
	}
}

// A file that appears while another is being written is not replaced.
func TestWriteFileLosesARace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.safetensors")
	err := loader.WriteFile(path, []loader.Entry{{Name: "a", DType: tensor.U8, Shape: tensor.Shape{1},
		Data: io.MultiReader(strings.NewReader("a"), readerFunc(func([]byte) (int, error) {
			put(t, dir, "x.safetensors", []byte("other"))
			return 0, io.EOF
		}))}}, loader.WriteOptions{})
	if !errors.Is(err, loader.ErrExists) || string(must(os.ReadFile(path))) != "other" || len(must(os.ReadDir(dir))) != 1 {
		t.Errorf("%v", err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestWriteVerbatimChecksTheHeader(t *testing.T) {
	_, err := loader.WriteVerbatim(io.Discard, []byte(`{`+record("a", "U8", "[1]", 1, 2)+`}`), nil)
	var he *loader.HeaderError
	if !errors.As(err, &he) {
		t.Errorf("%v", err)
	}
}

// Headers that no writer of ours would make are kept to the byte.
func TestWriteVerbatimFile(t *testing.T) {
	header := " \n" + `,"b":{"data_offsets":[1,3],"shape":[2],"dtype":"F31"}` + "}\t "
	header = `{ "\u0061":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}` + header
	original := file(header, 3)
	path := filepath.Join(t.TempDir(), "x.safetensors")
	data := func(info loader.TensorInfo) (io.Reader, error) {
		return bytes.NewReader(original[8+int64(len(header))+info.Start:][:info.Bytes()]), nil
	}
	if err := loader.WriteVerbatimFile(path, []byte(header), data, false); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(must(os.ReadFile(path)), original) {
		t.Error("the bytes differ")
	}
	if err := loader.WriteVerbatimFile(path, []byte(header), data, false); !errors.Is(err, loader.ErrExists) {
		t.Errorf("%v", err)
	}
}

func TestWriteSharded(t *testing.T) {
	sized := func(name string, n int) loader.Entry {
		return loader.Entry{Name: name, Tensor: must(tensor.New(tensor.U8, n))}
	}
	for _, c := range []struct {
		name  string
		sizes []int
		most  int64
		want  string
	}{
		{"all fits", []int{1, 2, 3}, 6, "[model.safetensors]"},
		{"one byte too many", []int{1, 2, 3}, 5, "[2 1]"},
		{"one is too large", []int{9, 1, 1}, 4, "[1 2]"},
		{"empty tensors go along", []int{4, 0, 4, 0}, 4, "[2 2]"},
		{"empty first", []int{0, 9, 0, 1}, 4, "[3 1]"},
		{"no tensors", nil, 1, "[model.safetensors]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			var entries []loader.Entry
			total := int64(0)
			for i, n := range c.sizes {
				entries = append(entries, sized(fmt.Sprint("t", i), n))
				total += int64(n)
			}
			names, err := loader.WriteSharded(dir, entries, c.most, loader.WriteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprint(names)
			ck, err := loader.Open(dir, loader.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer ck.Close()
			if ck.Index() != nil {
				var counts []int
				for _, f := range ck.Files() {
					counts = append(counts, len(f.Header.Tensors()))
				}
				got = fmt.Sprint(counts)
				if ck.Index().TotalSize != total {
					t.Errorf("total_size %d, want %d", ck.Index().TotalSize, total)
				}
			}
			if got != c.want || ck.TotalBytes() != total || len(ck.Names()) != len(c.sizes) {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	if _, err := loader.WriteSharded(t.TempDir(), nil, 0, loader.WriteOptions{}); err == nil {
		t.Error("shards of no bytes")
	}
}

func TestWriteShardedIndexText(t *testing.T) {
	dir, _ := shards(t)
	const want = `{
  "metadata": {
    "total_size": 30
  },
  "weight_map": {
    "a.weight": "model-00001-of-00002.safetensors",
    "b": "model-00001-of-00002.safetensors",
    "c": "model-00002-of-00002.safetensors"
  }
}
`
	if got := must(os.ReadFile(filepath.Join(dir, indexName))); string(got) != want {
		t.Errorf("index:\n%s", got)
	}
}

func TestWriteShardedRefusesBeforeItWrites(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, indexName, []byte("{}"))
	entries := []loader.Entry{{Name: "a", Tensor: f32s(tensor.Shape{1}, 1)}, {Name: "b", Tensor: f32s(tensor.Shape{1}, 1)}}
	if _, err := loader.WriteSharded(dir, entries, 4, loader.WriteOptions{}); !errors.Is(err, loader.ErrExists) {
		t.Errorf("%v", err)
	}
	if left := must(os.ReadDir(dir)); len(left) != 1 {
		t.Errorf("%v", left)
	}
	if _, err := loader.WriteSharded(dir, entries, 4, loader.WriteOptions{Overwrite: true}); err != nil {
		t.Error(err)
	}
}

package archive_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/hfcompress/compress/pack/archive"
	"github.com/hfcompress/compress/pack/floatcodec"
	"github.com/hfcompress/compress/tensor"
)

// bf16 returns n values like those of weights.
func bf16(rng *rand.Rand, n int) []byte {
	b := make([]byte, 0, 2*n)
	for range n {
		b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(float32(rng.NormFloat64()*0.02))>>16))
	}
	return b
}

func f32(rng *rand.Rand, n int) []byte {
	b := make([]byte, 0, 4*n)
	for range n {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(rng.NormFloat64()*0.02)))
	}
	return b
}

func random(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

type part struct {
	name  string
	dtype tensor.DType
	shape []int
	data  []byte
	gap   int // bytes before it that belong to no tensor
}

// safetensors writes a file, with gaps where asked, and trailing bytes.
func safetensors(parts []part, trailing []byte) []byte {
	var body bytes.Buffer
	h := map[string]any{"__metadata__": map[string]string{"format": "pt"}}
	for _, p := range parts {
		body.Write(bytes.Repeat([]byte{0xee}, p.gap))
		start := body.Len()
		body.Write(p.data)
		h[p.name] = map[string]any{"dtype": p.dtype.String(), "shape": p.shape, "data_offsets": []int{start, body.Len()}}
	}
	text, err := json.Marshal(h)
	if err != nil {
		panic(err)
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	return slices.Concat(out, text, body.Bytes(), trailing)
}

// sample is a set of files that uses most of the format: all sorts of tensors,
// gaps, repeated content, text, noise, nothing.
func sample(rng *rand.Rand) map[string][]byte {
	w := bf16(rng, 70_000)
	model := safetensors([]part{
		{name: "a.weight", dtype: tensor.BF16, shape: []int{700, 100}, data: w},
		{name: "a.bias", dtype: tensor.F32, shape: []int{100}, data: f32(rng, 100)},
		{name: "b.weight", dtype: tensor.F32, shape: []int{300, 250}, data: f32(rng, 75_000), gap: 3},
		{name: "tied.weight", dtype: tensor.BF16, shape: []int{700, 100}, data: w},
		{name: "zeros", dtype: tensor.F32, shape: []int{200_000}, data: make([]byte, 800_000)},
		{name: "empty", dtype: tensor.F32, shape: []int{0, 5}},
		{name: "steps", dtype: tensor.I64, shape: []int{}, data: []byte{1, 2, 0, 0, 0, 0, 0, 0}},
		{name: "int8", dtype: tensor.I8, shape: []int{1000, 33}, data: random(rng, 33_000)},
		{name: "e4m3", dtype: tensor.F8E4M3, shape: []int{100_001}, data: random(rng, 100_001)},
	}, []byte("after the last tensor"))
	return map[string][]byte{
		"model.safetensors": model,
		"config.json":       bytes.Repeat([]byte(`{"hidden_size": 512, "layers": 12}`+"\n"), 4000),
		"onnx/model.onnx":   slices.Concat([]byte("onnx"), f32(rng, 100_000)),
		"copy/model.bin":    model,
		"empty.txt":         {},
		"noise.bin":         random(rng, 1_200_000),
	}
}

func writeTree(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// packTree packs files in memory.
func packTree(t testing.TB, files map[string][]byte, o archive.Options) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := archive.NewWriter(&buf, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(mapKeys(files)) {
		if err := w.AddFile(t.Context(), name, 0o640, bytes.NewReader(files[name]), int64(len(files[name]))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if int64(buf.Len()) != w.Stats().Stored {
		t.Errorf("stats say %d bytes, there are %d", w.Stats().Stored, buf.Len())
	}
	return buf.Bytes()
}

func mapKeys(m map[string][]byte) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func open(t testing.TB, b []byte, o archive.ReadOptions) *archive.Reader {
	t.Helper()
	r, err := archive.NewReader(bytes.NewReader(b), int64(len(b)), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantFiles reads everything in several ways.
func wantFiles(t *testing.T, r *archive.Reader, files map[string][]byte) {
	t.Helper()
	if got := len(r.Files()); got != len(files) {
		t.Errorf("%d files, want %d", got, len(files))
	}
	for _, f := range r.Files() {
		want := files[f.Name]
		if f.SHA256 != sha256.Sum256(want) || f.Size != int64(len(want)) {
			t.Errorf("%s: digest or size differ", f.Name)
		}
		in, err := r.OpenFile(f.Name)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(want))
		if n, err := in.ReadAt(got, 0); n != len(want) || err != nil && err != io.EOF || !bytes.Equal(got, want) {
			t.Errorf("%s: ReadAt gave %d bytes, %v", f.Name, n, err)
		}
		streamed, err := io.ReadAll(in)
		if err != nil || !bytes.Equal(streamed, want) {
			t.Errorf("%s: reading in order differs (%v)", f.Name, err)
		}
	}
	if _, err := r.Verify(context.Background(), nil); err != nil {
		t.Error(err)
	}
}

func TestRoundTrip(t *testing.T) {
	files := sample(rand.New(rand.NewPCG(1, 2)))
	total := 0
	for _, b := range files {
		total += len(b)
	}
	for level := floatcodec.Fast; level <= floatcodec.Max; level++ {
		t.Run(level.String(), func(t *testing.T) {
			var first []byte
			for _, workers := range []int{1, 2, 7} {
				b := packTree(t, files, archive.Options{Level: level, Workers: workers})
				if first == nil {
					first = b
					t.Logf("%d bytes from %d", len(b), total)
				} else if !bytes.Equal(b, first) {
					t.Errorf("%d workers make other bytes", workers)
				}
			}
			r := open(t, first, archive.ReadOptions{})
			wantFiles(t, r, files)
			if err := fstest.TestFS(r, "model.safetensors", "onnx/model.onnx", "empty.txt"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTensors(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	files := sample(rng)
	r := open(t, packTree(t, files, archive.Options{}), archive.ReadOptions{})
	if n := len(r.Tensors()); n != 18 {
		t.Fatalf("%d tensors, want 18", n)
	}
	for _, info := range r.Tensors() {
		want := files[info.File][info.Offset : info.Offset+info.Size]
		got, err := r.Tensor(info.Name)
		if err != nil {
			t.Fatal(err)
		}
		if got.DType() != info.DType || !got.Shape().Equal(info.Shape) || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s differs", info.Name)
		}
		s, err := r.TensorReader(info.File + ":" + info.Name)
		if err != nil {
			t.Fatal(err)
		}
		if s.Size() != info.Size {
			t.Errorf("%s: %d bytes", info.Name, s.Size())
		}
		for range 20 {
			if len(want) == 0 {
				break
			}
			off := rng.IntN(len(want))
			part := make([]byte, 1+rng.IntN(len(want)-off))
			if _, err := s.ReadAt(part, int64(off)); err != nil || !bytes.Equal(part, want[off:off+len(part)]) {
				t.Fatalf("%s: bytes %d to %d differ (%v)", info.Name, off, off+len(part), err)
			}
		}
	}
	tied, err := r.Lookup("model.safetensors:tied.weight")
	if err != nil || tied.Stored != 0 && tied.SHA256 != mustLookup(t, r, "a.weight").SHA256 {
		t.Errorf("%+v, %v", tied, err)
	}
}

// An index of several megabytes, which is more than any chunk has.
func TestLargeIndex(t *testing.T) {
	var parts []part
	for i := range 30_000 {
		parts = append(parts, part{name: fmt.Sprintf("%s.%d", strings.Repeat("deep", 25), i), dtype: tensor.F32, shape: []int{0, i}})
	}
	files := map[string][]byte{"m.safetensors": safetensors(parts, []byte("end"))}
	r := open(t, packTree(t, files, archive.Options{}), archive.ReadOptions{})
	wantFiles(t, r, files)
	if n := len(r.Tensors()); n != len(parts) {
		t.Errorf("%d tensors", n)
	}
	if info := mustLookup(t, r, parts[777].name); info.Shape[1] != 777 {
		t.Error(info)
	}
}

func mustLookup(t *testing.T, r *archive.Reader, name string) archive.Tensor {
	t.Helper()
	info, err := r.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

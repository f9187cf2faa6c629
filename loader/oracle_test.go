package loader_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	oracle "github.com/nlpodyssey/safetensors"
	"pgregory.net/rapid"

	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

var allDTypes = func() (all []tensor.DType) {
	for d := tensor.Bool; d <= tensor.C64; d++ {
		all = append(all, d)
	}
	return
}()

// drawTensors draws tensors of the given types, scalars and empty ones among
// them, under names that need escapes or care.
func drawTensors(t *rapid.T, types []tensor.DType) []loader.Entry {
	letters := []rune("ab.<>&\"\\/\n\x01é🤗\u2028")
	names := rapid.SliceOfNDistinct(rapid.StringOfN(rapid.SampledFrom(letters), 0, 8, -1), 0, 6, rapid.ID[string]).Draw(t, "names")
	var entries []loader.Entry
	for _, name := range names {
		d := rapid.SampledFrom(types).Draw(t, "dtype")
		shape := tensor.Shape(rapid.SliceOfN(rapid.IntRange(0, 4), 0, 4).Draw(t, "shape"))
		if n, err := shape.Elements(); err != nil || n*d.Bits()%8 != 0 {
			shape = append(shape, 4) // whole bytes
		}
		n, err := shape.Bytes(d)
		if err != nil {
			t.Fatal(err)
		}
		x, err := tensor.FromBytes(d, shape, rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "data"))
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, loader.Entry{Name: name, Tensor: x})
	}
	return entries
}

func drawMetadata(t *rapid.T) map[string]string {
	if !rapid.Bool().Draw(t, "has metadata") {
		return nil
	}
	text := rapid.StringN(0, 10, -1)
	return rapid.MapOfN(text, text, 0, 4).Draw(t, "metadata")
}

func read(t interface {
	Helper()
	Fatal(...any)
}, b []byte, h *loader.Header, info *loader.TensorInfo) *tensor.Tensor {
	t.Helper()
	at := int64(8 + len(h.Raw()))
	x, err := tensor.FromBytes(info.DType, info.Shape, b[at+info.Start:at+info.End])
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries, metadata := drawTensors(t, allDTypes), drawMetadata(t)
		var b bytes.Buffer
		n, err := loader.Write(&b, entries, loader.WriteOptions{Metadata: metadata})
		if err != nil || n != int64(b.Len()) {
			t.Fatalf("%d bytes, %v", n, err)
		}
		if binary.LittleEndian.Uint64(b.Bytes())%8 != 0 {
			t.Error("the header is not padded to eight bytes")
		}
		h, err := scan(b.Bytes(), loader.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(h.Metadata(), metadata) || (h.Metadata() == nil) != (metadata == nil) {
			t.Errorf("metadata %q came back as %q", metadata, h.Metadata())
		}
		// Where tensors have no bytes their order within a place is the header's;
		// the names as a set, and each tensor, must come back.
		if len(h.Tensors()) != len(entries) {
			t.Fatalf("%d tensors, want %d", len(h.Tensors()), len(entries))
		}
		for i, e := range entries {
			info := h.Lookup(e.Name)
			if info == nil {
				t.Fatalf("%q is lost", e.Name)
			}
			if x := read(t, b.Bytes(), h, info); !tensor.BitEqual(x, e.Tensor) {
				t.Errorf("%q came back as %v", e.Name, x)
			}
			if h.Tensors()[i].Name != e.Name {
				t.Errorf("tensor %d is %q, written as %q", i, h.Tensors()[i].Name, e.Name)
			}
		}
		// Header bytes kept: a copy through them is the same file.
		var again bytes.Buffer
		if _, err := loader.WriteVerbatim(&again, h.Raw(), func(info loader.TensorInfo) (io.Reader, error) {
			return bytes.NewReader(read(t, b.Bytes(), h, &info).Bytes()), nil
		}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.Bytes(), b.Bytes()) {
			t.Error("the verbatim copy differs")
		}
	})
}

// The types that nlpodyssey/safetensors has, under its names.
var sharedDTypes = []tensor.DType{tensor.Bool, tensor.U8, tensor.I8, tensor.I16, tensor.U16, tensor.F16,
	tensor.BF16, tensor.I32, tensor.U32, tensor.F32, tensor.F64, tensor.I64, tensor.U64}

func TestLibraryReadsWhatWeWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries, metadata := drawTensors(t, sharedDTypes), drawMetadata(t)
		var b bytes.Buffer
		if _, err := loader.Write(&b, entries, loader.WriteOptions{Metadata: metadata}); err != nil {
			t.Fatal(err)
		}
		st, err := oracle.Deserialize(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if st.Len() != len(entries) {
			t.Fatalf("the library finds %d tensors of %d", st.Len(), len(entries))
		}
		for _, e := range entries {
			v, ok := st.Tensor(e.Name)
			if !ok || v.DType().String() != e.Tensor.DType().String() ||
				fmt.Sprint(v.Shape()) != strings.ReplaceAll(e.Tensor.Shape().String(), ",", " ") ||
				!bytes.Equal(v.Data(), e.Tensor.Bytes()) {
				t.Errorf("%q is read as %v %v by the library, written as %v", e.Name, v.DType(), v.Shape(), e.Tensor)
			}
		}
	})
}

func TestWeReadWhatLibraryWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries, metadata := drawTensors(t, sharedDTypes), drawMetadata(t)
		views := map[string]oracle.TensorView{}
		for _, e := range entries {
			d, err := oracle.ParseDType(e.Tensor.DType().String())
			if err != nil {
				t.Fatal(err)
			}
			var shape []uint64
			for _, n := range e.Tensor.Shape() {
				shape = append(shape, uint64(n))
			}
			// It refuses scalars.
			if len(shape) == 0 {
				continue
			}
			if views[e.Name], err = oracle.NewTensorView(d, shape, e.Tensor.Bytes()); err != nil {
				t.Fatal(err)
			}
		}
		b, err := oracle.Serialize(views, metadata)
		if err != nil {
			t.Fatal(err)
		}
		h, err := scan(b, loader.Limits{})
		if err != nil {
			t.Fatalf("%v in %q", err, b)
		}
		if len(h.Tensors()) != len(views) {
			t.Fatalf("%d tensors, want %d", len(h.Tensors()), len(views))
		}
		for _, e := range entries {
			if _, ok := views[e.Name]; !ok {
				continue
			}
			info := h.Lookup(e.Name)
			if info == nil || !tensor.BitEqual(read(t, b, h, info), e.Tensor) {
				t.Errorf("%q is read as %v, written as %v", e.Name, info, e.Tensor)
			}
		}
		if len(metadata) > 0 && !maps.Equal(h.Metadata(), metadata) {
			t.Errorf("metadata %q, want %q", h.Metadata(), metadata)
		}
	})
}

// agree holds a header that we accept against the library's reading of the file.
// Files with types that it does not know are left out.
func agree(t *testing.T, h *loader.Header, b []byte) {
	t.Helper()
	for i := range h.Tensors() {
		if !slices.Contains(sharedDTypes, h.Tensors()[i].DType) {
			return
		}
	}
	st, err := oracle.Deserialize(b)
	if err != nil {
		t.Fatalf("accepted, but the library says: %v\n%q", err, h.Raw())
	}
	if st.Len() != len(h.Tensors()) {
		t.Fatalf("%d tensors, the library finds %d", len(h.Tensors()), st.Len())
	}
	for i := range h.Tensors() {
		info := &h.Tensors()[i]
		v, ok := st.Tensor(info.Name)
		if !ok || v.DType().String() != info.DTypeName || len(v.Shape()) != len(info.Shape) || v.DataLen() != uint64(info.Bytes()) {
			t.Fatalf("%+v is read otherwise by the library", info)
		}
	}
}

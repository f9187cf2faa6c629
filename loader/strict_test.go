package loader_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

var f32 = []tensor.DType{tensor.F32}

func f32s(shape tensor.Shape, values ...float32) *tensor.Tensor {
	return must(tensor.FromFloat32s(values, shape...))
}

// checkpoint writes entries to a file and opens it.
func checkpoint(t *testing.T, entries ...loader.Entry) *loader.Checkpoint {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := loader.WriteFile(path, entries, loader.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	c, err := loader.Open(path, loader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func problems(t *testing.T, err error) string {
	t.Helper()
	var e *loader.StrictError
	if !errors.As(err, &e) {
		t.Fatalf("error of type %T: %v", err, err)
	}
	var lines []string
	for _, p := range e.Problems {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

func TestStrictListsEverythingAtOnce(t *testing.T) {
	one := tensor.Shape{1}
	nan := float32(math.NaN())
	c := checkpoint(t,
		loader.Entry{Name: "good", Tensor: f32s(one, 1)},
		loader.Entry{Name: "shape", Tensor: f32s(tensor.Shape{2, 1}, 1, 2)},
		loader.Entry{Name: "dtype", Tensor: must(tensor.FromBytes(tensor.BF16, one, []byte{0, 0}))},
		loader.Entry{Name: "both", Tensor: must(tensor.FromInt64s([]int64{1}))},
		loader.Entry{Name: "nan", Tensor: f32s(tensor.Shape{4}, 1, nan, 2, float32(math.Inf(-1)))},
		loader.Entry{Name: "root", Tensor: f32s(one, 0)},
		loader.Entry{Name: "tied", Tensor: f32s(one, float32(math.Copysign(0, -1)))},
		loader.Entry{Name: "extra", Tensor: f32s(one, 1)},
	)
	_, err := loader.Strict(c, []loader.Param{
		{Name: "good", Shape: one, DTypes: f32},
		{Name: "absent", Shape: tensor.Shape{3, 4}, DTypes: []tensor.DType{tensor.F32, tensor.BF16}},
		{Name: "shape", Shape: tensor.Shape{1, 2}, DTypes: f32},
		{Name: "dtype", Shape: one, DTypes: f32},
		{Name: "both", Shape: one, DTypes: f32},
		{Name: "nan", Shape: tensor.Shape{4}, DTypes: f32},
		{Name: "root", Shape: one, DTypes: f32},
		{Name: "tied", Shape: one, DTypes: f32, TiedTo: "root"},
	}, loader.Policy{})
	const want = `missing "absent": expected F32|BF16[3,4]
unexpected "extra" in model.safetensors: found F32[1]
shape "shape" in model.safetensors: expected [1,2], found [2,1]
shape "both" in model.safetensors: expected [1], found []
dtype "dtype" in model.safetensors: expected F32, found BF16
dtype "both" in model.safetensors: expected F32, found I64
tie conflict "tied" in model.safetensors: expected the bits of "root", 0x00000000 at element 0, found 0x80000000
not finite "nan" in model.safetensors: expected finite values, found 2 infinite or NaN, the first 0x7fc00000 at element 1`
	if got := problems(t, err); got != want {
		t.Errorf("problems:\n%s\nwant:\n%s", got, want)
	}
	for _, kind := range []error{loader.ErrMissing, loader.ErrUnexpected, loader.ErrTie, loader.ErrNonFinite, tensor.ErrShape, tensor.ErrDType} {
		if !errors.Is(err, kind) {
			t.Errorf("errors.Is(err, %v) is false", kind)
		}
	}
	if errors.Is(err, loader.ErrLimit) {
		t.Error("errors.Is finds a kind that is not there")
	}
	var e *loader.StrictError
	errors.As(err, &e)
	if s := e.Summary(); strings.Contains(s, "\n") || !strings.Contains(s, "1 missing, 1 unexpected, 2 shape, 2 dtype, 1 tie conflict, 1 not finite; first: missing \"absent\"") {
		t.Errorf("summary %q", s)
	}
	if s := e.Error(); !strings.Contains(s, "model.safetensors does not match the model (8 parameters declared, 8 tensors found):\n  missing") {
		t.Errorf("error %q", s)
	}
}

func TestStrictErrorStaysReadable(t *testing.T) {
	var params []loader.Param
	for i := range 60 {
		params = append(params, loader.Param{Name: fmt.Sprint("p", i)})
	}
	_, err := loader.Strict(checkpoint(t, loader.Entry{Name: "x", Tensor: f32s(tensor.Shape{1}, 1)}), params, loader.Policy{})
	if s := err.Error(); strings.Count(s, "\n") != 52 || !strings.Contains(s, "\n  … and 10 more missing\n  unexpected \"x\"") {
		t.Errorf("%s", s)
	}
}

func TestTies(t *testing.T) {
	shape := tensor.Shape{2}
	params := []loader.Param{
		{Name: "embed", Shape: shape, DTypes: f32},
		{Name: "head", Shape: shape, DTypes: f32, TiedTo: "embed"},
		{Name: "other", Shape: shape, DTypes: f32, TiedTo: "head"}, // by way of head
	}
	entry := func(name string) loader.Entry {
		return loader.Entry{Name: name, Tensor: f32s(shape, 1, 2)}
	}
	for _, c := range []struct {
		present []string
		filled  string
	}{
		{[]string{"embed", "head", "other"}, "[]"},
		{[]string{"embed"}, "[{head embed} {other embed}]"},
		{[]string{"head"}, "[{embed head} {other head}]"},
		{[]string{"other", "embed"}, "[{head embed}]"},
	} {
		var entries []loader.Entry
		for _, name := range c.present {
			entries = append(entries, entry(name))
		}
		w, err := loader.Strict(checkpoint(t, entries...), params, loader.Policy{})
		if err != nil {
			t.Errorf("%v: %v", c.present, err)
			continue
		}
		if got := fmt.Sprint(w.Filled()); got != c.filled {
			t.Errorf("%v: filled %s, want %s", c.present, got, c.filled)
		}
		for _, p := range params {
			x, err := w.Tensor(p.Name)
			if err != nil || !tensor.BitEqual(x, entry("").Tensor) {
				t.Errorf("%v: %s is %v, %v", c.present, p.Name, x, err)
			}
			if w.Source(p.Name) != w.Source("embed") {
				t.Errorf("%v: %s reads %q, embed reads %q", c.present, p.Name, w.Source(p.Name), w.Source("embed"))
			}
		}
	}
	_, err := loader.Strict(checkpoint(t), params, loader.Policy{})
	if got := problems(t, err); !strings.HasPrefix(got, `missing "embed": expected F32[2], or tied ["head" "other"]`) || strings.Count(got, "\n") != 2 {
		t.Errorf("%s", got)
	}
	// A difference in the last byte of several blocks.
	long := tensor.Shape{700_000}
	a, b := make([]float32, 700_000), make([]float32, 700_000)
	b[699_999] = math.SmallestNonzeroFloat32
	_, err = loader.Strict(checkpoint(t, loader.Entry{Name: "a", Tensor: f32s(long, a...)}, loader.Entry{Name: "b", Tensor: f32s(long, b...)}),
		[]loader.Param{{Name: "a", Shape: long}, {Name: "b", Shape: long, TiedTo: "a"}}, loader.Policy{})
	if got := problems(t, err); !strings.Contains(got, `0x00000000 at element 699999, found 0x00000001`) {
		t.Errorf("%s", got)
	}
	// The same values in another type are another tensor.
	_, err = loader.Strict(checkpoint(t, loader.Entry{Name: "a", Tensor: f32s(shape, 0, 0)}, loader.Entry{Name: "b", Tensor: must(tensor.New(tensor.BF16, 2))}),
		[]loader.Param{{Name: "a", Shape: shape}, {Name: "b", Shape: shape, TiedTo: "a"}}, loader.Policy{})
	if !errors.Is(err, loader.ErrTie) {
		t.Errorf("%v", err)
	}
	// A filled parameter must accept the type that it is filled with.
	_, err = loader.Strict(checkpoint(t, entry("a")),
		[]loader.Param{{Name: "a", Shape: shape}, {Name: "b", Shape: shape, DTypes: []tensor.DType{tensor.BF16}, TiedTo: "a"}}, loader.Policy{})
	if !errors.Is(err, tensor.ErrDType) {
		t.Errorf("%v", err)
	}
	// What is filled from a tensor that is wrong itself is not reported twice.
	_, err = loader.Strict(checkpoint(t, loader.Entry{Name: "embed", Tensor: f32s(tensor.Shape{3}, 1, 2, 3)}), params, loader.Policy{})
	if got := problems(t, err); got != `shape "embed" in model.safetensors: expected [2], found [3]` {
		t.Errorf("%s", got)
	}
}

func TestIgnored(t *testing.T) {
	mask := must(tensor.New(tensor.Bool, 2, 2))
	nan := f32s(tensor.Shape{1}, float32(math.NaN()))
	c := checkpoint(t, loader.Entry{Name: "w", Tensor: f32s(tensor.Shape{1}, 1)},
		loader.Entry{Name: "mask", Tensor: mask}, loader.Entry{Name: "any", Tensor: nan})
	params := []loader.Param{
		{Name: "w", Shape: tensor.Shape{1}},
		{Name: "mask", Shape: tensor.Shape{2, 2}, DTypes: []tensor.DType{tensor.Bool}, Ignored: true},
		{Name: "any", Ignored: true},
		{Name: "absent", Shape: tensor.Shape{9}, Ignored: true},
	}
	w, err := loader.Strict(c, params, loader.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(w.Names(), w.Ignored()); got != "[w] [mask any]" {
		t.Error(got)
	}
	if _, err := w.Tensor("mask"); !errors.Is(err, loader.ErrNoTensor) {
		t.Errorf("an ignored tensor: %v", err)
	}
	params[1].Shape = tensor.Shape{4}
	params[1].DTypes = f32
	_, err = loader.Strict(c, params, loader.Policy{})
	if !errors.Is(err, tensor.ErrShape) || !errors.Is(err, tensor.ErrDType) {
		t.Errorf("%v", err)
	}
}

func TestContradictoryDeclarations(t *testing.T) {
	c := checkpoint(t, loader.Entry{Name: "a", Tensor: f32s(tensor.Shape{1}, 1)})
	one := tensor.Shape{1}
	for name, params := range map[string][]loader.Param{
		"declared twice":  {{Name: "a", Shape: one}, {Name: "a", Shape: one}},
		"not declared":    {{Name: "a", Shape: one, TiedTo: "b"}},
		"tied to itself":  {{Name: "a", Shape: one, TiedTo: "a"}},
		"is tied to":      {{Name: "a", Shape: one, TiedTo: "b"}, {Name: "b", Shape: one, TiedTo: "a"}},
		"and tied to":     {{Name: "a", Shape: one}, {Name: "b", Shape: tensor.Shape{2}, TiedTo: "a"}},
		"them is ignored": {{Name: "a", Shape: one, Ignored: true}, {Name: "b", Shape: one, TiedTo: "a"}},
	} {
		_, err := loader.Strict(c, params, loader.Policy{})
		var e *loader.StrictError
		if err == nil || errors.As(err, &e) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each bit pattern of the narrow types, and the border patterns of the wide
// ones, against the values that they stand for.
func TestNonFiniteByBits(t *testing.T) {
	bytesOf := func(width int, patterns ...uint64) (b []byte) {
		for _, p := range patterns {
			for i := range width {
				b = append(b, byte(p>>(8*i)))
			}
		}
		return
	}
	all8 := make([]uint64, 256)
	for i := range all8 {
		all8[i] = uint64(i)
	}
	all16 := make([]uint64, 1<<16)
	for i := range all16 {
		all16[i] = uint64(i)
	}
	for _, c := range []struct {
		dtype    tensor.DType
		width    int
		patterns []uint64
		bad      int
	}{
		{tensor.F64, 8, []uint64{0, 1, 0x7fefffffffffffff, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000001, 0x8000000000000000}, 3},
		{tensor.F32, 4, []uint64{0, 1, 0x7f7fffff, 0x7f800000, 0xff800000, 0x7f800001, 0x80000000}, 3},
		{tensor.C64, 8, []uint64{0, 0x7f800000_00000000, 0x00000000_7f800000, 0x7f800000_7f800000}, 3},
		{tensor.F16, 2, all16, 2 * 1024}, // exponent all ones
		{tensor.BF16, 2, all16, 2 * 128}, // exponent all ones
		{tensor.F8E5M2, 1, all8, 2 * 4},  // exponent all ones
		{tensor.F8E4M3, 1, all8, 2},      // ±NaN
		{tensor.F8E8M0, 1, all8, 1},      // NaN
		{tensor.F8E4M3FNUZ, 1, all8, 1},  // NaN
		{tensor.F8E5M2FNUZ, 1, all8, 1},  // NaN
		{tensor.F4, 1, all8, 0},          // has none
		{tensor.I16, 2, all16, 0},        // no float
		{tensor.U8, 1, all8, 0},          // no float
		{tensor.F32, 4, []uint64{1, 2, 3}, 0} /* all finite */} {
		data := bytesOf(c.width, c.patterns...)
		shape := tensor.Shape{len(data) * 8 / c.dtype.Bits()}
		x := must(tensor.FromBytes(c.dtype, shape, data))
		params := []loader.Param{{Name: "x", Shape: shape}}
		ck := checkpoint(t, loader.Entry{Name: "x", Tensor: x})
		if _, err := loader.Strict(ck, params, loader.Policy{NonFinite: loader.AllowNonFinite}); err != nil {
			t.Errorf("%v allowed: %v", c.dtype, err)
		}
		_, err := loader.Strict(ck, params, loader.Policy{})
		if c.bad == 0 {
			if err != nil {
				t.Errorf("%v: %v", c.dtype, err)
			}
			continue
		}
		if got, want := problems(t, err), fmt.Sprintf("found %d infinite or NaN", c.bad); !strings.Contains(got, want) {
			t.Errorf("%v: %s, want %s", c.dtype, got, want)
		}
	}
}

func TestNonFiniteInALaterBlock(t *testing.T) {
	values := make([]float32, 600_000)
	values[555_555] = float32(math.Inf(1))
	shape := tensor.Shape{len(values)}
	_, err := loader.Strict(checkpoint(t, loader.Entry{Name: "x", Tensor: f32s(shape, values...)}),
		[]loader.Param{{Name: "x", Shape: shape}}, loader.Policy{})
	if got := problems(t, err); !strings.Contains(got, "1 infinite or NaN, the first 0x7f800000 at element 555555") {
		t.Error(got)
	}
}

func TestWeightsServeByName(t *testing.T) {
	c := checkpoint(t, loader.Entry{Name: "x", Tensor: f32s(tensor.Shape{1}, 5)})
	w, err := loader.Strict(c, []loader.Param{{Name: "x", Shape: tensor.Shape{1}, DTypes: f32}}, loader.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	var source interface {
		Tensor(name string) (*tensor.Tensor, error)
	} = w
	x, err := source.Tensor("x")
	if err != nil || !bytes.Equal(x.Bytes(), f32s(tensor.Shape{1}, 5).Bytes()) {
		t.Errorf("%v, %v", x, err)
	}
	if _, err := w.Tensor("y"); !errors.Is(err, loader.ErrNoTensor) {
		t.Errorf("%v", err)
	}
	if w.Checkpoint() != c {
		t.Error("another checkpoint")
	}
}

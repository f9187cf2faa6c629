package validation_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/tensor"
	"github.com/hfcompress/compress/validation"
)

var (
	negativeZero = float32(math.Copysign(0, -1))
	nan          = float32(math.NaN())
	inf          = float32(math.Inf(1))
)

func floats(t testing.TB, values []float32, shape ...int) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromFloat32s(values, shape...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func row(t testing.TB, values ...float32) *tensor.Tensor {
	return floats(t, values, 1, len(values))
}

// raw wraps 16-bit patterns.
func halves(t testing.TB, d tensor.DType, patterns ...uint16) *tensor.Tensor {
	t.Helper()
	x, err := tensor.New(d, len(patterns))
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range patterns {
		binary.LittleEndian.PutUint16(x.Bytes()[2*i:], p)
	}
	return x
}

func of(t testing.TB, d tensor.DType, data []byte, shape ...int) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromBytes(d, shape, data)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func doubles(t testing.TB, values ...float64) *tensor.Tensor {
	t.Helper()
	x, err := tensor.New(tensor.F64, len(values))
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range values {
		binary.LittleEndian.PutUint64(x.Bytes()[8*i:], math.Float64bits(v))
	}
	return x
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		name                     string
		a, b                     *tensor.Tensor
		gate                     validation.Gate
		accepted, exact, bitwise bool
		maxAbs                   float64
		reason                   string
	}{
		// VB-1 and VB-3
		{name: "zeros of either sign", a: row(t, 0, negativeZero), b: row(t, negativeZero, 0), accepted: true, exact: true},
		{name: "zeros under an exact gate", a: row(t, 0, negativeZero), b: row(t, negativeZero, 0),
			gate: validation.Gate{Exact: true}, accepted: true, exact: true},
		{name: "zeros under a bitwise gate", a: row(t, 0, negativeZero), b: row(t, negativeZero, 0),
			gate: validation.Gate{Bitwise: true}, exact: true, reason: "not bitwise equal; first at [0 0]: source 0 (0x00000000), candidate -0 (0x80000000)"},
		// VB-2
		{name: "scalar −0", a: floats(t, []float32{negativeZero}), b: floats(t, []float32{negativeZero}), accepted: true, exact: true, bitwise: true},
		{name: "empty", a: floats(t, nil, 2, 0, 3), b: floats(t, nil, 2, 0, 3), accepted: true, exact: true, bitwise: true},
		{name: "bool", a: of(t, tensor.Bool, []byte{0, 1}, 2), b: of(t, tensor.Bool, []byte{0, 1}, 2), accepted: true, exact: true, bitwise: true},
		{name: "int", a: of(t, tensor.I32, make([]byte, 8), 2), b: of(t, tensor.I32, make([]byte, 8), 2), accepted: true, exact: true, bitwise: true},

		{name: "bool changed", a: of(t, tensor.Bool, []byte{0, 1}, 2), b: of(t, tensor.Bool, []byte{0, 0}, 2),
			reason: "discrete output changed; first at [1]: source 1 (0x01), candidate 0 (0x00)"},
		{name: "int changed", a: of(t, tensor.I16, []byte{1, 0, 2, 0}, 2), b: of(t, tensor.I16, []byte{1, 0, 0xff, 0xff}, 2),
			reason: "first at [1]: source 2 (0x0002), candidate -1 (0xffff)"},
		{name: "float8 equal", a: of(t, tensor.F8E4M3, []byte{1, 2}, 2), b: of(t, tensor.F8E4M3, []byte{1, 2}, 2), accepted: true, exact: true, bitwise: true},
		{name: "float8 changed", a: of(t, tensor.F8E4M3, []byte{1, 2}, 2), b: of(t, tensor.F8E4M3, []byte{1, 3}, 2), reason: "only compared by bits"},
		{name: "float4 changed", a: of(t, tensor.F4, []byte{1, 2}, 4), b: of(t, tensor.F4, []byte{1, 3}, 4), reason: "first at [2]"},
		{name: "complex", a: of(t, tensor.C64, make([]byte, 8), 1), b: of(t, tensor.C64, make([]byte, 8), 1), bitwise: true, reason: "complex"},

		{name: "drift within", a: row(t, 1, 2), b: row(t, 1.000001, 2), accepted: true, maxAbs: float64(float32(1.000001)) - 1},
		{name: "drift within, exact gate", a: row(t, 1, 2), b: row(t, 1.000001, 2), gate: validation.Gate{Exact: true},
			maxAbs: float64(float32(1.000001)) - 1, reason: "not exactly equal"},
		{name: "abs too large", a: row(t, 100, 0), b: row(t, 100, 2e-5), maxAbs: float64(float32(2e-5)), reason: "max abs 2e-05 exceeds 1e-05"},
		{name: "relative too large", a: row(t, 1e-6, 0), b: row(t, 1e-6, 1e-6), maxAbs: float64(float32(1e-6)), reason: "relative L2 1 exceeds 1e-05"},
		{name: "zero reference", a: row(t, 0, 0), b: row(t, 0, 1e-15), maxAbs: float64(float32(1e-15)), reason: "relative L2 0.001 exceeds"},
		{name: "wider gate", a: row(t, 1, 0), b: row(t, 1.25, 0), gate: validation.Gate{MaxAbs: 0.25, RelL2: 0.25}, accepted: true, maxAbs: 0.25},

		{name: "NaN in source", a: row(t, nan, 1), b: row(t, 0, 1), reason: "NaN or infinity"},
		{name: "NaN in candidate", a: row(t, 0, 1), b: row(t, nan, 1), reason: "NaN or infinity"},
		{name: "infinity in both", a: row(t, inf, 1), b: row(t, inf, 1), bitwise: true, reason: "NaN or infinity"},
		{name: "infinity allowed", a: row(t, inf, nan), b: row(t, inf, nan), gate: validation.Gate{AllowNonFinite: true}, accepted: true, exact: true, bitwise: true},
		{name: "infinity allowed, others drift", a: row(t, inf, 1), b: row(t, inf, 1.0000001), gate: validation.Gate{AllowNonFinite: true}, reason: "NaN or infinity"},

		{name: "shape", a: row(t, 1, 2), b: floats(t, []float32{1, 2}, 2, 1), reason: "structure changed: source is F32[1,2], candidate is F32[2,1]"},
		{name: "dtype", a: halves(t, tensor.F16, 1), b: halves(t, tensor.BF16, 1), reason: "structure changed"},
		{name: "no tensor", a: row(t, 1), reason: "no tensor"},

		{name: "bf16 one step", a: halves(t, tensor.BF16, 0x3f80), b: halves(t, tensor.BF16, 0x3f81), maxAbs: 1. / 128, reason: "max abs"},
		{name: "f16 one step", a: halves(t, tensor.F16, 0x3c00), b: halves(t, tensor.F16, 0x3c01), maxAbs: 1. / 1024, reason: "max abs"},
		{name: "f16 subnormal", a: halves(t, tensor.F16, 0x3c00, 1), b: halves(t, tensor.F16, 0x3c00, 0x8001), accepted: true, maxAbs: 2 * 0x1p-24},
		{name: "f16 infinity", a: halves(t, tensor.F16, 0x7c00), b: halves(t, tensor.F16, 0x7c00), bitwise: true, reason: "NaN or infinity"},
		{name: "f16 NaN", a: halves(t, tensor.F16, 0x7c01), b: halves(t, tensor.F16, 0x7c01), bitwise: true, reason: "NaN or infinity"},
		{name: "f64 huge", a: doubles(t, 1e300, 1e300), b: doubles(t, 1e300, 1e300), accepted: true, exact: true, bitwise: true},
		{name: "f64 huge apart", a: doubles(t, math.MaxFloat64), b: doubles(t, -math.MaxFloat64), maxAbs: math.MaxFloat64, reason: "max abs"},
		{name: "f64 last bit", a: doubles(t, 1), b: doubles(t, math.Nextafter(1, 2)), accepted: true, maxAbs: 0x1p-52},

		{name: "gate NaN", a: row(t, 1), b: row(t, 1), gate: validation.Gate{MaxAbs: math.NaN()}, reason: "bad gate"},
		{name: "gate negative", a: row(t, 1), b: row(t, 1), gate: validation.Gate{RelL2: -1}, reason: "bad gate"},
		{name: "gate infinite", a: row(t, 1), b: row(t, 1), gate: validation.Gate{RelL2: math.Inf(1)}, reason: "bad gate"},
	} {
		r := validation.Compare("hidden_states.0", c.a, c.b, c.gate)
		if r.Accepted != c.accepted || r.Exact != c.exact || r.Bitwise != c.bitwise || r.MaxAbs != c.maxAbs {
			t.Errorf("%s: %+v", c.name, r)
		}
		if !strings.Contains(r.Reason, c.reason) || (c.reason == "") != (r.Reason == "") {
			t.Errorf("%s: reason %q", c.name, r.Reason)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestRelativeL2IsScaledSafely(t *testing.T) {
	r := validation.Compare("x", doubles(t, 3e200, 4e200), doubles(t, 3e200, 4e200+5e199), validation.Gate{})
	if math.Abs(r.RelL2-0.1) > 1e-12 {
		t.Errorf("relative L2 is %v, want 0.1", r.RelL2)
	}
}

// TestHalfValues checks all binary16 patterns against their definition through
// float32 arithmetic on a scaled integer, an independent road to the same value.
func TestHalfValues(t *testing.T) {
	for p := range 1 << 16 {
		e, m := p>>10&31, p&1023
		if e == 31 {
			continue
		}
		want := float64(m) * 0x1p-24
		if e > 0 {
			want = float64(1024+m) * math.Pow(2, float64(e-25))
		}
		if p>>15 == 1 {
			want = -want
		}
		// The difference to zero is the value itself.
		r := validation.Compare("x", halves(t, tensor.F16, uint16(p)), halves(t, tensor.F16, 0), validation.Gate{})
		if r.MaxAbs != math.Abs(want) {
			t.Fatalf("%#04x: %v, want %v", p, r.MaxAbs, want)
		}
	}
}

func TestDecisions(t *testing.T) {
	for _, c := range []struct {
		name, output string
		a, b         *tensor.Tensor
		gate         validation.Gate
		accepted     bool
		margin       float64
		at           []int
		changed      int
	}{
		{name: "kept", output: "logits", a: floats(t, []float32{1, 3, 0, 2, 2.5, 1}, 2, 3), b: floats(t, []float32{1, 3, 0, 2, 2.5, 1}, 2, 3),
			accepted: true, margin: 0.5, at: []int{1}},
		{name: "flipped within tolerance", output: "logits", a: row(t, 1, 1.000001), b: row(t, 1.000001, 1),
			margin: float64(float32(1.000001)) - 1, at: []int{0}, changed: 1},
		{name: "flipped elsewhere", output: "hidden_states.0", a: row(t, 1, 1.000001), b: row(t, 1.000001, 1), accepted: true},
		{name: "named router", output: "router", gate: validation.Gate{Decisions: []string{"router"}},
			a: row(t, 1, 1.000001), b: row(t, 1.000001, 1), margin: float64(float32(1.000001)) - 1, at: []int{0}, changed: 1},
		{name: "none named", output: "logits", gate: validation.Gate{Decisions: []string{}}, a: row(t, 1, 1.000001), b: row(t, 1.000001, 1), accepted: true},
		{name: "tie", output: "logits", a: row(t, 2, 2), b: row(t, 2, 2), accepted: true, margin: 0, at: []int{0}},
		{name: "tie broken", output: "logits", a: row(t, 2, 2), b: row(t, 2, 2.000001), margin: 0, at: []int{0}, changed: 1},
		{name: "one choice", output: "logits", a: floats(t, []float32{1, 2}, 2, 1), b: floats(t, []float32{1, 2}, 2, 1), accepted: true},
		{name: "top first", output: "logits", a: row(t, 5, 1, 4, 2), b: row(t, 5, 1, 4, 2), accepted: true, margin: 1, at: []int{0}},
	} {
		r := validation.Compare(c.output, c.a, c.b, c.gate)
		if r.Accepted != c.accepted {
			t.Errorf("%s: accepted %v: %s", c.name, r.Accepted, r.Reason)
		}
		d := r.Decision
		if d == nil {
			if c.at != nil {
				t.Errorf("%s: no decision", c.name)
			}
			continue
		}
		if d.MinMargin != c.margin || len(d.At) != len(c.at) || len(d.At) > 0 && d.At[0] != c.at[0] || d.Changed != c.changed {
			t.Errorf("%s: %+v", c.name, d)
		}
		if (d.FirstChange != nil) != (c.changed > 0) {
			t.Errorf("%s: first change %+v", c.name, d.FirstChange)
		}
	}
}

func TestStructure(t *testing.T) {
	x, y := row(t, 1, 2), row(t, 3)
	a := architectures.Outputs{{Name: "logits", Tensor: x}, {Name: "hidden_states.0", Tensor: y}}
	for _, c := range []struct {
		name string
		b    architectures.Outputs
		want string
	}{
		{"same", a, ""},
		{"missing", a[:1], `output "hidden_states.0" is missing`},
		{"extra", append(a[:2:2], architectures.Named{Name: "more", Tensor: x}), `output "more" is new`},
		{"order", architectures.Outputs{a[1], a[0]}, `output 0 is "logits" in the source, "hidden_states.0" in the candidate`},
		{"shape", architectures.Outputs{a[0], {Name: "hidden_states.0", Tensor: x}}, `output "hidden_states.0": source is F32[1,1], candidate is F32[1,2]`},
		{"nil", architectures.Outputs{a[0], {Name: "hidden_states.0"}}, `candidate output "hidden_states.0" has no tensor`},
		{"none", nil, `output "logits" is missing`},
	} {
		got, err := validation.CompareOutputs(a, c.b, validation.Gate{})
		if err != nil {
			t.Fatal(err)
		}
		if got.Accepted != (c.want == "") || !strings.Contains(got.Reason, c.want) || c.want != "" && !strings.HasPrefix(got.Reason, "structure changed") {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	if _, err := validation.CompareOutputs(nil, nil, validation.Gate{}); !errors.Is(err, validation.ErrNothing) {
		t.Errorf("no outputs: %v", err)
	}
	if _, err := validation.CompareOutputs(a, a, validation.Gate{MaxAbs: -1}); !errors.Is(err, validation.ErrGate) {
		t.Errorf("bad gate: %v", err)
	}
	twice := architectures.Outputs{a[0], a[0]}
	if got, err := validation.CompareOutputs(twice, twice, validation.Gate{}); err != nil || got.Accepted {
		t.Errorf("a name twice: %+v, %v", got, err)
	}
}

// TestCompareAgreesWithItsDefinition recomputes the figures the plain way.
func TestCompareAgreesWithItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 3000).Draw(t, "elements")
		scale := rapid.SampledFrom([]float64{1e-7, 1e-5, 1}).Draw(t, "scale")
		seed := rapid.Uint64().Draw(t, "seed")
		next := func() float64 {
			seed = seed*6364136223846793005 + 1442695040888963407
			return float64(int64(seed)) / (1 << 63)
		}
		a, b := make([]float32, n), make([]float32, n)
		var diff, ref, largest float64
		for i := range a {
			a[i] = float32(next())
			b[i] = a[i]
			if next() > 0.5 {
				b[i] += float32(next() * scale)
			}
			d := float64(a[i]) - float64(b[i])
			diff += d * d
			ref += float64(a[i]) * float64(a[i])
			largest = math.Max(largest, math.Abs(d))
		}
		x, err := tensor.FromFloat32s(a, n)
		if err != nil {
			t.Fatal(err)
		}
		y, err := tensor.FromFloat32s(b, n)
		if err != nil {
			t.Fatal(err)
		}
		r := validation.Compare("x", x, y, validation.Gate{})
		relative := math.Sqrt(diff) / math.Max(math.Sqrt(ref), 1e-12)
		if r.MaxAbs != largest || math.Abs(r.RelL2-relative) > 1e-12*relative {
			t.Fatalf("%+v, want max abs %v, relative L2 %v", r, largest, relative)
		}
		if r.Accepted != (largest <= 1e-5 && r.RelL2 <= 1e-5) || r.Bitwise != (r.First == nil) || r.Exact != (largest == 0) {
			t.Fatalf("%+v", r)
		}
		if r.First != nil {
			for i := range r.First.Index[0] {
				if a[i] != b[i] {
					t.Fatalf("element %d differs before %v", i, r.First.Index)
				}
			}
		}
	})
}

package soft_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/metalgpu/internal/kernel"
	"github.com/hfcompress/compress/metalgpu/internal/kerneltest"
	"github.com/hfcompress/compress/metalgpu/internal/soft"
)

// evaluateWide runs a statement that changes the number in xh and xl, given another
// one in yh and yl, for pairs of float64 numbers, with the functions of a kernel.
func evaluateWide(t *testing.T, of, statement string, a, b []float64) []float64 {
	t.Helper()
	k, ok := kernel.Lookup(of)
	if !ok {
		t.Fatalf("no kernel %s", of)
	}
	words := func(x []float64) []uint32 {
		out := make([]uint32, 2*len(x))
		for i, v := range x {
			out[2*i], out[2*i+1] = uint32(math.Float64bits(v)), uint32(math.Float64bits(v)>>32)
		}
		return out
	}
	test := &kernel.Kernel{
		Name: "wide", Workgroup: [3]int{64, 1, 1}, Push: []string{"n"}, Functions: k.Functions,
		Buffers: []kernel.Buffer{{Name: "x", Type: "uint", Writes: true}, {Name: "y", Type: "uint"}},
		Body: `uint i = gid.x;
if (i >= p.n) {
	return;
}
uint xh = x[2u * i + 1u];
uint xl = x[2u * i];
uint yh = y[2u * i + 1u];
uint yl = y[2u * i];
` + statement + `
x[2u * i] = xl;
x[2u * i + 1u] = xh;
`,
		Grid: func(p kernel.Args) [3]uint32 { return [3]uint32{(p.Get("n") + 63) / 64, 1, 1} },
	}
	c := kerneltest.Case{Name: statement, Buffers: [][]uint32{words(a), words(b)},
		Steps: []kerneltest.Step{{Kernel: test, Bind: []int{0, 1}, Push: []uint32{uint32(len(a))}}}}
	got, err := c.Run(context.Background(), open(t, soft.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float64, len(a))
	for i := range out {
		out[i] = math.Float64frombits(uint64(got[0][2*i+1])<<32 | uint64(got[0][2*i]))
	}
	return out
}

// wideValues draws float64 numbers: of all sizes that results of float32 operands
// have, some with few bits, some whose sums and products are ties, and special ones.
func wideValues(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	special := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 1, -1, 1 + 0x1p-52, 2 - 0x1p-52, 0x1p-149, math.MaxFloat32}
	for i := range x {
		v := rng.Uint64()
		exponent := 1023 - 300 + rng.Uint64N(600)
		if i%2 == 0 {
			exponent = 1023 - 30 + rng.Uint64N(60)
		}
		switch rng.IntN(6) {
		case 0:
			v &^= 1<<(rng.Uint64N(50)) - 1
		case 1:
			v |= 1<<(rng.Uint64N(50)) - 1
		case 2:
			v &= 1<<63 | 0xffff
		}
		x[i] = math.Float64frombits(v&(1<<63|1<<52-1) | exponent<<52)
		if rng.IntN(20) == 0 {
			x[i] = special[rng.IntN(len(special))]
		}
	}
	return x
}

// sameWide compares bits; NaNs have one pattern on the device.
func sameWide(got, want float64) bool {
	if want != want {
		return math.Float64bits(got) == 0x7ff80000<<32
	}
	return math.Float64bits(got) == math.Float64bits(want)
}

func TestWideArithmetic(t *testing.T) {
	const n = 100_000
	for _, c := range []struct {
		of, statement string
		want          func(x, y float64) float64
		positive      bool
	}{
		{"long_finish", "wideAdd(xh, xl, yh, yl);", func(x, y float64) float64 { return x + y }, false},
		{"long_finish", "wideMul(xh, xl, yh, yl);", func(x, y float64) float64 { return x * y }, false},
		{"mish", "wideQuotient(xh, xl, yh, yl);", func(x, y float64) float64 { return x / y }, true},
		{"mish", "wideAdd(xh, xl, xh, xl);", func(x, y float64) float64 { return x + x }, false},
	} {
		rng := rand.New(rand.NewPCG(6, 6))
		a, b := wideValues(rng, n), wideValues(rng, n)
		for i := range a {
			switch {
			case c.positive:
				for b[i] = math.Abs(b[i]); b[i]-b[i] != 0 || b[i] == 0; {
					b[i] = 1 + rng.Float64()
				}
				if a[i]-a[i] != 0 {
					a[i] = rng.NormFloat64()
				}
				if i%3 == 0 { // a quotient with few bits
					a[i] = b[i] * float64(float32(rng.NormFloat64()))
				}
			case i%5 == 0: // sums that cancel, and that tie
				b[i] = -a[i] * (1 + float64(rng.IntN(9)-4)*0x1p-52)
			case i%5 == 1:
				b[i] = a[i] * 0x1p-53 * float64(1+rng.IntN(3))
			case i%5 == 2:
				b[i] = -a[i] * math.Ldexp(1, -rng.IntN(130))
			}
		}
		bad := 0
		for i, got := range evaluateWide(t, c.of, c.statement, a, b) {
			if want := c.want(a[i], b[i]); !sameWide(got, want) {
				if bad++; bad > 5 {
					t.Fatal("and so on")
				}
				t.Errorf("%s of %x, %x is %x, expected %x", c.statement, a[i], b[i], got, want)
			}
		}
	}
}

func TestNarrow(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	x := wideValues(rng, 100_000)
	for i := range x {
		switch f := float64(math.Float32frombits(rng.Uint32())); {
		case f-f != 0:
		case i%6 == 0: // halfway between two float32 numbers, or next to it
			x[i] = math.Float64frombits(math.Float64bits(f) + 1<<28 + rng.Uint64N(3) - 1)
		case i%6 == 1: // subnormal as a float32
			x[i] = f * 0x1p-126 / math.MaxFloat32 * 0x1p127
		case i%6 == 2: // a float32, and its way back
			x[i] = f
		case i%6 == 3: // halfway below the least normal number
			x[i] = (float64(rng.IntN(64)) + 0.5) * 0x1p-149
		case i%6 == 4:
			x[i] = math.MaxFloat32 + float64(rng.IntN(5))*0x1p102
		}
	}
	for i, got := range evaluateWide(t, "long_finish", "xl = F2U(narrow(xh, xl));\nxh = 0u;", x, x) {
		want := float32(x[i])
		if want != want {
			want = fmath.NaN()
		}
		if math.Float64bits(got) != uint64(math.Float32bits(want)) {
			t.Fatalf("%x becomes %#08x, expected %#08x", x[i], math.Float64bits(got), math.Float32bits(want))
		}
	}
	for i, got := range evaluateWide(t, "long_finish", "widen(U2F(xl), xh, xl);", x, x) {
		want := float64(math.Float32frombits(uint32(math.Float64bits(x[i]))))
		if want != want && got != got {
			continue
		}
		if math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("%#08x becomes %x, expected %x", uint32(math.Float64bits(x[i])), got, want)
		}
	}
}

// TestSineAndMish: functions with the CPU device's steps have its bits.
func TestSineAndMish(t *testing.T) {
	for _, f := range []struct {
		name string
		want func(float32) float32
		span float64
	}{{"mish", fmath.Mish, 125}, {"sine", fmath.Sin, 1 << 22}} {
		k, _ := kernel.Lookup(f.name)
		rng := rand.New(rand.NewPCG(8, 8))
		x := patterns(rng, 100_000)
		for i := range x {
			switch i % 4 {
			case 0:
				x[i] = math.Float32bits(float32((2*rng.Float64() - 1) * f.span))
			case 1:
				x[i] = math.Float32bits(float32(8 * rng.NormFloat64()))
			}
		}
		c := kerneltest.Case{Name: f.name, Buffers: [][]uint32{x, make([]uint32, len(x)), {0x3f800000}}}
		step := kerneltest.Step{Kernel: k, Bind: []int{0, 1}, Push: []uint32{uint32(len(x)), kernel.RoundF32}}
		if f.name == "sine" {
			step = kerneltest.Step{Kernel: k, Bind: []int{0, 2, 1}, Push: []uint32{uint32(len(x)), 1}}
		}
		c.Steps = []kerneltest.Step{step}
		got, err := c.Run(context.Background(), open(t, soft.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		for i, g := range got[1] {
			if want := math.Float32bits(f.want(math.Float32frombits(x[i]))); g != want {
				t.Fatalf("%s(%v) = %#08x, expected %#08x", f.name, math.Float32frombits(x[i]), g, want)
			}
		}
	}
}

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

// evaluate computes an expression of the floats x and y with the library's
// functions.
func evaluate(t *testing.T, expression string, a, b []uint32) []uint32 {
	t.Helper()
	probe, _ := kernel.Lookup("probe") // has all functions
	k := *probe
	k.Name = "evaluate"
	k.Buffers = []kernel.Buffer{{Name: "a", Type: "uint"}, {Name: "b", Type: "uint"}, {Name: "r", Type: "uint", Writes: true}}
	k.Body = `uint i = gid.x;
if (i >= p.n) {
	return;
}
float x = U2F(a[i]);
float y = U2F(b[i]);
r[i] = F2U(` + expression + `);
`
	c := kerneltest.Case{Name: expression, Buffers: [][]uint32{a, b, make([]uint32, len(a))},
		Steps: []kerneltest.Step{{Kernel: &k, Bind: []int{0, 1, 2}, Push: []uint32{uint32(len(a))}}}}
	got, err := c.Run(context.Background(), open(t, soft.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	return got[2]
}

// patterns draws bits of floats: anything, and for a third of them exponents that
// are near those of 1, so that quotients and sums are not all out of range.
func patterns(rng *rand.Rand, n int) []uint32 {
	x := make([]uint32, n)
	for i := range x {
		x[i] = rng.Uint32()
		switch i % 6 {
		case 0, 1:
			x[i] = x[i]&0x83ffffff | 0x3c000000
		case 2: // subnormal, or nearly
			x[i] &= 0x80ffffff
		case 3: // few bits set: quotients and roots that are exact or nearly ties
			x[i] &= 0xfff80000
		}
	}
	return x
}

const samples = 300_000

func TestQuotientIsCorrectlyRounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	a, b := patterns(rng, samples), patterns(rng, samples)
	rng.Shuffle(len(b), func(i, j int) { b[i], b[j] = b[j], b[i] })
	// Quotients just above and below halfway: a = b·(m+½) ± a bit.
	for range samples / 3 {
		y := rng.Uint32()&0x7fffff | 0x3f800000
		m := float64(rng.Uint32()&0x7fffff|0x800000) + 0.5
		x := math.Float32bits(float32(m * float64(math.Float32frombits(y))))
		a, b = append(a, x+rng.Uint32N(3)-1), append(b, y)
	}
	for i, got := range evaluate(t, "quotient(x, y)", a, b) {
		x, y := math.Float32frombits(a[i]), math.Float32frombits(b[i])
		want := x / y
		if want != want {
			want = fmath.NaN()
		}
		if got != math.Float32bits(want) {
			t.Fatalf("%v / %v = %#08x, expected %v %#08x", x, y, got, want, math.Float32bits(want))
		}
	}
}

func TestRootIsCorrectlyRounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	a := patterns(rng, samples)
	for range samples / 3 { // squares and their neighbours
		x := math.Float32frombits(rng.Uint32()&0x7fffff | 0x3f800000 | rng.Uint32()&0x40000000)
		a = append(a, math.Float32bits(x*x)+rng.Uint32N(3)-1)
	}
	for i, got := range evaluate(t, "root(x)", a, a) {
		if want := math.Float32bits(fmath.Sqrt(math.Float32frombits(a[i]))); got != want {
			t.Fatalf("√%v = %#08x, expected %#08x", math.Float32frombits(a[i]), got, want)
		}
	}
}

// What the CPU device computes in float64 and rounds once is, here, the same but
// for one value in many.
func TestTangentAndErf(t *testing.T) {
	for _, f := range []struct {
		name string
		want func(float32) float32
	}{{"tangent", fmath.Tanh}, {"errorFunction", fmath.Erf}} {
		rng := rand.New(rand.NewPCG(3, 3))
		a := patterns(rng, 4*samples)
		for i := range a {
			if i%2 == 0 { // exponents from −14 to 3
				a[i] = a[i]&0x807fffff | (113+rng.Uint32N(18))<<23
			}
		}
		differ := 0
		for i, got := range evaluate(t, f.name+"(x)", a, a) {
			want := math.Float32bits(f.want(math.Float32frombits(a[i])))
			if got == want {
				continue
			}
			if want&0x7fffffff >= 0x800000 { // erf rounds subnormal results twice
				differ++
			}
			if d := int64(got) - int64(want); d < -1 || d > 1 {
				t.Fatalf("%s(%v) = %#08x, expected %#08x", f.name, math.Float32frombits(a[i]), got, want)
			}
		}
		t.Logf("%s: %d of %d values differ, by one unit in the last place", f.name, differ, len(a))
		if differ > len(a)/100000 {
			t.Error("that is too many")
		}
	}
}

func TestExponentialHasTheStepsOfTheCPU(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	a := patterns(rng, samples)
	for i := range a {
		if i%2 == 0 {
			a[i] = math.Float32bits(float32(200*rng.Float64() - 105))
		}
	}
	for i, got := range evaluate(t, "exponential(x)", a, a) {
		if want := math.Float32bits(fmath.Exp(math.Float32frombits(a[i]))); got != want {
			t.Fatalf("exp(%v) = %#08x, expected %#08x", math.Float32frombits(a[i]), got, want)
		}
	}
}

func TestRoundings(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	a := patterns(rng, samples)
	for i := range a {
		switch i % 8 {
		case 4: // halfway between F16 numbers, and next to it
			a[i] = a[i]&^0x1fff | 0x1000 + rng.Uint32N(3) - 1
		case 5: // subnormal in F16
			a[i] = a[i]&0x807fffff | (100+rng.Uint32N(15))<<23
		case 6: // both, with few bits
			a[i] = a[i]&0x80700000 | (100+rng.Uint32N(15))<<23
		}
	}
	for expression, f := range map[string]func(float32) float32{"toBF16(x)": fmath.RoundBF16, "toF16(x)": fmath.RoundF16} {
		for i, got := range evaluate(t, expression, a, a) {
			if want := math.Float32bits(f(math.Float32frombits(a[i]))); got != want {
				t.Fatalf("%s of %#08x = %#08x, expected %#08x", expression, a[i], got, want)
			}
		}
	}
}

package fmath_test

import (
	"flag"
	"math"
	"math/big"
	"runtime"
	"sync"
	"testing"

	"github.com/hfcompress/compress/internal/fmath"
)

// ulps is the distance of got from the exact value want in units of the last
// place of the float32 nearest to want.
func ulps(got float32, want float64) float64 {
	if math.IsNaN(want) || math.IsInf(want, 0) || math.Abs(want) > math.MaxFloat32 {
		near := float32(want)
		if math.Float32bits(got) == math.Float32bits(near) || (near != near && math.Float32bits(got) == 0x7fc00000) {
			return 0
		}
		// Just past the largest value both the largest and infinity are near.
		if math.Abs(want) < 0x1.000001p128 && math.Abs(float64(got)) == math.MaxFloat32 {
			return 1
		}
		return math.Inf(1)
	}
	_, exp := math.Frexp(want)
	unit := math.Ldexp(1, max(exp-24, -149))
	return math.Abs(float64(got)-want) / unit
}

// scan returns the largest error over the float32 values with bit patterns from
// lo to hi, in steps.
func scan(lo, hi, step uint32, f func(float32) float32, ref func(float64) float64) (worst float64, at float32) {
	workers := runtime.GOMAXPROCS(0)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			most, where := 0.0, float32(0)
			for b := uint64(lo) + uint64(w)*uint64(step); b <= uint64(hi); b += uint64(workers) * uint64(step) {
				x := math.Float32frombits(uint32(b))
				if u := ulps(f(x), ref(float64(x))); u > most || u != u {
					most, where = u, x
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if most > worst {
				worst, at = most, where
			}
		})
	}
	wg.Wait()
	return worst, at
}

const infBits = 0x7f800000

var exhaustive = flag.Bool("exhaustive", false, "measure errors over every float32, which takes minutes")

func TestErrors(t *testing.T) {
	// The references are float64 functions whose own error, about 2^−52, does not
	// show here.
	for _, c := range []struct {
		name  string
		f     func(float32) float32
		ref   func(float64) float64
		limit float64
	}{
		{"exp", fmath.Exp, math.Exp, 1},
		{"tanh", fmath.Tanh, math.Tanh, 0.51},
		{"erf", fmath.Erf, math.Erf, 0.51},
		{"sin", fmath.Sin, math.Sin, 0.51},
		{"cos", fmath.Cos, math.Cos, 0.51},
		{"sqrt", fmath.Sqrt, math.Sqrt, 0.5},
	} {
		step := uint32(1021) // a prime, so that all low bits occur
		if testing.Short() {
			step = 16381
		}
		if *exhaustive {
			step = 1
		}
		for sign, name := range []string{"+", "−"} {
			lo := uint32(sign) << 31
			worst, at := scan(lo, lo+infBits, step, c.f, c.ref)
			t.Logf("%s, sign %s: %.4f ulp at %v", c.name, name, worst, at)
			if worst > c.limit {
				t.Errorf("%s, sign %s: %.4f ulp at %v (%x), limit %v", c.name, name, worst, at, math.Float32bits(at), c.limit)
			}
		}
	}
}

// TestSinCosOfLargeAngles looks closely at the angles that positions up to a
// million give, with a reference in 300 bits.
func TestSinCosOfLargeAngles(t *testing.T) {
	pi, _, err := big.ParseFloat("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798214808651", 10, 360, big.ToNearestEven)
	if err != nil {
		t.Fatal(err)
	}
	half := new(big.Float).Quo(pi, big.NewFloat(2))
	reference := func(x float32) (float64, float64) {
		q := new(big.Float).SetPrec(360).Quo(new(big.Float).SetPrec(360).SetFloat64(float64(x)), half)
		n, _ := new(big.Float).Add(q, big.NewFloat(0.5)).Int(nil)
		rest := new(big.Float).SetPrec(360).Mul(new(big.Float).SetPrec(360).SetInt(n), half)
		rest.Sub(new(big.Float).SetPrec(360).SetFloat64(float64(x)), rest)
		r, _ := rest.Float64()
		s, c := math.Sincos(r)
		switch new(big.Int).And(n, big.NewInt(3)).Int64() {
		case 1:
			s, c = c, -s
		case 2:
			s, c = -s, -c
		case 3:
			s, c = -c, s
		}
		return s, c
	}
	worst := 0.0
	try := func(x float32) {
		s, c := fmath.SinCos(x)
		rs, rc := reference(x)
		u := max(ulps(s, rs), ulps(c, rc))
		if u > worst {
			worst = u
		}
		if u > 0.51 {
			t.Errorf("%v (%x): %.3f ulp", x, math.Float32bits(x), u)
		}
	}
	for i := range 20000 {
		try(float32(i*53) * 0.9943)
	}
	for b := uint32(0x49700000); b < infBits; b += 61001 { // from 983,040 up
		try(math.Float32frombits(b))
	}
	// Near multiples of π/2, where the result cancels most.
	for n := 1; n < 1<<22; n = n*5/4 + 1 {
		x := float32(float64(n) * math.Pi / 2)
		try(x)
		try(math.Nextafter32(x, 0))
		try(math.Nextafter32(x, x*2))
	}
	t.Logf("worst %.4f ulp", worst)
}

func TestPow(t *testing.T) {
	worst := 0.0
	for _, base := range []float32{10000, 500000, 1e6, 10, 2, 1, 0.5} {
		for i := range 513 {
			y := float32(i) / 512
			u := ulps(fmath.Pow(base, y), math.Pow(float64(base), float64(y)))
			worst = max(worst, u)
		}
	}
	t.Logf("worst %.5f ulp", worst)
	if worst > 0.5001 {
		t.Errorf("pow: %v ulp", worst)
	}
	for _, bad := range [][2]float32{{0, 1}, {-1, 1}, {fmath.NaN(), 1}, {2, float32(math.Inf(1))}, {10, 300}} {
		if y := fmath.Pow(bad[0], bad[1]); y == y {
			t.Errorf("pow(%v) = %v", bad, y)
		}
	}
}

func TestActivations(t *testing.T) {
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	// From −87 up no intermediate result of 1/(1+e^−x) is out of range.
	for _, c := range []struct {
		name  string
		f     func(float32) float32
		ref   func(float64) float64
		limit float64
	}{
		{"sigmoid", fmath.Sigmoid, sigmoid, 3},
		{"silu", fmath.SiLU, func(x float64) float64 { return x * sigmoid(x) }, 3},
	} {
		w1, a1 := scan(0, math.Float32bits(87), 1021, c.f, c.ref)
		w2, a2 := scan(1<<31, math.Float32bits(-87), 1021, c.f, c.ref)
		t.Logf("%s: %.3f ulp at %v, %.3f ulp at %v", c.name, w1, a1, w2, a2)
		if max(w1, w2) > c.limit {
			t.Errorf("%s: %v at %v, %v at %v", c.name, w1, a1, w2, a2)
		}
	}
	// The GELUs cancel for negative arguments, so their error is absolute.
	gelu := func(x float64) float64 { return x * 0.5 * math.Erfc(-x/math.Sqrt2) }
	geluTanh := func(x float64) float64 {
		return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}
	for x := float32(-12); x < 12; x += 0.00037 {
		tolerance := 2.5e-7 * max(1, math.Abs(float64(x)))
		if d := math.Abs(float64(fmath.GELU(x)) - gelu(float64(x))); d > tolerance {
			t.Fatalf("gelu(%v) is off by %v", x, d)
		}
		if d := math.Abs(float64(fmath.GELUTanh(x)) - geluTanh(float64(x))); d > tolerance {
			t.Fatalf("gelu_tanh(%v) is off by %v", x, d)
		}
	}
}

func TestSpecialValues(t *testing.T) {
	inf, negZero := float32(math.Inf(1)), float32(math.Copysign(0, -1))
	for _, c := range []struct {
		name    string
		f       func(float32) float32
		x, want float32
	}{
		{"exp", fmath.Exp, inf, inf}, {"exp", fmath.Exp, -inf, 0}, {"exp", fmath.Exp, negZero, 1},
		{"exp", fmath.Exp, 88.72284, inf}, {"exp", fmath.Exp, -103.2789, math.SmallestNonzeroFloat32},
		{"tanh", fmath.Tanh, inf, 1}, {"tanh", fmath.Tanh, negZero, negZero},
		{"erf", fmath.Erf, -inf, -1}, {"erf", fmath.Erf, negZero, negZero},
		{"sin", fmath.Sin, inf, fmath.NaN()}, {"sin", fmath.Sin, negZero, negZero}, {"cos", fmath.Cos, negZero, 1},
		{"sigmoid", fmath.Sigmoid, -inf, 0}, {"sigmoid", fmath.Sigmoid, inf, 1},
		{"silu", fmath.SiLU, -200, negZero}, {"silu", fmath.SiLU, -inf, fmath.NaN()},
		{"gelu", fmath.GELU, inf, inf}, {"gelu", fmath.GELU, -inf, fmath.NaN()},
		{"gelu_tanh", fmath.GELUTanh, 1e20, 1e20},
	} {
		if got := c.f(c.x); math.Float32bits(got) != math.Float32bits(c.want) {
			t.Errorf("%s(%v) = %v (%08x), want %v", c.name, c.x, got, math.Float32bits(got), c.want)
		}
	}
	odd := math.Float32frombits(0xffc12345)
	for name, f := range map[string]func(float32) float32{
		"exp": fmath.Exp, "tanh": fmath.Tanh, "erf": fmath.Erf, "sin": fmath.Sin, "cos": fmath.Cos, "sqrt": fmath.Sqrt,
		"sigmoid": fmath.Sigmoid, "silu": fmath.SiLU, "gelu": fmath.GELU, "gelu_tanh": fmath.GELUTanh,
	} {
		if got := math.Float32bits(f(odd)); got != 0x7fc00000 {
			t.Errorf("%s(NaN) = %08x", name, got)
		}
	}
}

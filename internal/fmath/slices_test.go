package fmath_test

import (
	"math"
	"testing"

	"github.com/hfcompress/compress/internal/fmath"
)

// TestSlicesAreTheScalarFunctions compares bits over a sample of all float32
// values, NaNs and infinities included, and at every length up to 40.
func TestSlicesAreTheScalarFunctions(t *testing.T) {
	const block = 1 << 12
	src, exps, silus := make([]float32, block), make([]float32, block), make([]float32, block)
	gelus, tanhs := make([]float32, block), make([]float32, block)
	step := uint64(2039)
	if testing.Short() {
		step = 8191
	}
	compare := func(n int) {
		copy(exps, src[:n])
		fmath.Exps(exps[:n])
		fmath.SiLUs(silus[:n], src[:n])
		fmath.GELUs(gelus[:n], src[:n])
		fmath.GELUTanhs(tanhs[:n], src[:n])
		for i, x := range src[:n] {
			if a, b := exps[i], fmath.Exp(x); math.Float32bits(a) != math.Float32bits(b) {
				t.Fatalf("exps of %v (%08x): %08x, want %08x", x, math.Float32bits(x), math.Float32bits(a), math.Float32bits(b))
			}
			if a, b := silus[i], fmath.SiLU(x); math.Float32bits(a) != math.Float32bits(b) {
				t.Fatalf("silus of %v (%08x): %08x, want %08x", x, math.Float32bits(x), math.Float32bits(a), math.Float32bits(b))
			}
			if a, b := gelus[i], fmath.GELU(x); math.Float32bits(a) != math.Float32bits(b) {
				t.Fatalf("gelus of %v (%08x): %08x, want %08x", x, math.Float32bits(x), math.Float32bits(a), math.Float32bits(b))
			}
			if a, b := tanhs[i], fmath.GELUTanh(x); math.Float32bits(a) != math.Float32bits(b) {
				t.Fatalf("tanhs of %v (%08x): %08x, want %08x", x, math.Float32bits(x), math.Float32bits(a), math.Float32bits(b))
			}
		}
	}
	n := 0
	for b := uint64(0); b < 1<<32; b += step {
		src[n] = math.Float32frombits(uint32(b))
		if n++; n == block {
			compare(n)
			n = 0
		}
	}
	compare(n)
	n = 0
	// Around the bounds of the intervals of erf and tanh, and where they are used.
	for _, at := range []float32{0x1p-12, 1, 2, 3, 3.9192058, 9.02} {
		for _, scale := range []float32{1, 1.4142135, 1.1, 0.9, 2} {
			x := at * scale
			for range block / 2 {
				src[n%block], src[n%block+1] = x, -x
				x = math.Nextafter32(x, 10)
				if n += 2; n%block == 0 {
					compare(block)
				}
			}
		}
	}
	for i := range 1 << 20 {
		src[n%block] = float32(i)*(24.0/(1<<20)) - 12
		if n++; n%block == 0 {
			compare(block)
		}
	}
	// Where the arguments matter: from −104 to 89.
	for i := range 1 << 20 {
		src[n%block] = float32(i)*(193.0/(1<<20)) - 104
		if n++; n%block == 0 {
			compare(block)
		}
	}
	for n := range 40 {
		compare(n)
	}
}

func BenchmarkExps(b *testing.B) {
	x := make([]float32, 4096)
	b.SetBytes(4 * 4096)
	for b.Loop() {
		for i := range x {
			x[i] = float32(i) * -0.01
		}
		fmath.Exps(x)
	}
}

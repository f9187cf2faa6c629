package fmath_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/hfcompress/compress/internal/fmath"
)

// TestHalfPatterns goes through every pattern of both formats: widening is
// exact, narrowing gives the pattern back, rounding changes nothing, and slices
// are the scalar functions.
func TestHalfPatterns(t *testing.T) {
	for _, f := range []struct {
		name           string
		value          func(uint16) float32
		bits           func(float32) uint16
		round          func(float32) float32
		widen          func([]float32, []uint16)
		exponent, frac int
	}{
		{"bf16", fmath.BF16, fmath.BF16Bits, fmath.RoundBF16, fmath.WidenBF16, 8, 7},
		{"f16", fmath.F16, fmath.F16Bits, fmath.RoundF16, fmath.WidenF16, 5, 10},
	} {
		src, dst := make([]uint16, 1<<16), make([]float32, 1<<16)
		for i := range src {
			src[i] = uint16(i)
		}
		f.widen(dst[:3], src[7:10])
		for i, v := range dst[:3] {
			if math.Float32bits(v) != math.Float32bits(f.value(src[7+i])) {
				t.Fatalf("%s: short slice at %d", f.name, i)
			}
		}
		f.widen(dst, src)
		for i, b := range src {
			v := f.value(b)
			if want := dst[i]; math.Float32bits(v) != math.Float32bits(want) {
				t.Fatalf("%s %04x: slice %08x, scalar %08x", f.name, b, math.Float32bits(want), math.Float32bits(v))
			}
			if got := f.bits(v); got != b {
				t.Fatalf("%s %04x: comes back as %04x", f.name, b, got)
			}
			if got := f.round(v); math.Float32bits(got) != math.Float32bits(v) {
				t.Fatalf("%s %04x: rounded to another value", f.name, b)
			}
			// The definition, in float64.
			exp, frac := int(b>>f.frac)&(1<<f.exponent-1), float64(b&(1<<f.frac-1))
			bias := 1<<(f.exponent-1) - 1
			var want float64
			switch exp {
			case 1<<f.exponent - 1:
				if frac != 0 {
					if v == v {
						t.Fatalf("%s %04x is %v, want NaN", f.name, b, v)
					}
					continue
				}
				want = math.Inf(1)
			case 0:
				want = math.Ldexp(frac, 1-bias-f.frac)
			default:
				want = math.Ldexp(1+math.Ldexp(frac, -f.frac), exp-bias)
			}
			if b>>15 == 1 {
				want = -want
			}
			if float64(v) != want || math.Signbit(float64(v)) != math.Signbit(want) {
				t.Fatalf("%s %04x is %v, want %v", f.name, b, v, want)
			}
		}
	}
}

// TestHalfRounding compares with rounding to so many bits by math/big, at all
// midpoints between neighbours and one float32 beside them.
func TestHalfRounding(t *testing.T) {
	for _, f := range []struct {
		name  string
		value func(uint16) float32
		round func(float32) float32
		top   uint16
	}{
		{"bf16", fmath.BF16, fmath.RoundBF16, 0x7f7f},
		{"f16", fmath.F16, fmath.RoundF16, 0x7bff},
	} {
		for b := range f.top {
			low, high := f.value(b), f.value(b+1)
			mid, _ := new(big.Float).Quo(new(big.Float).Add(big.NewFloat(float64(low)), big.NewFloat(float64(high))), big.NewFloat(2)).Float32()
			even := low
			if b&1 == 1 {
				even = high
			}
			for _, c := range []struct{ x, want float32 }{
				{mid, even},
				{math.Nextafter32(mid, low), low},
				{math.Nextafter32(mid, high), high},
			} {
				for _, sign := range []float32{1, -1} {
					x, want := sign*c.x, sign*c.want
					if got := f.round(x); math.Float32bits(got) != math.Float32bits(want) {
						t.Fatalf("%s: %v rounds to %v, want %v", f.name, x, got, want)
					}
				}
			}
		}
		if got := f.round(math.MaxFloat32); !math.IsInf(float64(got), 1) {
			t.Errorf("%s: the largest float32 rounds to %v", f.name, got)
		}
		for _, nan := range []uint32{0x7fc00000, 0x7f800001, 0xffffffff} {
			if got := f.round(math.Float32frombits(nan)); got == got || math.Float32bits(got)>>31 != nan>>31 {
				t.Errorf("%s: NaN %08x rounds to %08x", f.name, nan, math.Float32bits(got))
			}
		}
	}
	if got := fmath.RoundF16(65519.99); got != 65504 {
		t.Errorf("65519.99 rounds to %v", got)
	}
	if got := fmath.RoundF16(65520); !math.IsInf(float64(got), 1) {
		t.Errorf("65520 rounds to %v", got)
	}
}

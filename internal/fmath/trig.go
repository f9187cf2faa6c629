package fmath

import (
	"math"
	"math/bits"
)

// Sin returns the sine of x in radians, and Cos the cosine. Both are computed in
// float64 and rounded once: the error is below 0.51 ulp for every finite
// argument. Infinities give NaN.
func Sin(x float32) float32 {
	s, _ := SinCos(x)
	return s
}

// Cos is the companion of [Sin].
func Cos(x float32) float32 {
	_, c := SinCos(x)
	return c
}

// SinCos returns both at once.
func SinCos(x float32) (sin, cos float32) {
	if x-x != 0 { // infinite or NaN
		return NaN(), NaN()
	}
	if x == 0 {
		return x, 1 // keeps the sign of zero
	}
	quadrant, r := reduce(math.Abs(float64(x)))
	z := float64(r * r)
	p := float64(-2.48051454067474318e-8*z) + 2.75559856252008621e-6
	p = float64(p*z) + -0.000198412668994373986
	p = float64(p*z) + 0.00833333333106116007
	p = float64(p*z) + -0.16666666666663858
	s := r + float64(float64(p*z)*r)
	p = float64(2.07002494675627724e-9*z) + -2.75563659022590211e-7
	p = float64(p*z) + 0.0000248015851984412168
	p = float64(p*z) + -0.0013888888887264426
	p = float64(p*z) + 0.0416666666666646587
	c := 1 - float64(0.5*z) + float64(float64(p*z)*z)
	switch quadrant {
	case 1:
		s, c = c, -s
	case 2:
		s, c = -s, -c
	case 3:
		s, c = -c, s
	}
	if x < 0 {
		s = -s
	}
	return float32(s), float32(c)
}

// reduce returns x − n·π/2 for the nearest integer n, and n mod 4. The absolute
// error is about 2^−60 for small x and always below 2^−57 relative to the
// distance that a float32 can have from a multiple of π/2.
func reduce(x float64) (quadrant uint, r float64) {
	if x < 1<<20 {
		const (
			hi    = 0x1.921fb54400000p+0  // 33 bits
			mid   = 0x1.0b4611a600000p-34 // 33 bits
			low   = 0x1.3198a2e037073p-69
			magic = 0x1.8p52
		)
		t := float64(x*0x1.45f306dc9c883p-1) + magic
		n := uint(math.Float64bits(t))
		t -= magic
		r = x - float64(t*hi) // exact: n has 20 bits
		r -= float64(t * mid)
		r -= float64(t * low)
		return n & 3, r
	}
	// x is an integer m·2^e with 24 bits in m and 0 ≤ e ≤ 104 (or has a few
	// fraction bits, e ≥ −4), so only the bits of 2/π from 2^(1−e) down matter for
	// the quadrant and the fraction: take 128 of them.
	frac, exp := math.Frexp(x)
	m := uint64(frac * (1 << 24))
	e := exp - 24
	// The product in units of 2^−126, modulo 4 = 2^128: m · floor(2/π·2^(e+126)).
	w1, w0 := twoOverPiBits(e + 126)
	h, lo := bits.Mul64(m, w0)
	h += m * w1
	// The top two bits are the quadrant, the others the fraction of a quarter turn.
	quadrant = uint(h >> 62)
	h <<= 2
	h |= lo >> 62
	f := int64(h) // in units of 2^−64 quarter turns, rounded to the nearest turn
	if f < 0 {
		quadrant++
	}
	return quadrant & 3, float64(f) * (0x1p-64 * (math.Pi / 2))
}

// twoOverPi holds the first 256 bits of 2/π after the binary point.
var twoOverPi = [...]uint64{0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561}

// twoOverPiBits returns the low 128 bits of floor(2/π·2^n) for 0 < n ≤ 256.
func twoOverPiBits(n int) (hi, lo uint64) {
	// Bit i after the point has weight 2^(n−i): take bits n−127 … n.
	word := func(last int) uint64 { // the 64 bits that end with bit number last
		var w uint64
		i, shift := (last-1)/64, uint((last-1)%64)
		if last <= 0 {
			return 0
		}
		if i < len(twoOverPi) {
			w = twoOverPi[i] >> (63 - shift)
		}
		if i > 0 && shift != 63 {
			w |= twoOverPi[i-1] << (shift + 1)
		}
		return w
	}
	return word(n - 64), word(n)
}

package fmath

import "math"

// Pow returns x^y, computed in float64 and rounded once to float32. x must be
// positive and finite and the result within float32's range; this is all that
// rotary frequencies need. Other arguments give NaN.
func Pow(x, y float32) float32 {
	if !(x > 0) || x > math.MaxFloat32 || y-y != 0 {
		return NaN()
	}
	e := float64(float64(y) * log64(float64(x)))
	if !(math.Abs(e) <= 100) {
		return NaN()
	}
	return float32(exp64(e))
}

// log64 returns the natural logarithm of a positive normal x with an absolute
// error of a few 2^−52.
func log64(x float64) float64 {
	frac, exp := math.Frexp(x) // exact
	if frac < math.Sqrt2/2 {
		frac, exp = frac*2, exp-1
	}
	// log f = 2·artanh(s) with s = (f−1)/(f+1), |s| ≤ 0.1716: terms to s²³.
	s := (frac - 1) / (frac + 1)
	z := float64(s * s)
	sum := 0.0
	for n := 23; n >= 1; n -= 2 {
		sum = float64(sum*z) + 1/float64(n)
	}
	return float64(float64(exp)*math.Ln2) + float64(2*s*sum)
}

// Log returns the natural logarithm of a positive normal x, with an absolute
// error of a few 2^−52.
func Log(x float64) float64 {
	if !(x >= 0x1p-1022) || x > math.MaxFloat64 {
		return math.NaN()
	}
	return log64(x)
}

package fmath

import "math"

// Mish returns x·tanh(ln(1+e^x)) (Misra, 2019). It is computed in float64, as
// x·n/(n+2) with n = e^x·(e^x+2), and rounded once: its error is below 0.51 ulp.
// The limits are those of the formula: −Inf gives NaN.
func Mish(x float32) float32 {
	switch {
	case x != x || x < -math.MaxFloat32:
		return NaN()
	case x > 20: // 1 − 2e^−40 of it is nearer to it than to any other
		return x
	case x < -120: // e^x·x is nearer to 0 than to the least subnormal
		return float32(math.Copysign(0, -1))
	}
	e := exp64(float64(x))
	n := float64(e * (e + 2))
	return float32(float64(float64(x)*n) / (n + 2))
}

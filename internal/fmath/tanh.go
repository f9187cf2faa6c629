package fmath

import "math"

// Tanh returns the hyperbolic tangent of x. It is computed in float64 and
// rounded once: its error is below 0.51 ulp.
func Tanh(x float32) float32 {
	if x != x {
		return NaN()
	}
	a := math.Abs(float64(x))
	var y float64
	switch {
	case a < 0x1p-12:
		// The quotient below would cancel; the next term is 2a⁵/15.
		y = a - float64(float64(a*a)*float64(a/3))
	case a < 9.02:
		e := exp64(-2 * a)
		y = (1 - e) / (1 + e)
	default:
		y = 1
	}
	return float32(math.Copysign(y, float64(x)))
}

// GELUTanh returns ½x·(1+tanh(√(2/π)·(x+0.044715·x³))), each operation rounded to
// float32 (Hendrycks and Gimpel, 2016).
func GELUTanh(x float32) float32 {
	const (
		beta  = float32(0.79788456080286535588) // √(2/π)
		kappa = float32(0.044715)
	)
	cube := float32(float32(x*x) * x)
	inner := float32(beta * (x + float32(kappa*cube)))
	r := float32(0.5*x) * float32(1+Tanh(inner))
	if r != r {
		return NaN()
	}
	return r
}

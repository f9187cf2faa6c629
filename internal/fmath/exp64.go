package fmath

// Exp64 returns e^x for |x| ≤ 700 with a relative error below 2^−50, so that its
// float32 is correctly rounded but for one argument in some 2^26.
func Exp64(x float64) float64 { return exp64(x) }

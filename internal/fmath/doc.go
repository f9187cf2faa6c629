// Package fmath holds elementary functions whose bits are the same on every
// machine. Each is a fixed sequence of additions, subtractions, multiplications,
// divisions and bit operations on float32 or float64; each product that is then
// added is converted explicitly, so that no compiler fuses the two (the Go
// specification allows fusing, and several ports do it). The standard library's
// functions differ between processors, and even between GOAMD64 levels.
//
// Results that are not a number are the one quiet NaN 0x7fc00000, since
// processors differ in the sign and payload of the NaNs they make. The largest
// errors, in units in the last place of the result, are stated with each
// function and measured by the tests: over all float32 arguments where the
// function is odd or even or narrow, over a dense sample otherwise.
package fmath

import "math"

// NaN returns the quiet NaN 0x7fc00000 that stands for every NaN result.
func NaN() float32 { return math.Float32frombits(nanBits) }

const nanBits = 0x7fc00000

// Sqrt returns the square root of x, correctly rounded as IEEE 754 demands.
func Sqrt(x float32) float32 {
	// The compiler turns this form into the single-precision instruction.
	r := float32(math.Sqrt(float64(x)))
	if r != r {
		return NaN()
	}
	return r
}

package fmath_test

import (
	"math"
	"testing"

	"github.com/hfcompress/compress/internal/fmath"
)

func TestExp64(t *testing.T) {
	for x := -700.0; x <= 700; x += 0.37 {
		if got, want := fmath.Exp64(x), math.Exp(x); math.Abs(got/want-1) > 0x1p-50 {
			t.Errorf("e^%g is %g, want %g", x, got, want)
		}
	}
}

package fmath_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"testing"

	"github.com/hfcompress/compress/internal/fmath"
)

// TestMish compares a sample of all arguments with the formula in float64, whose
// own rounding is far below a float32 unit, and holds the bits to a digest.
func TestMish(t *testing.T) {
	var buf []byte
	worst := 0.0
	for b := uint64(0); b < 1<<32; b += 65521 {
		x := math.Float32frombits(uint32(b))
		y := fmath.Mish(x)
		buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(y))
		if x != x || x < -math.MaxFloat32 {
			continue
		}
		want := float64(x) * math.Tanh(math.Log1p(math.Exp(float64(x))))
		_, exp := math.Frexp(want)
		ulp := math.Ldexp(1, max(exp-24, -149))
		if d := math.Abs(float64(y)-want) / ulp; !(d <= worst) && want != float64(y) {
			worst = d
		}
	}
	if !(worst <= 0.51) {
		t.Errorf("%.4f units in the last place off", worst)
	}
	sum := sha256.Sum256(buf)
	if got := hex.EncodeToString(sum[:8]); got != "c703d5388e48d856" {
		t.Errorf("%s", got)
	}
	inf := float32(math.Inf(1))
	for _, c := range []struct{ x, want float32 }{
		{0, 0}, {inf, inf}, {-math.MaxFloat32, float32(math.Copysign(0, -1))}, {math.MaxFloat32, math.MaxFloat32}, {20, 20}, {-inf, fmath.NaN()},
		{math.Float32frombits(0xffc00001), fmath.NaN()},
	} {
		if got := fmath.Mish(c.x); math.Float32bits(got) != math.Float32bits(c.want) {
			t.Errorf("mish(%g) = %g, want %g", c.x, got, c.want)
		}
	}
}

package fmath_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"testing"

	"github.com/hfcompress/compress/internal/fmath"
)

// TestGoldenBits holds each function to the digest of its results over a sample
// of all float32 bit patterns; every processor and build must give the same.
func TestGoldenBits(t *testing.T) {
	for _, c := range []struct {
		name, want string
		f          func(float32) float32
	}{
		{"exp", "f7ba5966108857ca", fmath.Exp}, {"sigmoid", "5a5a908b9911cbdd", fmath.Sigmoid}, {"silu", "466ab38d8f9074ba", fmath.SiLU},
		{"tanh", "7aaaba1e261ede93", fmath.Tanh}, {"erf", "15b52e844a4b96d8", fmath.Erf}, {"gelu", "cdb580b984248ffa", fmath.GELU},
		{"gelu_tanh", "2436175dda8686cc", fmath.GELUTanh}, {"sin", "37e879b8983d1d2f", fmath.Sin}, {"cos", "4ae5ffaf6e282c15", fmath.Cos},
		{"sqrt", "42705624ce2f8907", fmath.Sqrt}, {"pow", "856a1292926fb921", func(x float32) float32 { return fmath.Pow(x, 0.3125) }},
	} {
		var buf []byte
		for b := uint64(0); b < 1<<32; b += 65521 {
			y := c.f(math.Float32frombits(uint32(b)))
			buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(y))
		}
		sum := sha256.Sum256(buf)
		if got := hex.EncodeToString(sum[:8]); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

package kerneltest

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/metalgpu/internal/kernel"
	"github.com/hfcompress/compress/tensor"
)

// gen draws values.
type gen struct{ *rand.Rand }

// between draws from lo to hi, both included.
func (g *gen) between(lo, hi int) int { return lo + g.IntN(hi-lo+1) }

func (g *gen) coin() bool { return g.IntN(2) == 0 }

// hard are values at which functions and roundings turn.
var hard = []uint32{0, 0x80000000, 1, 0x80000001, 0x007fffff, 0x00800000, 0x3f7fffff, 0x3f800000, 0xbf800000, 0x7f7fffff, 0xff7fffff,
	0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x477fefff, 0x477ff000, 0x33800000, 0x33000000, 0x38800000, 0x41200000, 0xc2ae0000}

// spice says how wild values are: tame ones are normally distributed.
type spice int

const (
	tame   spice = iota
	varied       // also large, small, zero and subnormal, but finite
	wild         // also infinite and NaN
)

func (g *gen) spice() spice {
	switch g.IntN(8) {
	case 0:
		return wild
	case 1, 2:
		return varied
	}
	return tame
}

// floats draws n values that type t has.
func (g *gen) floats(n int, s spice, t tensor.DType) []float32 {
	x := make([]float32, n)
	for i := range x {
		v := float32(g.NormFloat64())
		switch {
		case s == tame:
		case g.IntN(6) == 0:
			v = math.Float32frombits(g.Uint32())
		case g.IntN(6) == 0:
			v = math.Float32frombits(hard[g.IntN(len(hard))])
		case g.IntN(4) == 0:
			v *= float32(math.Exp(8 * g.NormFloat64()))
		}
		v = rounded(v, t)
		if s == varied && v-v != 0 {
			v = 0
		}
		x[i] = v
	}
	return x
}

func rounded(v float32, t tensor.DType) float32 {
	switch t {
	case tensor.BF16:
		return fmath.RoundBF16(v)
	case tensor.F16:
		return fmath.RoundF16(v)
	}
	return v
}

// types are the types that models compute in, by the number of the push constant
// round.
var types = []tensor.DType{kernel.RoundF32: tensor.F32, kernel.RoundBF16: tensor.BF16, kernel.RoundF16: tensor.F16}

var typeNames = []string{"f32", "bf16", "f16"}

// stored returns values of a type as a buffer holds them, from element offset on.
func stored(x []float32, t tensor.DType, offset int) []uint32 {
	if t == tensor.F32 {
		return append(make([]uint32, offset), words(x)...)
	}
	out := make([]uint32, (offset+len(x)+1)/2)
	for i, v := range x {
		b := fmath.BF16Bits(v)
		if t == tensor.F16 {
			b = fmath.F16Bits(v)
		}
		e := offset + i
		out[e/2] |= uint32(b) << (16 * (e % 2))
	}
	return out
}

// host makes a tensor of values that its type has.
func host(x []float32, t tensor.DType, shape ...int) *tensor.Tensor {
	h, err := tensor.New(t, shape...)
	if err != nil {
		panic(err)
	}
	if t == tensor.F32 {
		copy(h.Float32s(), x)
		return h
	}
	for i, dst := 0, h.Uint16s(); i < len(dst); i++ {
		if dst[i] = fmath.BF16Bits(x[i]); t == tensor.F16 {
			dst[i] = fmath.F16Bits(x[i])
		}
	}
	return h
}

// values are the widened bits of a tensor.
func values(h *tensor.Tensor) []uint32 {
	out := make([]uint32, h.Len())
	for i := range out {
		switch h.DType() {
		case tensor.BF16:
			out[i] = math.Float32bits(fmath.BF16(h.Uint16s()[i]))
		case tensor.F16:
			out[i] = math.Float32bits(fmath.F16(h.Uint16s()[i]))
		default:
			out[i] = math.Float32bits(h.Float32s()[i])
		}
	}
	return out
}

// cpu is the reference device.
var cpu = sync.OnceValue(func() nn.Device {
	d, err := nn.OpenCPU(nn.CPUOptions{Threads: 1})
	if err != nil {
		panic(err)
	}
	return d
})

// onCPU runs f in a session of the CPU device and returns the values of its
// results.
func onCPU(f func(s nn.Session) []nn.Array) [][]uint32 {
	s := cpu().Begin(context.Background())
	defer s.Close()
	var out [][]uint32
	for _, a := range f(s) {
		if h := s.ToHost(a); h != nil {
			out = append(out, values(h))
		}
	}
	if err := s.Err(); err != nil {
		panic(err)
	}
	return out
}

// upload places a tensor on the CPU device.
func upload(h *tensor.Tensor, use nn.Use) nn.Array {
	a, err := cpu().Upload(h, use)
	if err != nil {
		panic(err)
	}
	return a
}

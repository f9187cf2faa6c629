package nn

import (
	"math"

	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/internal/gemm"
	"github.com/hfcompress/compress/tensor"
)

// Values of the 16-bit types are kept as float32 numbers that the type has, so
// that every operation is that of F32 with its result rounded.

// computes reports whether activations can have the type.
func computes(d tensor.DType) bool {
	return d == tensor.F32 || d == tensor.BF16 || d == tensor.F16
}

// round replaces values by the nearest ones of type d.
func round(d tensor.DType, x []float32) {
	switch d {
	case tensor.BF16:
		fmath.RoundBF16s(x)
	case tensor.F16:
		fmath.RoundF16s(x)
	}
}

// widen sets dst to the values of t, keeping all bits.
func widen(dst []float32, t *tensor.Tensor) {
	switch t.DType() {
	case tensor.BF16:
		fmath.WidenBF16(dst, t.Uint16s())
	case tensor.F16:
		fmath.WidenF16(dst, t.Uint16s())
	default:
		copy(dst, t.Float32s())
	}
}

// narrow is the inverse of widen.
func narrow(t *tensor.Tensor, src []float32) {
	switch t.DType() {
	case tensor.BF16:
		for i, dst := 0, t.Uint16s(); i < len(dst); i++ {
			dst[i] = fmath.BF16Bits(src[i])
		}
	case tensor.F16:
		for i, dst := 0, t.Uint16s(); i < len(dst); i++ {
			dst[i] = fmath.F16Bits(src[i])
		}
	default:
		copy(t.Float32s(), src)
	}
}

// float32s returns the values of t, which are t's own storage when it is F32.
func float32s(t *tensor.Tensor) []float32 {
	if t.DType() == tensor.F32 {
		return t.Float32s()
	}
	v := make([]float32, t.Len())
	widen(v, t)
	return v
}

// packMatrix packs a weight in its own type.
func packMatrix(t *tensor.Tensor, transposed bool) *gemm.Matrix {
	n, k := t.Shape()[0], t.Shape()[1]
	if transposed {
		n, k = k, n
	}
	switch t.DType() {
	case tensor.BF16:
		return gemm.PackBF16(oriented(t.Uint16s(), n, k, transposed), n, k)
	case tensor.F16:
		return gemm.PackNarrow(oriented(t.Uint16s(), n, k, transposed), n, k, fmath.WidenF16)
	}
	return gemm.Pack(oriented(t.Float32s(), n, k, transposed), n, k)
}

// oriented returns w as [n, k]; transposed says that it is [k, n].
func oriented[T float32 | uint16](w []T, n, k int, transposed bool) []T {
	if !transposed {
		return w
	}
	out := make([]T, n*k)
	for i := range k {
		for j, v := range w[i*n : (i+1)*n] {
			out[j*k+i] = v
		}
	}
	return out
}

// geluStepwise rounds x·½, x/√2, erf of it and one more, each.
func geluStepwise(d tensor.DType, dst, src []float32) {
	for i, v := range src {
		s := [2]float32{v * 0.5, v / math.Sqrt2}
		round(d, s[:])
		s[1] = fmath.Erf(s[1])
		round(d, s[1:])
		s[1]++
		round(d, s[1:])
		dst[i] = canonical(s[0] * s[1])
	}
}

// geluTanhStepwise rounds each operation of [fmath.GELUTanh] but the square
// inside the cube in F16, which the reference leaves unrounded there.
func geluTanhStepwise(d tensor.DType, dst, src []float32) {
	const beta, kappa = float32(0.79788456080286535588), float32(0.044715)
	for i, v := range src {
		s := [2]float32{v * 0.5, v * v}
		round(d, s[:1])
		if d == tensor.BF16 {
			round(d, s[1:])
		}
		for _, step := range []func(float32) float32{
			func(y float32) float32 { return y * v },
			func(y float32) float32 { return kappa * y },
			func(y float32) float32 { return v + y },
			func(y float32) float32 { return beta * y },
			fmath.Tanh,
			func(y float32) float32 { return 1 + y },
		} {
			s[1] = step(s[1])
			round(d, s[1:])
		}
		dst[i] = canonical(s[0] * s[1])
	}
}

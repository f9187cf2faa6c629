package esm

import (
	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/tensor"
)

// rounding rounds values to a type; F32 has them all.
func rounding(d tensor.DType) func([]float32) {
	switch d {
	case tensor.BF16:
		return fmath.RoundBF16s
	case tensor.F16:
		return fmath.RoundF16s
	}
	return func([]float32) {}
}

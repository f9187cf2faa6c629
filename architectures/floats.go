package architectures

import (
	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/tensor"
)

// Floats returns the values of a tensor of type F32, BF16 or F16; those of F32
// are the tensor's own.
func Floats(t *tensor.Tensor) []float32 {
	switch t.DType() {
	case tensor.BF16:
		v := make([]float32, t.Len())
		fmath.WidenBF16(v, t.Uint16s())
		return v
	case tensor.F16:
		v := make([]float32, t.Len())
		fmath.WidenF16(v, t.Uint16s())
		return v
	}
	return t.Float32s()
}

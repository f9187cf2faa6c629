package nn

import (
	"math/bits"
	"sync"

	"github.com/hfcompress/compress/internal/gemm"
	"github.com/hfcompress/compress/tensor"
)

// array is the [Array] of the CPU device: exactly one of f, other and matrix
// holds the values.
type array struct {
	device *cpu
	// session made the array; nil for uploaded weights.
	session *session
	shape   tensor.Shape
	dtype   tensor.DType

	f      []float32      // F32, BF16, F16; session arrays have pad readable values after it
	other  *tensor.Tensor // all other types
	matrix *gemm.Matrix   // uploaded AsMatrix
	pooled *[]float32     // where f came from
	freed  bool           // by [Trimmer]
}

func (a *array) Shape() tensor.Shape { return a.shape }
func (a *array) DType() tensor.DType { return a.dtype }

// rows and width are for arrays whose rank was checked.
func (a *array) rows() int  { return a.shape[0] }
func (a *array) width() int { return a.shape[1] }

func (a *array) row(i int) []float32 {
	w := a.shape[1]
	return a.f[i*w : (i+1)*w : (i+1)*w]
}

// pad is how many values past the end of a session's array may be read: kernels
// load whole vectors, and drop what they did not need.
const pad = 16

// pool keeps the storage of closed sessions for the next ones, by size class:
// classes are an eighth of a power of two apart, so that little is left unused.
type pool struct{ classes [8 * 48]sync.Pool }

// class returns the smallest class that holds n values, n ≥ 1, and its size.
func class(n int) (class, size int) {
	e := max(3, bits.Len(uint(n-1))) - 1 // sizes of 2^e to 2^(e+1) in steps of 2^(e−3)
	step := 1 << max(0, e-3)
	size = (n + step - 1) / step * step
	return 8*e + (size-1)>>max(0, e-3)&7, size
}

// get returns storage for n values and pad more. The contents are undefined.
func (p *pool) get(n int) *[]float32 {
	class, size := class(n + pad)
	if b, ok := p.classes[class].Get().(*[]float32); ok {
		return b
	}
	b := make([]float32, size)
	return &b
}

func (p *pool) put(b *[]float32) {
	class, _ := class(len(*b))
	p.classes[class].Put(b)
}

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
// class c holds slices of 2^c values.
type pool struct{ classes [48]sync.Pool }

// get returns storage for n values and pad more. The contents are undefined.
func (p *pool) get(n int) *[]float32 {
	class := bits.Len(uint(n + pad - 1))
	if b, ok := p.classes[class].Get().(*[]float32); ok {
		return b
	}
	b := make([]float32, 1<<class)
	return &b
}

func (p *pool) put(b *[]float32) { p.classes[bits.Len(uint(len(*b)-1))].Put(b) }

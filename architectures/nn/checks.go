package nn

import (
	"fmt"
	"math"

	"github.com/hfcompress/compress/tensor"
)

// What an operation demands of its operands' shapes and types is the same on all
// devices, and so are the words in which it is refused: implementations of
// [Session] call the checks below. They return nil, or the reason without the
// operation's name.

// CheckColumns checks [Session.GroupColumns] of x [rows, columns].
func CheckColumns(x tensor.Shape, groups, start, width int) error {
	if groups < 1 || x[1]%groups != 0 {
		return fmt.Errorf("%w: x %v does not divide into %d groups", tensor.ErrShape, x, groups)
	}
	if size := x[1] / groups; start < 0 || width < 0 || start > size || width > size-start {
		return fmt.Errorf("%w: columns %d to %d of each of %d groups of x %v", tensor.ErrShape, start, start+width, groups, x)
	}
	return nil
}

// CheckRotary checks [Session.Rotary] of matrices.
func CheckRotary(x, cos, sin Array, heads int, style RotaryStyle) error {
	in, c, s := x.Shape(), cos.Shape(), sin.Shape()
	switch {
	case heads < 1 || in[1]%heads != 0:
		return fmt.Errorf("%w: x %v does not divide into %d heads", tensor.ErrShape, in, heads)
	case !c.Equal(s):
		return fmt.Errorf("%w: cos %v and sin %v differ", tensor.ErrShape, c, s)
	case c[0] != in[0] || c[1] > in[1]/heads/2:
		return fmt.Errorf("%w: cos %v does not fit x %v of %d heads", tensor.ErrShape, c, in, heads)
	case cos.DType() != sin.DType() || cos.DType() != x.DType() && cos.DType() != tensor.F32:
		return fmt.Errorf("%w: cos %v and sin %v for x %v", tensor.ErrDType, cos.DType(), sin.DType(), x.DType())
	case style > RotatePairs:
		return fmt.Errorf("unknown rotary style %d", style)
	}
	return nil
}

// CheckCounts checks the numbers of sequences and heads.
func (in *AttentionInput) CheckCounts() error {
	if in.Batch < 1 || in.Heads < 1 || in.KVHeads < 1 || in.HeadDim < 1 || in.Heads%in.KVHeads != 0 {
		return fmt.Errorf("%w: batch %d, %d heads over %d key/value heads of size %d",
			tensor.ErrShape, in.Batch, in.Heads, in.KVHeads, in.HeadDim)
	}
	return nil
}

// CheckQueries checks the queries' matrix, the window, and that the width of keys
// is a number; CheckCounts has passed.
func (in *AttentionInput) CheckQueries(q tensor.Shape) error {
	switch {
	case q[0]%in.Batch != 0 || q[1]%in.Heads != 0 || q[1]/in.Heads != in.HeadDim:
		return fmt.Errorf("%w: q %v does not fit batch %d and %d heads of size %d",
			tensor.ErrShape, q, in.Batch, in.Heads, in.HeadDim)
	case in.Window < 0 || in.Window > 0 && !in.Causal:
		return fmt.Errorf("%w: a window of %d, causal %t", tensor.ErrShape, in.Window, in.Causal)
	case in.KVHeads > math.MaxInt/in.HeadDim:
		return fmt.Errorf("%w: %d key/value heads of size %d", tensor.ErrShape, in.KVHeads, in.HeadDim)
	}
	return nil
}

// CheckKeys checks what depends on the numbers of queries and keys of a sequence:
// that there are keys, and the mask and bias of keys.
func (in *AttentionInput) CheckKeys(queries, keys int) error {
	switch {
	case keys == 0 && queries > 0:
		return fmt.Errorf("%w: there are no keys to attend to", tensor.ErrShape)
	case in.Mask != nil && len(in.Mask) != in.Batch*keys:
		return fmt.Errorf("%w: a mask of %d entries for batch %d of %d keys", tensor.ErrShape, len(in.Mask), in.Batch, keys)
	case in.KeyBias != nil && len(in.KeyBias) != in.Batch*keys:
		return fmt.Errorf("%w: a key bias of %d entries for batch %d of %d keys", tensor.ErrShape, len(in.KeyBias), in.Batch, keys)
	}
	return nil
}

// Check checks everything but the weights against x [rows, channels], and sets a
// Dilation of 0 to 1.
func (in *Convolution) Check(x tensor.Shape) error {
	if in.Dilation == 0 {
		in.Dilation = 1
	}
	// Bounds that keep every product of these numbers within an int.
	const limit = 1 << 24
	switch {
	case in.Batch < 1 || x[0]%in.Batch != 0:
		return fmt.Errorf("%w: x %v does not divide into %d sequences", tensor.ErrShape, x, in.Batch)
	case in.Kernel < 1 || in.Kernel > limit || in.Dilation < 1 || in.Dilation > limit || in.Left < 0 || in.Left > (in.Kernel-1)*in.Dilation:
		return fmt.Errorf("%w: %d taps, dilation %d, %d of them to the left", tensor.ErrShape, in.Kernel, in.Dilation, in.Left)
	case (len(in.Groups) > 0) != isNil(in.Taps):
		return fmt.Errorf("%w: expected either groups or taps", ErrOperand)
	}
	return nil
}

// Check checks the sequences u [rows, columns] and the filter's matrix.
func (in *LongConvolution) Check(u, filter tensor.Shape) error {
	switch {
	case in.Batch < 1 || u[0]%in.Batch != 0:
		return fmt.Errorf("%w: u %v does not divide into %d sequences", tensor.ErrShape, u, in.Batch)
	case filter[1] != u[1]:
		return fmt.Errorf("%w: the filter %v does not fit u %v", tensor.ErrShape, filter, u)
	case u[0]/in.Batch > MaxLongConvolution:
		return fmt.Errorf("%w: sequences of %d rows; the limit is %d", tensor.ErrShape, u[0]/in.Batch, MaxLongConvolution)
	}
	return nil
}

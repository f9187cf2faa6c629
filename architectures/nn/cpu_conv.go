package nn

import (
	"fmt"

	"github.com/hfcompress/compress/internal/gemm"
	"github.com/hfcompress/compress/tensor"
)

// convolution is a checked call of [Convolver.Convolve].
type convolution struct {
	Convolution
	x      *array
	length int
	groups []*gemm.Matrix
	taps   []float32
	bias   []float32 // nil when there is none
	out    int       // channels of the result
}

// stripe is how many rows of a result one task computes.
const stripe = 64

func (s *session) Convolve(x Array, in Convolution) Array {
	const op = "convolve"
	if !s.begin(op) {
		return dead
	}
	c := s.convolution(op, x, in)
	if c == nil {
		return dead
	}
	out := s.make(op, c.x.dtype, c.x.rows(), c.out)
	if out == nil {
		return dead
	}
	if c.taps != nil {
		zeros := make([]float32, c.x.width())
		s.parts(c.x.rows(), 2*c.Kernel*c.x.width(), func(lo, hi int) {
			for r := lo; r < hi; r++ {
				c.depthwise(out.row(r), zeros, r)
			}
		})
	} else {
		perSequence := (c.length + stripe - 1) / stripe
		s.run(c.Batch*perSequence*len(c.groups), func(i int) {
			g, i := i%len(c.groups), i/len(c.groups)
			first := i % perSequence * stripe
			s.grouped(c, out, g, i/perSequence, first, min(stripe, c.length-first))
		})
	}
	return s.rounded(op, out)
}

// convolution checks the operands; it returns nil after recording a failure.
func (s *session) convolution(op string, x Array, in Convolution) *convolution {
	c := &convolution{Convolution: in}
	if c.x = s.matrix(op, "x", x); c.x == nil {
		return nil
	}
	if err := c.Check(c.x.shape); err != nil {
		s.fail(op, err)
		return nil
	}
	c.length = c.x.rows() / c.Batch
	if !s.weights(op, c) {
		return nil
	}
	if !isNil(c.Bias) {
		b := s.vector(op, "the bias", c.Bias, c.x.dtype, c.out)
		if b == nil {
			return nil
		}
		c.bias = b.f
	}
	return c
}

// weights checks and enters the weights of c.
func (s *session) weights(op string, c *convolution) bool {
	width := c.x.width()
	if len(c.Groups) == 0 {
		t := s.vector(op, "the taps", c.Taps, c.x.dtype, c.Kernel*width)
		if t == nil {
			return false
		}
		c.taps, c.out = t.f, width
		return true
	}
	for i, g := range c.Groups {
		w := s.operand(op, "a group", g)
		switch {
		case w == nil:
			return false
		case w.matrix == nil:
			s.fail(op, fmt.Errorf("%w: group %d was not uploaded as a matrix", ErrOperand, i))
			return false
		case !s.same(op, "a group", w, c.x.dtype):
			return false
		case width%len(c.Groups) != 0 || w.matrix.Inputs() != c.Kernel*(width/len(c.Groups)) ||
			i > 0 && w.matrix.Outputs() != c.groups[0].Outputs():
			s.fail(op, fmt.Errorf("%w: group %d of %d, %v, does not fit x %v and %d taps", tensor.ErrShape, i, len(c.Groups), w.shape, c.x.shape, c.Kernel))
			return false
		}
		c.groups = append(c.groups, w.matrix)
	}
	c.out = len(c.groups) * c.groups[0].Outputs()
	return true
}

// source returns row t of sequence b, or zeros when it lies outside.
func (c *convolution) source(b, t int, zeros []float32) []float32 {
	if t < 0 || t >= c.length {
		return zeros
	}
	return c.x.row(b*c.length + t)
}

// depthwise computes row r of the result.
func (c *convolution) depthwise(dst, zeros []float32, r int) {
	clear(dst)
	b, t := r/c.length, r%c.length
	for j := range c.Kernel {
		src := c.source(b, t-c.Left+j*c.Dilation, zeros)[:len(dst)]
		w := c.taps[j*len(dst):][:len(dst)]
		for i, v := range src {
			dst[i] += float32(v * w[i])
		}
	}
	c.add(dst, 0)
}

// add adds the bias of the channels from lo on and makes NaNs canonical.
func (c *convolution) add(dst []float32, lo int) {
	for i, v := range dst {
		if c.bias != nil {
			v += c.bias[lo+i]
		}
		dst[i] = canonical(v)
	}
}

// grouped computes n rows from t on of the channels of group g of sequence b: the
// taps of a row are laid side by side, and one matrix product takes them all.
func (s *session) grouped(c *convolution, out *array, g, b, t, n int) {
	m := c.groups[g]
	in := m.Inputs() / c.Kernel
	left, right := s.device.pool.get(n*m.Inputs()), s.device.pool.get(n*m.Outputs())
	defer s.device.pool.put(left)
	defer s.device.pool.put(right)
	wide, product := (*left)[:n*m.Inputs()], (*right)[:n*m.Outputs()]
	at, zeros := wide, make([]float32, (g+1)*in)
	for r := range n {
		for j := range c.Kernel {
			copy(at[:in], c.source(b, t+r-c.Left+j*c.Dilation, zeros)[g*in:])
			at = at[in:]
		}
	}
	m.Mul(product, wide, n, gemm.Sequential, nil)
	for r := range n {
		dst := out.row(b*c.length + t + r)[g*m.Outputs():][:m.Outputs()]
		copy(dst, product[r*m.Outputs():])
		c.add(dst, g*m.Outputs())
	}
}

package metalgpu

import (
	"fmt"
	"math"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/metalgpu/internal/driver"
	"github.com/hfcompress/compress/tensor"
)

// convolution is a checked call of [nn.Convolver.Convolve].
type convolution struct {
	nn.Convolution
	x      *array
	length int
	groups []*array
	taps   *array // nil for groups
	bias   driver.Buffer
	out    int // channels of the result
}

// tapBytes bounds the rows whose taps lie side by side at a time.
const tapBytes = 32 << 20

// rowStep is a number of rows that begins at a multiple of 256 bytes, whatever the
// width.
const rowStep = 64

// Convolve implements [nn.Convolver].
func (s *session) Convolve(x nn.Array, in nn.Convolution) nn.Array {
	const op = "convolve"
	if !s.begin(op) {
		return dead
	}
	defer s.device.leave()
	c := s.convolution(op, x, in)
	if c == nil {
		return dead
	}
	out := s.make(op, c.x.dtype, c.x.rows(), c.out)
	switch {
	case out == nil || c.x.rows() == 0 || c.out == 0:
	case c.taps != nil:
		s.run(op, "conv_depthwise", int64(c.Kernel)*size(c.x), []driver.Buffer{c.x.buffer, c.taps.buffer, c.bias, out.buffer},
			uint32(c.x.rows()), uint32(c.length), uint32(c.x.width()), uint32(c.Kernel), uint32(c.Dilation), uint32(c.Left),
			flag(c.bias != nil), round(c.x.dtype))
	default:
		for g := range c.groups {
			s.group(op, c, g, out.buffer)
		}
	}
	return s.finish(op, out)
}

// group computes the channels of group g: taps are laid side by side, and one
// product of matrices takes them all, in the order of the CPU device whatever the
// number of rows.
func (s *session) group(op string, c *convolution, g int, out driver.Buffer) {
	weight := c.groups[g]
	k := weight.width()
	rows := c.x.rows()
	block := rows
	if k > 0 {
		block = min(rows, max(1, tapBytes/(4*k)/rowStep)*rowStep)
	}
	wide := s.take(op, 4*int64(block)*int64(k))
	if wide == nil {
		return
	}
	channels := c.x.width() / len(c.groups)
	for first := 0; first < rows; first += block {
		n := min(block, rows-first)
		s.run(op, "conv_taps", 0, []driver.Buffer{c.x.buffer, wide},
			uint32(n), uint32(first), uint32(c.length), uint32(c.x.width()), uint32(g*channels), uint32(channels),
			uint32(c.Kernel), uint32(c.Dilation), uint32(c.Left))
		for _, p := range weight.matrix {
			s.dispatch(op, "linear_tiled_"+kernelType(c.x.dtype), int64(n)*int64(k)*int64(p.rows),
				[]driver.Binding{{Buffer: wide}, {Buffer: p.buffer}, {Buffer: c.bias}, {Buffer: out, Offset: 4 * int64(first) * int64(c.out)}},
				[]uint32{uint32(n), uint32(k), uint32(p.rows), 0, uint32(k), uint32(g*weight.rows() + p.first), uint32(c.out), flag(c.bias != nil), round(c.x.dtype)})
		}
	}
	s.scratch = append(s.scratch, wide)
}

// convolution checks the operands; it returns nil after recording a failure.
func (s *session) convolution(op string, x nn.Array, in nn.Convolution) *convolution {
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
		c.bias = b.buffer
	}
	// Kernels compute positions in 32 bits.
	if int64(c.Kernel)*int64(c.Dilation)+int64(c.length) > math.MaxInt32 {
		s.fail(op, fmt.Errorf("%w: %d taps, %d apart", ErrLimit, c.Kernel, c.Dilation))
		return nil
	}
	return c
}

// weights checks and enters the weights of c.
func (s *session) weights(op string, c *convolution) bool {
	width := c.x.width()
	if len(c.Groups) == 0 {
		c.taps, c.out = s.vector(op, "the taps", c.Taps, c.x.dtype, c.Kernel*width), width
		return c.taps != nil
	}
	for i, g := range c.Groups {
		w := s.operand(op, "a group", g)
		switch {
		case w == nil:
			return false
		case !w.isMatrix:
			s.fail(op, fmt.Errorf("%w: group %d was not uploaded as a matrix", nn.ErrOperand, i))
			return false
		case !s.same(op, "a group", w, c.x.dtype):
			return false
		case width%len(c.Groups) != 0 || w.width() != c.Kernel*(width/len(c.Groups)) ||
			i > 0 && w.rows() != c.groups[0].rows():
			s.fail(op, fmt.Errorf("%w: group %d of %d, %v, does not fit x %v and %d taps", tensor.ErrShape, i, len(c.Groups), w.shape, c.x.shape, c.Kernel))
			return false
		}
		c.groups = append(c.groups, w)
	}
	c.out = len(c.groups) * c.groups[0].rows()
	return true
}

package metalgpu

import (
	"fmt"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/metalgpu/internal/driver"
	"github.com/hfcompress/compress/tensor"
)

func (s *session) Linear(x, w, b nn.Array) nn.Array {
	const op = "linear"
	if !s.begin(op) {
		return dead
	}
	defer s.device.leave()
	in := s.matrix(op, "x", x)
	if in == nil {
		return dead
	}
	weight := s.operand(op, "w", w)
	if weight == nil {
		return dead
	}
	if !weight.isMatrix {
		return s.fail(op, fmt.Errorf("%w: w was not uploaded as the weight of a linear map", nn.ErrOperand))
	}
	if in.width() != weight.width() {
		return s.fail(op, fmt.Errorf("%w: x %v does not fit w %v", tensor.ErrShape, in.shape, weight.shape))
	}
	if !s.same(op, "w", weight, in.dtype) {
		return dead
	}
	var bias driver.Buffer
	if !isNil(b) {
		v := s.vector(op, "b", b, in.dtype, weight.rows())
		if v == nil {
			return dead
		}
		bias = v.buffer
	}
	out := s.make(op, in.dtype, in.rows(), weight.rows())
	if out == nil {
		return dead
	}
	name := "linear_few_"
	switch {
	case in.rows() == 1:
		name = "linear_vector_"
	case in.rows() >= tiledRows:
		name = "linear_tiled_"
	}
	k := uint32(in.width())
	for _, p := range weight.matrix {
		s.run(op, name+kernelType(in.dtype), int64(in.rows())*int64(in.width())*int64(p.rows),
			[]driver.Buffer{in.buffer, p.buffer, bias, out.buffer},
			uint32(in.rows()), k, uint32(p.rows), 0, k, uint32(p.first), uint32(weight.rows()), flag(bias != nil), round(in.dtype))
	}
	return s.finish(op, out)
}

// like makes an array of x's shape and type.
func (s *session) like(op string, x *array) *array { return s.make(op, x.dtype, x.rows(), x.width()) }

func (s *session) RMSNorm(x, w nn.Array, eps float32) nn.Array {
	const op = "rmsnorm"
	if !s.begin(op) {
		return dead
	}
	defer s.device.leave()
	in := s.matrix(op, "x", x)
	if in == nil {
		return dead
	}
	width := in.width()
	if a, ok := w.(*array); ok && a != nil && len(a.shape) == 1 && a.shape[0] > 0 && width%a.shape[0] == 0 {
		width = a.shape[0]
	}
	weight := s.vector(op, "w", w, in.dtype, width)
	if weight == nil {
		return dead
	}
	out := s.like(op, in)
	if out == nil {
		return dead
	}
	if width > 0 {
		s.run(op, "rmsnorm", 2*size(in), []driver.Buffer{in.buffer, weight.buffer, out.buffer},
			uint32(in.rows()*(in.width()/width)), uint32(width), pattern(eps), round(in.dtype))
	}
	return s.finish(op, out)
}

// size is the number of elements.
func size(a *array) int64 { return int64(a.rows()) * int64(a.width()) }

func (s *session) LayerNorm(x, w, b nn.Array, eps float32) nn.Array {
	const op = "layernorm"
	if !s.begin(op) {
		return dead
	}
	defer s.device.leave()
	in := s.matrix(op, "x", x)
	if in == nil {
		return dead
	}
	var weight, bias driver.Buffer
	for _, v := range []struct {
		name string
		from nn.Array
		to   *driver.Buffer
	}{{"w", w, &weight}, {"b", b, &bias}} {
		if isNil(v.from) {
			continue
		}
		a := s.vector(op, v.name, v.from, in.dtype, in.width())
		if a == nil {
			return dead
		}
		*v.to = a.buffer
	}
	out := s.like(op, in)
	if out == nil {
		return dead
	}
	if in.width() > 0 {
		s.run(op, "layernorm", 4*size(in), []driver.Buffer{in.buffer, weight, bias, out.buffer},
			uint32(in.rows()), uint32(in.width()), pattern(eps), flag(weight != nil), flag(bias != nil), round(in.dtype))
	}
	return s.finish(op, out)
}

func (s *session) RowNormalize(x nn.Array, eps float32) nn.Array {
	const op = "row normalize"
	if !s.begin(op) {
		return dead
	}
	defer s.device.leave()
	in := s.matrix(op, "x", x)
	if in == nil {
		return dead
	}
	out := s.like(op, in)
	if out == nil {
		return dead
	}
	if in.width() > 0 {
		s.run(op, "rownormalize", 2*size(in), []driver.Buffer{in.buffer, out.buffer},
			uint32(in.rows()), uint32(in.width()), pattern(eps), round(in.dtype))
	}
	return s.finish(op, out)
}

func (s *session) Columns(x nn.Array, start, width int) nn.Array {
	return s.columns("columns", x, 1, start, width)
}

func (s *session) GroupColumns(x nn.Array, groups, start, width int) nn.Array {
	return s.columns("group columns", x, groups, start, width)
}

func (s *session) columns(op string, x nn.Array, groups, start, width int) nn.Array {
	if !s.begin(op) {
		return dead
	}
	defer s.device.leave()
	in := s.matrix(op, "x", x)
	if in == nil {
		return dead
	}
	if err := nn.CheckColumns(in.shape, groups, start, width); err != nil {
		return s.fail(op, err)
	}
	out := s.make(op, in.dtype, in.rows(), groups*width)
	if out == nil {
		return dead
	}
	if width > 0 {
		s.run(op, "columns", 0, []driver.Buffer{in.buffer, out.buffer},
			uint32(in.rows()), uint32(in.width()), uint32(groups), uint32(start), uint32(width))
	}
	return s.finish(op, out)
}

func (s *session) Cast(x nn.Array, d tensor.DType) nn.Array {
	const op = "cast"
	if !s.begin(op) {
		return dead
	}
	defer s.device.leave()
	in := s.matrix(op, "x", x)
	if in == nil {
		return dead
	}
	if !computes(d) {
		return s.fail(op, fmt.Errorf("%w %v: expected F32, BF16 or F16", tensor.ErrDType, d))
	}
	out := s.make(op, d, in.rows(), in.width())
	if out != nil {
		s.run(op, "cast", size(in), []driver.Buffer{in.buffer, out.buffer}, uint32(size(in)), round(d))
	}
	return s.finish(op, out)
}

func (s *session) Rotary(x, cos, sin nn.Array, heads int, style nn.RotaryStyle) nn.Array {
	const op = "rotary"
	if !s.begin(op) {
		return dead
	}
	defer s.device.leave()
	in, c, sn := s.matrix(op, "x", x), s.matrix(op, "cos", cos), s.matrix(op, "sin", sin)
	if in == nil || c == nil || sn == nil {
		return dead
	}
	if err := nn.CheckRotary(in, c, sn, heads, style); err != nil {
		return s.fail(op, err)
	}
	out := s.like(op, in)
	if out == nil {
		return dead
	}
	if in.width() > 0 {
		s.run(op, "rotary", 2*size(in), []driver.Buffer{in.buffer, c.buffer, sn.buffer, out.buffer},
			uint32(in.rows()), uint32(in.width()), uint32(in.width()/heads), uint32(c.width()), uint32(style), flag(c.dtype != tensor.F32), round(in.dtype))
	}
	return s.finish(op, out)
}

// functions is the number of elementwise functions, and what one value costs in
// multiplications, roughly.
const (
	functions    = int(nn.Mish) + 1
	functionCost = 40
)

func (s *session) Map(f nn.Unary, x nn.Array) nn.Array {
	const op = "map"
	if !s.begin(op) {
		return dead
	}
	defer s.device.leave()
	in := s.matrix(op, "x", x)
	if in == nil {
		return dead
	}
	if int(f) >= functions {
		return s.fail(op, fmt.Errorf("unknown function %d", f))
	}
	out := s.like(op, in)
	switch {
	case out == nil:
	case f == nn.Mish:
		s.run(op, "mish", 10*functionCost*size(in), []driver.Buffer{in.buffer, out.buffer}, uint32(size(in)), round(in.dtype))
	default:
		s.run(op, "map", functionCost*size(in), []driver.Buffer{in.buffer, out.buffer}, uint32(size(in)), uint32(f), round(in.dtype))
	}
	return s.finish(op, out)
}

func (s *session) Add(x, y nn.Array) nn.Array { return s.binary("add", x, y) }
func (s *session) Mul(x, y nn.Array) nn.Array { return s.binary("mul", x, y) }

// binary runs the kernel that is called as the operation.
func (s *session) binary(op string, x, y nn.Array) nn.Array {
	if !s.begin(op) {
		return dead
	}
	defer s.device.leave()
	a, b := s.matrix(op, "x", x), s.matrix(op, "y", y)
	if a == nil || b == nil {
		return dead
	}
	if !a.shape.Equal(b.shape) {
		return s.fail(op, fmt.Errorf("%w: x %v and y %v differ", tensor.ErrShape, a.shape, b.shape))
	}
	if !s.same(op, "y", b, a.dtype) {
		return dead
	}
	out := s.like(op, a)
	if out != nil {
		s.run(op, op, size(a), []driver.Buffer{a.buffer, b.buffer, out.buffer}, uint32(size(a)), round(a.dtype))
	}
	return s.finish(op, out)
}

func (s *session) Scale(x nn.Array, c float32) nn.Array {
	const op = "scale"
	if !s.begin(op) {
		return dead
	}
	defer s.device.leave()
	in := s.matrix(op, "x", x)
	if in == nil {
		return dead
	}
	out := s.like(op, in)
	if out != nil {
		s.run(op, "scale", size(in), []driver.Buffer{in.buffer, out.buffer}, uint32(size(in)), pattern(c), round(in.dtype))
	}
	return s.finish(op, out)
}

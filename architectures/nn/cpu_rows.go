package nn

import (
	"fmt"
	"math"

	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/tensor"
)

// canonical gives every NaN the same bits: processors differ in the sign and
// payload of those that they make.
func canonical(x float32) float32 {
	if x != x {
		return fmath.NaN()
	}
	return x
}

// eachRow makes an array of x's shape, fills its rows and rounds them to its
// type.
func (s *session) eachRow(op string, x *array, f func(dst, src []float32)) Array {
	out := s.make(op, x.dtype, x.rows(), x.width())
	if out == nil {
		return dead
	}
	s.parts(x.rows(), x.width(), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			dst := out.row(r)
			f(dst, x.row(r))
			round(out.dtype, dst)
		}
	})
	return s.finish(op, out)
}

func (s *session) RMSNorm(x, w Array, eps float32) Array {
	const op = "rmsnorm"
	if !s.begin(op) {
		return dead
	}
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
	n := float32(width)
	norm := func(dst, src []float32) {
		fmath.Scale(dst, src, 1/fmath.Sqrt(fmath.Squares(src, 0)/n+eps))
		round(in.dtype, dst)
		fmath.Muls(dst, dst, weight.f)
	}
	return s.eachRow(op, in, func(dst, src []float32) {
		for lo := 0; lo < len(src); lo += width {
			norm(dst[lo:lo+width], src[lo:lo+width])
		}
	})
}

func (s *session) LayerNorm(x, w, b Array, eps float32) Array {
	const op = "layernorm"
	if !s.begin(op) {
		return dead
	}
	in := s.matrix(op, "x", x)
	if in == nil {
		return dead
	}
	var weight, bias []float32
	if !isNil(w) {
		v := s.vector(op, "w", w, in.dtype, in.width())
		if v == nil {
			return dead
		}
		weight = v.f
	}
	if !isNil(b) {
		v := s.vector(op, "b", b, in.dtype, in.width())
		if v == nil {
			return dead
		}
		bias = v.f
	}
	n := float32(in.width())
	return s.eachRow(op, in, func(dst, src []float32) {
		mean := fmath.Sum(src) / n
		fmath.Shift(dst, src, mean)
		fmath.Divide(dst, dst, fmath.Sqrt(fmath.Squares(src, mean)/n+eps))
		if weight != nil {
			fmath.Muls(dst, dst, weight)
		}
		if bias != nil {
			fmath.Adds(dst, dst, bias)
		}
	})
}

func (s *session) RowNormalize(x Array, eps float32) Array {
	const op = "row normalize"
	if !s.begin(op) {
		return dead
	}
	in := s.matrix(op, "x", x)
	if in == nil {
		return dead
	}
	return s.eachRow(op, in, func(dst, src []float32) {
		n := [1]float32{fmath.Sqrt(fmath.Squares(src, 0))}
		round(in.dtype, n[:])
		fmath.Divide(dst, src, max(n[0], eps)) // NaN stays NaN
	})
}

func (s *session) Columns(x Array, start, width int) Array {
	return s.columns("columns", x, 1, start, width)
}

func (s *session) GroupColumns(x Array, groups, start, width int) Array {
	return s.columns("group columns", x, groups, start, width)
}

func (s *session) columns(op string, x Array, groups, start, width int) Array {
	if !s.begin(op) {
		return dead
	}
	in := s.matrix(op, "x", x)
	if in == nil {
		return dead
	}
	if err := CheckColumns(in.shape, groups, start, width); err != nil {
		return s.fail(op, err)
	}
	size := in.width() / groups
	out := s.make(op, in.dtype, in.rows(), groups*width)
	if out == nil {
		return dead
	}
	for r := range in.rows() {
		dst, src := out.row(r), in.row(r)
		for g := range groups {
			copy(dst[g*width:(g+1)*width], src[g*size+start:])
		}
	}
	return s.finish(op, out)
}

func (s *session) Cast(x Array, d tensor.DType) Array {
	const op = "cast"
	if !s.begin(op) {
		return dead
	}
	in := s.matrix(op, "x", x)
	if in == nil {
		return dead
	}
	if !computes(d) {
		return s.fail(op, fmt.Errorf("%w %v: expected F32, BF16 or F16", tensor.ErrDType, d))
	}
	out := s.make(op, d, in.rows(), in.width())
	if out == nil {
		return dead
	}
	copy(out.f, in.f)
	return s.rounded(op, out)
}

func (s *session) Rotary(x, cos, sin Array, heads int, style RotaryStyle) Array {
	const op = "rotary"
	if !s.begin(op) {
		return dead
	}
	in, c, sn := s.matrix(op, "x", x), s.matrix(op, "cos", cos), s.matrix(op, "sin", sin)
	if in == nil || c == nil || sn == nil {
		return dead
	}
	if err := CheckRotary(in, c, sn, heads, style); err != nil {
		return s.fail(op, err)
	}
	size, half := in.width()/heads, c.width()
	out := s.make(op, in.dtype, in.rows(), in.width())
	if out == nil {
		return dead
	}
	s.parts(in.rows(), 2*in.width(), func(lo, hi int) {
		rot := rotation{size: size, half: half, d: in.dtype, pairs: style == RotatePairs, stepwise: c.dtype != tensor.F32}
		for r := lo; r < hi; r++ {
			dst := out.row(r)
			copy(dst, in.row(r))
			rot.row(dst, c.row(r), sn.row(r))
		}
	})
	return s.finish(op, out)
}

// rotation turns pairs of elements of heads of one size.
type rotation struct {
	size, half int
	d          tensor.DType
	pairs      bool // a head's pairs are neighbours
	// stepwise rounds both products to d, and then their sum; otherwise only the
	// sum is.
	stepwise bool
	buf      [6][rotaryRun]float32
}

// rotaryRun is how many pairs are turned at a time.
const rotaryRun = 64

func (rot *rotation) row(x, cos, sin []float32) {
	for h := 0; h < len(x); h += rot.size {
		for i := 0; i < rot.half; i += rotaryRun {
			n := min(rotaryRun, rot.half-i)
			c, s := cos[i:i+n], sin[i:i+n]
			if !rot.pairs {
				rot.turn(x[h+i:][:n], x[h+rot.half+i:][:n], c, s)
				continue
			}
			a, b, at := rot.buf[4][:n], rot.buf[5][:n], x[h+2*i:][:2*n]
			for j := range n {
				a[j], b[j] = at[2*j], at[2*j+1]
			}
			rot.turn(a, b, c, s)
			for j := range n {
				at[2*j], at[2*j+1] = a[j], b[j]
			}
		}
	}
}

// turn replaces a and b by a·cos − b·sin and b·cos + a·sin.
func (rot *rotation) turn(a, b, cos, sin []float32) {
	if rot.stepwise {
		n := len(a)
		ac, bs, bc, as := rot.buf[0][:n], rot.buf[1][:n], rot.buf[2][:n], rot.buf[3][:n]
		fmath.Muls(ac, a, cos)
		fmath.Muls(bs, b, sin)
		fmath.Muls(bc, b, cos)
		fmath.Muls(as, a, sin)
		for i := range 4 {
			round(rot.d, rot.buf[i][:n])
		}
		fmath.Subs(a, ac, bs)
		fmath.Adds(b, bc, as)
	} else {
		fmath.Rotate(a, b, a, b, cos, sin)
	}
	round(rot.d, a)
	round(rot.d, b)
}

// unary lists the elementwise functions and roughly what one value costs, in
// additions.
var unary = [...]struct {
	f    func(dst, src []float32)
	cost int
}{
	SiLU:     {fmath.SiLUs, 10},
	GELU:     {fmath.GELUs, 20},
	GELUTanh: {fmath.GELUTanhs, 20},
	ReLU:     {each(relu), 2},
	Tanh:     {each(fmath.Tanh), 50},
	Sigmoid:  {each(fmath.Sigmoid), 30},

	GELUStepwise:     {fmath.GELUs, 20},
	GELUTanhStepwise: {fmath.GELUTanhs, 20},

	Mish: {each(fmath.Mish), 60},
}

func each(f func(float32) float32) func(dst, src []float32) {
	return func(dst, src []float32) {
		for i, v := range src {
			dst[i] = f(v)
		}
	}
}

// relu gives +0 for both zeros.
func relu(x float32) float32 {
	if x > 0 {
		return x
	}
	if x != x {
		return fmath.NaN()
	}
	return 0
}

func (s *session) Map(f Unary, x Array) Array {
	const op = "map"
	if !s.begin(op) {
		return dead
	}
	in := s.matrix(op, "x", x)
	if in == nil {
		return dead
	}
	if int(f) >= len(unary) {
		return s.fail(op, fmt.Errorf("unknown function %d", f))
	}
	out := s.make(op, in.dtype, in.rows(), in.width())
	if out == nil {
		return dead
	}
	apply := unary[f].f
	if in.dtype != tensor.F32 {
		switch f {
		case GELUStepwise:
			apply = func(dst, src []float32) { geluStepwise(in.dtype, dst, src) }
		case GELUTanhStepwise:
			apply = func(dst, src []float32) { geluTanhStepwise(in.dtype, dst, src) }
		}
	}
	s.parts(len(in.f), unary[f].cost, func(lo, hi int) {
		apply(out.f[lo:hi], in.f[lo:hi])
		round(out.dtype, out.f[lo:hi])
	})
	return s.finish(op, out)
}

func (s *session) Add(x, y Array) Array { return s.binary("add", x, y, fmath.Adds) }

func (s *session) Mul(x, y Array) Array { return s.binary("mul", x, y, fmath.Muls) }

func (s *session) binary(op string, x, y Array, f func(dst, a, b []float32)) Array {
	if !s.begin(op) {
		return dead
	}
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
	out := s.make(op, a.dtype, a.rows(), a.width())
	if out == nil {
		return dead
	}
	s.parts(len(a.f), 1, func(lo, hi int) {
		f(out.f[lo:hi], a.f[lo:hi], b.f[lo:hi])
		round(out.dtype, out.f[lo:hi])
	})
	return s.finish(op, out)
}

func (s *session) Scale(x Array, c float32) Array {
	const op = "scale"
	if !s.begin(op) {
		return dead
	}
	in := s.matrix(op, "x", x)
	if in == nil {
		return dead
	}
	out := s.make(op, in.dtype, in.rows(), in.width())
	if out == nil {
		return dead
	}
	s.parts(len(in.f), 1, func(lo, hi int) {
		fmath.Scale(out.f[lo:hi], in.f[lo:hi], c)
		round(out.dtype, out.f[lo:hi])
	})
	return s.finish(op, out)
}

// finite reports whether no value is infinite or NaN.
func finite(x []float32) bool {
	for _, v := range x {
		if math.Float32bits(v)&0x7f800000 == 0x7f800000 {
			return false
		}
	}
	return true
}

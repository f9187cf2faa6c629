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

// tree adds eight lanes in the fixed order that all row statistics use.
func tree(l *[8]float32) float32 {
	return ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]))
}

// sum adds up a row in eight interleaved lanes: element i goes to lane i mod 8.
func sum(x []float32) float32 {
	var l [8]float32
	for ; len(x) >= 8; x = x[8:] {
		l[0] += x[0]
		l[1] += x[1]
		l[2] += x[2]
		l[3] += x[3]
		l[4] += x[4]
		l[5] += x[5]
		l[6] += x[6]
		l[7] += x[7]
	}
	for i, v := range x {
		l[i] += v
	}
	return tree(&l)
}

// squares adds up (x−mean)² in the order of [sum].
func squares(x []float32, mean float32) float32 {
	var l [8]float32
	square := func(v float32) float32 { d := v - mean; return float32(d * d) }
	for ; len(x) >= 8; x = x[8:] {
		l[0] += square(x[0])
		l[1] += square(x[1])
		l[2] += square(x[2])
		l[3] += square(x[3])
		l[4] += square(x[4])
		l[5] += square(x[5])
		l[6] += square(x[6])
		l[7] += square(x[7])
	}
	for i, v := range x {
		l[i] += square(v)
	}
	return tree(&l)
}

// eachRow makes an array of x's shape and fills its rows.
func (s *session) eachRow(op string, x *array, f func(dst, src []float32)) Array {
	out := s.make(op, x.dtype, x.rows(), x.width())
	if out == nil {
		return dead
	}
	s.parts(x.rows(), 2*x.width(), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			f(out.row(r), x.row(r))
		}
	})
	return s.rounded(op, out)
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
		r := 1 / fmath.Sqrt(squares(src, 0)/n+eps)
		for i, v := range src {
			dst[i] = float32(v * r)
		}
		round(in.dtype, dst)
		for i, v := range dst {
			dst[i] = canonical(weight.f[i] * v)
		}
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
		mean := sum(src) / n
		deviation := fmath.Sqrt(squares(src, mean)/n + eps)
		for i, v := range src {
			y := (v - mean) / deviation
			if weight != nil {
				y = float32(y * weight[i])
			}
			if bias != nil {
				y += bias[i]
			}
			dst[i] = canonical(y)
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
		n := [1]float32{fmath.Sqrt(squares(src, 0))}
		round(in.dtype, n[:])
		norm := max(n[0], eps) // NaN stays NaN
		for i, v := range src {
			dst[i] = canonical(v / norm)
		}
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
	if groups < 1 || in.width()%groups != 0 {
		return s.fail(op, fmt.Errorf("%w: x %v does not divide into %d groups", tensor.ErrShape, in.shape, groups))
	}
	size := in.width() / groups
	if start < 0 || width < 0 || start > size || width > size-start {
		return s.fail(op, fmt.Errorf("%w: columns %d to %d of each of %d groups of x %v", tensor.ErrShape, start, start+width, groups, in.shape))
	}
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
	switch {
	case heads < 1 || in.width()%heads != 0:
		return s.fail(op, fmt.Errorf("%w: x %v does not divide into %d heads", tensor.ErrShape, in.shape, heads))
	case !c.shape.Equal(sn.shape):
		return s.fail(op, fmt.Errorf("%w: cos %v and sin %v differ", tensor.ErrShape, c.shape, sn.shape))
	case c.rows() != in.rows() || c.width() > in.width()/heads/2:
		return s.fail(op, fmt.Errorf("%w: cos %v does not fit x %v of %d heads", tensor.ErrShape, c.shape, in.shape, heads))
	case c.dtype != sn.dtype || c.dtype != in.dtype && c.dtype != tensor.F32:
		return s.fail(op, fmt.Errorf("%w: cos %v and sin %v for x %v", tensor.ErrDType, c.dtype, sn.dtype, in.dtype))
	case style > RotatePairs:
		return s.fail(op, fmt.Errorf("unknown rotary style %d", style))
	}
	size, half := in.width()/heads, c.width()
	// The elements of pair i of a head are at i·step and i·step + partner.
	step, partner := 1, half
	if style == RotatePairs {
		step, partner = 2, 1
	}
	out := s.make(op, in.dtype, in.rows(), in.width())
	if out == nil {
		return dead
	}
	stepwise := c.dtype != tensor.F32
	s.parts(in.rows(), 2*in.width(), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			dst, src := out.row(r), in.row(r)
			copy(dst, src)
			cr, sr := c.row(r), sn.row(r)
			if stepwise {
				rotateStepwise(dst, src, cr, sr, size, step, partner, in.dtype)
				continue
			}
			for h := 0; h < len(src); h += size {
				for i := range cr {
					a, b := h+i*step, h+i*step+partner
					dst[a] = canonical(float32(src[a]*cr[i]) - float32(src[b]*sr[i]))
					dst[b] = canonical(float32(src[b]*cr[i]) + float32(src[a]*sr[i]))
				}
			}
		}
	})
	return s.rounded(op, out)
}

// rotateStepwise rotates a row with both products rounded to type d; their sums
// are left to be rounded.
func rotateStepwise(dst, src, cos, sin []float32, size, step, partner int, d tensor.DType) {
	var p [4]float32
	for h := 0; h < len(src); h += size {
		for i := range cos {
			a, b := h+i*step, h+i*step+partner
			p = [4]float32{src[a] * cos[i], src[b] * sin[i], src[b] * cos[i], src[a] * sin[i]}
			round(d, p[:])
			dst[a], dst[b] = canonical(p[0]-p[1]), canonical(p[2]+p[3])
		}
	}
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
	})
	return s.rounded(op, out)
}

func (s *session) Add(x, y Array) Array {
	return s.binary("add", x, y, func(dst, a, b []float32) {
		for i, v := range a {
			dst[i] = canonical(v + b[i])
		}
	})
}

func (s *session) Mul(x, y Array) Array {
	return s.binary("mul", x, y, func(dst, a, b []float32) {
		for i, v := range a {
			dst[i] = canonical(v * b[i])
		}
	})
}

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
	s.parts(len(a.f), 2, func(lo, hi int) { f(out.f[lo:hi], a.f[lo:hi], b.f[lo:hi]) })
	return s.rounded(op, out)
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
	s.parts(len(in.f), 2, func(lo, hi int) {
		dst := out.f[lo:hi]
		for i, v := range in.f[lo:hi] {
			dst[i] = canonical(v * c)
		}
	})
	return s.rounded(op, out)
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

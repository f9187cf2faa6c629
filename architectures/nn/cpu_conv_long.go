package nn

import (
	"fmt"
	"sync"

	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/internal/longconv"
	"github.com/hfcompress/compress/tensor"
)

// float checks that x is a dense F32 array of two axes.
func (s *session) float(op, name string, x Array) *array {
	a := s.matrix(op, name, x)
	if a != nil && a.dtype != tensor.F32 {
		s.fail(op, fmt.Errorf("%w %v: %s must be F32", tensor.ErrDType, a.dtype, name))
		return nil
	}
	return a
}

// neighbours is how many columns one task convolves, one after the other: their
// values share cache lines, and are copied together.
const neighbours = 8

func (s *session) ConvolveLong(u Array, in LongConvolution) Array {
	const op = "convolve long"
	if !s.begin(op) {
		return dead
	}
	x, filter := s.float(op, "u", u), s.float(op, "the filter", in.Filter)
	if x == nil || filter == nil {
		return dead
	}
	width := x.width()
	if err := in.Check(x.shape, filter.shape); err != nil {
		return s.fail(op, err)
	}
	skip := s.vector(op, "the skip", in.Skip, tensor.F32, width)
	if skip == nil {
		return dead
	}
	out := s.make(op, tensor.F32, x.rows(), width)
	if out == nil {
		return dead
	}
	rows, length := x.rows(), x.rows()/in.Batch
	taps := min(filter.rows(), LongFilterRows(length))
	var channels sync.Pool // each is scratch for one task
	s.run((width+neighbours-1)/neighbours, func(task int) {
		lo := task * neighbours
		n := min(neighbours, width-lo)
		channel, ok := channels.Get().(*longconv.Channel)
		if !ok {
			channel = new(longconv.Channel)
		}
		left, right := s.device.pool.get(n*taps), s.device.pool.get(n*rows)
		filters, columns := (*left)[:n*taps], (*right)[:n*rows]
		gatherColumns(filters, filter.f, taps, lo, n, width)
		gatherColumns(columns, x.f, rows, lo, n, width)
		for c := range n {
			channel.SetFilter(filters[c*taps:(c+1)*taps], length)
			for b := range in.Batch {
				sequence := columns[c*rows+b*length:][:length]
				channel.Convolve(sequence, sequence, skip.f[lo+c])
			}
		}
		for i := range rows {
			for c, dst := 0, out.f[i*width+lo:][:n]; c < n; c++ {
				dst[c] = canonical(columns[c*rows+i])
			}
		}
		s.device.pool.put(left)
		s.device.pool.put(right)
		channels.Put(channel)
	})
	return s.finish(op, out)
}

// gatherColumns copies columns lo to lo+n of the first rows rows of src, which has
// width columns, to dst, one column after the other.
func gatherColumns(dst, src []float32, rows, lo, n, width int) {
	for i := range rows {
		for c, v := range src[i*width+lo:][:n] {
			dst[c*rows+i] = v
		}
	}
}

func (s *session) Sine(x, w Array) Array {
	const op = "sine"
	if !s.begin(op) {
		return dead
	}
	in := s.float(op, "x", x)
	if in == nil {
		return dead
	}
	weight := s.vector(op, "w", w, tensor.F32, in.width())
	out := s.make(op, tensor.F32, in.rows(), in.width())
	if weight == nil || out == nil {
		return dead
	}
	s.parts(in.rows(), 40*in.width(), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			dst := out.row(r)
			for i, v := range in.row(r) {
				dst[i] = fmath.Sin(weight.f[i] * v)
			}
		}
	})
	return s.finish(op, out)
}

func (s *session) Decay(x, t, rate Array, shift float32) Array {
	const op = "decay"
	if !s.begin(op) {
		return dead
	}
	in, times := s.float(op, "x", x), s.float(op, "t", t)
	if in == nil || times == nil {
		return dead
	}
	if !times.shape.Equal(tensor.Shape{in.rows(), 1}) {
		return s.fail(op, fmt.Errorf("%w: t must be [%d,1], is %v", tensor.ErrShape, in.rows(), times.shape))
	}
	rates := s.vector(op, "the rate", rate, tensor.F32, in.width())
	out := s.make(op, tensor.F32, in.rows(), in.width())
	if rates == nil || out == nil {
		return dead
	}
	s.parts(in.rows(), 12*in.width(), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			dst, now := out.row(r), -times.f[r]
			for i, v := range rates.f {
				dst[i] = now * max(v, -v) // a NaN stays one
			}
			fmath.Exps(dst)
			for i, v := range in.row(r) {
				dst[i] = canonical(v * (dst[i] + shift))
			}
		}
	})
	return s.finish(op, out)
}

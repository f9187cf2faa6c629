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

// neighbours is how many columns one task convolves one after the other: their
// values share cache lines.
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
	switch {
	case in.Batch < 1 || x.rows()%in.Batch != 0:
		return s.fail(op, fmt.Errorf("%w: u %v does not divide into %d sequences", tensor.ErrShape, x.shape, in.Batch))
	case filter.width() != width:
		return s.fail(op, fmt.Errorf("%w: the filter %v does not fit u %v", tensor.ErrShape, filter.shape, x.shape))
	case x.rows()/in.Batch > MaxLongConvolution:
		return s.fail(op, fmt.Errorf("%w: sequences of %d rows; the limit is %d", tensor.ErrShape, x.rows()/in.Batch, MaxLongConvolution))
	}
	skip := s.vector(op, "the skip", in.Skip, tensor.F32, width)
	if skip == nil {
		return dead
	}
	out := s.make(op, tensor.F32, x.rows(), width)
	if out == nil {
		return dead
	}
	length := x.rows() / in.Batch
	taps := min(filter.rows(), LongFilterRows(length))
	var channels sync.Pool // each holds scratch for one goroutine
	s.run((width+neighbours-1)/neighbours, func(task int) {
		channel, ok := channels.Get().(*longconv.Channel)
		if !ok {
			channel = new(longconv.Channel)
		}
		defer channels.Put(channel)
		storage := s.device.pool.get(max(taps, length))
		defer s.device.pool.put(storage)
		for c := task * neighbours; c < min((task+1)*neighbours, width); c++ {
			column := (*storage)[:taps]
			for i := range column {
				column[i] = filter.f[i*width+c]
			}
			channel.SetFilter(column, length)
			for b := range in.Batch {
				column, at := (*storage)[:length], b*length*width+c
				for i := range column {
					column[i] = x.f[at+i*width]
				}
				channel.Convolve(column, column, skip.f[c])
				for i, v := range column {
					out.f[at+i*width] = canonical(v)
				}
			}
		}
	})
	return s.finish(op, out)
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

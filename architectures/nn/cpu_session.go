package nn

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/internal/gemm"
	"github.com/hfcompress/compress/tensor"
)

// session is the [Session] of the CPU device. Operations are carried out at
// once, each spread over the device's threads.
type session struct {
	device *cpu
	ctx    context.Context
	err    error
	closed bool
	arrays []*array
}

// dead stands for the result of an operation that was not carried out.
var dead Array = &array{shape: tensor.Shape{0, 0}, dtype: tensor.F32}

func (s *session) Err() error { return s.err }

func (s *session) Close() error {
	if !s.closed {
		s.closed = true
		for _, a := range s.arrays {
			s.free(a)
		}
		s.arrays = nil
	}
	return s.err
}

// fail records the first failure.
func (s *session) fail(op string, err error) Array {
	if s.err == nil {
		s.err = fmt.Errorf("%s: %w", op, err)
	}
	return dead
}

// begin reports whether an operation may go on.
func (s *session) begin(op string) bool {
	if s.err != nil {
		return false
	}
	if s.closed {
		s.fail(op, fmt.Errorf("session: %w", ErrClosed))
		return false
	}
	if err := s.ctx.Err(); err != nil {
		s.fail(op, err)
		return false
	}
	return true
}

// finish turns a cancellation during the operation into its failure.
func (s *session) finish(op string, out *array) Array {
	if err := s.ctx.Err(); err != nil {
		return s.fail(op, err)
	}
	return out
}

// make returns a new array [rows, width] of type d with undefined contents, or
// nil after recording why there is none.
func (s *session) make(op string, d tensor.DType, rows, width int) *array {
	shape := tensor.Shape{rows, width}
	if _, err := shape.Bytes(tensor.F32); err != nil {
		s.fail(op, err)
		return nil
	}
	b := s.device.pool.get(rows * width)
	a := &array{device: s.device, session: s, shape: shape, dtype: d, f: (*b)[:rows*width], pooled: b}
	s.arrays = append(s.arrays, a)
	return a
}

// operand checks that x is this device's and, if a session made it, this
// session's.
func (s *session) operand(op, name string, x Array) *array {
	a, ok := x.(*array)
	switch {
	case !ok || a == nil:
		s.fail(op, fmt.Errorf("%w: %s is no array of the cpu device", ErrOperand, name))
	case a.device != s.device:
		s.fail(op, fmt.Errorf("%w: %s belongs to another device", ErrOperand, name))
	case a.session != nil && a.session != s:
		s.fail(op, fmt.Errorf("%w: %s belongs to another session", ErrOperand, name))
	case a.freed:
		s.fail(op, fmt.Errorf("%w: %s was freed", ErrOperand, name))
	default:
		return a
	}
	return nil
}

// dense checks that x is an array whose elements can be computed with.
func (s *session) dense(op, name string, x Array) *array {
	a := s.operand(op, name, x)
	switch {
	case a == nil:
		return nil
	case a.matrix != nil:
		s.fail(op, fmt.Errorf("%w: %s was uploaded as the weight of a linear map", ErrOperand, name))
	case !computes(a.dtype):
		s.fail(op, fmt.Errorf("%w %v: %s must be F32, BF16 or F16", tensor.ErrDType, a.dtype, name))
	default:
		return a
	}
	return nil
}

// matrix checks that x is a dense array of two axes.
func (s *session) matrix(op, name string, x Array) *array {
	a := s.dense(op, name, x)
	if a != nil && len(a.shape) != 2 {
		s.fail(op, fmt.Errorf("%w: %s must have two axes, has %v", tensor.ErrShape, name, a.shape))
		return nil
	}
	return a
}

// vector checks that x is a dense array of type d, of one axis of n elements.
func (s *session) vector(op, name string, x Array, d tensor.DType, n int) *array {
	a := s.dense(op, name, x)
	switch {
	case a == nil:
	case len(a.shape) != 1 || a.shape[0] != n:
		s.fail(op, fmt.Errorf("%w: %s must be [%d], is %v", tensor.ErrShape, name, n, a.shape))
		return nil
	case !s.same(op, name, a, d):
		return nil
	}
	return a
}

// same checks that an operand has the type of x, as references demand.
func (s *session) same(op, name string, a *array, d tensor.DType) bool {
	if a.dtype != d {
		s.fail(op, fmt.Errorf("%w: %s is %v, x is %v", tensor.ErrDType, name, a.dtype, d))
	}
	return a.dtype == d
}

// rounded rounds the values of a result to its type and finishes it.
func (s *session) rounded(op string, out *array) Array {
	if out.dtype != tensor.F32 {
		s.parts(len(out.f), 1, func(lo, hi int) { round(out.dtype, out.f[lo:hi]) })
	}
	return s.finish(op, out)
}

// isNil reports that an optional operand is absent.
func isNil(a Array) bool {
	if a == nil {
		return true
	}
	c, ok := a.(*array)
	return ok && c == nil
}

// run calls task for 0 … n−1 from at most the device's number of goroutines. It
// stops early when the context is cancelled; finish reports that.
func (s *session) run(n int, task func(i int)) {
	workers := min(n, s.device.threads)
	if workers <= 1 {
		for i := range n {
			if s.ctx.Err() != nil {
				return
			}
			task(i)
		}
		return
	}
	var next atomic.Int64
	work := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= n || s.ctx.Err() != nil {
				return
			}
			task(i)
		}
	}
	var wg sync.WaitGroup
	for range workers - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}

// parts calls f for intervals that cover 0 … n−1, each with about grain units of
// work or more, where one element is cost units.
func (s *session) parts(n, cost int, f func(lo, hi int)) {
	const grain = 1 << 17
	tasks := 1
	if cost > 0 && n > grain/cost {
		tasks = min(n, (n/max(1, grain/cost))+1)
	}
	s.run(tasks, func(i int) { f(n*i/tasks, n*(i+1)/tasks) })
}

func (s *session) FromHost(t *tensor.Tensor) Array {
	const op = "from host"
	if !s.begin(op) {
		return dead
	}
	a := &array{device: s.device, session: s, shape: t.Shape().Clone(), dtype: t.DType()}
	if computes(t.DType()) {
		a.pooled = s.device.pool.get(t.Len())
		a.f = (*a.pooled)[:t.Len()]
		widen(a.f, t)
	} else {
		a.other = t.Clone()
	}
	s.arrays = append(s.arrays, a)
	return a
}

func (s *session) ToHost(x Array) *tensor.Tensor {
	const op = "to host"
	if !s.begin(op) {
		return nil
	}
	a := s.operand(op, "the array", x)
	if a == nil {
		return nil
	}
	if a.other != nil {
		return a.other.Clone()
	}
	values := a.f
	if a.matrix != nil {
		values = make([]float32, a.shape[0]*a.shape[1])
		for i := range a.shape[0] {
			a.matrix.Row(values[i*a.shape[1]:(i+1)*a.shape[1]], i)
		}
	}
	t, err := tensor.New(a.dtype, a.shape...)
	if err != nil {
		s.fail(op, err)
		return nil
	}
	narrow(t, values)
	return t
}

func (s *session) Gather(x Table, ids []int) Array {
	const op = "gather"
	if !s.begin(op) {
		return dead
	}
	t, ok := x.(*table)
	if !ok || t == nil || t.device != s.device {
		return s.fail(op, fmt.Errorf("%w: the table belongs to another device", ErrOperand))
	}
	n := t.NumRows()
	for _, id := range ids {
		if id < 0 || id >= n {
			if n == 0 {
				return s.fail(op, fmt.Errorf("%w: token id %d of an empty table", ErrIndex, id))
			}
			return s.fail(op, fmt.Errorf("%w: token id %d is outside 0..%d", ErrIndex, id, n-1))
		}
	}
	shape := tensor.Shape{len(ids), t.Width()}
	var out *array
	var dst []byte
	var halves *tensor.Tensor
	if computes(t.DType()) {
		if out = s.make(op, t.DType(), len(ids), t.Width()); out == nil {
			return dead
		}
		view, err := tensor.FromFloat32s(out.f, shape...)
		if t.DType() != tensor.F32 {
			view, err = tensor.New(t.DType(), shape...)
			halves = view
		}
		if err != nil {
			return s.fail(op, err)
		}
		dst = view.Bytes()
	} else {
		other, err := tensor.New(t.DType(), shape...)
		if err != nil {
			return s.fail(op, err)
		}
		out = &array{device: s.device, session: s, shape: shape, dtype: t.DType(), other: other}
		s.arrays = append(s.arrays, out)
		dst = other.Bytes()
	}
	size := t.Width() * t.DType().Size()
	errs := make([]error, len(ids))
	s.parts(len(ids), size, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			errs[i] = t.DecodeRow(dst[i*size:(i+1)*size:(i+1)*size], ids[i])
		}
	})
	for i, err := range errs {
		if err != nil {
			return s.fail(op, fmt.Errorf("row of token id %d: %w", ids[i], err))
		}
	}
	if halves != nil {
		widen(out.f, halves)
	}
	return s.finish(op, out)
}

func (s *session) Linear(x, w, b Array) Array {
	const op = "linear"
	if !s.begin(op) {
		return dead
	}
	in := s.matrix(op, "x", x)
	if in == nil {
		return dead
	}
	weight := s.operand(op, "w", w)
	if weight == nil {
		return dead
	}
	if weight.matrix == nil {
		return s.fail(op, fmt.Errorf("%w: w was not uploaded as the weight of a linear map", ErrOperand))
	}
	m := weight.matrix
	if in.width() != m.Inputs() {
		return s.fail(op, fmt.Errorf("%w: x %v does not fit w %v", tensor.ErrShape, in.shape, weight.shape))
	}
	if !s.same(op, "w", weight, in.dtype) {
		return dead
	}
	var bias []float32
	if !isNil(b) {
		v := s.vector(op, "b", b, in.dtype, m.Outputs())
		if v == nil {
			return dead
		}
		bias = v.f
	}
	out := s.make(op, in.dtype, in.rows(), m.Outputs())
	if out == nil {
		return dead
	}
	m.Mul(out.f, in.f, in.rows(), s.device.order(in.rows()), gemm.Runner(s.run))
	if bias == nil {
		return s.rounded(op, out)
	}
	s.parts(in.rows(), m.Outputs(), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			row := out.row(r)
			fmath.Adds(row, row, bias)
			round(out.dtype, row)
		}
	})
	return s.finish(op, out)
}

package metalgpu

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/metalgpu/internal/driver"
	"github.com/hfcompress/compress/metalgpu/internal/kernel"
	"github.com/hfcompress/compress/tensor"
)

// array is the [nn.Array] of the device. One of buffer, matrix and other has its
// values.
type array struct {
	device *device
	// session made the array; nil for uploaded weights.
	session *session
	shape   tensor.Shape
	dtype   tensor.DType
	// buffer holds the values as float32.
	buffer driver.Buffer
	// matrix holds the rows of a weight [out, in] in its type.
	isMatrix bool
	matrix   []part
	// other holds values of a type that is not computed with.
	other *tensor.Tensor
	// resident owns the buffers of an uploaded weight.
	resident *resident
}

func (a *array) Shape() tensor.Shape { return a.shape }
func (a *array) DType() tensor.DType { return a.dtype }

func (a *array) rows() int  { return a.shape[0] }
func (a *array) width() int { return a.shape[1] }

// session is the [nn.Session] of the device: operations are recorded and
// submitted when a result is asked for, when there are many, or at the end.
type session struct {
	device *device
	ctx    context.Context
	err    error
	closed bool

	list     driver.Commands
	recorded int
	work     int64 // multiplications recorded
	staged   int64 // bytes of host buffers that recorded copies read

	results []driver.Buffer // of this session's arrays, until it is closed
	scratch []driver.Buffer // free for the next operation
	hosts   []driver.Buffer // in use until the list has run
	inUse   []any           // kept from the collector until the list has run
	// grown holds caches that recorded commands append to, with the length that
	// is sure.
	grown map[*cache]int
}

// dead stands for the result of an operation that was not carried out.
var dead nn.Array = &array{shape: tensor.Shape{0, 0}, dtype: tensor.F32}

func (s *session) Err() error { return s.err }

// fail records the first failure.
func (s *session) fail(op string, err error) nn.Array {
	if s.err == nil {
		s.err = fmt.Errorf("%s: %w", op, err)
	}
	return dead
}

// begin reports whether an operation may go on; device.leave must follow then.
func (s *session) begin(op string) bool {
	if s.err != nil {
		return false
	}
	if s.closed {
		s.fail(op, fmt.Errorf("session: %w", nn.ErrClosed))
		return false
	}
	if err := s.ctx.Err(); err != nil {
		s.fail(op, err)
		return false
	}
	if err := s.device.enter(); err != nil {
		s.fail(op, err)
		return false
	}
	return true
}

// finish returns the result of an operation, or what stands for it.
func (s *session) finish(op string, out *array) nn.Array {
	s.pause(op)
	if out == nil || s.err != nil {
		return dead
	}
	return out
}

// pause ends an operation: what only it needed goes where all has run.
func (s *session) pause(op string) {
	switch {
	case s.recorded == 0:
		s.settle()
	case s.staged >= 8*stagingBytes:
		s.flush(op)
	}
}

// take returns a device buffer for the session's own use.
func (s *session) take(op string, bytes int64) driver.Buffer {
	if s.err != nil {
		return nil
	}
	size := class(bytes)
	for i, b := range s.scratch {
		if b.Size() == size {
			s.scratch[i] = s.scratch[len(s.scratch)-1]
			s.scratch = s.scratch[:len(s.scratch)-1]
			return b
		}
	}
	if bytes > s.device.memory.bufferLimit {
		s.fail(op, fmt.Errorf("%w: %d bytes, expected at most %d", ErrLimit, bytes, s.device.memory.bufferLimit))
		return nil
	}
	b, err := s.device.memory.take(bytes, driver.Device)
	if err != nil {
		s.fail(op, err)
		return nil
	}
	return b
}

// make returns a new array [rows, width] of type d with undefined contents, or
// nil after recording why there is none.
func (s *session) make(op string, d tensor.DType, rows, width int) *array {
	shape := tensor.Shape{rows, width}
	bytes, err := shape.Bytes(tensor.F32)
	if err != nil {
		s.fail(op, err)
		return nil
	}
	b := s.take(op, int64(bytes))
	if b == nil {
		return nil
	}
	s.results = append(s.results, b)
	return &array{device: s.device, session: s, shape: shape, dtype: d, buffer: b}
}

// constant returns a buffer that holds values, until the list has run.
func (s *session) constant(op string, values []uint32) driver.Buffer {
	b := s.host(op, 4*int64(len(values)))
	if b != nil {
		copy(words(b.Bytes()), values)
	}
	return b
}

// host returns a host buffer, until the list has run.
func (s *session) host(op string, bytes int64) driver.Buffer {
	if s.err != nil {
		return nil
	}
	if bytes > s.device.memory.bufferLimit {
		s.fail(op, fmt.Errorf("%w: %d bytes, expected at most %d", ErrLimit, bytes, s.device.memory.bufferLimit))
		return nil
	}
	b, err := s.device.memory.take(bytes, driver.Host)
	if err != nil {
		s.fail(op, err)
		return nil
	}
	s.hosts = append(s.hosts, b)
	s.staged += b.Size()
	return b
}

// hold keeps what owns buffers alive until the list has run.
func (s *session) hold(owner any) { s.inUse = append(s.inUse, owner) }

// record returns the list of commands, or nil after a failure.
func (s *session) record(op string) driver.Commands {
	if s.err != nil {
		return nil
	}
	if s.list == nil {
		list, err := s.device.drv.Begin()
		if err != nil {
			s.fail(op, err)
			return nil
		}
		s.list = list
	}
	s.recorded++
	return s.list
}

// run records a kernel over its grid. work is the number of multiplications,
// roughly; operations after which much of it is pending are submitted.
func (s *session) run(op, name string, work int64, buffers []driver.Buffer, push ...uint32) {
	bindings := make([]driver.Binding, len(buffers))
	for i, b := range buffers {
		bindings[i].Buffer = b
	}
	s.dispatch(op, name, work, bindings, push)
}

// dispatch is run with parts of buffers.
func (s *session) dispatch(op, name string, work int64, bindings []driver.Binding, push []uint32) {
	if s.err != nil {
		return
	}
	p, err := s.device.pipeline(name)
	if err != nil {
		s.fail(op, err)
		return
	}
	groups := p.Kernel().Groups(push)
	if groups[0] == 0 || groups[1] == 0 || groups[2] == 0 {
		return
	}
	list := s.record(op)
	if list == nil {
		return
	}
	for i := range bindings {
		if bindings[i].Buffer == nil {
			bindings[i].Buffer = s.device.dummy
		}
	}
	list.Dispatch(p, groups, bindings, push)
	s.work += work
	if s.work >= s.device.budget.Load() || s.recorded >= maxCommands {
		s.submit(op)
	}
}

// copy records a copy.
func (s *session) copy(op string, dst driver.Buffer, dstOffset int64, src driver.Buffer, srcOffset, bytes int64) {
	if bytes == 0 {
		return
	}
	if list := s.record(op); list != nil {
		list.Copy(dst, dstOffset, src, srcOffset, (bytes+3)&^3)
	}
}

// flush runs what was recorded and gives back what only that needed. It is for
// the end of an operation.
func (s *session) flush(op string) bool {
	ok := s.submit(op)
	s.settle()
	return ok
}

// submit runs what was recorded.
func (s *session) submit(op string) bool {
	if s.err != nil {
		return false
	}
	if s.recorded == 0 {
		return true
	}
	start := time.Now()
	err := s.device.submit(s.ctx, s.list)
	if err == nil {
		s.pace(time.Since(start))
		clear(s.grown)
	} else {
		s.fail(op, err)
	}
	s.recorded, s.work = 0, 0
	return err == nil
}

// settle gives back what only recorded commands needed.
func (s *session) settle() {
	for _, b := range s.hosts {
		s.device.memory.give(b)
	}
	s.hosts, s.inUse = s.hosts[:0], nil
	s.recorded, s.work, s.staged = 0, 0, 0
}

// pace fits the work of a submission to the device: long enough that submitting
// costs little, short enough that a context's end is soon seen. Results do not
// depend on it.
func (s *session) pace(took time.Duration) {
	budget := s.device.budget.Load()
	if s.work < budget/2 {
		return
	}
	switch {
	case took < 20*time.Millisecond:
		budget = min(2*budget, 1<<40)
	case took > 200*time.Millisecond && budget > 1<<20:
		budget /= 2
	}
	s.device.budget.Store(budget)
}

// Close ends the session. What was recorded and not asked for does not run, but
// for what key/value caches receive.
func (s *session) Close() error {
	if s.closed {
		return s.err
	}
	s.closed = true
	if err := s.device.enter(); err != nil {
		s.list = nil // it goes with the device
		if len(s.grown) > 0 {
			s.fail("close", err)
		}
		s.retract()
		return s.err
	}
	defer s.device.leave()
	if len(s.grown) > 0 && s.err == nil {
		if err := s.ctx.Err(); err != nil {
			s.fail("close", err)
		} else {
			s.flush("close")
		}
	}
	s.retract()
	if s.list != nil {
		s.list.Close()
		s.list = nil
	}
	s.settle()
	for _, b := range s.results {
		s.device.memory.give(b)
	}
	for _, b := range s.scratch {
		s.device.memory.give(b)
	}
	s.results, s.scratch = nil, nil
	return s.err
}

// retract drops the positions of caches that never arrived.
func (s *session) retract() {
	for c, length := range s.grown {
		c.length = min(c.length, length)
	}
	clear(s.grown)
}

// operand checks that x is this device's and, if a session made it, this
// session's.
func (s *session) operand(op, name string, x nn.Array) *array {
	a, ok := x.(*array)
	switch {
	case !ok || a == nil:
		s.fail(op, fmt.Errorf("%w: %s is no array of the gpu device", nn.ErrOperand, name))
	case a.device != s.device:
		s.fail(op, fmt.Errorf("%w: %s belongs to another device", nn.ErrOperand, name))
	case a.session != nil && a.session != s:
		s.fail(op, fmt.Errorf("%w: %s belongs to another session", nn.ErrOperand, name))
	default:
		if a.resident != nil {
			s.hold(a.resident)
		}
		return a
	}
	return nil
}

// dense checks that x is an array whose elements can be computed with.
func (s *session) dense(op, name string, x nn.Array) *array {
	a := s.operand(op, name, x)
	switch {
	case a == nil:
		return nil
	case a.isMatrix:
		s.fail(op, fmt.Errorf("%w: %s was uploaded as the weight of a linear map", nn.ErrOperand, name))
	case !computes(a.dtype):
		s.fail(op, fmt.Errorf("%w %v: %s must be F32, BF16 or F16", tensor.ErrDType, a.dtype, name))
	default:
		return a
	}
	return nil
}

// matrix checks that x is a dense array of two axes.
func (s *session) matrix(op, name string, x nn.Array) *array {
	a := s.dense(op, name, x)
	if a != nil && len(a.shape) != 2 {
		s.fail(op, fmt.Errorf("%w: %s must have two axes, has %v", tensor.ErrShape, name, a.shape))
		return nil
	}
	return a
}

// vector checks that x is a dense array of type d, of one axis of n elements.
func (s *session) vector(op, name string, x nn.Array, d tensor.DType, n int) *array {
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

// isNil reports that an optional operand is absent.
func isNil(a nn.Array) bool {
	if a == nil {
		return true
	}
	c, ok := a.(*array)
	return ok && c == nil
}

// round is the push constant that rounds results to d.
func round(d tensor.DType) uint32 {
	switch d {
	case tensor.BF16:
		return kernel.RoundBF16
	case tensor.F16:
		return kernel.RoundF16
	}
	return kernel.RoundF32
}

func flag(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// pattern is a float push constant.
func pattern(x float32) uint32 { return math.Float32bits(x) }

func (s *session) FromHost(t *tensor.Tensor) nn.Array {
	const op = "from host"
	if !s.begin(op) {
		return dead
	}
	defer s.device.leave()
	a := &array{device: s.device, session: s, shape: t.Shape().Clone(), dtype: t.DType()}
	if !computes(t.DType()) {
		a.other = t.Clone()
		return a
	}
	bytes := 4 * int64(t.Len())
	if a.buffer = s.take(op, bytes); a.buffer == nil {
		return dead
	}
	s.results = append(s.results, a.buffer)
	for at := int64(0); at < bytes; at += stagingBytes {
		n := min(stagingBytes, bytes-at)
		stage := s.host(op, n)
		if stage == nil {
			return dead
		}
		widen(stage.Bytes()[:n], t, int(at/4))
		s.copy(op, a.buffer, at, stage, 0, n)
		if s.staged >= 8*stagingBytes && !s.flush(op) {
			return dead
		}
	}
	return s.finish(op, a)
}

func (s *session) ToHost(x nn.Array) *tensor.Tensor {
	const op = "to host"
	if !s.begin(op) {
		return nil
	}
	defer s.device.leave()
	a := s.operand(op, "the array", x)
	if a == nil {
		return nil
	}
	if a.other != nil {
		return a.other.Clone()
	}
	t, err := tensor.New(a.dtype, a.shape...)
	if err != nil {
		s.fail(op, err)
		return nil
	}
	if a.isMatrix {
		size := a.width() * a.dtype.Size()
		for _, p := range a.matrix {
			s.download(op, p.buffer, int64(p.rows)*int64(size), func(block []byte, at int64) {
				copy(t.Bytes()[int64(p.first)*int64(size)+at:], block)
			})
		}
	} else {
		s.download(op, a.buffer, 4*int64(t.Len()), func(block []byte, at int64) { narrow(t, int(at/4), block) })
	}
	runtime.KeepAlive(a) // with the buffers that are read
	if !s.flush(op) {
		return nil
	}
	return t
}

// download runs what was recorded and hands out a buffer's bytes in blocks.
func (s *session) download(op string, b driver.Buffer, bytes int64, use func(block []byte, at int64)) {
	for at := int64(0); at < bytes; at += stagingBytes {
		n := min(stagingBytes, bytes-at)
		stage := s.host(op, (n+3)&^3)
		if stage == nil {
			return
		}
		s.hosts = s.hosts[:len(s.hosts)-1] // it is read after the flush
		s.copy(op, stage, 0, b, at, n)
		ok := s.flush(op)
		if ok {
			use(stage.Bytes()[:n], at)
		}
		s.device.memory.give(stage)
		if !ok {
			return
		}
	}
}

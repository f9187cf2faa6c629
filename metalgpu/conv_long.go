package metalgpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/internal/longconv"
	"github.com/hfcompress/compress/metalgpu/internal/driver"
	"github.com/hfcompress/compress/tensor"
)

const (
	// longBytes bounds the memory in which columns are convolved at a time, where
	// one column of all sequences takes less.
	longBytes = 256 << 20
	// wideCost is what a complex product costs in multiplications of float32,
	// roughly.
	wideCost = 64
	// The bytes of a float64 and of a complex number of two.
	wideBytes, complexBytes = 8, 16
)

// longRoots holds the factors of transforms, uploaded when they are first needed.
type longRoots struct {
	lock   sync.Mutex
	levels [longconv.Levels]driver.Buffer
}

// longRoots returns the factors of a level's transform.
func (d *device) longRoots(level int) (driver.Buffer, error) {
	d.roots.lock.Lock()
	defer d.roots.lock.Unlock()
	if b := d.roots.levels[level]; b != nil {
		return b, nil
	}
	u, err := d.newUpload()
	if err != nil {
		return nil, err
	}
	defer u.close()
	roots := longconv.Roots(level)
	data := make([]byte, 0, complexBytes*len(roots))
	for _, z := range roots {
		data = binary.LittleEndian.AppendUint64(data, math.Float64bits(real(z)))
		data = binary.LittleEndian.AppendUint64(data, math.Float64bits(imag(z)))
	}
	b, err := u.bytes(data)
	d.roots.levels[level] = b
	return b, err
}

// float checks that x is a dense F32 array of two axes.
func (s *session) float(op, name string, x nn.Array) *array {
	a := s.matrix(op, name, x)
	if a != nil && a.dtype != tensor.F32 {
		s.fail(op, fmt.Errorf("%w %v: %s must be F32", tensor.ErrDType, a.dtype, name))
		return nil
	}
	return a
}

// longConvolution is a checked call of [nn.LongConvolver.ConvolveLong].
type longConvolution struct {
	x, filter, skip *array
	batch, steps    int
	taps            int // rows of the filter that are read
	out             driver.Buffer
	// Memory for some columns at a time: results so far, the blocks of one level's
	// size and what they receive, and the filter's parts.
	sums, blocks, received, parts driver.Buffer
}

// ConvolveLong implements [nn.LongConvolver]: the steps are those of
// internal/longconv.
func (s *session) ConvolveLong(u nn.Array, in nn.LongConvolution) nn.Array {
	const op = "convolve long"
	if !s.begin(op) {
		return dead
	}
	defer s.device.leave()
	x, filter := s.float(op, "u", u), s.float(op, "the filter", in.Filter)
	if x == nil || filter == nil {
		return dead
	}
	if err := in.Check(x.shape, filter.shape); err != nil {
		return s.fail(op, err)
	}
	skip := s.vector(op, "the skip", in.Skip, tensor.F32, x.width())
	if skip == nil {
		return dead
	}
	out := s.like(op, x)
	if out == nil || size(out) == 0 {
		return s.finish(op, out)
	}
	c := &longConvolution{x: x, filter: filter, skip: skip, batch: in.Batch, steps: x.rows() / in.Batch, out: out.buffer}
	c.taps = min(filter.rows(), nn.LongFilterRows(c.steps))
	s.convolveLong(op, c)
	return s.finish(op, out)
}

// blocksOf is the number of blocks of a level that have others after them.
func (c *longConvolution) blocksOf(level int) int { return (c.steps - 1) / longconv.Size(level) }

// partsOf is the number of a filter's parts at a level.
func (c *longConvolution) partsOf(level int) int { return min(longconv.Arity-1, c.blocksOf(level)) }

// convolveLong convolves as many columns at a time as there is memory for.
func (s *session) convolveLong(op string, c *longConvolution) {
	var values, parts int64 // of a column, the most at any level
	for level := range longconv.Levels {
		n := int64(longconv.Size(level))
		values, parts = max(values, int64(c.batch)*int64(c.blocksOf(level))*n), max(parts, int64(c.partsOf(level))*n)
	}
	column := int64(c.batch)*int64(c.steps)*wideBytes + (2*values+parts)*complexBytes
	widest := max(int64(c.batch)*int64(c.steps)*wideBytes, values*complexBytes, parts*complexBytes)
	room := int64(longBytes)
	if limit := s.device.memory.limit; limit > 0 {
		room = min(room, limit/4)
	}
	columns := min(int64(c.x.width()), max(1, min(room/column, s.device.memory.bufferLimit/widest)))
	for _, b := range []struct {
		to    *driver.Buffer
		bytes int64
	}{
		{&c.sums, columns * int64(c.batch) * int64(c.steps) * wideBytes},
		{&c.blocks, columns * values * complexBytes}, {&c.received, columns * values * complexBytes},
		{&c.parts, columns * parts * complexBytes},
	} {
		if *b.to = s.take(op, b.bytes); *b.to == nil {
			break
		}
		defer func() { s.scratch = append(s.scratch, *b.to) }()
	}
	for first := 0; first < c.x.width() && s.err == nil; first += int(columns) {
		s.longColumns(op, c, first, min(int(columns), c.x.width()-first))
	}
}

// longColumns convolves some columns.
func (s *session) longColumns(op string, c *longConvolution, first, columns int) {
	series, steps, width := uint32(columns*c.batch), uint32(c.steps), uint32(c.x.width())
	at, cols := uint32(first), uint32(columns)
	values := int64(series) * int64(steps)
	s.run(op, "long_direct", values*min(int64(steps), 32)*wideCost/4, []driver.Buffer{c.x.buffer, c.filter.buffer, c.sums},
		series, cols, steps, width, at, uint32(c.taps))
	for level := range longconv.Levels {
		blocks, parts := uint32(c.blocksOf(level)), uint32(c.partsOf(level))
		if blocks == 0 || s.err != nil {
			break
		}
		n := uint32(longconv.Size(level))
		roots, err := s.device.longRoots(level)
		if err != nil {
			s.fail(op, err)
			return
		}
		s.run(op, "long_load", 0, []driver.Buffer{c.filter.buffer, c.parts}, cols, cols, uint32(c.taps), width, at, n, parts, 1)
		s.transform(op, "long_forward", c.parts, roots, n, cols*parts)
		s.run(op, "long_load", 0, []driver.Buffer{c.x.buffer, c.blocks}, series, cols, steps, width, at, n, blocks, 0)
		s.transform(op, "long_forward", c.blocks, roots, n, series*blocks)
		s.run(op, "long_multiply", int64(series)*int64(blocks)*int64(n)*int64(parts)*wideCost/2,
			[]driver.Buffer{c.blocks, c.parts, c.received}, series, cols, n, blocks, parts)
		s.transform(op, "long_backward", c.received, roots, n, series*blocks)
		scale := math.Float64bits(1 / float64(n))
		s.run(op, "long_add", values*wideCost/4, []driver.Buffer{c.received, c.sums}, series, steps, n, blocks, uint32(scale>>32))
	}
	s.run(op, "long_finish", values*wideCost/4, []driver.Buffer{c.sums, c.x.buffer, c.skip.buffer, c.out}, series, cols, steps, width, at)
}

// transform runs all steps of count transforms of n points.
func (s *session) transform(op, kernel string, values, roots driver.Buffer, n, count uint32) {
	pairs := n / 2 * count
	for part := uint32(1); part < n; part *= 2 {
		span := part // of a step of the inverse, which begins with the smallest
		if kernel == "long_forward" {
			span = n / 2 / part
		}
		s.run(op, kernel, int64(pairs)*wideCost, []driver.Buffer{values, roots}, pairs, span, n/2/span)
	}
}

// Sine implements [nn.LongConvolver].
func (s *session) Sine(x, w nn.Array) nn.Array {
	const op = "sine"
	if !s.begin(op) {
		return dead
	}
	defer s.device.leave()
	in := s.float(op, "x", x)
	if in == nil {
		return dead
	}
	weight, out := s.vector(op, "w", w, tensor.F32, in.width()), s.like(op, in)
	if weight == nil || out == nil {
		return dead
	}
	if size(in) > 0 {
		s.run(op, "sine", 4*wideCost*size(in), []driver.Buffer{in.buffer, weight.buffer, out.buffer}, uint32(in.rows()), uint32(in.width()))
	}
	return s.finish(op, out)
}

// Decay implements [nn.LongConvolver].
func (s *session) Decay(x, t, rate nn.Array, shift float32) nn.Array {
	const op = "decay"
	if !s.begin(op) {
		return dead
	}
	defer s.device.leave()
	in, times := s.float(op, "x", x), s.float(op, "t", t)
	if in == nil || times == nil {
		return dead
	}
	if !times.shape.Equal(tensor.Shape{in.rows(), 1}) {
		return s.fail(op, fmt.Errorf("%w: t must be [%d,1], is %v", tensor.ErrShape, in.rows(), times.shape))
	}
	rates, out := s.vector(op, "the rate", rate, tensor.F32, in.width()), s.like(op, in)
	if rates == nil || out == nil {
		return dead
	}
	if size(in) > 0 {
		s.run(op, "decay", functionCost*size(in), []driver.Buffer{in.buffer, times.buffer, rates.buffer, out.buffer},
			uint32(in.rows()), uint32(in.width()), pattern(shift))
	}
	return s.finish(op, out)
}

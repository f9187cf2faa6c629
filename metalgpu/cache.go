package metalgpu

import (
	"fmt"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/metalgpu/internal/driver"
	"github.com/hfcompress/compress/tensor"
)

// cache is the [nn.KVCache] of the device. It belongs to one session at a time.
type cache struct {
	device                 *device
	batch, width, capacity int
	length                 int
	// The types of what it holds, when it holds anything.
	keyType, valueType tensor.DType
	// room is the number of positions for which there are buffers [batch, room,
	// width].
	room         int
	keys, values driver.Buffer
	resident     *resident
}

func (c *cache) Len() int      { return c.length }
func (c *cache) Capacity() int { return c.capacity }

func (c *cache) Truncate(n int) { c.length = max(0, min(n, c.length)) }

// minRoom is the number of positions that a cache has room for at first.
const minRoom = 64

// grow makes room for n positions, keeping those that are held.
func (s *session) grow(op string, c *cache, n int) bool {
	if n <= c.room {
		return true
	}
	room := min(max(n, 2*c.room, minRoom), c.capacity)
	row := 4 * int64(c.width)
	bytes := int64(c.batch) * int64(room) * row
	var fresh [2]driver.Buffer
	for i := range fresh {
		b, err := s.device.memory.take(bytes, driver.Device)
		if err != nil {
			s.fail(op, err)
			if i > 0 {
				s.device.memory.give(fresh[0])
			}
			return false
		}
		fresh[i] = b
	}
	if c.length > 0 {
		for b := range int64(c.batch) {
			s.copy(op, fresh[0], b*int64(room)*row, c.keys, b*int64(c.room)*row, int64(c.length)*row)
			s.copy(op, fresh[1], b*int64(room)*row, c.values, b*int64(c.room)*row, int64(c.length)*row)
		}
		s.hold(c.resident)
		// The copies must have run before anything can undo the change.
		if !s.submit(op) {
			s.device.memory.give(fresh[0])
			s.device.memory.give(fresh[1])
			return false
		}
	}
	c.room, c.keys, c.values = room, fresh[0], fresh[1]
	c.resident = s.device.memory.adopt(fresh[0], fresh[1])
	return true
}

func (s *session) Append(kv nn.KVCache, k, v nn.Array) {
	const op = "append"
	if !s.begin(op) {
		return
	}
	defer s.device.leave()
	c, ok := kv.(*cache)
	if !ok || c == nil || c.device != s.device {
		s.fail(op, fmt.Errorf("%w: the cache belongs to another device", nn.ErrOperand))
		return
	}
	keys, values := s.matrix(op, "k", k), s.matrix(op, "v", v)
	if keys == nil || values == nil {
		return
	}
	if keys.dtype != tensor.F32 && !s.same(op, "v", values, keys.dtype) {
		return
	}
	if c.length > 0 && (c.keyType != keys.dtype || c.valueType != values.dtype) {
		s.fail(op, fmt.Errorf("%w: %v keys and %v values for a cache of %v and %v",
			tensor.ErrDType, keys.dtype, values.dtype, c.keyType, c.valueType))
		return
	}
	if !keys.shape.Equal(values.shape) || keys.width() != c.width || keys.rows()%c.batch != 0 {
		s.fail(op, fmt.Errorf("%w: k %v and v %v do not fit a cache of %d sequences of width %d",
			tensor.ErrShape, keys.shape, values.shape, c.batch, c.width))
		return
	}
	steps := keys.rows() / c.batch
	if steps > c.capacity-c.length {
		s.fail(op, fmt.Errorf("%w: %d positions more do not fit a cache that holds %d of %d",
			tensor.ErrShape, steps, c.length, c.capacity))
		return
	}
	c.keyType, c.valueType = keys.dtype, values.dtype
	if steps == 0 || !s.grow(op, c, c.length+steps) {
		return
	}
	if _, pending := s.grown[c]; !pending {
		s.grown[c] = c.length
	}
	s.hold(c.resident)
	s.hold(c)
	for _, move := range []struct {
		from *array
		to   driver.Buffer
	}{{keys, c.keys}, {values, c.values}} {
		s.run(op, "kv_append", 0, []driver.Buffer{move.from.buffer, move.to},
			uint32(c.batch), uint32(steps), uint32(c.width), uint32(c.room), uint32(c.length))
	}
	if s.err == nil {
		c.length += steps
	}
	s.pause(op)
}

package nn

import (
	"fmt"

	"github.com/hfcompress/compress/internal/gemm"
	"github.com/hfcompress/compress/tensor"
)

// keyPanel is the number of keys that lie side by side in a keys panel, as the
// matrix kernels want them.
const keyPanel = 16

// cache is the [KVCache] of the CPU device. It belongs to one session at a time.
type cache struct {
	device                 *cpu
	batch, width, capacity int
	length                 int
	// The types of what it holds, when it holds anything.
	keyType, valueType tensor.DType
	seq                []sequence
}

// sequence holds keys and values of one sequence, in the layouts in which the
// matrix kernels read them.
type sequence struct {
	// keys holds panels of 16 positions: element (position, column) lies at
	// position/16·16·width + column·16 + position%16.
	keys []float32
	// values is row-major [positions, width], with pad more values that may be
	// read.
	values []float32
	// finite says that no value was ever infinite or NaN.
	finite bool
}

func newCache(d *cpu, batch, width, capacity int) *cache {
	c := &cache{device: d, batch: batch, width: width, capacity: capacity, seq: make([]sequence, batch)}
	for i := range c.seq {
		c.seq[i].finite = true
	}
	return c
}

func (c *cache) Len() int      { return c.length }
func (c *cache) Capacity() int { return c.capacity }

func (c *cache) Truncate(n int) { c.length = max(0, min(n, c.length)) }

// append copies positions of k and v, row-major, behind the first length ones.
// limit bounds the storage.
func (q *sequence) append(k, v []float32, width, length, limit int) {
	steps := len(v) / width
	q.grow(width, length, length+steps, limit)
	copy(q.values[length*width:], v)
	q.finite = q.finite && finite(v)
	q.panel(k, width, length)
}

// panel puts positions of k, row-major, into the keys' panels from one on.
func (q *sequence) panel(k []float32, width, first int) {
	steps := len(k) / width
	for t := 0; t < steps; {
		pos := first + t
		dst := q.keys[pos/keyPanel*keyPanel*width+pos%keyPanel:]
		if pos%keyPanel == 0 && steps-t >= keyPanel { // a whole panel
			gemm.Transpose(dst, k[t*width:], keyPanel, width, width)
			t += keyPanel
			continue
		}
		for i, x := range k[t*width : (t+1)*width] {
			dst[i*keyPanel] = x
		}
		t++
	}
}

// grow makes room for n positions, keeping the first length ones.
func (q *sequence) grow(width, length, n, limit int) {
	if n*width+pad <= len(q.values) {
		return
	}
	n = min(max(n, 2*length), limit)
	panels := (n + keyPanel - 1) / keyPanel
	keys := make([]float32, panels*keyPanel*width)
	copy(keys, q.keys)
	values := make([]float32, n*width+pad)
	copy(values, q.values[:length*width])
	q.keys, q.values = keys, values
}

func (s *session) Append(kv KVCache, k, v Array) {
	const op = "append"
	if !s.begin(op) {
		return
	}
	c, ok := kv.(*cache)
	if !ok || c == nil || c.device != s.device {
		s.fail(op, fmt.Errorf("%w: the cache belongs to another device", ErrOperand))
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
	c.keyType, c.valueType = keys.dtype, values.dtype
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
	n := steps * c.width
	for b := range c.seq {
		c.seq[b].append(keys.f[b*n:(b+1)*n], values.f[b*n:(b+1)*n], c.width, c.length, c.capacity)
	}
	c.length += steps
}

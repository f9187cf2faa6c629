package floatcodec

import (
	"encoding/binary"
	"fmt"

	"github.com/hfcompress/compress/tensor"
)

// contexts choose a rANS table for each element of a matrix by its row and
// column. Scales of weights multiply: an output channel with large weights and
// an input channel with large weights meet in still larger ones. In symbols,
// which are logarithmic, scales add; so each row and each column has a small
// number, and their sum names the table.
type contexts struct {
	row, col []uint8 // 0 to maxScale
	bias     int     // the sum that stands for the first table
	n        int     // tables
}

const (
	maxContexts = 32
	maxScale    = 31
	// maxAxis bounds rows and columns, and with them what a model allocates.
	maxAxis = 1 << 20
)

// tables writes the table of each of the len(out) elements from first, in
// stream order.
func (c *contexts) tables(out []byte, first int64, s *splitter) {
	cols := int64(len(c.col))
	r, k := first/cols, first%cols
	n := len(out)
	for i := range n {
		t := int(c.row[r]) + int(c.col[k]) - c.bias
		out[s.streamIndex(i, n)] = byte(min(max(t, 0), c.n-1))
		if k++; k == cols {
			r, k = r+1, 0
		}
	}
}

func (c *contexts) append(dst []byte) []byte {
	dst = append(dst, byte(c.bias))
	dst = binary.AppendUvarint(dst, uint64(len(c.row)))
	return appendBytes(dst, append(append([]byte{}, c.row...), c.col...), nil, Max, true)
}

func parseContexts(b []byte, m *Model, n int) (*contexts, []byte, error) {
	head, b, err := cut(b, 1)
	if err != nil {
		return nil, nil, err
	}
	c := &contexts{bias: int(head[0]), n: n}
	rows, b, ok := uvarint(b, maxAxis)
	w := int64(m.layout.width)
	if !ok || rows == 0 || m.size%w != 0 || m.size == 0 || m.size/w%int64(rows) != 0 || m.size/w/int64(rows) > maxAxis {
		return nil, nil, fmt.Errorf("%w: bad number of rows", ErrCorrupt)
	}
	both := make([]byte, int(rows)+int(m.size/w/int64(rows)))
	if b, err = readBytes(both, b, nil, nil); err != nil {
		return nil, nil, err
	}
	for _, v := range both {
		if v > maxScale {
			return nil, nil, fmt.Errorf("%w: scale %d", ErrCorrupt, v)
		}
	}
	c.row, c.col = both[:rows], both[rows:]
	return c, b, nil
}

// scaleSums adds up the symbols of each row and column of a matrix.
type scaleSums struct {
	row, col []int64
	floor    int // symbols below count as this one: zeros say nothing of scale
	started  bool
}

// newScales returns sums for the ways of looking at the shape as a matrix:
// rows along the first axis, or along all axes but the last.
func newScales(shape tensor.Shape) (out []*scaleSums) {
	for _, at := range []int{1, len(shape) - 1} {
		if at < 1 || at >= len(shape) || at == 1 && len(out) > 0 {
			continue
		}
		rows, err := shape[:at].Elements()
		if err != nil || rows < 2 || rows > maxAxis {
			continue
		}
		cols, err := shape[at:].Elements()
		if err != nil || cols < 2 || cols > maxAxis {
			continue
		}
		out = append(out, &scaleSums{row: make([]int64, rows), col: make([]int64, cols)})
	}
	return out
}

// add takes in a chunk that starts at element first.
func (s *scaleSums) add(first int64, raw []byte, l layout) {
	split := newSplitter(l, 0)
	n := len(raw) / l.width
	if !s.started {
		s.started = true
		sum, count := 0, 0
		for i := range n {
			if y, _ := split.element(raw[i*l.width:]); y >= l.stride() {
				sum += y
				count++
			}
		}
		if count > 0 {
			s.floor = sum/count - 8*l.stride()
		}
	}
	cols := int64(len(s.col))
	r, k := first/cols, first%cols
	for i := range n {
		y, _ := split.element(raw[i*l.width:])
		v := int64(max(y, s.floor))
		s.row[r] += v
		s.col[k] += v
		if k++; k == cols {
			r, k = r+1, 0
		}
	}
}

// contexts quantises the means in steps of step/16 symbols. The means of rows
// and columns are the least-squares fit of a sum of two terms to a full matrix.
func (s *scaleSums) contexts(step, n int) *contexts {
	total := int64(0)
	for _, v := range s.row {
		total += v
	}
	rows, cols := int64(len(s.row)), int64(len(s.col))
	mean := total * 16 / rows / cols
	c := &contexts{n: n, bias: maxScale + 1 - n/2}
	quantise := func(sums []int64, count int64) []uint8 {
		out := make([]uint8, len(sums))
		for i, v := range sums {
			d := v*16/count - mean
			if d < 0 {
				d -= int64(step) / 2
			} else {
				d += int64(step) / 2
			}
			out[i] = uint8(min(max(d/int64(step)+(maxScale+1)/2, 0), maxScale))
		}
		return out
	}
	c.row, c.col = quantise(s.row, cols), quantise(s.col, rows)
	return c
}

// trainContexts returns a coder with tables by row and column that is expected
// to cost less than limit, or nil.
func (t *Trainer) trainContexts(m *Model, sym []byte, total int64, limit uint64) (best *coder) {
	if m.layout.exp == 0 || m.layout != t.model.layout {
		return nil
	}
	split := newSplitter(m.layout, m.base)
	tables := make([]byte, blockLen)
	for _, s := range t.scales {
		for _, n := range []int{4, 8, 16} {
			for _, step := range []int{8, 16, 32} {
				ctx := s.contexts(step, n)
				counts := make([][256]uint32, n)
				var all [256]uint32
				at := 0
				for _, b := range t.blocks {
					part := tables[:b.n]
					ctx.tables(part, b.first, split)
					for i, k := range part {
						counts[k][sym[at+i]]++
						all[sym[at+i]]++
					}
					at += b.n
				}
				for k := range counts {
					if counts[k] == [256]uint32{} {
						counts[k] = all // not in the sample, but it may occur
					}
				}
				c := newRANS(counts, m.layout.stride(), precision(total), lanes(Max))
				c.ctx = ctx
				if cost := c.expectContexts(counts, len(sym), total); cost < limit {
					best, limit = c, cost
				}
			}
		}
	}
	return best
}

// expectContexts is expect for tables by row and column.
func (c *coder) expectContexts(counts [][256]uint32, sampled int, total int64) uint64 {
	sum, seen := uint64(0), uint64(0)
	for t, costs := range c.costs() {
		for s, n := range counts[t] {
			sum += uint64(n) * uint64(costs[s])
			seen += uint64(n)
		}
	}
	fixed := len(c.append(nil)) + (int(total>>chunkLog)+1)*c.lanes*4
	return scale(sum, uint64(total), max(seen, uint64(sampled))) + uint64(fixed)*8*costUnit
}

package kerneltest

import (
	"fmt"
	"math"

	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/tensor"
)

// rows makes cases of the kernels that move values: any bits must stay.
func rows(g *gen) []Case {
	var list []Case
	for number, t := range types {
		list = append(list, g.gather(number, t))
	}
	return append(list, g.columns(), g.append(), widen())
}

// bits draws any patterns.
func (g *gen) bits(n int) []uint32 {
	x := make([]uint32, n)
	for i := range x {
		x[i] = g.Uint32()
	}
	return x
}

func (g *gen) gather(number int, t tensor.DType) Case {
	count, width, offset, first := g.between(1, 20), g.between(1, 300), g.IntN(5), g.IntN(3)
	elements := offset + count*width
	table := g.bits(elements)
	element := func(e int) uint32 { return table[e] }
	if t != tensor.F32 {
		table = table[:(elements+1)/2]
		element = func(e int) uint32 {
			h := uint16(table[e/2] >> (16 * (e % 2)))
			if t == tensor.BF16 {
				return math.Float32bits(fmath.BF16(h))
			}
			return math.Float32bits(fmath.F16(h))
		}
	}
	ids := make([]uint32, g.between(1, 12))
	y := blank(len(ids) * width)
	want := blank(len(ids) * width)
	for i := range ids {
		id := g.IntN(first + count + 1) // also before and behind the part in the buffer
		ids[i] = uint32(id)
		if id < first || id >= first+count {
			continue
		}
		for c := range width {
			want[i*width+c] = element(offset + (id-first)*width + c)
		}
	}
	return Case{
		Name:    fmt.Sprintf("gather_%s %d of %d×%d", typeNames[number], len(ids), count, width),
		Buffers: [][]uint32{table, ids, y},
		Steps:   []Step{step("gather_"+typeNames[number], []int{0, 1, 2}, len(ids), width, offset, first, count)},
		Want:    map[int][]uint32{2: want},
	}
}

func (g *gen) columns() Case {
	n, groups, size := g.between(1, 9), g.between(1, 5), g.between(1, 40)
	start := g.IntN(size)
	take := g.between(1, size-start)
	x := g.bits(n * groups * size)
	var want []uint32
	for r := range n * groups {
		want = append(want, x[r*size+start:][:take]...)
	}
	return Case{
		Name:    fmt.Sprintf("columns %d×%d×%d, %d from %d", n, groups, size, take, start),
		Buffers: [][]uint32{x, blank(len(want))},
		Steps:   []Step{step("columns", []int{0, 1}, n, groups*size, groups, start, take)},
		Want:    map[int][]uint32{1: want},
	}
}

func (g *gen) append() Case {
	batch, steps, width, room, at := g.between(1, 4), g.between(1, 9), g.between(1, 70), g.IntN(4), g.IntN(9)
	capacity := at + steps + room
	x, y := g.bits(batch*steps*width), g.bits(batch*capacity*width)
	want := append([]uint32{}, y...)
	for b := range batch {
		copy(want[(b*capacity+at)*width:], x[b*steps*width:(b+1)*steps*width])
	}
	return Case{
		Name:    fmt.Sprintf("kv_append %d×%d×%d at %d of %d", batch, steps, width, at, capacity),
		Buffers: [][]uint32{x, y},
		Steps:   []Step{step("kv_append", []int{0, 1}, batch, steps, width, capacity, at)},
		Want:    map[int][]uint32{1: want},
	}
}

// widen covers every F16 pattern.
func widen() Case {
	y, want := make([]uint32, 1<<16), make([]uint32, 1<<16)
	for i := range y {
		y[i], want[i] = uint32(i), math.Float32bits(fmath.F16(uint16(i)))
	}
	return Case{
		Name: "widen_f16 of all patterns", Buffers: [][]uint32{y},
		Steps: []Step{step("widen_f16", []int{0}, len(y))},
		Want:  map[int][]uint32{0: want},
	}
}

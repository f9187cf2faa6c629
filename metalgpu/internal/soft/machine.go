package soft

import (
	"fmt"
	"math"
	"slices"

	"github.com/hfcompress/compress/metalgpu/internal/kernel"
	"github.com/hfcompress/compress/metalgpu/internal/soft/lang"
)

// lanes are the invocations of a workgroup that take part in an operation, in
// increasing order.
type lanes []int32

// memory is a buffer's binding or a shared array, with what is needed to find
// races: for each word the invocation that wrote it last and the one that read it
// last, and when. Times count up with barriers and dispatches.
type memory struct {
	words          []uint32
	wrote, read    []uint32 // times; 0 is never
	writer, reader []int32
}

// severalReaders as a reader stands for more than one.
const severalReaders = -1

// machine runs one workgroup at a time of one kernel.
type machine struct {
	kernel    *kernel.Kernel
	size      int // invocations in a workgroup
	fault     Fault
	all       lanes
	variables [][]uint32
	temps     [][]uint32
	wide      [][]float64 // exact products, where contraction is asked for
	scratch   [2][]uint32 // operands with subnormals taken for zeros
	buffers   []memory
	shared    []memory
	constants [][]uint32
	position  map[string]*[3][]uint32
	// now is the time in workgroup memory, dispatch that in buffers, group the
	// number of the workgroup's first invocation.
	now, dispatch uint32
	group         int32
}

// trap is the panic that ends a workgroup.
type trap struct {
	place lang.Place
	lane  int32
	text  string
}

func (m *machine) fail(place lang.Place, lane int32, format string, args ...any) {
	panic(trap{place, lane, fmt.Sprintf(format, args...)})
}

// bound checks an index.
func (m *machine) bound(place lang.Place, a *lang.Array, mem *memory, lane int32, i uint32) {
	if uint64(i) >= uint64(len(mem.words)) {
		m.fail(place, lane, "%s[%d] of %d elements", a.Name, i, len(mem.words))
	}
}

// loadShared reads a word of shared memory.
func (m *machine) loadShared(place lang.Place, a *lang.Array, mem *memory, lane int32, i uint32) uint32 {
	m.bound(place, a, mem, lane, i)
	switch {
	case mem.wrote[i] == 0:
		m.fail(place, lane, "%s[%d] is read before it is written", a.Name, i)
	case mem.wrote[i] == m.now && mem.writer[i] != lane:
		m.fail(place, lane, "%s[%d] is read without a barrier after invocation %d wrote it", a.Name, i, mem.writer[i])
	case mem.read[i] != m.now:
		mem.read[i], mem.reader[i] = m.now, lane
	case mem.reader[i] != lane:
		mem.reader[i] = severalReaders
	}
	return mem.words[i]
}

// storeShared writes a word of shared memory.
func (m *machine) storeShared(place lang.Place, a *lang.Array, mem *memory, lane int32, i, v uint32) {
	m.bound(place, a, mem, lane, i)
	if mem.wrote[i] == m.now && mem.writer[i] != lane {
		m.fail(place, lane, "%s[%d] is written without a barrier after invocation %d wrote it", a.Name, i, mem.writer[i])
	}
	if mem.read[i] == m.now && mem.reader[i] != lane {
		m.fail(place, lane, "%s[%d] is written without a barrier after another invocation read it", a.Name, i)
	}
	mem.words[i], mem.wrote[i], mem.writer[i] = v, m.now, lane
}

// loadBuffer reads a word of a buffer. In one that the kernel writes, it must not
// be another invocation's.
func (m *machine) loadBuffer(place lang.Place, a *lang.Array, mem *memory, lane int32, i uint32) uint32 {
	m.bound(place, a, mem, lane, i)
	if mem.wrote != nil {
		id := m.group + lane
		if mem.wrote[i] == m.dispatch && mem.writer[i] != id {
			m.fail(place, lane, "%s[%d] is read by invocation %d of the grid and written by %d", a.Name, i, id, mem.writer[i])
		}
		if mem.read[i] != m.dispatch {
			mem.read[i], mem.reader[i] = m.dispatch, id
		} else if mem.reader[i] != id {
			mem.reader[i] = severalReaders
		}
	}
	return mem.words[i]
}

// storeBuffer writes a word of a buffer.
func (m *machine) storeBuffer(place lang.Place, a *lang.Array, mem *memory, lane int32, i, v uint32) {
	m.bound(place, a, mem, lane, i)
	id := m.group + lane
	if mem.wrote[i] == m.dispatch && mem.writer[i] != id {
		m.fail(place, lane, "%s[%d] is written by the invocations %d and %d of the grid", a.Name, i, mem.writer[i], id)
	}
	if mem.read[i] == m.dispatch && mem.reader[i] != id {
		m.fail(place, lane, "%s[%d] is written by invocation %d of the grid and read by another", a.Name, i, id)
	}
	mem.words[i], mem.wrote[i], mem.writer[i] = v, m.dispatch, id
}

// newMachine allocates what the program needs.
func newMachine(p *pipeline, fault Fault) *machine {
	k := p.kernel
	m := &machine{kernel: k, size: k.Workgroup[0] * k.Workgroup[1] * k.Workgroup[2], fault: fault, position: map[string]*[3][]uint32{}}
	for i := range m.size {
		m.all = append(m.all, int32(i))
	}
	vector := func() []uint32 { return make([]uint32, m.size) }
	for range p.program.Variables {
		m.variables = append(m.variables, vector())
	}
	for range p.temps {
		m.temps = append(m.temps, vector())
		if fault == Contract {
			m.wide = append(m.wide, make([]float64, m.size))
		}
	}
	m.scratch = [2][]uint32{vector(), vector()}
	for range k.Push {
		m.constants = append(m.constants, vector())
	}
	for _, name := range []string{"gid", "lid", "wid"} {
		m.position[name] = &[3][]uint32{vector(), vector(), vector()}
	}
	for i := range m.size {
		x, y := i%k.Workgroup[0], i/k.Workgroup[0]%k.Workgroup[1]
		for axis, v := range []int{x, y, i / k.Workgroup[0] / k.Workgroup[1]} {
			m.position["lid"][axis][i] = uint32(v)
		}
	}
	for _, s := range p.program.Shared {
		n := s.Elements
		m.shared = append(m.shared, memory{make([]uint32, n), make([]uint32, n), make([]uint32, n), make([]int32, n), make([]int32, n)})
	}
	return m
}

// run runs workgroup (x, y, z), the n-th of the grid.
func (m *machine) run(p *pipeline, x, y, z uint32, n int) (err error) {
	for axis, v := range []uint32{x, y, z} {
		wid, gid, lid := m.position["wid"][axis], m.position["gid"][axis], m.position["lid"][axis]
		for i := range wid {
			wid[i] = v
			gid[i] = v*uint32(m.kernel.Workgroup[axis]) + lid[i]
		}
	}
	m.group = int32(n * m.size)
	m.now = 1
	for _, s := range m.shared {
		clear(s.wrote)
		clear(s.read)
		for i := range s.words {
			s.words[i] = undefined
		}
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case trap:
			err = fmt.Errorf("%w: kernel %s, %s, line %d, invocation %d of workgroup (%d, %d, %d): %s",
				ErrKernel, m.kernel.Name, r.place.Part, r.place.Line, r.lane, x, y, z, r.text)
		default:
			panic(r)
		}
	}()
	p.code(m, m.all)
	return nil
}

// undefined fills memory before it is written: the pattern of a NaN.
const undefined = 0x7fa5a5a5

// flushed takes a subnormal for a zero.
func flushed(b uint32) uint32 {
	if b&0x7f800000 == 0 {
		return b & 0x80000000
	}
	return b
}

func fromBits(b uint32) float32 { return math.Float32frombits(b) }

func toBits(x float32) uint32 { return math.Float32bits(x) }

// merge joins two lists of lanes that have none in common.
func merge(dst, a, b lanes) lanes {
	dst = dst[:0]
	for len(a) > 0 && len(b) > 0 {
		if a[0] < b[0] {
			dst, a = append(dst, a[0]), a[1:]
		} else {
			dst, b = append(dst, b[0]), b[1:]
		}
	}
	return append(append(dst, a...), b...)
}

// clone keeps lanes that a later operation may change.
func clone(dst, a lanes) lanes { return append(slices.Grow(dst[:0], len(a)), a...) }

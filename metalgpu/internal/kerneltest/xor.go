package kerneltest

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/pack/xortable"
	"github.com/hfcompress/compress/tensor"
)

// xor makes two cases for each element type, a packed and a rectangular table.
func xor(g *gen) []Case {
	var list []Case
	for _, t := range []tensor.DType{tensor.F32, tensor.BF16, tensor.F16, tensor.F64} {
		low := xortable.Low8
		if t.Size() > 2 && g.coin() {
			low = xortable.Low16
		}
		list = append(list, g.table(t, xortable.Packed), g.table(t, low))
	}
	return list
}

// table encodes a random table against a random base until it takes the wanted
// mode, and decodes some rows.
func (g *gen) table(t tensor.DType, mode xortable.Mode) Case {
	rows, width := g.between(1, 8), g.between(100, 700)
	if g.IntN(5) == 0 {
		width = g.between(4090, 4200) // more than 64 groups
	}
	size := t.Size()
	base, _ := tensor.New(t, rows, width)
	other, _ := tensor.New(t, rows, width)
	for i := range rows * width {
		v := math.Float64bits(g.NormFloat64())
		switch t {
		case tensor.F32:
			v = uint64(math.Float32bits(float32(math.Float64frombits(v))))
		case tensor.BF16:
			v = uint64(fmath.BF16Bits(fmath.RoundBF16(float32(math.Float64frombits(v)))))
		case tensor.F16:
			v = uint64(fmath.F16Bits(fmath.RoundF16(float32(math.Float64frombits(v)))))
		}
		put(base.Bytes()[i*size:], size, v)
		// Rows differ little, much, or not at all, by groups.
		reach := (i/64*7 + i/width*3) % 9
		switch {
		case i/width%4 == 3: // equal rows
		case mode != xortable.Packed:
			v ^= g.Uint64() & 0xff
			if g.IntN(50) == 0 {
				v ^= g.Uint64()
			}
		case g.IntN(40) == 0:
			v ^= g.Uint64()
		case reach > 6:
			v ^= g.Uint64() >> (64 - min(7*uint(size), uint(reach*size)))
		case reach > 1 && g.coin():
			v += uint64(g.between(-1<<reach, 1<<reach))
		}
		put(other.Bytes()[i*size:], size, v)
	}
	set, err := xortable.Encode([]*tensor.Tensor{base, other}, xortable.Options{Modes: []xortable.Mode{mode}})
	if err != nil {
		panic(err)
	}
	route := set.Route(1)
	if route.Mode() != mode {
		return g.table(t, mode)
	}
	stored := map[string]*tensor.Tensor{}
	for _, n := range set.Tensors() {
		stored[n.Name] = n.Tensor
	}
	memory := func(name string) []uint32 {
		x := stored["routes.1."+name]
		if name == "base" {
			x = stored["base"]
		}
		if x == nil {
			return []uint32{0}
		}
		b := append(append([]byte{}, x.Bytes()...), 0, 0, 0)
		out := make([]uint32, len(b)/4)
		for i := range out {
			out[i] = binary.LittleEndian.Uint32(b[4*i:])
		}
		return out
	}
	ids := make([]uint32, g.between(1, 6))
	bits, shift, words := 8*size, 0, max(1, size/4)
	if t == tensor.BF16 {
		shift = 16
	}
	var want []uint32
	row := make([]byte, width*size)
	for i := range ids {
		ids[i] = uint32(g.IntN(rows))
		if err := route.DecodeRow(row, int(ids[i])); err != nil {
			panic(err)
		}
		for c := range width {
			switch t {
			case tensor.BF16:
				want = append(want, uint32(binary.LittleEndian.Uint16(row[2*c:]))<<16)
			case tensor.F16:
				want = append(want, math.Float32bits(fmath.F16(binary.LittleEndian.Uint16(row[2*c:]))))
			case tensor.F32:
				want = append(want, binary.LittleEndian.Uint32(row[4*c:]))
			default:
				want = append(want, binary.LittleEndian.Uint32(row[8*c:]), binary.LittleEndian.Uint32(row[8*c+4:]))
			}
		}
	}
	n := len(ids)
	c := Case{Name: fmt.Sprintf("xor %v %s %d of %d×%d", t, mode, n, rows, width)}
	if mode == xortable.Packed {
		offwords := stored["routes.1.offsets"].DType().Size() / 4
		c.Buffers = [][]uint32{memory("base"), memory("codes"), memory("offsets"), ids, blank(n * width * words)}
		c.Steps = []Step{
			step("xor_codes", []int{0, 1, 2, 3, 4}, n, width, bits, offwords, shift),
			step("xor_entries", []int{1, 2, 3, 4}, n, width, bits, offwords, shift),
		}
	} else {
		lowBits := 8 * stored["routes.1.low"].DType().Size()
		c.Buffers = [][]uint32{memory("base"), memory("low"), memory("columns"), ids, blank(n * width * words), memory("high")}
		c.Steps = []Step{step("xor_low", []int{0, 1, 3, 4}, n, width, bits, lowBits, shift)}
		if columns := stored["routes.1.columns"]; columns != nil {
			c.Steps = append(c.Steps, step("xor_high", []int{2, 5, 3, 4}, n, width, bits, lowBits, columns.Shape()[1],
				8*columns.DType().Size(), 8*stored["routes.1.high"].DType().Size(), shift))
		}
	}
	if t == tensor.F16 {
		c.Steps = append(c.Steps, step("widen_f16", []int{4}, n*width))
	}
	c.Want = map[int][]uint32{4: want}
	return c
}

// put stores the low bytes of v.
func put(b []byte, size int, v uint64) {
	for i := range size {
		b[i] = byte(v >> (8 * i))
	}
}

package xortable

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/hfcompress/compress/tensor"
)

// rect is the rectangular coding of one route: the low bits of every XOR, and
// for each row the same number of slots for the columns whose XOR is wider.
// Unused slots are column 0 with high part 0, which changes nothing.
type rect struct {
	lowBits    uint
	low        []byte // [rows, width], lowBits each
	columns    []byte // [rows, slots], columnBits each
	high       []byte // [rows, slots], highBits each
	slots      int
	columnBits uint
	highBits   uint
}

// columnBits is the width of a column index of tables that are width columns
// wide.
func columnBits(width int) uint {
	if width <= 1<<16 {
		return 16
	}
	return 32
}

// highBits is the width of the smallest unsigned type that holds what remains
// of an element above low bits.
func highBits(element, low uint) uint {
	return max(8, uint(1)<<bits.Len(element-low-1))
}

// rectSlots returns the largest number of exceptions in any row.
func rectSlots(base, target []byte, rows, width int, element, low uint) int {
	slots := 0
	for r := range rows {
		n := 0
		for i := r * width; i < (r+1)*width; i++ {
			if (loadWord(base, i, element)^loadWord(target, i, element))>>low != 0 {
				n++
			}
		}
		slots = max(slots, n)
	}
	return slots
}

// rectCost is the bytes that a rectangular coding occupies.
func rectCost(rows, width, slots int, element, low uint) int64 {
	slot := int64(columnBits(width)+highBits(element, low)) / 8
	return int64(rows)*int64(width)*int64(low)/8 + int64(rows)*int64(slots)*slot
}

func newRect(base, target []byte, rows, width, slots int, element, low uint) rect {
	c := rect{lowBits: low, slots: slots, columnBits: columnBits(width), highBits: highBits(element, low)}
	c.low = make([]byte, rows*width*int(low)/8)
	c.columns = make([]byte, rows*slots*int(c.columnBits)/8)
	c.high = make([]byte, rows*slots*int(c.highBits)/8)
	for r := range rows {
		at := r * slots
		for i := r * width; i < (r+1)*width; i++ {
			x := loadWord(base, i, element) ^ loadWord(target, i, element)
			storeWord(c.low, i, low, x)
			if high := x >> low; high != 0 {
				storeWord(c.columns, at, c.columnBits, uint64(i-r*width))
				storeWord(c.high, at, c.highBits, high)
				at++
			}
		}
	}
	return c
}

// tensors lists the storage by its name within the route.
func (c rect) tensors(rows, width int) (map[string]*tensor.Tensor, error) {
	out := map[string]*tensor.Tensor{}
	add := func(name string, bits uint, data []byte, columns int) error {
		t, err := tensor.FromBytes(unsigned(bits), tensor.Shape{rows, columns}, data)
		out[name] = t
		return err
	}
	if err := add(tensorLow, c.lowBits, c.low, width); err != nil {
		return nil, err
	}
	if c.slots == 0 {
		return out, nil
	}
	if err := add(tensorColumns, c.columnBits, c.columns, c.slots); err != nil {
		return nil, err
	}
	return out, add(tensorHigh, c.highBits, c.high, c.slots)
}

func unsigned(bits uint) tensor.DType {
	switch bits {
	case 8:
		return tensor.U8
	case 16:
		return tensor.U16
	case 32:
		return tensor.U32
	}
	return tensor.U64
}

// decodeRow writes base row i of width elements, changed, to dst.
func (c *rect) decodeRow(dst, base []byte, i, width int, element uint) {
	low := c.low[i*width*int(c.lowBits)/8:][:width*int(c.lowBits)/8]
	done := 0
	switch {
	case c.lowBits == 8 && element == 32:
		done = spread8to32(dst, base, low)
	case c.lowBits == 8 && element == 16:
		done = spread8to16(dst, base, low)
	case c.lowBits == 16 && element == 32:
		done = spread16to32(dst, base, low)
	}
	for j := done; j < width; j++ {
		storeWord(dst, j, element, loadWord(base, j, element)^loadWord(low, j, c.lowBits))
	}
	if c.columnBits == 16 && element == 32 { // the usual case, without a switch per slot
		columns, high := c.columns[2*i*c.slots:2*(i+1)*c.slots], c.high[i*c.slots*int(c.highBits)/8:]
		for s := 0; len(columns) >= 2; s++ {
			var v uint32
			if c.highBits == 32 {
				v = binary.LittleEndian.Uint32(high[4*s:])
			} else {
				v = uint32(binary.LittleEndian.Uint16(high[2*s:]))
			}
			p := dst[4*int(binary.LittleEndian.Uint16(columns)):]
			binary.LittleEndian.PutUint32(p, binary.LittleEndian.Uint32(p)^v<<c.lowBits)
			columns = columns[2:]
		}
		return
	}
	for s := i * c.slots; s < (i+1)*c.slots; s++ {
		high := loadWord(c.high, s, c.highBits)
		xorWord(dst, int(loadWord(c.columns, s, c.columnBits)), element, high<<c.lowBits)
	}
}

// spread8to32 decodes as many whole groups of eight columns as there are and
// returns the number of columns.
func spread8to32(dst, base, low []byte) int {
	le, n := binary.LittleEndian, 0
	for ; len(low) >= 8 && len(dst) >= 32 && len(base) >= 32; n += 8 {
		x := le.Uint64(low)
		d, b := (*[32]byte)(dst), (*[32]byte)(base)
		le.PutUint64(d[0:], le.Uint64(b[0:])^(x&0xff|x<<24&(0xff<<32)))
		le.PutUint64(d[8:], le.Uint64(b[8:])^(x>>16&0xff|x<<8&(0xff<<32)))
		le.PutUint64(d[16:], le.Uint64(b[16:])^(x>>32&0xff|x>>8&(0xff<<32)))
		le.PutUint64(d[24:], le.Uint64(b[24:])^(x>>48&0xff|x>>24&(0xff<<32)))
		dst, base, low = dst[32:], base[32:], low[8:]
	}
	return n
}

// spread8to16 is spread8to32 for elements of 16 bits.
func spread8to16(dst, base, low []byte) int {
	le, n := binary.LittleEndian, 0
	for ; len(low) >= 8 && len(dst) >= 16 && len(base) >= 16; n += 8 {
		x := le.Uint64(low)
		d, b := (*[16]byte)(dst), (*[16]byte)(base)
		le.PutUint64(d[0:], le.Uint64(b[0:])^widen8to16(x&0xffff_ffff))
		le.PutUint64(d[8:], le.Uint64(b[8:])^widen8to16(x>>32))
		dst, base, low = dst[16:], base[16:], low[8:]
	}
	return n
}

// widen8to16 spreads four bytes over the 16-bit lanes of a word.
func widen8to16(x uint64) uint64 {
	x = (x | x<<16) & 0x0000_ffff_0000_ffff
	return (x | x<<8) & 0x00ff_00ff_00ff_00ff
}

// spread16to32 is spread8to32 for codes of 16 bits.
func spread16to32(dst, base, low []byte) int {
	le, n := binary.LittleEndian, 0
	for ; len(low) >= 16 && len(dst) >= 32 && len(base) >= 32; n += 8 {
		x, y := le.Uint64(low), le.Uint64(low[8:])
		d, b := (*[32]byte)(dst), (*[32]byte)(base)
		le.PutUint64(d[0:], le.Uint64(b[0:])^(x&0xffff|x<<16&(0xffff<<32)))
		le.PutUint64(d[8:], le.Uint64(b[8:])^(x>>32&0xffff|x>>16&(0xffff<<32)))
		le.PutUint64(d[16:], le.Uint64(b[16:])^(y&0xffff|y<<16&(0xffff<<32)))
		le.PutUint64(d[24:], le.Uint64(b[24:])^(y>>32&0xffff|y>>16&(0xffff<<32)))
		dst, base, low = dst[32:], base[32:], low[16:]
	}
	return n
}

// check refuses columns outside the table, high parts that do not fit an element
// and columns that two exceptions of one row name. It returns the exceptions.
func (c *rect) check(rows, width int, element uint) (int64, error) {
	var total int64
	seen := make([]int, width) // the last row, counted from 1, that named a column
	for s := range rows * c.slots {
		row := s / c.slots
		column, high := loadWord(c.columns, s, c.columnBits), loadWord(c.high, s, c.highBits)
		if column >= uint64(width) {
			return 0, fmt.Errorf("row %d: exception in column %d of %d", row, column, width)
		}
		if high>>(element-c.lowBits) != 0 {
			return 0, fmt.Errorf("row %d, column %d: high part %#x is wider than %d bits", row, column, high, element-c.lowBits)
		}
		if high == 0 {
			if column != 0 {
				return 0, fmt.Errorf("row %d: padding names column %d", row, column)
			}
			continue
		}
		if seen[column] == row+1 {
			return 0, fmt.Errorf("row %d: two exceptions in column %d", row, column)
		}
		seen[column] = row + 1
		total++
	}
	return total, nil
}

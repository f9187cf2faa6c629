package archive

import (
	"encoding/binary"
	"math"

	"github.com/hfcompress/compress/tensor"
)

// Training moves a matrix by few directions more than by others, and a merged
// adapter by its rank alone. The product of two thin matrices can therefore be
// added to the base first: what is then left to store is smaller by more than the
// two take.

// topRank bounds the rank of a product.
const topRank = 16

// product is a matrix of so many columns as the product of two thin ones. It is
// computed in single precision, each product and each sum rounded, in the order of
// the rank: so it has the same bits everywhere.
type product struct {
	rank, cols int
	bytes      int       // that each number takes when stored: the highest ones
	a          []float32 // rank numbers for each row
	b          []float32 // one for each column, rank times
}

// hasProducts reports whether elements of a type are numbers to which a product can
// be added.
func hasProducts(d tensor.DType) bool { return d == tensor.F32 || d == tensor.BF16 }

// addTo adds the product to elements of the base, which begin with element first.
// Elements that are not finite, or would not be, stay as they are.
func (p *product) addTo(base []byte, first int64, width int) {
	var sums [1024]float32
	for n := len(base) / width; n > 0; {
		row, col := int(first/int64(p.cols)), int(first%int64(p.cols))
		take := min(n, p.cols-col, len(sums))
		part := sums[:take]
		clear(part)
		for k, x := range p.a[row*p.rank:][:p.rank] {
			for j, y := range p.b[k*p.cols+col:][:take] {
				part[j] += float32(x * y)
			}
		}
		for j, sum := range part {
			addElement(base[j*width:], width, sum)
		}
		base, first, n = base[take*width:], first+int64(take), n-take
	}
}

// addElement adds to an element and rounds to its type, to the nearest even.
func addElement(b []byte, width int, x float32) {
	const exponent = 0x7f80_0000
	bits := number(b, width)
	if bits&exponent == exponent {
		return
	}
	sum := math.Float32bits(math.Float32frombits(bits) + x)
	if sum&exponent == exponent {
		return
	}
	if width == 2 {
		if sum += 0x7fff + sum>>16&1; sum&exponent == exponent {
			return
		}
	}
	if width == 2 {
		binary.LittleEndian.PutUint16(b, uint16(sum>>16))
		return
	}
	binary.LittleEndian.PutUint32(b, sum)
}

// number returns the bits of an element as those of a F32.
func number(b []byte, width int) uint32 {
	if width == 2 {
		return uint32(binary.LittleEndian.Uint16(b)) << 16
	}
	return binary.LittleEndian.Uint32(b)
}

// append writes the product: its columns, its rank, the bytes of a number, the
// numbers of the rows and those of the columns.
func (p *product) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(p.cols))
	dst = append(dst, byte(p.rank), byte(p.bytes))
	for _, list := range [][]float32{p.a, p.b} {
		for _, v := range list {
			bits := math.Float32bits(v)
			for i := 4 - p.bytes; i < 4; i++ {
				dst = append(dst, byte(bits>>(8*i)))
			}
		}
	}
	return dst
}

// parseProduct reads what append wrote, for so many elements.
func parseProduct(b []byte, elements int64) (*product, []byte, error) {
	cols, b, err := uvarint(b, uint64(len(b)))
	if err != nil {
		return nil, nil, err
	}
	if len(b) < 2 {
		return nil, nil, corruptf("a product is cut short")
	}
	p := &product{cols: int(cols), rank: int(b[0]), bytes: int(b[1])}
	b = b[2:]
	if p.cols == 0 || elements%int64(p.cols) != 0 || p.rank == 0 || p.rank > topRank || p.bytes < 2 || p.bytes > 4 {
		return nil, nil, corruptf("a product of rank %d with %d columns and %d bytes for a number, for %d elements", p.rank, p.cols, p.bytes, elements)
	}
	rows := elements / int64(p.cols)
	if rows > int64(len(b)) || (rows+int64(p.cols))*int64(p.rank)*int64(p.bytes) > int64(len(b)) {
		return nil, nil, corruptf("a product is cut short")
	}
	take := func(n int) []float32 {
		out := make([]float32, n)
		for i := range out {
			var bits uint32
			for j := 4 - p.bytes; j < 4; j++ {
				bits |= uint32(b[0]) << (8 * j)
				b = b[1:]
			}
			out[i] = math.Float32frombits(bits)
		}
		return out
	}
	p.a = take(int(rows) * p.rank)
	p.b = take(p.cols * p.rank)
	return p, b, nil
}

// rounded returns v as a number that so many bytes hold.
func rounded(v float64, bytes int) float32 {
	drop := uint(8 * (4 - bytes))
	bits := math.Float32bits(float32(v))
	if drop > 0 {
		bits += 1<<(drop-1) - 1 + bits>>drop&1
		bits = bits >> drop << drop
	}
	return math.Float32frombits(bits)
}

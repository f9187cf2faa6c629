package archive

import (
	"encoding/binary"
	"math/bits"

	"github.com/hfcompress/compress/tensor"
)

// form says how the bits of an element are to be read.
type form struct {
	width int  // bytes
	exp   uint // bits of the exponent, 0 for integers
	mant  uint // bits of the mantissa
	top   uint // bits after the leading one that a class includes
}

func formOf(d tensor.DType) form {
	f := form{width: max(d.Size(), 1), top: 3}
	if f.width == 8 {
		f.top = 1
	}
	switch d {
	case tensor.F8E4M3, tensor.F8E4M3FNUZ:
		f.exp, f.mant = 4, 3
	case tensor.F8E5M2, tensor.F8E5M2FNUZ:
		f.exp, f.mant = 5, 2
	case tensor.F16:
		f.exp, f.mant = 5, 10
	case tensor.BF16:
		f.exp, f.mant = 8, 7
	case tensor.F32:
		f.exp, f.mant = 8, 23
	case tensor.F64:
		f.exp, f.mant = 11, 52
	case tensor.C64: // two F32 in a row, but a chunk has whole elements
		f = form{width: 8, top: 1}
	}
	return f
}

// small is how many of the smallest differences have a class of their own.
const small, smallBits = 32, 5

// class returns the class of a difference and the bits that tell it from others
// of its class.
func (f *form) class(z uint64) (sym byte, low uint64, n uint) {
	if z < small {
		return byte(z), 0, 0
	}
	e := uint(bits.Len64(z)) - 1
	n = e - f.top
	return byte(small + (e-smallBits)<<f.top + uint(z>>n)&(1<<f.top-1)), z & (1<<n - 1), n
}

// split is the inverse of class: the high bits of the difference, and how many
// low ones follow. Classes of no difference of this width give ok false.
func (f *form) split(sym byte) (high uint64, n uint, ok bool) {
	if sym < small {
		return uint64(sym), 0, true
	}
	k := uint(sym) - small
	e := smallBits + k>>f.top
	if e >= uint(8*f.width) {
		return 0, 0, false
	}
	n = e - f.top
	return (1<<f.top | uint64(k&(1<<f.top-1))) << n, n, true
}

func load(b []byte, width int) uint64 {
	switch width {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

func store(b []byte, width int, v uint64) {
	switch width {
	case 1:
		b[0] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(v))
	default:
		binary.LittleEndian.PutUint64(b, v)
	}
}

// difference of two elements. As XOR it is that of their bits; as ULP, that of
// their places in the order of numbers, with the sign in the lowest bit.
func (f *form) difference(kind byte, x, base uint64) uint64 {
	if kind == kindXOR {
		return x ^ base
	}
	w := uint(64 - 8*f.width)
	d := int64((f.order(x)-f.order(base))<<w) >> w
	return uint64(d<<1^d>>63) << w >> w
}

// apply is the inverse of difference.
func (f *form) apply(kind byte, z, base uint64) uint64 {
	if kind == kindXOR {
		return z ^ base
	}
	w := uint(64 - 8*f.width)
	d := z>>1 ^ -(z & 1)
	return f.unorder((f.order(base) + d) << w >> w)
}

// order maps bits so that greater numbers have greater images; −0 comes just
// before +0.
func (f *form) order(x uint64) uint64 {
	sign := uint64(1) << (8*f.width - 1)
	if f.exp == 0 {
		return x
	}
	if x&sign != 0 {
		return ^x & (sign<<1 - 1)
	}
	return x | sign
}

func (f *form) unorder(y uint64) uint64 {
	sign := uint64(1) << (8*f.width - 1)
	if f.exp == 0 {
		return y
	}
	if y&sign == 0 {
		return ^y & (sign<<1 - 1)
	}
	return y &^ sign
}

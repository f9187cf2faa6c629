package archive

import (
	"encoding/binary"
	"math/bits"
	"sync"

	"github.com/hfcompress/compress/pack/floatcodec"
	"github.com/hfcompress/compress/tensor"
)

// A tensor that was trained on from a base differs from it by small steps. How
// many neighbouring numbers a step crosses depends on the size of the number, so
// the differences of a chunk are sorted by the exponent of the base's element,
// which the reader has too. Each then becomes a symbol of one byte, its class,
// and a few bits that say which of its class it is. The classes are a stream for
// package floatcodec, whose tables change every 256 symbols and so adapt to each
// exponent; the bits are close to random and stay as they are.

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

// delta is the working memory of one chunk.
type delta struct {
	z    []uint64 // differences, sorted
	sym  []byte
	enc  []byte
	next [1 << 11]int32 // where the next element of an exponent goes
}

var deltas = sync.Pool{New: func() any { return new(delta) }}

// places prepares next for a chunk of the base.
func (d *delta) places(f *form, base []byte) {
	d.next = [1 << 11]int32{}
	if f.exp == 0 {
		return
	}
	mask := uint64(1)<<f.exp - 1
	for at := 0; at < len(base); at += f.width {
		d.next[load(base[at:], f.width)>>f.mant&mask]++
	}
	sum := int32(0)
	for i, n := range d.next[:mask+1] {
		d.next[i] = sum
		sum += n
	}
}

func (d *delta) resize(n int) {
	if cap(d.z) < n {
		d.z = make([]uint64, n)
		d.sym = make([]byte, n)
	}
	d.z, d.sym = d.z[:n], d.sym[:n]
}

// symbols fills d.sym with the classes of the differences and appends the bits
// below to dst.
func (d *delta) symbols(dst []byte, kind byte, f *form, raw, base []byte) []byte {
	d.resize(len(raw) / f.width)
	d.places(f, base)
	mask := uint64(1)<<f.exp - 1
	for at := 0; at < len(raw); at += f.width {
		b := load(base[at:], f.width)
		slot := &d.next[b>>f.mant&mask]
		d.z[*slot] = f.difference(kind, load(raw[at:], f.width), b)
		*slot++
	}
	var acc uint64
	var have uint
	for i, z := range d.z {
		sym, low, n := f.class(z)
		d.sym[i] = sym
		for n > 0 { // at most twice: 63 bits may not fit
			acc |= low << have
			used := min(n, 64-have)
			have += used
			low >>= used
			n -= used
			for ; have >= 8; have -= 8 {
				dst = append(dst, byte(acc))
				acc >>= 8
			}
		}
	}
	if have > 0 {
		dst = append(dst, byte(acc))
	}
	return dst
}

// appendDeltaChunk encodes chunk i, raw, against the same stretch of the base:
// checksum, length of the classes, classes, bits.
func appendDeltaChunk(dst []byte, kind byte, f *form, m *floatcodec.Model, i int, raw, base []byte) []byte {
	d := deltas.Get().(*delta)
	defer deltas.Put(d)
	start := len(dst)
	d.enc = d.symbols(d.enc[:0], kind, f, raw, base)
	classes := m.AppendChunk(nil, i, d.sym)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.AppendUvarint(dst, uint64(len(classes)))
	dst = append(dst, classes...)
	dst = append(dst, d.enc...)
	binary.LittleEndian.PutUint32(dst[start:], chunkSum(kind, i, len(raw), dst[start+4:]))
	return dst
}

// decodeDeltaChunk fills dst, which must not overlap base.
func decodeDeltaChunk(dst []byte, t *table, i int, enc, base []byte) error {
	if len(enc) < 6 {
		return corruptf("chunk of %d bytes", len(enc))
	}
	sum, body := binary.LittleEndian.Uint32(enc), enc[4:]
	if got := chunkSum(t.kind, i, len(dst), body); got != sum {
		return corruptf("checksum is %08x, stored is %08x", got, sum)
	}
	n, body, err := uvarint(body, uint64(len(body)))
	if err != nil {
		return err
	}
	if n > uint64(len(body)) {
		return corruptf("classes cut short")
	}
	d := deltas.Get().(*delta)
	defer deltas.Put(d)
	f := formOf(t.dtype)
	d.resize(len(dst) / f.width)
	if err := t.model.DecodeChunk(d.sym, i, body[:n]); err != nil {
		return codecError(err)
	}
	if err := d.differences(&f, body[n:]); err != nil {
		return err
	}
	d.places(&f, base)
	mask := uint64(1)<<f.exp - 1
	for at := 0; at < len(dst); at += f.width {
		b := load(base[at:], f.width)
		slot := &d.next[b>>f.mant&mask]
		store(dst[at:], f.width, f.apply(t.kind, d.z[*slot], b))
		*slot++
	}
	return nil
}

// differences fills d.z from the classes and the bits.
func (d *delta) differences(f *form, low []byte) error {
	var acc uint64
	var have uint
	at := 0
	for i, sym := range d.sym {
		high, n, ok := f.split(sym)
		if !ok {
			return corruptf("class %d is of no difference of %d bytes", sym, f.width)
		}
		var v uint64
		for got := uint(0); got < n; {
			if have == 0 {
				if at == len(low) {
					return corruptf("the bits of the differences are cut short")
				}
				acc, have = uint64(low[at]), 8
				at++
			}
			use := min(have, n-got)
			v |= acc & (1<<use - 1) << got
			acc >>= use
			have -= use
			got += use
		}
		d.z[i] = high | v
	}
	if at != len(low) || acc != 0 {
		return corruptf("bits left over after the differences")
	}
	return nil
}

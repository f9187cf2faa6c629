package floatcodec

import "encoding/binary"

// Fields of 2, 3, 4 or 7 bits are packed in blocks of 64: eight words of eight
// bytes become as many words as a field has bits. The bits of one word of the
// block fill the unused top bits of others, so that both ways work on eight
// fields at a time. The n mod 64 fields after the last block keep a byte each.

// packedFieldSize returns the bytes that n packed fields of the given width
// occupy.
func packedFieldSize(n, bits int) int { return n/64*8*bits + n%64 }

const lanes8 = 0x0101010101010101

// packFields appends the packed form of the fields, one per byte and below
// 1<<bits, to dst.
func packFields(dst []byte, fields []byte, bits int) []byte {
	n := len(fields)
	size := packedFieldSize(n, bits)
	start := len(dst)
	dst = grow(dst, size)
	out := dst[start:]
	for len(fields) >= 64 {
		packBlock((*[64]byte)(fields), out[:8*bits], bits)
		fields, out = fields[64:], out[8*bits:]
	}
	copy(out, fields)
	return dst
}

func packBlock(f *[64]byte, out []byte, bits int) {
	w := func(i int) uint64 { return binary.LittleEndian.Uint64(f[8*i:]) }
	put := func(i int, x uint64) { binary.LittleEndian.PutUint64(out[8*i:], x) }
	switch bits {
	case 2:
		put(0, w(0)|w(1)<<2|w(2)<<4|w(3)<<6)
		put(1, w(4)|w(5)<<2|w(6)<<4|w(7)<<6)
	case 3:
		a, b := w(6), w(7)
		put(0, w(0)|w(1)<<3|a&(3*lanes8)<<6)
		put(1, w(2)|w(3)<<3|b&(3*lanes8)<<6)
		put(2, w(4)|w(5)<<3|a>>2&lanes8<<6|b>>2&lanes8<<7)
	case 4:
		for i := range 4 {
			put(i, w(2*i)|w(2*i+1)<<4)
		}
	case 7:
		_ = out[55]
		h := w(7)
		put(0, w(0)|h&lanes8<<7)
		put(1, w(1)|h>>1&lanes8<<7)
		put(2, w(2)|h>>2&lanes8<<7)
		put(3, w(3)|h>>3&lanes8<<7)
		put(4, w(4)|h>>4&lanes8<<7)
		put(5, w(5)|h>>5&lanes8<<7)
		put(6, w(6)|h>>6&lanes8<<7)
	}
}

// unpackFields is the inverse of packFields; packed must have
// packedFieldSize(len(fields), bits) bytes.
func unpackFields(fields, packed []byte, bits int) {
	for len(fields) >= 64 {
		unpackBlock((*[64]byte)(fields), packed[:8*bits], bits)
		fields, packed = fields[64:], packed[8*bits:]
	}
	copy(fields, packed)
}

func unpackBlock(f *[64]byte, in []byte, bits int) {
	r := func(i int) uint64 { return binary.LittleEndian.Uint64(in[8*i:]) }
	put := func(i int, x uint64) { binary.LittleEndian.PutUint64(f[8*i:], x) }
	switch bits {
	case 2:
		for i := range 2 {
			x := r(i)
			for j := range 4 {
				put(4*i+j, x>>(2*j)&(3*lanes8))
			}
		}
	case 3:
		a, b, c := r(0), r(1), r(2)
		put(0, a&(7*lanes8))
		put(1, a>>3&(7*lanes8))
		put(2, b&(7*lanes8))
		put(3, b>>3&(7*lanes8))
		put(4, c&(7*lanes8))
		put(5, c>>3&(7*lanes8))
		put(6, a>>6&(3*lanes8)|c>>6&lanes8<<2)
		put(7, b>>6&(3*lanes8)|c>>7&lanes8<<2)
	case 4:
		for i := range 4 {
			x := r(i)
			put(2*i, x&(15*lanes8))
			put(2*i+1, x>>4&(15*lanes8))
		}
	case 7:
		_ = in[55]
		a, b, c, d, e, g, h := r(0), r(1), r(2), r(3), r(4), r(5), r(6)
		put(0, a&(127*lanes8))
		put(1, b&(127*lanes8))
		put(2, c&(127*lanes8))
		put(3, d&(127*lanes8))
		put(4, e&(127*lanes8))
		put(5, g&(127*lanes8))
		put(6, h&(127*lanes8))
		put(7, a>>7&lanes8|b>>7&lanes8<<1|c>>7&lanes8<<2|d>>7&lanes8<<3|e>>7&lanes8<<4|g>>7&lanes8<<5|h>>7&lanes8<<6)
	}
}

// grow extends b by n bytes whose content is undefined.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b[:len(b)+n]
	}
	c := make([]byte, len(b)+n, 2*len(b)+n)
	copy(c, b)
	return c
}

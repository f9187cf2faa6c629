package floatcodec

import (
	"encoding/binary"
	"math/bits"
)

// bitWriter appends bits to dst, the first bit lowest in its byte.
type bitWriter struct {
	dst []byte
	acc uint64
	n   uint // bits in acc, below 8 between calls
}

// put writes the low bits of v; v must have no others, and bits ≤ 56.
func (w *bitWriter) put(v uint64, bits uint) {
	w.acc |= v << w.n
	w.n += bits
	for w.n >= 8 {
		w.dst = append(w.dst, byte(w.acc))
		w.acc >>= 8
		w.n -= 8
	}
}

// unary writes v one bits and a zero; v must be below 56.
func (w *bitWriter) unary(v int) { w.put(1<<v-1, uint(v)+1) }

// flush pads the last byte with zeros and returns the bytes.
func (w *bitWriter) flush() []byte {
	if w.n > 0 {
		w.dst = append(w.dst, byte(w.acc))
		w.acc, w.n = 0, 0
	}
	return w.dst
}

// bitReader reads what a bitWriter wrote. Reads beyond the end give zeros and
// set bad.
type bitReader struct {
	src []byte
	pos int // in bits
	bad bool
}

// peek returns the next bits, 57 at least; zeros follow the last.
func (r *bitReader) peek() uint64 {
	at := r.pos >> 3
	if at+8 <= len(r.src) {
		return binary.LittleEndian.Uint64(r.src[at:]) >> (r.pos & 7)
	}
	var b [8]byte
	if at < len(r.src) {
		copy(b[:], r.src[at:])
	}
	return binary.LittleEndian.Uint64(b[:]) >> (r.pos & 7)
}

// get reads up to 56 bits.
func (r *bitReader) get(n int) uint64 {
	if r.pos+n > 8*len(r.src) {
		r.bad = true
		return 0
	}
	v := r.peek() & (1<<n - 1)
	r.pos += n
	return v
}

// unary reads a count of at most limit, which is below 56.
func (r *bitReader) unary(limit int) int {
	n := bits.TrailingZeros64(^r.peek())
	if n > limit || r.pos+n+1 > 8*len(r.src) {
		r.bad = true
		return 0
	}
	r.pos += n + 1
	return n
}

// rest returns the bytes after the last one touched; the padding must be zero.
func (r *bitReader) rest() []byte {
	for r.pos&7 != 0 {
		if r.get(1) != 0 {
			r.bad = true
		}
	}
	if r.bad {
		return nil
	}
	return r.src[r.pos>>3:]
}

func zigzag(d int) int {
	if d < 0 {
		return -2*d - 1
	}
	return 2 * d
}

func unzigzag(z int) int {
	if z&1 != 0 {
		return -(z + 1) / 2
	}
	return z / 2
}

// uvarint cuts a minimal unsigned varint of at most limit off b.
func uvarint(b []byte, limit uint64) (v uint64, rest []byte, ok bool) {
	v, n := binary.Uvarint(b)
	if n <= 0 || v > limit || n > 1 && b[n-1] == 0 {
		return 0, nil, false
	}
	return v, b[n:], true
}

package floatcodec

import (
	"fmt"
	"unsafe"
)

// A decoder looks codes up lookups at a time, up to maxRun symbols, and takes no
// notice of the end of what it has to decode until it has passed it. What it
// decodes beyond, it then gives back.
const (
	lookups = 5
	maxRun  = 3 * lookups
)

// symBuffer takes a block of symbols and what a decoder writes beyond: maxRun-1
// symbols, and the rest of the last four bytes stored.
type symBuffer [blockLen + 32]byte

// maxBlockBytes bounds what decoding one block may read: seven bits before it,
// its codes, those of a run beyond it, and a word.
const maxBlockBytes = ((blockLen+maxRun)*maxCodeLen+7)/8 + 8

// readSelectors fills choices, one for each block, with the tables that the blocks
// use, and returns what follows them.
func readSelectors(choices []uint8, payload []byte, tables int) ([]byte, error) {
	bits := selectorBits(tables)
	size := (len(choices)*bits + 7) / 8
	if len(payload) < size {
		return nil, fmt.Errorf("%w: tables of blocks cut short", ErrCorrupt)
	}
	var acc uint64
	have, next := 0, 0
	for i := range choices {
		if have < bits { // there is a byte left: size is rounded up
			acc |= uint64(payload[next]) << have
			have, next = have+8, next+1
		}
		t := uint8(acc) & (1<<bits - 1)
		if int(t) >= tables {
			return nil, fmt.Errorf("%w: no table %d", ErrCorrupt, t)
		}
		choices[i] = t
		acc >>= bits
		have -= bits
	}
	if acc != 0 {
		return nil, fmt.Errorf("%w: tables of blocks padded with ones", ErrCorrupt)
	}
	return payload[size:], nil
}

// The decoders below read words through pointers, because bounds checks in the
// innermost loop cost a quarter of the speed. What keeps them in bounds: a code
// has at most maxCodeLen bits, and a decoder starts a run only while it has fewer
// than n ≤ blockLen symbols, so it stays within maxBlockBytes of in; a lookup
// yields at most three symbols and stores four bytes, which symBuffer's slack takes.

func load64(p *byte, bit int) uint64 {
	return *(*uint64)(unsafe.Add(unsafe.Pointer(p), bit>>3)) >> (bit & 7)
}

func store32(p *symBuffer, at int, v uint32) {
	*(*uint32)(unsafe.Add(unsafe.Pointer(p), at)) = v
}

// decodeTail decodes n symbols from bit pos of in and returns the position after
// the last.
func decodeTail(out *symBuffer, in *byte, pos int, t *decodeTable, n int) int {
	o := 0
	for o < n {
		w := load64(in, pos)
		var sum uint32
		for range lookups {
			e := t.multi[w&(1<<maxCodeLen-1)]
			store32(out, o, e>>6)
			w >>= e & 63
			o += int(e >> 30)
			sum += e & 63
		}
		pos += int(sum)
	}
	for _, s := range out[n:o] {
		pos -= int(t.lens[s])
	}
	return pos
}

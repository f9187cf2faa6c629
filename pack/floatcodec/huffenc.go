package floatcodec

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

const (
	// blockLen is the number of elements that share a table.
	blockLen = 256
	// segments is the number of bit streams that a chunk's blocks are dealt
	// to, in contiguous runs, so that a decoder can work on several at once.
	segments = 4
	// maxTables is the number of Huffman tables that a tensor may have.
	maxTables = 8
)

// huffCoder encodes with up to maxTables codes.
type huffCoder struct {
	lens   []codeLens
	stride int
	enc    []encodeTable
	wide   []wideTable // for kernels that can use them
	cost   [256]uint64 // byte t: length of the symbol's code in table t
	filler byte        // a symbol with a short code, for elements coded as exceptions
}

// wideTable holds a code in the form that the wide kernels look up: the low byte
// of each code, its high bits with the length above them, and its cost.
type wideTable struct {
	low, high, cost [256]byte
}

func (t *encodeTable) wide(lens *codeLens) (w wideTable) {
	for s, e := range t {
		w.low[s] = byte(e)
		w.high[s] = byte(e>>8&7 | e>>16&15<<4)
		if w.cost[s] = lens[s]; lens[s] == absent {
			w.cost[s] = absentCost
		}
	}
	return w
}

// absentCost stands for the bits of a symbol that a table lacks. An exception
// takes more, but eight of these must fit in a byte.
const absentCost = 31

func newHuffCoder(lens []codeLens, stride int) *huffCoder {
	h := &huffCoder{lens: lens, stride: stride, enc: make([]encodeTable, len(lens))}
	for t := range lens {
		h.enc[t] = lens[t].encodeTable()
		if haveWideKernels {
			h.wide = append(h.wide, h.enc[t].wide(&lens[t]))
		}
		for s, l := range lens[t] {
			if l == absent {
				l = absentCost
			}
			h.cost[s] |= uint64(l) << (8 * t)
		}
	}
	best := 255 * 8
	for s, c := range h.cost {
		sum := 0
		for ; c != 0; c >>= 8 {
			sum += int(c & 0xff)
		}
		if sum < best {
			best, h.filler = sum, byte(s)
		}
	}
	return h
}

// choose returns the table that codes the block in the fewest bits, and their
// number, in which absent symbols count absentCost each.
func (h *huffCoder) choose(block []byte) (table, bits int) {
	if haveWideKernels && len(block) == blockLen {
		c := chooseWide(&h.wide[0], len(h.wide), &block[0])
		return int(c & 0xff), int(c >> 8)
	}
	var even, odd uint64
	b := block
	for len(b) >= 8 {
		q := binary.LittleEndian.Uint64(b)
		x := h.cost[q&0xff] + h.cost[q>>8&0xff] + h.cost[q>>16&0xff] + h.cost[q>>24&0xff] +
			h.cost[q>>32&0xff] + h.cost[q>>40&0xff] + h.cost[q>>48&0xff] + h.cost[q>>56]
		even += x & 0x00ff00ff00ff00ff
		odd += x >> 8 & 0x00ff00ff00ff00ff
		b = b[8:]
	}
	for _, s := range b {
		even += h.cost[s] & 0x00ff00ff00ff00ff
		odd += h.cost[s] >> 8 & 0x00ff00ff00ff00ff
	}
	best := uint64(1) << 62
	for t := range h.lens {
		c := even
		if t&1 == 1 {
			c = odd
		}
		if c = c >> (16 * (t >> 1)) & 0xffff; c < best {
			best, table = c, t
		}
	}
	return table, int(best)
}

func selectorBits(tables int) int { return bits.Len(uint(tables - 1)) }

// segmentBlocks returns the number of blocks in n symbols and in each segment.
func segmentBlocks(n int) (blocks, each int) {
	blocks = (n + blockLen - 1) / blockLen
	return blocks, (blocks + segments - 1) / segments
}

// append codes the symbols: selectors, lengths of the first three bit streams,
// bit streams. Symbols that the chosen table lacks are reported to missing by
// index and coded as another.
func (h *huffCoder) append(dst []byte, sym []byte, missing func(i int)) []byte {
	n := len(sym)
	blocks, each := segmentBlocks(n)
	sel := bitWriter{dst: dst}
	type choice struct{ table, bits uint16 }
	choices := make([]choice, blocks)
	for b := range blocks {
		t, c := h.choose(sym[b*blockLen : min(n, (b+1)*blockLen)])
		choices[b] = choice{uint16(t), uint16(c)}
		sel.put(uint64(t), uint(selectorBits(len(h.lens))))
	}
	dst = sel.flush()
	lengths := len(dst)
	dst = append(dst, make([]byte, 4*(segments-1))...)
	need := (n*maxCodeLen+7)/8 + 8*segments + maxBlockBytes
	start := len(dst)
	dst = grow(dst, need)
	pos := start
	for s := range segments {
		from := pos
		var acc uint64
		var nbits uint
		for b := s * each; b < min(blocks, (s+1)*each); b++ {
			lo, hi := b*blockLen, min(n, (b+1)*blockLen)
			t := &h.enc[choices[b].table]
			before := 8*pos + int(nbits)
			if haveKernels && hi-lo == blockLen {
				_ = dst[pos+maxBlockBytes]
				e := encodeState{&dst[pos], acc, uint64(nbits), t, &sym[lo], blockLen / 4, nil}
				if haveWideKernels {
					e.wide = &h.wide[choices[b].table]
					encodeWide(&e)
				} else {
					encodeSymbols(&e)
				}
				pos += int(uintptr(unsafe.Pointer(e.dst)) - uintptr(unsafe.Pointer(&dst[pos])))
				acc, nbits = e.acc, uint(e.nbits)
			} else {
				pos, acc, nbits = encodeBlock(dst, pos, acc, nbits, t, sym[lo:hi])
			}
			// Absent symbols take fewer bits than they count.
			if 8*pos+int(nbits)-before != int(choices[b].bits) {
				for i := lo; i < hi; i++ {
					if t[sym[i]]&absentFlag != 0 {
						missing(i)
					}
				}
			}
		}
		if nbits > 0 {
			dst[pos] = byte(acc)
			pos++
		}
		if s < segments-1 {
			binary.LittleEndian.PutUint32(dst[lengths+4*s:], uint32(pos-from))
		}
	}
	return dst[:pos]
}

// encodeBlock writes the codes of the symbols after nbits (below 8) bits of acc.
// It stores eight bytes at a time, so dst needs as much slack.
func encodeBlock(dst []byte, pos int, acc uint64, nbits uint, t *encodeTable, sym []byte) (int, uint64, uint) {
	for len(sym) >= 4 {
		a, b, c, d := t[sym[0]], t[sym[1]], t[sym[2]], t[sym[3]]
		la, lb, lc, ld := uint(a>>16&0xff), uint(b>>16&0xff), uint(c>>16&0xff), uint(d>>16&0xff)
		ab := uint64(a&0xffff) | uint64(b&0xffff)<<(la&63)
		cd := uint64(c&0xffff) | uint64(d&0xffff)<<(lc&63)
		acc |= (ab | cd<<((la+lb)&63)) << (nbits & 63)
		nbits += la + lb + lc + ld
		binary.LittleEndian.PutUint64(dst[pos:], acc)
		pos += int(nbits >> 3)
		acc >>= nbits &^ 7 & 63
		nbits &= 7
		sym = sym[4:]
	}
	for _, s := range sym {
		e := t[s]
		acc |= uint64(e&0xffff) << (nbits & 63)
		nbits += uint(e >> 16 & 0xff)
		binary.LittleEndian.PutUint64(dst[pos:], acc)
		pos += int(nbits >> 3)
		acc >>= nbits &^ 7 & 63
		nbits &= 7
	}
	return pos, acc, nbits
}

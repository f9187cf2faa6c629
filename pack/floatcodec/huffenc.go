package floatcodec

import (
	"encoding/binary"
	"math/bits"
)

const (
	// blockLen is the number of elements that share a table.
	blockLen = 256
	// maxStreams is the number of bit streams in a payload of manySymbols or more,
	// so that a decoder can work on several at once; a smaller one has a single
	// stream.
	maxStreams  = 4
	manySymbols = 1536
	// runBlocks is the number of blocks in a run: with a table, their symbols
	// stay in the first-level cache.
	runBlocks = 64
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
// of each code; its high bits, a bit for absent symbols and the length; its cost.
type wideTable struct {
	low, high, cost [256]byte
}

func (t *encodeTable) wide(lens *codeLens) (w wideTable) {
	for s, e := range t {
		w.low[s] = byte(e)
		w.high[s] = byte(e>>8&7 | e>>31<<3 | e>>16&15<<4)
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

// streamsOf returns the number of bit streams in the payload of n symbols.
func streamsOf(n int) int {
	if n < manySymbols {
		return 1
	}
	return maxStreams
}

// blocksOf returns the number of blocks in n symbols.
func blocksOf(n int) int { return (n + blockLen - 1) / blockLen }

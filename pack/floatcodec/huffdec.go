package floatcodec

import (
	"encoding/binary"
	"fmt"
	"unsafe"
)

// A decoder looks codes up lookups at a time, up to maxRun symbols, and takes no
// notice of the end of a block until it has passed it. What it decodes beyond, it
// then gives back.
const (
	lookups = 5
	maxRun  = 3 * lookups
)

// symBuffer takes a block of symbols and what a decoder writes beyond: maxRun-1
// symbols, or maxRun more for a stream that waits for others, and the rest of the
// last four bytes stored.
type symBuffer [blockLen + 32]byte

// segmentReader is the state of one bit stream of a chunk.
type segmentReader struct {
	src   []byte // from the stream's start to the end of the payload
	size  int    // bytes of src that belong to the stream
	pos   int    // bits consumed
	block int    // next block
	end   int    // after the last block
}

// maxBlockBytes bounds what decoding one block may read: seven bits before it,
// its codes, those of a run beyond it, and a word.
const maxBlockBytes = ((blockLen+maxRun)*maxCodeLen+7)/8 + 8

// huffReader decodes the Huffman streams that earlier encoders wrote, whose
// segments are contiguous runs of blocks.
type huffReader struct {
	n      int
	tables []decodeTable
	sel    selectors
	seg    [segments]segmentReader
	sym    [segments]symBuffer
}

// init parses the payload of n symbols.
func (h *huffReader) init(payload []byte, n int, tables []decodeTable) error {
	blocks, each := segmentBlocks(n)
	h.n, h.tables = n, tables
	h.sel.bits = selectorBits(len(tables))
	selBytes := (blocks*h.sel.bits + 7) / 8
	if len(payload) < selBytes+4*(segments-1) {
		return fmt.Errorf("%w: Huffman stream cut short", ErrCorrupt)
	}
	h.sel.b = payload[:selBytes]
	if err := h.sel.check(blocks, len(tables)); err != nil {
		return err
	}
	lengths, rest := payload[selBytes:selBytes+4*(segments-1)], payload[selBytes+4*(segments-1):]
	for s := range segments {
		size := len(rest)
		if s < segments-1 {
			v := binary.LittleEndian.Uint32(lengths[4*s:])
			if uint64(v) > uint64(len(rest)) {
				return fmt.Errorf("%w: bit stream %d cut short", ErrCorrupt, s)
			}
			size = int(v)
		}
		h.seg[s] = segmentReader{src: rest, size: size, block: min(s*each, blocks), end: min((s+1)*each, blocks)}
		rest = rest[size:]
	}
	return nil
}

// selectors says which table each block uses.
type selectors struct {
	b    []byte
	bits int // per block
}

func (s selectors) at(block int) int {
	if s.bits == 0 {
		return 0
	}
	p := block * s.bits
	v := int(s.b[p>>3])
	if p>>3+1 < len(s.b) {
		v |= int(s.b[p>>3+1]) << 8
	}
	return v >> (p & 7) & (1<<s.bits - 1)
}

// check reports a selector that names no table.
func (s selectors) check(blocks, tables int) error {
	for b := range blocks {
		if t := s.at(b); t >= tables {
			return fmt.Errorf("%w: no table %d", ErrCorrupt, t)
		}
	}
	return nil
}

// each decodes all blocks and hands each to emit with the index of its first
// symbol. The order of blocks is not specified.
func (h *huffReader) each(emit func(first int, sym []byte)) error {
	for s := 0; s < segments; s += 2 {
		for h.two(s, s+1, emit) {
		}
		for r := s; r < s+2; r++ {
			for h.seg[r].block < h.seg[r].end {
				h.one(r, emit)
			}
		}
	}
	for s := range h.seg {
		if err := h.seg[s].finish(); err != nil {
			return err
		}
	}
	return nil
}

// ready reports whether segment s has a full block to decode far enough from
// the end of the payload to read it in place.
func (h *huffReader) ready(s int) bool {
	r := &h.seg[s]
	return r.block < r.end && h.blockSize(r) == blockLen && len(r.src)-r.pos>>3 >= maxBlockBytes
}

// two decodes a block from each of two segments at once, if it can.
func (h *huffReader) two(s, t int, emit func(first int, sym []byte)) bool {
	if !h.ready(s) || !h.ready(t) {
		return false
	}
	a, b := &h.seg[s], &h.seg[t]
	pa, pb := decodeTwo(&h.sym[s], &h.sym[t], &a.src[a.pos>>3], &b.src[b.pos>>3], a.pos&7, b.pos&7,
		&h.tables[h.sel.at(a.block)], &h.tables[h.sel.at(b.block)])
	a.advance(pa)
	b.advance(pb)
	emit((a.block-1)*blockLen, h.sym[s][:blockLen])
	emit((b.block-1)*blockLen, h.sym[t][:blockLen])
	return true
}

// one decodes a block from a segment.
func (h *huffReader) one(s int, emit func(first int, sym []byte)) {
	r := &h.seg[s]
	n := h.blockSize(r)
	r.advance(decodeTail(&h.sym[s], &r.window()[0], r.pos&7, &h.tables[h.sel.at(r.block)], 0, n))
	emit((r.block-1)*blockLen, h.sym[s][:n])
}

func (h *huffReader) blockSize(r *segmentReader) int {
	return min(blockLen, h.n-r.block*blockLen)
}

// window returns the bytes from which the next block is decoded: at least
// maxBlockBytes, from the byte that holds the next bit. Near the end of the
// payload they are a copy, zeros following the last byte.
func (r *segmentReader) window() []byte {
	at := min(r.pos>>3, len(r.src))
	if len(r.src)-at >= maxBlockBytes {
		return r.src[at:]
	}
	w := make([]byte, maxBlockBytes)
	copy(w, r.src[at:])
	return w
}

// advance records that a block was decoded and where its bits ended, counted
// from the byte that held its first.
func (r *segmentReader) advance(pos int) {
	r.pos = r.pos&^7 + pos
	r.block++
}

// finish checks that the blocks used the stream up to its last byte, and that
// the bits that pad it are zero.
func (r *segmentReader) finish() error {
	if (r.pos+7)/8 != r.size {
		return fmt.Errorf("%w: bit stream of %d bytes, %d bits used", ErrCorrupt, r.size, r.pos)
	}
	if r.pos&7 != 0 && r.src[r.size-1]>>(r.pos&7) != 0 {
		return fmt.Errorf("%w: bit stream padded with ones", ErrCorrupt)
	}
	return nil
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

// decodeTail decodes symbols o to n of a block from bit pos of in and returns the
// position after the last.
func decodeTail(out *symBuffer, in *byte, pos int, t *decodeTable, o, n int) int {
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
	return giveBack(out, pos, t, o, n)
}

// giveBack returns the position after n symbols, where o ≥ n were decoded.
func giveBack(out *symBuffer, pos int, t *decodeTable, o, n int) int {
	for _, s := range out[n:o] {
		pos -= int(t.lens[s])
	}
	return pos
}

// decodeTwo decodes a full block from each of two streams at once: the lookups
// of one fill the time in which those of the other wait.
func decodeTwo(outA, outB *symBuffer, inA, inB *byte, posA, posB int, ta, tb *decodeTable) (int, int) {
	oa, ob := 0, 0
	for oa < blockLen && ob < blockLen {
		wa, wb := load64(inA, posA), load64(inB, posB)
		var sa, sb uint32
		for range lookups {
			ea := ta.multi[wa&(1<<maxCodeLen-1)]
			eb := tb.multi[wb&(1<<maxCodeLen-1)]
			store32(outA, oa, ea>>6)
			store32(outB, ob, eb>>6)
			wa >>= ea & 63
			wb >>= eb & 63
			oa += int(ea >> 30)
			ob += int(eb >> 30)
			sa += ea & 63
			sb += eb & 63
		}
		posA += int(sa)
		posB += int(sb)
	}
	return decodeTail(outA, inA, posA, ta, oa, blockLen), decodeTail(outB, inB, posB, tb, ob, blockLen)
}

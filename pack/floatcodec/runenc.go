package floatcodec

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
	"sync"
	"unsafe"
)

// Symbols are coded in runs: up to runBlocks blocks of a chunk that use the same
// table, wherever they lie. A quarter of each run goes to each of four bit
// streams. All streams are then at work on the same table at any time, and a
// decoder has it, and what it decodes, in the first-level cache.

// blockOrder lists the blocks of a chunk by table, then by place.
type blockOrder struct {
	list   []uint16
	counts [maxTables]int
}

// set fills the order from the table of each block.
func (o *blockOrder) set(choices []uint8) {
	o.list = slices.Grow(o.list[:0], len(choices))[:len(choices)]
	o.counts = [maxTables]int{}
	for _, t := range choices {
		o.counts[t&(maxTables-1)]++
	}
	var next [maxTables]int
	for t := 1; t < maxTables; t++ {
		next[t] = next[t-1] + o.counts[t-1]
	}
	for b, t := range choices {
		t &= maxTables - 1
		o.list[next[t]] = uint16(b)
		next[t]++
	}
}

// runs calls f for every run with its table and its blocks.
func (o *blockOrder) runs(f func(table int, blocks []uint16)) {
	list := o.list
	for t, n := range o.counts {
		for n > 0 {
			k := min(n, runBlocks)
			f(t, list[:k])
			list, n = list[k:], n-k
		}
	}
}

// runSymbols returns the number of symbols in a run of a chunk of n symbols. A
// block that is not full is the last of its run.
func runSymbols(blocks []uint16, n int) int {
	last := int(blocks[len(blocks)-1]) * blockLen
	return (len(blocks)-1)*blockLen + min(blockLen, n-last)
}

// share returns where the part of a run of n symbols lies that belongs to stream
// s of so many streams.
func share(n, s, streams int) (lo, hi int) {
	q := (n + streams - 1) / streams
	return min(s*q, n), min((s+1)*q, n)
}

// runEncoder is the working memory of huffCoder.append.
type runEncoder struct {
	choices []uint8
	order   blockOrder
	run     [runBlocks * blockLen]byte
	streams [maxStreams]streamWriter
	missing []int
}

// streamWriter is a bit stream that grows.
type streamWriter struct {
	dst   []byte
	pos   int
	acc   uint64
	nbits uint
}

var runEncoders = sync.Pool{New: func() any { return new(runEncoder) }}

// append codes the symbols: the tables of the blocks, the lengths of the first
// three bit streams, the bit streams. Symbols that the chosen table lacks are
// reported to missing by index, in order, and coded as another. Memory ahead is
// fetched meanwhile.
func (h *huffCoder) append(dst []byte, sym []byte, ahead prefetch, missing func(i int)) []byte {
	n := len(sym)
	blocks := (n + blockLen - 1) / blockLen
	e := runEncoders.Get().(*runEncoder)
	defer runEncoders.Put(e)
	e.choices = resize(e.choices, blocks)
	e.missing = e.missing[:0]
	sel := bitWriter{dst: dst}
	for b := range blocks {
		t := 0
		if len(h.lens) > 1 {
			t, _ = h.choose(sym[b*blockLen : min(n, (b+1)*blockLen)])
		}
		e.choices[b] = uint8(t)
		sel.put(uint64(t), uint(selectorBits(len(h.lens))))
	}
	dst = sel.flush()
	e.order.set(e.choices)
	// Runs round up to multiples of streams, by up to one symbol per stream.
	runs := blocks/runBlocks + maxTables
	streams := streamsOf(n)
	for s := range streams {
		e.streams[s] = streamWriter{dst: resize(e.streams[s].dst, (n/streams+2*runs)*maxCodeLen/8+maxBlockBytes)}
	}
	e.order.runs(func(t int, list []uint16) {
		run := e.gather(sym, list)
		for s := range streams {
			lo, hi := share(len(run), s, streams)
			for lo < hi {
				k := min(hi-lo, encodeSpan)
				for m := h.encode(&e.streams[s], t, run[lo:lo+k], &ahead); m != 0; m &= m - 1 {
					for i := lo + bits.TrailingZeros64(m); i < lo+k; i += 64 {
						if h.enc[t][run[i]]&absentFlag != 0 {
							e.missing = append(e.missing, int(list[i/blockLen])*blockLen+i%blockLen)
						}
					}
				}
				lo += k
			}
		}
	})
	for s := range streams {
		e.streams[s].flush()
		if s < streams-1 {
			dst = binary.AppendUvarint(dst, uint64(e.streams[s].pos))
		}
	}
	for s := range streams {
		dst = append(dst, e.streams[s].dst[:e.streams[s].pos]...)
	}
	slices.SortFunc(e.missing, func(a, b int) int { return cmp.Compare(a, b) })
	for _, i := range e.missing {
		missing(i)
	}
	return dst
}

// gather returns the symbols of a run.
func (e *runEncoder) gather(sym []byte, list []uint16) []byte {
	n := runSymbols(list, len(sym))
	first, last := int(list[0]), int(list[len(list)-1])
	if last-first == len(list)-1 {
		return sym[first*blockLen:][:n]
	}
	for k, b := range list {
		copy(e.run[k*blockLen:(k+1)*blockLen], sym[int(b)*blockLen:])
	}
	return e.run[:n]
}

func (w *streamWriter) flush() {
	if w.nbits > 0 {
		w.dst[w.pos] = byte(w.acc)
		w.pos++
	}
}

// encodeSpan is how many symbols are encoded at once.
const encodeSpan = 16 * blockLen

// encode writes the codes of at most encodeSpan symbols to w. Bit i of what it
// returns is set if the table may lack a symbol at a place i mod 64.
func (h *huffCoder) encode(w *streamWriter, t int, sym []byte, ahead *prefetch) (absent uint64) {
	if haveKernels {
		step := 4
		if haveWideKernels {
			step = 64
		}
		if k := len(sym) / step * step; k > 0 {
			_ = w.dst[w.pos+k*maxCodeLen/8+15] // the kernels store eight bytes at a time
			e := encodeState{dst: &w.dst[w.pos], acc: w.acc, nbits: uint64(w.nbits), table: &h.enc[t], sym: &sym[0], quads: uint64(k / 4), ahead: *ahead}
			if haveWideKernels {
				e.wide = &h.wide[t]
				encodeWide(&e)
			} else {
				encodeSymbols(&e)
			}
			w.pos += int(uintptr(unsafe.Pointer(e.dst)) - uintptr(unsafe.Pointer(&w.dst[w.pos])))
			w.acc, w.nbits = e.acc, uint(e.nbits)
			absent, *ahead = e.flags, e.ahead
			sym = sym[k:]
		}
	}
	if w.encode(&h.enc[t], sym) {
		absent = ^uint64(0)
	}
	return absent
}

// encode is huffCoder.encode without kernels. It stores eight bytes at a time,
// so dst needs as much slack.
func (w *streamWriter) encode(t *encodeTable, sym []byte) bool {
	dst, pos, acc, nbits := w.dst, w.pos, w.acc, w.nbits
	var flags uint32
	for len(sym) >= 4 {
		a, b, c, d := t[sym[0]], t[sym[1]], t[sym[2]], t[sym[3]]
		flags |= a | b | c | d
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
		flags |= e
		acc |= uint64(e&0xffff) << (nbits & 63)
		nbits += uint(e >> 16 & 0xff)
		binary.LittleEndian.PutUint64(dst[pos:], acc)
		pos += int(nbits >> 3)
		acc >>= nbits &^ 7 & 63
		nbits &= 7
	}
	w.pos, w.acc, w.nbits = pos, acc, nbits
	return flags&absentFlag != 0
}

package floatcodec

import (
	"fmt"
	"math/bits"
	"unsafe"
)

// runReader decodes what huffCoder.append wrote.
type runReader struct {
	payload []byte // up to its capacity, bytes may be read, but not used
	n       int
	tables  []decodeTable
	order   blockOrder
	st      runState
	end     [segments]int // in bytes of the payload
	sym     [runBlocks*blockLen + 16]byte
	tail    symBuffer
	window  [maxBlockBytes]byte
}

// runState is the state of the four streams of a payload in a run.
type runState struct {
	in    *byte
	table *decodeTable
	iters uint64
	pos   [segments]uint64  // next bit, counted from in
	out   [segments]*byte   // next symbol
	last  [segments]uintptr // for decodeRun: the address of the last symbol to start a step at
}

// init parses the payload of n symbols.
func (h *runReader) init(payload []byte, n int, tables []decodeTable) error {
	blocks := (n + blockLen - 1) / blockLen
	h.n, h.tables = n, tables
	h.payload = payload[:cap(payload)]
	sel := selectors{bits: selectorBits(len(tables))}
	selBytes := (blocks*sel.bits + 7) / 8
	if len(payload) < selBytes {
		return fmt.Errorf("%w: Huffman stream cut short", ErrCorrupt)
	}
	sel.b = payload[:selBytes]
	if err := sel.check(blocks, len(tables)); err != nil {
		return err
	}
	h.order.set(blocks, sel.at)
	rest := payload[selBytes:]
	var sizes [segments]int
	for s := range segments - 1 {
		v, r, ok := uvarint(rest, uint64(len(rest)))
		if !ok {
			return fmt.Errorf("%w: bit stream %d cut short", ErrCorrupt, s)
		}
		sizes[s], rest = int(v), r
	}
	at, left := len(payload)-len(rest), len(rest)
	for s := range segments {
		size := sizes[s]
		if s == segments-1 {
			size = left
		}
		if size > left {
			return fmt.Errorf("%w: bit stream %d cut short", ErrCorrupt, s)
		}
		h.st.pos[s] = uint64(8 * at)
		at, left = at+size, left-size
		h.end[s] = at
	}
	return nil
}

// each decodes all runs and hands each to emit with its blocks.
func (h *runReader) each(emit func(blocks []uint16, sym []byte)) error {
	h.order.runs(func(t int, blocks []uint16) {
		n := runSymbols(blocks, h.n)
		h.run(&h.tables[t], n)
		emit(blocks, h.sym[:n])
	})
	for s, p := range h.st.pos {
		if int(p+7)/8 != h.end[s] {
			return fmt.Errorf("%w: bit stream that ends at byte %d ends at bit %d", ErrCorrupt, h.end[s], p)
		}
		if p&7 != 0 && h.payload[h.end[s]-1]>>(p&7) != 0 {
			return fmt.Errorf("%w: bit stream padded with ones", ErrCorrupt)
		}
	}
	return nil
}

// run decodes n symbols to h.sym.
func (h *runReader) run(t *decodeTable, n int) {
	st := &h.st
	st.in, st.table = &h.payload[0], t
	var end [segments]*byte
	for s := range segments {
		lo, hi := quarter(n, s)
		st.out[s], end[s] = &h.sym[lo], &h.sym[hi]
	}
	for h.steps(end) {
	}
	for s := range segments {
		_, hi := quarter(n, s)
		left := int(uintptr(unsafe.Pointer(end[s])) - uintptr(unsafe.Pointer(st.out[s])))
		h.finish(s, t, h.sym[hi-left:hi])
	}
}

// steps decodes from all streams as long as it is safe whatever the bits, and
// reports whether it may have to be called again. What the last step of a stream
// stores beyond its symbols must not meet the next one's.
func (h *runReader) steps(end [segments]*byte) bool {
	st := &h.st
	iters, room := int(1<<30), int(1<<30)
	for s := range segments {
		left := int(uintptr(unsafe.Pointer(end[s])) - uintptr(unsafe.Pointer(st.out[s])))
		iters = min(iters, (8*len(h.payload)-int(st.pos[s])-64)/(lookups*maxCodeLen))
		room = min(room, (left-1)/maxRun)
		st.last[s] = uintptr(unsafe.Pointer(end[s])) - maxRun - 1
	}
	if iters <= 0 || room <= 0 {
		return false
	}
	if haveKernels {
		st.iters = uint64(iters)
		decodeRun(st)
		return false
	}
	// Most symbols have short codes: a sixth is left after the first time.
	st.iters = uint64(min(iters, room))
	decodeRunGo(st)
	return true
}

// finish decodes the last symbols of a run from stream s.
func (h *runReader) finish(s int, t *decodeTable, out []byte) {
	for len(out) > 0 {
		n := min(len(out), blockLen)
		pos := int(h.st.pos[s])
		in, bit := &h.window[0], pos&7
		if at := min(pos>>3, len(h.payload)); len(h.payload)-at >= ((n+maxRun)*maxCodeLen+7)/8+8 {
			in = &h.payload[at]
		} else {
			clear(h.window[copy(h.window[:], h.payload[at:]):])
		}
		used := decodeTail(&h.tail, in, bit, t, 0, n) - bit
		h.st.pos[s] += uint64(used)
		copy(out, h.tail[:n])
		out = out[n:]
	}
}

// decodeRunGo is the twin of decodeRun.
func decodeRunGo(st *runState) {
	t := &st.table.multi
	oa, ob, oc, od := unsafe.Pointer(st.out[0]), unsafe.Pointer(st.out[1]), unsafe.Pointer(st.out[2]), unsafe.Pointer(st.out[3])
	for n := st.iters; n > 0; n-- {
		// A mark above the 57 bits that are valid at least: its way down tells
		// how many were used.
		wa, wb, wc, wd := st.word(0), st.word(1), st.word(2), st.word(3)
		wa, oa = lookup(t, wa, oa)
		wb, ob = lookup(t, wb, ob)
		wc, oc = lookup(t, wc, oc)
		wd, od = lookup(t, wd, od)
		wa, oa = lookup(t, wa, oa)
		wb, ob = lookup(t, wb, ob)
		wc, oc = lookup(t, wc, oc)
		wd, od = lookup(t, wd, od)
		wa, oa = lookup(t, wa, oa)
		wb, ob = lookup(t, wb, ob)
		wc, oc = lookup(t, wc, oc)
		wd, od = lookup(t, wd, od)
		wa, oa = lookup(t, wa, oa)
		wb, ob = lookup(t, wb, ob)
		wc, oc = lookup(t, wc, oc)
		wd, od = lookup(t, wd, od)
		wa, oa = lookup(t, wa, oa)
		wb, ob = lookup(t, wb, ob)
		wc, oc = lookup(t, wc, oc)
		wd, od = lookup(t, wd, od)
		st.pos[0] += uint64(bits.LeadingZeros64(wa))
		st.pos[1] += uint64(bits.LeadingZeros64(wb))
		st.pos[2] += uint64(bits.LeadingZeros64(wc))
		st.pos[3] += uint64(bits.LeadingZeros64(wd))
	}
	st.out = [segments]*byte{(*byte)(oa), (*byte)(ob), (*byte)(oc), (*byte)(od)}
}

// word returns the next bits of stream s below a mark.
func (st *runState) word(s int) uint64 {
	p := st.pos[s]
	return *(*uint64)(unsafe.Add(unsafe.Pointer(st.in), p>>3))>>(p&7) | 1<<63
}

// lookup decodes up to three symbols from w to o and moves both on.
func lookup(t *[1 << maxCodeLen]uint32, w uint64, o unsafe.Pointer) (uint64, unsafe.Pointer) {
	e := t[w&(1<<maxCodeLen-1)]
	*(*uint32)(o) = e >> 6
	return w >> (e & 63), unsafe.Add(o, e>>30)
}

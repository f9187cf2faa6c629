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
	pos   [segments]uint64 // next bit, counted from in
	out   [segments]*byte  // next symbol
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
	// As many steps as are safe whatever the bits, again and again: most symbols
	// have short codes, so a third is left after the first time. What the last
	// step of a stream stores beyond its symbols must not meet the next one's.
	for {
		iters := int(1 << 30)
		for s := range segments {
			left := int(uintptr(unsafe.Pointer(end[s])) - uintptr(unsafe.Pointer(st.out[s])))
			iters = min(iters, (left-1)/maxRun, (8*len(h.payload)-int(st.pos[s])-64)/(lookups*maxCodeLen))
		}
		if iters <= 0 {
			break
		}
		st.iters = uint64(iters)
		if haveKernels {
			decodeRun(st)
		} else {
			decodePair(st, 0, 1)
			decodePair(st, 2, 3)
		}
	}
	for s := range segments {
		_, hi := quarter(n, s)
		left := int(uintptr(unsafe.Pointer(end[s])) - uintptr(unsafe.Pointer(st.out[s])))
		h.finish(s, t, h.sym[hi-left:hi])
	}
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

// decodePair is decodeRun for two of the streams.
func decodePair(st *runState, a, b int) {
	in, t := st.in, &st.table.multi
	oa, ob := unsafe.Pointer(st.out[a]), unsafe.Pointer(st.out[b])
	pa, pb := st.pos[a], st.pos[b]
	for n := st.iters; n > 0; n-- {
		// A mark above the 57 bits that are valid at least: its way down tells
		// how many were used.
		wa := *(*uint64)(unsafe.Add(unsafe.Pointer(in), pa>>3))>>(pa&7) | 1<<63
		wb := *(*uint64)(unsafe.Add(unsafe.Pointer(in), pb>>3))>>(pb&7) | 1<<63

		ea := t[wa&(1<<maxCodeLen-1)]
		eb := t[wb&(1<<maxCodeLen-1)]
		*(*uint32)(oa) = ea >> 6
		*(*uint32)(ob) = eb >> 6
		wa >>= ea & 63
		wb >>= eb & 63
		oa = unsafe.Add(oa, ea>>30)
		ob = unsafe.Add(ob, eb>>30)

		ea = t[wa&(1<<maxCodeLen-1)]
		eb = t[wb&(1<<maxCodeLen-1)]
		*(*uint32)(oa) = ea >> 6
		*(*uint32)(ob) = eb >> 6
		wa >>= ea & 63
		wb >>= eb & 63
		oa = unsafe.Add(oa, ea>>30)
		ob = unsafe.Add(ob, eb>>30)

		ea = t[wa&(1<<maxCodeLen-1)]
		eb = t[wb&(1<<maxCodeLen-1)]
		*(*uint32)(oa) = ea >> 6
		*(*uint32)(ob) = eb >> 6
		wa >>= ea & 63
		wb >>= eb & 63
		oa = unsafe.Add(oa, ea>>30)
		ob = unsafe.Add(ob, eb>>30)

		ea = t[wa&(1<<maxCodeLen-1)]
		eb = t[wb&(1<<maxCodeLen-1)]
		*(*uint32)(oa) = ea >> 6
		*(*uint32)(ob) = eb >> 6
		wa >>= ea & 63
		wb >>= eb & 63
		oa = unsafe.Add(oa, ea>>30)
		ob = unsafe.Add(ob, eb>>30)

		ea = t[wa&(1<<maxCodeLen-1)]
		eb = t[wb&(1<<maxCodeLen-1)]
		*(*uint32)(oa) = ea >> 6
		*(*uint32)(ob) = eb >> 6
		wa >>= ea & 63
		wb >>= eb & 63
		oa = unsafe.Add(oa, ea>>30)
		ob = unsafe.Add(ob, eb>>30)

		pa += uint64(bits.LeadingZeros64(wa))
		pb += uint64(bits.LeadingZeros64(wb))
	}
	st.out[a], st.out[b] = (*byte)(oa), (*byte)(ob)
	st.pos[a], st.pos[b] = pa, pb
}

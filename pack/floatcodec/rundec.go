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
	streams int
	tables  []decodeTable
	choices []uint8 // the table of each block
	order   blockOrder
	st      runState
	pos     [maxStreams]int // next bit of the payload
	end     [maxStreams]int // in bytes of the payload
	sym     [runBlocks*blockLen + 16]byte
	tail    symBuffer
	window  [maxBlockBytes]byte
	waste   [512]byte // takes what is decoded for a stream that waits for others
}

// runState is the state of the streams of a payload in a run.
type runState struct {
	in    *byte
	table *decodeTable
	iters uint64
	pos   [maxStreams]uint64  // next bit, counted from in
	out   [maxStreams]*byte   // next symbol
	last  [maxStreams]uintptr // address of the last symbol to start a step at
	ahead prefetch
}

// prefetch is memory that is needed soon after a run: decoding waits for its
// tables, not for memory, and has time to fetch it. The kernel moves in and out on.
type prefetch struct {
	in, inEnd   uintptr // encoded bytes
	out, outEnd uintptr // where decoded bytes go
}

func newPrefetch(in, out []byte) (p prefetch) {
	if len(in) > 0 {
		p.in = uintptr(unsafe.Pointer(&in[0]))
		p.inEnd = p.in + uintptr(len(in))
	}
	if len(out) > 0 {
		p.out = uintptr(unsafe.Pointer(&out[0]))
		p.outEnd = p.out + uintptr(len(out))
	}
	return p
}

// touch reads a byte of every cache line, one after the other, which is much faster
// than meeting them in the order of runs. It stands in for prefetching, which Go
// does not offer.
func touch(b []byte) (x byte) {
	for i := 0; i < len(b); i += 64 {
		x ^= b[i]
	}
	return x
}

// kernelLookups is how often decodeRun looks codes up in each stream in a step, up
// to three symbols at a time; decodeRunGo does so lookups times.
const kernelLookups = 8

// init parses the payload of n symbols.
func (h *runReader) init(payload []byte, n int, tables []decodeTable) error {
	h.n, h.tables, h.streams = n, tables, streamsOf(n)
	h.payload = payload[:cap(payload)]
	h.choices = resize(h.choices, blocksOf(n))
	rest, err := readSelectors(h.choices, payload, len(tables))
	if err != nil {
		return err
	}
	h.order.set(h.choices)
	var sizes [maxStreams]int
	for s := range h.streams - 1 {
		v, r, ok := uvarint(rest, uint64(len(rest)))
		if !ok {
			return fmt.Errorf("%w: bit stream %d cut short", ErrCorrupt, s)
		}
		sizes[s], rest = int(v), r
	}
	at, left := len(payload)-len(rest), len(rest)
	for s := range h.streams {
		size := sizes[s]
		if s == h.streams-1 {
			size = left
		}
		if size > left {
			return fmt.Errorf("%w: bit stream %d cut short", ErrCorrupt, s)
		}
		h.pos[s] = 8 * at
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
	for s, p := range h.pos[:h.streams] {
		if (p+7)/8 != h.end[s] {
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
	if h.streams < maxStreams {
		h.finish(0, t, h.sym[:n])
		return
	}
	step := lookups
	if haveKernels {
		step = kernelLookups
	}
	most := 3 * step
	var at, end [maxStreams]int
	for s := range maxStreams {
		at[s], end[s] = share(n, s, maxStreams)
	}
	st := &h.st
	st.in, st.table = &h.payload[0], t
	for {
		// A stream with little left is finished by itself; the others go on, while
		// what its registers still decode goes to waste.
		waiting, steps := 0, 1<<30
		for s := range maxStreams {
			left := end[s] - at[s]
			safe := (8*len(h.payload) - h.pos[s] - 64) / (step * maxCodeLen)
			if left <= most || safe <= 0 {
				h.finish(s, t, h.sym[at[s]:end[s]])
				at[s] = end[s]
				st.pos[s] = 8
				st.out[s], st.last[s] = &h.waste[0], uintptr(unsafe.Pointer(&h.waste[len(h.waste)-most-1]))
				waiting++
				continue
			}
			st.pos[s] = uint64(h.pos[s])
			st.out[s] = &h.sym[at[s]]
			st.last[s] = uintptr(unsafe.Pointer(st.out[s])) + uintptr(left-most-1)
			steps = min(steps, safe)
			if !haveKernels {
				steps = min(steps, (left-1)/most)
			}
		}
		if waiting == maxStreams {
			return
		}
		if waiting > 0 { // the waste is short, and it reads the payload's start
			steps = min(steps, (len(h.waste)-1)/most, (8*len(h.payload)-72-(step-1)*maxCodeLen)/(step*maxCodeLen)+1)
		}
		st.iters = uint64(steps)
		if haveKernels {
			decodeRun(st)
		} else {
			decodeRunGo(st)
		}
		for s := range maxStreams {
			if at[s] < end[s] {
				at[s] += int(uintptr(unsafe.Pointer(st.out[s])) - uintptr(unsafe.Pointer(&h.sym[at[s]])))
				h.pos[s] = int(st.pos[s])
			}
		}
	}
}

// finish decodes symbols from stream s by itself.
func (h *runReader) finish(s int, t *decodeTable, out []byte) {
	for len(out) > 0 {
		n := min(len(out), blockLen)
		pos := h.pos[s]
		in, bit := &h.window[0], pos&7
		if at := min(pos>>3, len(h.payload)); len(h.payload)-at >= ((n+maxRun)*maxCodeLen+7)/8+8 {
			in = &h.payload[at]
		} else {
			clear(h.window[copy(h.window[:], h.payload[at:]):])
		}
		h.pos[s] += decodeTail(&h.tail, in, bit, t, n) - bit
		copy(out, h.tail[:n])
		out = out[n:]
	}
}

// decodeRunGo is the twin of decodeRun.
func decodeRunGo(st *runState) {
	t := &st.table.multi
	oa, ob, oc, od := unsafe.Pointer(st.out[0]), unsafe.Pointer(st.out[1]), unsafe.Pointer(st.out[2]), unsafe.Pointer(st.out[3])
	for n := st.iters; n > 0; n-- {
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
	st.out = [maxStreams]*byte{(*byte)(oa), (*byte)(ob), (*byte)(oc), (*byte)(od)}
}

// word returns the next bits of stream s, 57 at least, below a mark: its way down
// tells how many were used.
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

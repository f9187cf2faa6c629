package floatcodec

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// The rANS coder (Duda, 2013; byte-wise interleaving after Giesen, 2014) keeps
// ransLanes states of 32 bits; symbol i belongs to lane i mod ransLanes. States
// take and give words of 16 bits, in the order in which a decoder that goes
// through the symbols needs them.
const (
	ransLanes = 32
	probBits  = 12
	probTotal = 1 << probBits
	ransLow   = 1 << 16 // states stay in [ransLow, 2^32)
)

// ransFreqs holds the frequency of each symbol; they add up to probTotal.
type ransFreqs [256]uint16

// normalise scales counts, at least one of them above zero, to frequencies.
func normalise(counts *[256]uint32) (f ransFreqs) {
	total := uint64(0)
	for _, c := range counts {
		total += uint64(c)
	}
	sum := 0
	for s, c := range counts {
		if c > 0 {
			f[s] = uint16(max(1, (uint64(c)*probTotal+total/2)/total))
			sum += int(f[s])
		}
	}
	// What rounding left over goes to or comes from the most frequent.
	for sum != probTotal {
		top := 0
		for s := range f {
			if f[s] > f[top] {
				top = s
			}
		}
		step := min(max(1, int(f[top])/64), max(sum-probTotal, probTotal-sum))
		if sum > probTotal {
			f[top] -= uint16(step)
			sum -= step
		} else {
			f[top] += uint16(step)
			sum += step
		}
	}
	return f
}

// A ransTable maps the low probBits of a state to symbol | (frequency-1)<<8 |
// (offset in the symbol's range)<<20.
type ransTable [probTotal]uint32

func (f *ransFreqs) table(t *ransTable) {
	slot := 0
	for s, n := range f {
		for i := range int(n) {
			t[slot] = uint32(s) | uint32(n-1)<<8 | uint32(i)<<20
			slot++
		}
	}
}

// ransSymbol is what coding a symbol needs.
type ransSymbol struct {
	freq, start uint32
}

type ransCoder struct {
	syms   [][256]ransSymbol
	costs  *packedCosts
	filler byte
}

func newRansCoder(c *coder) *ransCoder {
	freqs := c.rans
	r := &ransCoder{syms: make([][256]ransSymbol, len(freqs))}
	var all [256]int
	for t := range freqs {
		start := uint32(0)
		for s, n := range freqs[t] {
			r.syms[t][s] = ransSymbol{uint32(n), start}
			start += uint32(n)
			all[s] += int(n)
		}
	}
	for s := range all {
		if all[s] > all[r.filler] {
			r.filler = byte(s)
		}
	}
	if len(freqs) <= maxTables {
		r.costs = packCosts(c.costs())
	}
	return r
}

func (c *coder) ransEncoder() *ransCoder {
	c.encOnce.Do(func() { c.ransEnc = newRansCoder(c) })
	return c.ransEnc
}

func (c *coder) ransDecoder() []ransTable {
	c.decOnce.Do(func() {
		c.ransDec = make([]ransTable, len(c.rans))
		for i := range c.rans {
			c.rans[i].table(&c.ransDec[i])
		}
	})
	return c.ransDec
}

// choose returns the table for a block.
func (r *ransCoder) choose(block []byte) int {
	if len(r.syms) == 1 {
		return 0
	}
	var lo, hi uint64
	for _, s := range block {
		c := &r.costs[s]
		lo += c[0]
		hi += c[1]
	}
	best, table := uint64(1)<<62, 0
	for t := range r.syms {
		c := lo
		if t >= 4 {
			c = hi
		}
		if c = c >> (16 * (t & 3)) & 0xffff; c < best {
			best, table = c, t
		}
	}
	return table
}

// append codes the symbols: selectors, the states a decoder starts with, words.
func (r *ransCoder) append(dst, sym []byte, missing func(i int)) []byte {
	n := len(sym)
	blocks, _ := segmentBlocks(n)
	sel := bitWriter{dst: dst}
	choice := make([]uint8, blocks)
	for b := range blocks {
		block := sym[b*blockLen : min(n, (b+1)*blockLen)]
		t := r.choose(block)
		choice[b] = uint8(t)
		sel.put(uint64(t), uint(selectorBits(len(r.syms))))
		for i, s := range block {
			if r.syms[t][s].freq == 0 {
				missing(b*blockLen + i)
			}
		}
	}
	return r.appendStates(sel.flush(), sym, func(i int) int { return int(choice[i/blockLen]) })
}

// appendStates codes the symbols backwards, each with the table that pick names.
func (r *ransCoder) appendStates(dst, sym []byte, pick func(i int) int) []byte {
	var x [ransLanes]uint32
	for i := range x {
		x[i] = ransLow
	}
	words := make([]uint16, 0, len(sym))
	for i := len(sym) - 1; i >= 0; i-- {
		t := &r.syms[pick(i)]
		e := t[sym[i]]
		if e.freq == 0 {
			e = commonest(t, r.filler)
		}
		s := &x[i%ransLanes]
		if uint64(*s) >= uint64(e.freq)<<(32-probBits) {
			words = append(words, uint16(*s))
			*s >>= 16
		}
		*s = *s/e.freq<<probBits + *s%e.freq + e.start
	}
	for _, s := range x {
		dst = binary.LittleEndian.AppendUint32(dst, s)
	}
	for i := len(words) - 1; i >= 0; i-- {
		dst = binary.LittleEndian.AppendUint16(dst, words[i])
	}
	return dst
}

// commonest returns a symbol that table t has: the filler if it can.
func commonest(t *[256]ransSymbol, filler byte) ransSymbol {
	best := t[filler]
	if best.freq > 0 {
		return best
	}
	for _, e := range t {
		if e.freq > best.freq {
			best = e
		}
	}
	return best
}

// ransDecode fills sym from the payload.
func (c *coder) ransDecode(sym, payload []byte) error {
	n := len(sym)
	tables := c.ransDecoder()
	blocks, _ := segmentBlocks(n)
	selN := selectorBits(len(tables))
	h := huffReader{selN: selN}
	var b []byte
	var err error
	if h.sel, b, err = cut(payload, (blocks*selN+7)/8); err != nil {
		return err
	}
	states, b, err := cut(b, 4*ransLanes)
	if err != nil {
		return err
	}
	var x [ransLanes]uint32
	for i := range x {
		if x[i] = binary.LittleEndian.Uint32(states[4*i:]); x[i] < ransLow {
			return fmt.Errorf("%w: rANS state", ErrCorrupt)
		}
	}
	for blk := range blocks {
		t := h.selector(blk)
		if t >= len(tables) {
			return fmt.Errorf("%w: no table %d", ErrCorrupt, t)
		}
		if b, err = ransBlock(sym[blk*blockLen:min(n, (blk+1)*blockLen)], b, &x, &tables[t]); err != nil {
			return err
		}
	}
	return ransFinish(b, &x)
}

func ransFinish(b []byte, x *[ransLanes]uint32) error {
	if len(b) != 0 {
		return fmt.Errorf("%w: %d bytes after the last rANS word", ErrCorrupt, len(b))
	}
	for _, s := range x {
		if s != ransLow {
			return fmt.Errorf("%w: rANS state after the last symbol", ErrCorrupt)
		}
	}
	return nil
}

// ransBlock decodes one block, which starts at lane 0, and returns what is left
// of the words.
func ransBlock(sym, b []byte, x *[ransLanes]uint32, t *ransTable) ([]byte, error) {
	for i := range sym {
		s := x[i%ransLanes]
		e := t[s&(probTotal-1)]
		sym[i] = byte(e)
		s = (e>>8&(probTotal-1)+1)*(s>>probBits) + e>>20
		if s < ransLow {
			if len(b) < 2 {
				return nil, fmt.Errorf("%w: rANS words cut short", ErrCorrupt)
			}
			s = s<<16 | uint32(binary.LittleEndian.Uint16(b))
			b = b[2:]
		}
		x[i%ransLanes] = s
	}
	return b, nil
}

// append writes the frequencies: first and last symbol, then for each the
// number of bits as a difference from that of the one stride symbols before,
// and the bits below the first.
func (f *ransFreqs) append(w *bitWriter, stride int) {
	first, last := 255, 0
	for s, n := range f {
		if n > 0 {
			first, last = min(first, s), max(last, s)
		}
	}
	w.put(uint64(first), 8)
	w.put(uint64(last), 8)
	for s := first; s <= last && first != last; s++ {
		pred := 0
		if s-stride >= first {
			pred = bits.Len16(f[s-stride])
		}
		size := bits.Len16(f[s])
		w.unary(zigzag(size - pred))
		if size > 1 {
			w.put(uint64(f[s])&(1<<(size-1)-1), uint(size-1))
		}
	}
}

func readFreqs(r *bitReader, stride int) (f ransFreqs, err error) {
	first, last := int(r.get(8)), int(r.get(8))
	if first == last {
		f[first] = probTotal
	}
	sum := 0
	for s := first; s <= last && first != last; s++ {
		pred := 0
		if s-stride >= first {
			pred = bits.Len16(f[s-stride])
		}
		size := pred + unzigzag(r.unary(2*probBits))
		if size < 0 || size > probBits {
			return f, fmt.Errorf("%w: rANS frequency", ErrCorrupt)
		}
		switch {
		case size == 1:
			f[s] = 1
		case size > 1:
			f[s] = 1<<(size-1) | uint16(r.get(size-1))
		}
		sum += int(f[s])
	}
	if r.bad || first > last || first != last && sum != probTotal {
		return f, fmt.Errorf("%w: rANS frequencies add up to %d", ErrCorrupt, sum)
	}
	return f, nil
}

// contexts choose a rANS table for each element by its row and column.
type contexts struct{}

func (c *coder) appendRANS(dst []byte) []byte {
	dst = append(dst, coderRANS, byte(len(c.rans)))
	w := bitWriter{dst: dst}
	for i := range c.rans {
		c.rans[i].append(&w, c.stride)
	}
	return w.flush()
}

func parseRANS(b []byte, stride int, m *Model, byContext bool) (*coder, []byte, error) {
	if byContext || len(b) == 0 || b[0] == 0 || b[0] > maxTables {
		return nil, nil, fmt.Errorf("%w: bad number of rANS tables", ErrCorrupt)
	}
	c := &coder{stride: stride, rans: make([]ransFreqs, b[0])}
	r := bitReader{src: b[1:]}
	for i := range c.rans {
		var err error
		if c.rans[i], err = readFreqs(&r, stride); err != nil {
			return nil, nil, err
		}
	}
	rest := r.rest()
	if r.bad {
		return nil, nil, fmt.Errorf("%w: rANS tables cut short", ErrCorrupt)
	}
	return c, rest, nil
}

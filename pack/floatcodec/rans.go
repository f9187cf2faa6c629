package floatcodec

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// The rANS coder (Duda, 2013; interleaving after Giesen, 2014) keeps several
// states of 32 bits, a power of two; symbol i belongs to state i mod their number.
// States take and give words of 16 bits, in the order in which a decoder that
// goes through the symbols needs them. More states leave more to do at once, and
// take four bytes each in every chunk.
const (
	maxLanes  = 32
	minLanes  = 4
	probBits  = 12
	probTotal = 1 << probBits
	ransLow   = 1 << 16 // states stay in [ransLow, 2^32)
)

// ransFreqs holds the frequency of each symbol; they add up to probTotal.
type ransFreqs [256]uint16

// normalise scales counts, at least one of them above zero, to frequencies: each
// present symbol gets its share of probTotal, rounded, and at least 1; then the
// first of the most frequent symbols changes by one until the sum is right.
// Decoders do the same, so the rule is part of the format.
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
	for sum != probTotal {
		top := 0
		for s := range f {
			if f[s] > f[top] {
				top = s
			}
		}
		if sum > probTotal {
			f[top]--
			sum--
		} else {
			f[top]++
			sum++
		}
	}
	return f
}

// ransWeights are frequencies as stored: with few significant bits, since
// a few suffice and tables are not small beside a small tensor.
type ransWeights [256]uint32

// weigh rounds frequencies to 1+precision significant bits.
func weigh(f *ransFreqs, precision int) (w ransWeights) {
	for s, n := range f {
		x := uint32(n)
		if drop := bits.Len32(x) - 1 - precision; drop > 0 {
			x = (x + 1<<(drop-1)) >> drop << drop
		}
		w[s] = x
	}
	return w
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
	lanes  int
}

func newRansCoder(c *coder) *ransCoder {
	freqs := c.rans
	r := &ransCoder{syms: make([][256]ransSymbol, len(freqs)), lanes: c.lanes}
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
	if c.ctx == nil {
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
// With contexts, tables gives each symbol's table, and there are no selectors.
func (r *ransCoder) append(dst, sym, tables []byte, missing func(i int)) []byte {
	n := len(sym)
	if tables == nil {
		tables = make([]byte, n)
		blocks := blocksOf(n)
		sel := bitWriter{dst: dst}
		for b := range blocks {
			lo, hi := b*blockLen, min(n, (b+1)*blockLen)
			t := r.choose(sym[lo:hi])
			sel.put(uint64(t), uint(selectorBits(len(r.syms))))
			for i := lo; i < hi; i++ {
				tables[i] = byte(t)
			}
		}
		dst = sel.flush()
	}
	for i, s := range sym {
		if r.syms[tables[i]][s].freq == 0 {
			missing(i)
		}
	}
	var x [maxLanes]uint32
	for i := range x {
		x[i] = ransLow
	}
	lane := r.lanes - 1
	words := make([]uint16, 0, n)
	for i := n - 1; i >= 0; i-- {
		t := &r.syms[tables[i]]
		e := t[sym[i]]
		if e.freq == 0 {
			e = commonest(t, r.filler)
		}
		s := &x[i&lane&(maxLanes-1)]
		if uint64(*s) >= uint64(e.freq)<<(32-probBits) {
			words = append(words, uint16(*s))
			*s >>= 16
		}
		*s = *s/e.freq<<probBits + *s%e.freq + e.start
	}
	for _, s := range x[:r.lanes] {
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

// ransDecode fills sym from the payload. With contexts, tables gives each
// symbol's table.
func (c *coder) ransDecode(sym, payload, tables []byte) error {
	n := len(sym)
	dec := c.ransDecoder()
	blocks := blocksOf(n)
	b := payload
	var choices []uint8
	var err error
	if tables == nil {
		choices = make([]uint8, blocks)
		if b, err = readSelectors(choices, b, len(dec)); err != nil {
			return err
		}
	}
	states, b, err := cut(b, 4*c.lanes)
	if err != nil {
		return err
	}
	var x [maxLanes]uint32
	for i := range c.lanes {
		if x[i] = binary.LittleEndian.Uint32(states[4*i:]); x[i] < ransLow {
			return fmt.Errorf("%w: rANS state", ErrCorrupt)
		}
	}
	for blk := range blocks {
		lo, hi := blk*blockLen, min(n, (blk+1)*blockLen)
		if tables != nil {
			b, err = ransMixed(sym[lo:hi], b, &x, c.lanes-1, dec, tables[lo:hi])
		} else {
			b, err = ransBlock(sym[lo:hi], b, &x, c.lanes-1, &dec[choices[blk]])
		}
		if err != nil {
			return err
		}
	}
	return ransFinish(b, x[:c.lanes])
}

// ransMixed is ransBlock with a table for each symbol.
func ransMixed(sym, b []byte, x *[maxLanes]uint32, lane int, dec []ransTable, tables []byte) ([]byte, error) {
	for i := range sym {
		s := x[i&lane&(maxLanes-1)]
		e := dec[tables[i]][s&(probTotal-1)]
		sym[i] = byte(e)
		s = (e>>8&(probTotal-1)+1)*(s>>probBits) + e>>20
		if s < ransLow {
			if len(b) < 2 {
				return nil, fmt.Errorf("%w: rANS words cut short", ErrCorrupt)
			}
			s = s<<16 | uint32(binary.LittleEndian.Uint16(b))
			b = b[2:]
		}
		x[i&lane&(maxLanes-1)] = s
	}
	return b, nil
}

func ransFinish(b []byte, x []uint32) error {
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
func ransBlock(sym, b []byte, x *[maxLanes]uint32, lane int, t *ransTable) ([]byte, error) {
	for i := range sym {
		s := x[i&lane&(maxLanes-1)]
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
		x[i&lane&(maxLanes-1)] = s
	}
	return b, nil
}

// append writes the weights: first and last symbol, then for each the number
// of bits as a difference from that of the one stride symbols before, and up to
// precision bits below the first.
func (f *ransWeights) append(w *bitWriter, stride, precision int) {
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
			pred = bits.Len32(f[s-stride])
		}
		size := bits.Len32(f[s])
		w.unary(zigzag(size - pred))
		if below := min(size-1, precision); below > 0 {
			w.put(uint64(f[s]>>(size-1-below))&(1<<below-1), uint(below))
		}
	}
}

// maxWeightLen is the bits of probTotal, the largest weight.
const maxWeightLen = probBits + 1

func readWeights(r *bitReader, stride, precision int) (f ransWeights, err error) {
	first, last := int(r.get(8)), int(r.get(8))
	if first == last {
		f[first] = probTotal
	}
	present := first == last
	for s := first; s <= last && first != last; s++ {
		pred := 0
		if s-stride >= first {
			pred = bits.Len32(f[s-stride])
		}
		size := pred + unzigzag(r.unary(2*maxWeightLen))
		if size < 0 || size > maxWeightLen {
			return f, fmt.Errorf("%w: rANS weight of %d bits", ErrCorrupt, size)
		}
		if size > 0 {
			below := min(size-1, precision)
			f[s] = (1<<below | uint32(r.get(below))) << (size - 1 - below)
			present = true
		}
	}
	if r.bad || !present {
		return f, fmt.Errorf("%w: rANS weights cut short", ErrCorrupt)
	}
	return f, nil
}

// fineBits and coarseBits are the precision of weights in large and small
// tensors.
const (
	fineBits   = 5
	coarseBits = 3
	maxBits    = probBits
)

// newRANS returns a coder with a table for each set of counts.
func newRANS(counts [][256]uint32, stride, precision, lanes int) *coder {
	c := &coder{stride: stride, precision: precision, lanes: lanes}
	for i := range counts {
		f := normalise(&counts[i])
		c.addTable(weigh(&f, precision))
	}
	return c
}

func (c *coder) addTable(w ransWeights) {
	c.weights = append(c.weights, w)
	counts := [256]uint32(w)
	c.rans = append(c.rans, normalise(&counts))
}

func (c *coder) appendRANS(dst []byte) []byte {
	kind := byte(coderRANS)
	if c.ctx != nil {
		kind = coderRANSContexts
	}
	dst = append(dst, kind, byte(len(c.rans)), byte(c.precision|laneCode(c.lanes)<<4))
	if c.ctx != nil {
		dst = c.ctx.append(dst)
	}
	w := bitWriter{dst: dst}
	for i := range c.weights {
		c.weights[i].append(&w, c.stride, c.precision)
	}
	return w.flush()
}

// laneCode is how often the number of lanes is halved from maxLanes.
func laneCode(lanes int) int { return bits.Len(uint(maxLanes/lanes)) - 1 }

func parseRANS(b []byte, stride int, m *Model, byContext bool) (*coder, []byte, error) {
	limit := byte(maxTables)
	if byContext {
		limit = maxContexts
	}
	if len(b) < 2 || b[0] == 0 || b[0] > limit || b[1]&15 > maxBits || maxLanes>>(b[1]>>4) < minLanes {
		return nil, nil, fmt.Errorf("%w: bad number of rANS tables", ErrCorrupt)
	}
	n := int(b[0])
	c := &coder{stride: stride, precision: int(b[1] & 15), lanes: maxLanes >> (b[1] >> 4)}
	b = b[2:]
	var err error
	if byContext {
		if c.ctx, b, err = parseContexts(b, m, n); err != nil {
			return nil, nil, err
		}
	}
	r := bitReader{src: b}
	for range n {
		w, err := readWeights(&r, stride, c.precision)
		if err != nil {
			return nil, nil, err
		}
		c.addTable(w)
	}
	rest := r.rest()
	if r.bad {
		return nil, nil, fmt.Errorf("%w: rANS tables cut short", ErrCorrupt)
	}
	return c, rest, nil
}

package floatcodec

import (
	"fmt"
	"math/bits"
)

// maxCodeLen limits Huffman codes so that a decoder's table of 2^maxCodeLen
// four-byte entries stays in the first-level cache.
const maxCodeLen = 11

// absent marks a symbol that a code does not contain.
const absent = 0xff

// codeLens holds the length of each symbol's code: 1 to maxCodeLen, absent, or 0
// for the only symbol of a code.
type codeLens [256]uint8

// check reports whether the lengths describe a complete prefix code.
func (c *codeLens) check() error {
	kraft, present := 0, 0
	for _, l := range c {
		if l == absent {
			continue
		}
		if l > maxCodeLen {
			return fmt.Errorf("%w: code of %d bits", ErrCorrupt, l)
		}
		present++
		kraft += 1 << (maxCodeLen - l)
	}
	// A single symbol has length 0 and fills the code space by itself.
	if present == 0 || kraft != 1<<maxCodeLen {
		return fmt.Errorf("%w: incomplete code", ErrCorrupt)
	}
	return nil
}

// An encodeTable entry holds a code, lowest bit first, in its low 16 bits, the length in
// bits 16 to 23, and bit 31 set for an absent symbol, whose place a symbol with
// the shortest code takes.
type encodeTable [256]uint32

const absentFlag = 1 << 31

func (c *codeLens) encodeTable() (t encodeTable) {
	codes := c.canonical()
	best := -1
	for s, l := range c {
		if l == absent {
			continue
		}
		t[s] = uint32(codes[s]) | uint32(l)<<16
		if best < 0 || l < c[best] {
			best = s
		}
	}
	for s, l := range c {
		if l == absent {
			t[s] = t[best] | absentFlag
		}
	}
	return t
}

// canonical assigns codes in order of length, then symbol, and reverses their
// bits, since streams are read lowest bit first.
func (c *codeLens) canonical() (codes [256]uint16) {
	var next [maxCodeLen + 2]uint16 // counts, then the next code of each length
	for _, l := range c {
		if l != absent && l > 0 {
			next[l+1]++
		}
	}
	for l := 1; l <= maxCodeLen; l++ {
		next[l] = (next[l] + next[l-1]) << 1
	}
	for s, l := range c {
		if l != absent && l > 0 {
			codes[s] = bits.Reverse16(next[l]) >> (16 - l)
			next[l]++
		}
	}
	return codes
}

// A decodeTable maps the next maxCodeLen bits of a stream to up to three
// symbols: bits 0 to 5 hold the length of all their codes together, bits 6 to 29
// the symbols, bits 30 and 31 their number. A shift by an entry needs no mask on
// most machines.
type decodeTable struct {
	multi [1 << maxCodeLen]uint32
	lens  [256]uint8
}

// decodeTable fills t; with one symbol per entry if single is set, which is
// quicker to do.
func (c *codeLens) decodeTable(t *decodeTable, single bool) {
	t.lens = *c // of symbols that occur
	// One symbol first: symbol | length<<8. What the first l bits say repeats for
	// every value of the next.
	var one [1 << maxCodeLen]uint32
	order, starts := c.byLength()
	code := uint16(0) // canonical, from its top bit
	for l := 0; ; l++ {
		for _, s := range order[starts[l]:starts[l+1]] {
			one[bits.Reverse16(code)>>(16-l)] = uint32(s) | uint32(l)<<8
			code++
		}
		code <<= 1
		if l == maxCodeLen {
			break
		}
		copy(one[1<<l:2<<l], one[:1<<l])
	}
	if single {
		for i, e := range one {
			t.multi[i] = e>>8 | e&0xff<<6 | 1<<30
		}
		return
	}
	if haveKernels {
		fillMulti(&t.multi, &one)
		return
	}
	for i := range t.multi {
		// Whether two or three codes fit is unpredictable, so the choice is made
		// with masks: -1 where they fit. Symbols that do not fit stay in the
		// entry, uncounted.
		a := one[i]
		ab := a >> 8
		b := one[i>>(ab&15)]
		abc := ab + b>>8
		c := one[i>>(abc&31)]
		two := uint32(int32(abc-maxCodeLen-1) >> 31)
		three := uint32(int32(abc+c>>8-maxCodeLen-1) >> 31)
		used := ab + b>>8&two + c>>8&three
		t.multi[i] = used | a&0xff<<6 | b&0xff<<14 | c&0xff<<22 | (1-two-three)<<30
	}
}

// byLength lists the symbols by the length of their codes; those of length l
// lie from starts[l] to starts[l+1].
func (c *codeLens) byLength() (order [256]uint8, starts [maxCodeLen + 2]uint16) {
	for _, l := range c {
		if l != absent {
			starts[l+1]++
		}
	}
	for l := range maxCodeLen + 1 {
		starts[l+1] += starts[l]
	}
	next := starts
	for s, l := range c {
		if l != absent {
			order[next[l]] = uint8(s)
			next[l]++
		}
	}
	return order, starts
}

// append writes the lengths with a bitWriter: first and last symbol, then
// each length as a difference from the one stride symbols before, since
// neighbouring exponents have similar lengths. An absent symbol counts as one
// bit longer than the longest.
func (c *codeLens) append(w *bitWriter, stride int) {
	first, last := 255, 0
	for s, l := range c {
		if l != absent {
			first, last = min(first, s), max(last, s)
		}
	}
	w.put(uint64(first), 8)
	w.put(uint64(last), 8)
	if first == last {
		return
	}
	for s := first; s <= last; s++ {
		w.unary(zigzag(lenValue(c[s]) - c.predict(s, first, stride)))
	}
}

const absentLen = maxCodeLen + 1

func lenValue(l uint8) int {
	if l == absent {
		return absentLen
	}
	return int(l)
}

func (c *codeLens) predict(s, first, stride int) int {
	if s-stride < first {
		return absentLen - 1
	}
	return lenValue(c[s-stride])
}

func readLens(r *bitReader, stride int) (c codeLens, err error) {
	for i := range c {
		c[i] = absent
	}
	first, last := int(r.get(8)), int(r.get(8))
	if first == last {
		c[first] = 0
	}
	for s := first; s <= last && first != last; s++ {
		v := c.predict(s, first, stride) + unzigzag(r.unary(2*absentLen))
		if v < 1 || v > absentLen {
			return c, fmt.Errorf("%w: code length %d", ErrCorrupt, v)
		}
		if v < absentLen {
			c[s] = uint8(v)
		}
	}
	if r.bad {
		return c, fmt.Errorf("%w: code lengths cut short", ErrCorrupt)
	}
	return c, c.check()
}

package xortable

//go:generate go run ./internal/genkernels

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// A packed row is a byte string of its own, empty when the row equals the base
// row:
//
//	heads    one byte per group of 64 columns: bits 0–6 the code width k,
//	         bit 7 set for a difference group, clear for an XOR group
//	words    for each group, its codes in 64-bit little-endian words
//	entries  byte pairs (gap, value) that flip bits above a code's width
//
// A 64-bit word is cut into lanes as wide as an element, so that one word lines
// up with 64/bits neighbouring elements of the base row in memory and decoding
// needs one shift, one mask and one XOR or addition for all of them. Lane l
// holds the codes of the columns congruent to l as one bit string, code after
// code, lowest bits first, running on in the same lane of the next word.
const groupColumns = 64

const (
	headWidth      = 0x7f
	headDifference = 0x80
)

// geometry is what the element width decides.
type geometry struct {
	bits  uint // of an element, and of a lane
	lanes int  // elements in a 64-bit word
}

func newGeometry(bits uint) geometry { return geometry{bits, 64 / int(bits)} }

// words returns the number of 64-bit words that hold n codes of width k.
func (g geometry) words(n int, k uint) int {
	steps := (n + g.lanes - 1) / g.lanes
	return (steps*int(k) + int(g.bits) - 1) / int(g.bits)
}

// appendCodes packs codes, each less than 2^k.
func (g geometry) appendCodes(dst []byte, codes []uint64, k uint) []byte {
	words := make([]uint64, g.words(len(codes), k))
	if k > 0 {
		for i, c := range codes {
			lane := uint(i%g.lanes) * g.bits
			at := uint(i/g.lanes) * k
			word, off := at/g.bits, at%g.bits
			words[word] |= c << off & lowMask(g.bits) << lane
			if off+k > g.bits {
				words[word+1] |= c >> (g.bits - off) << lane
			}
		}
	}
	for _, w := range words {
		dst = binary.LittleEndian.AppendUint64(dst, w)
	}
	return dst
}

// code returns code i of a packed group of width k ≥ 1.
func (g geometry) code(packed []byte, i int, k uint) uint64 {
	lane := uint(i%g.lanes) * g.bits
	at := uint(i/g.lanes) * k
	word, off := int(at/g.bits), at%g.bits
	c := binary.LittleEndian.Uint64(packed[8*word:]) >> lane & lowMask(g.bits) >> off
	if off+k > g.bits {
		next := binary.LittleEndian.Uint64(packed[8*word+8:]) >> lane & lowMask(g.bits)
		c |= next << (g.bits - off)
	}
	return c & lowMask(k)
}

// difference is the integer that a difference group adds to the base word b for
// code c: c less half its range. It reports whether the sum needs no wrap; a
// group where one does is coded by XOR, so that lanes never carry into each
// other.
func difference(b, c uint64, k, width uint) (sum uint64, ok bool) {
	v, borrow := bits.Sub64(b, 1<<(k-1), 0)
	v, carry := bits.Add64(v, c, 0)
	return v, borrow == carry && v&^lowMask(width) == 0
}

// entryWeight is what an exception entry counts when a group's width is chosen.
// It occupies 2 bytes; the third stands for the time that it takes to apply. On
// tables of a matrix product that halves the exceptions for 1.4 % more bytes.
const entryWeight = 3

// plan is how a group is coded.
type plan struct {
	k    uint
	diff bool
	cost int // bytes, with entries at entryWeight
}

// choose returns the cheapest coding of a group. Entries that only bridge a long
// gap are not foreseen here; the whole row is counted when it is built.
func (g geometry) choose(base, target []uint64) plan {
	n := len(base)
	var lens [65]int
	longest := uint(0)
	for i, b := range base {
		l := uint(bits.Len64(b ^ target[i]))
		lens[l]++
		longest = max(longest, l)
	}
	best := plan{k: longest, cost: 8 * g.words(n, longest)}
	for k := uint(0); k < longest; k++ {
		cost := 8 * g.words(n, k)
		for l := k + 1; l <= longest; l++ {
			cost += entryWeight * lens[l] * int((l-k+7)/8)
		}
		if cost < best.cost {
			best = plan{k: k, cost: cost}
		}
	}
	for k := uint(1); k < g.bits; k++ {
		cost := 8 * g.words(n, k)
		if cost >= best.cost {
			break
		}
		for i, b := range base {
			_, high, ok := splitDifference(b, target[i], k, g.bits)
			if !ok {
				cost = best.cost
				break
			}
			cost += entryWeight * ((bits.Len64(high) + 7) / 8)
		}
		if cost < best.cost {
			best = plan{k: k, diff: true, cost: cost}
		}
	}
	return best
}

// splitDifference returns the code of t against b in a difference group and the
// bits above the width that the sum still has wrong.
func splitDifference(b, t uint64, k, width uint) (code, high uint64, ok bool) {
	code = (t - b + 1<<(k-1)) & lowMask(k)
	sum, ok := difference(b, code, k, width)
	return code, (t ^ sum) >> k, ok
}

// appendRow appends the coding of one row; nothing when the rows are equal.
func (g geometry) appendRow(dst []byte, base, target []uint64) []byte {
	equal := true
	for i, b := range base {
		if b != target[i] {
			equal = false
			break
		}
	}
	if equal {
		return dst
	}
	heads := len(dst)
	groups := (len(base) + groupColumns - 1) / groupColumns
	dst = append(dst, make([]byte, groups)...)
	var entries []byte
	last := -1
	var codes [groupColumns]uint64
	for group := range groups {
		from := group * groupColumns
		to := min(from+groupColumns, len(base))
		p := g.choose(base[from:to], target[from:to])
		dst[heads+group] = byte(p.k)
		if p.diff {
			dst[heads+group] |= headDifference
		}
		for i := from; i < to; i++ {
			x := base[i] ^ target[i]
			code, high := x&lowMask(p.k), x>>p.k
			if p.diff {
				code, high, _ = splitDifference(base[i], target[i], p.k, g.bits)
			}
			codes[i-from] = code
			if high == 0 {
				continue
			}
			for ; i-last > 255; last += 255 {
				entries = append(entries, 255, 0)
			}
			gap := byte(i - last)
			last = i
			for ; high != 0; high >>= 8 {
				entries = append(entries, gap, byte(high))
				gap = 0
			}
		}
		dst = g.appendCodes(dst, codes[:to-from], p.k)
	}
	return append(dst, entries...)
}

// decodeRow writes base, changed as row says, to dst. Both are whole rows of
// width elements, and row has passed checkRow.
func (g geometry) decodeRow(dst, base, row []byte, width int) {
	if len(row) == 0 {
		copy(dst, base)
		return
	}
	groups := (width + groupColumns - 1) / groupColumns
	heads, rest := row[:groups], row[groups:]
	groupBytes := int(g.bits) * groupColumns / 8
	whole := width / groupColumns
	for group, head := range heads[:whole] {
		k, diff := uint(head&headWidth), head&headDifference != 0
		at := group * groupBytes
		g.decodeGroup(dst[at:at+groupBytes], base[at:at+groupBytes], rest[:8*k], k, diff)
		rest = rest[8*k:]
	}
	if whole < groups {
		k, diff := uint(heads[whole]&headWidth), heads[whole]&headDifference != 0
		size := 8 * g.words(width-whole*groupColumns, k)
		at := whole * groupBytes
		g.decodePart(dst[at:], base[at:], rest[:size], width-whole*groupColumns, k, diff)
		rest = rest[size:]
	}
	if g.bits == 32 {
		exceptions32(dst, heads, rest)
		return
	}
	column, shift := -1, uint(0)
	for ; len(rest) >= 2; rest = rest[2:] {
		if gap := int(rest[0]); gap != 0 {
			column += gap
			shift = uint(heads[column/groupColumns] & headWidth)
		} else {
			shift += 8
		}
		xorWord(dst, column, g.bits, uint64(rest[1])<<shift)
	}
}

// exceptions32 is the loop at the end of decodeRow for the width where it is
// long: BF16 and F16 tables have few exceptions.
func exceptions32(dst, heads, rest []byte) {
	at, shift := -4, uint(0)
	for ; len(rest) >= 2; rest = rest[2:] {
		if gap := int(rest[0]); gap != 0 {
			at += 4 * gap
			shift = uint(heads[at/(4*groupColumns)] & headWidth)
		} else {
			shift += 8
		}
		p := dst[at : at+4]
		binary.LittleEndian.PutUint32(p, binary.LittleEndian.Uint32(p)^uint32(rest[1])<<(shift&31))
	}
}

// decodeGroup decodes 64 columns.
func (g geometry) decodeGroup(dst, base, packed []byte, k uint, diff bool) {
	if k == 0 {
		copy(dst, base)
		return
	}
	done := false
	switch {
	case g.bits == 32 && diff:
		done = diff32((*[256]byte)(dst), (*[256]byte)(base), packed, k)
	case g.bits == 32:
		done = xor32((*[256]byte)(dst), (*[256]byte)(base), packed, k)
	case g.bits == 16 && diff:
		done = diff16((*[128]byte)(dst), (*[128]byte)(base), packed, k)
	case g.bits == 16:
		done = xor16((*[128]byte)(dst), (*[128]byte)(base), packed, k)
	}
	if !done {
		g.decodePart(dst, base, packed, groupColumns, k, diff)
	}
}

// decodePart decodes n columns of a group, for any n and k.
func (g geometry) decodePart(dst, base, packed []byte, n int, k uint, diff bool) {
	if k == 0 {
		copy(dst, base)
		return
	}
	whole := n / g.lanes * g.lanes
	g.unpack(dst[:whole*int(g.bits)/8], base, packed, k, diff)
	for i := whole; i < n; i++ {
		v, c := loadWord(base, i, g.bits), g.code(packed, i, k)
		if diff {
			v += c - 1<<(k-1)
		} else {
			v ^= c
		}
		storeWord(dst, i, g.bits, v)
	}
}

// unpack decodes a whole number of words, k ≥ 1.
func (g geometry) unpack(dst, base, packed []byte, k uint, diff bool) {
	ones := ^uint64(0) / lowMask(g.bits) // the lowest bit of every lane
	mask := ones * lowMask(k)
	var half uint64
	if diff {
		half = ones << (k - 1)
	}
	var word uint64
	left := uint(0) // bits of each lane of word that are still to be read
	for ; len(dst) >= 8 && len(base) >= 8; dst, base = dst[8:], base[8:] {
		var c uint64
		if left >= k {
			c = word >> ((g.bits - left) & 63) & mask
			left -= k
		} else { // the code runs on in the next word
			low := ones * lowMask(left)
			if left > 0 {
				c = word >> ((g.bits - left) & 63) & low
			}
			word = binary.LittleEndian.Uint64(packed)
			packed = packed[8:]
			c |= word << (left & 63) & (mask &^ low)
			left += g.bits - k
		}
		v := binary.LittleEndian.Uint64(base)
		if diff {
			v += c - half
		} else {
			v ^= c
		}
		binary.LittleEndian.PutUint64(dst, v)
	}
}

// rowFacts is what checkRow counts.
type rowFacts struct {
	exceptions, xor, diff int
}

// checkRow refuses a row that decodeRow could not decode, that would carry
// between lanes, or that has unused bits set.
func (g geometry) checkRow(base, row []byte, width int) (rowFacts, error) {
	var facts rowFacts
	if len(row) == 0 {
		return facts, nil
	}
	groups := (width + groupColumns - 1) / groupColumns
	if len(row) < groups {
		return facts, fmt.Errorf("%d bytes, its %d group heads alone need more", len(row), groups)
	}
	heads, rest := row[:groups], row[groups:]
	var codes [groupColumns]uint64
	var scratch []byte
	for group, head := range heads {
		k, diff := uint(head&headWidth), head&headDifference != 0
		if k > g.bits || diff && (k == 0 || k == g.bits) {
			return facts, fmt.Errorf("group %d: head %#02x has a code width that %d-bit elements do not have", group, head, g.bits)
		}
		from := group * groupColumns
		n := min(groupColumns, width-from)
		size := 8 * g.words(n, k)
		if len(rest) < size {
			return facts, fmt.Errorf("group %d: %d bytes left, its codes need %d", group, len(rest), size)
		}
		switch {
		case diff:
			facts.diff++
		case k > 0:
			facts.xor++
		}
		if k > 0 {
			for i := range n {
				codes[i] = g.code(rest, i, k)
				if !diff {
					continue
				}
				if _, ok := difference(loadWord(base, from+i, g.bits), codes[i], k, g.bits); !ok {
					return facts, fmt.Errorf("column %d: the difference leaves the %d-bit range", from+i, g.bits)
				}
			}
			if scratch = g.appendCodes(scratch[:0], codes[:n], k); string(scratch) != string(rest[:size]) {
				return facts, fmt.Errorf("group %d: unused bits are set", group)
			}
		}
		rest = rest[size:]
	}
	if len(rest)%2 != 0 {
		return facts, fmt.Errorf("%d bytes of exceptions are not whole pairs", len(rest))
	}
	column, shift := -1, uint(0)
	for ; len(rest) > 0; rest = rest[2:] {
		gap, value := int(rest[0]), uint64(rest[1])
		switch {
		case gap != 0:
			column += gap
			if column >= width {
				return facts, fmt.Errorf("exception in column %d of %d", column, width)
			}
			shift = uint(heads[column/groupColumns] & headWidth)
			if value != 0 || len(rest) > 2 && rest[2] == 0 {
				facts.exceptions++
			}
		case column < 0:
			return facts, fmt.Errorf("the first exception continues none")
		default:
			shift += 8
		}
		// An empty entry only bridges a gap or comes below a byte that is not empty.
		if value == 0 && (len(rest) == 2 || rest[2] != 0 && gap != 255) {
			return facts, fmt.Errorf("the exception in column %d has an empty entry without need", column)
		}
		if uint(bits.Len64(value))+shift > g.bits && value != 0 {
			return facts, fmt.Errorf("exception in column %d is wider than %d bits", column, g.bits)
		}
	}
	return facts, nil
}

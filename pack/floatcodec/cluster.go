package floatcodec

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// costUnit is the fraction of a bit in which training counts.
const costUnit = 16

// maxCost caps the cost of one symbol so that a block's total fits 16 bits.
const maxCost = 255

// shannonCosts returns -log2 of each symbol's share, in 1/costUnit bits. It uses
// integers alone: floating point may differ between architectures.
func shannonCosts(counts *[256]uint32) (costs [256]uint16) {
	total := uint64(0)
	for _, c := range counts {
		total += uint64(c)
	}
	lt := log2(max(total, 1))
	for s, c := range counts {
		costs[s] = maxCost
		if c > 0 {
			costs[s] = uint16(min(maxCost, lt-log2(uint64(c))))
		}
	}
	return costs
}

// log2 returns the logarithm of x > 0 in 1/costUnit bits, rounded.
func log2(x uint64) int {
	whole := bits.Len64(x) - 1
	y := x << (63 - whole) >> 32 // 31 bits after the leading one
	frac := 0
	for f := costUnit; f > 0; f /= 2 { // down to half a unit
		y = y * y >> 31
		if y>>32 != 0 {
			y >>= 1
			frac += f
		}
	}
	return (whole*2*costUnit + frac + 1) / 2
}

// symbolCount is one entry of a block's histogram.
type symbolCount struct {
	sym   uint8
	count uint16
}

// blockStats is what clustering needs to know of one sampled block.
type blockStats struct {
	hist []symbolCount
	mean int // of the symbols, scaled
	n    int
}

// newBlockStats appends the block's histogram to arena, which saves allocations.
func newBlockStats(sym []byte, arena *[]symbolCount) blockStats {
	if haveWideKernels && len(sym) == blockLen {
		a := slices.Grow(*arena, 256)
		start := len(a)
		k, sum := countBlock(&sym[0], &a[:start+256][start])
		*arena = a[:start+k]
		return blockStats{n: blockLen, mean: sum * 1024 / blockLen, hist: a[start : start+k : start+k]}
	}
	// Four tables, so that equal neighbours need not wait for each other; a block
	// is short enough for bytes, of which eight are looked at at once.
	var counts [4][256]uint8
	n := len(sym)
	sum := 0
	b := sym
	for len(b) >= 4 {
		counts[0][b[0]]++
		counts[1][b[1]]++
		counts[2][b[2]]++
		counts[3][b[3]]++
		b = b[4:]
	}
	for i, s := range b {
		counts[i][s]++
	}
	start := len(*arena)
	for at := 0; at < 256; at += 8 {
		if binary.LittleEndian.Uint64(counts[0][at:])|binary.LittleEndian.Uint64(counts[1][at:])|
			binary.LittleEndian.Uint64(counts[2][at:])|binary.LittleEndian.Uint64(counts[3][at:]) == 0 {
			continue
		}
		for s := at; s < at+8; s++ {
			c := uint16(counts[0][s]) + uint16(counts[1][s]) + uint16(counts[2][s]) + uint16(counts[3][s])
			if c > 0 {
				*arena = append(*arena, symbolCount{uint8(s), c})
				sum += s * int(c)
			}
		}
	}
	// What the arena held before it moved stays as it is.
	return blockStats{n: n, mean: sum * 1024 / n, hist: (*arena)[start:len(*arena):len(*arena)]}
}

// cluster divides blocks into groups that share a table and returns each
// group's counts. Weights differ mostly in scale from block to block, so groups
// start as ranges of the mean symbol; rounds then move blocks to the
// table that codes them best, in whole bits in the second if huffman is set.
// Meanwhile it fetches memory that is needed soon.
func cluster(blocks []blockStats, tables int, huffman bool, ahead []byte) [][256]uint32 {
	counts := make([][256]uint32, tables)
	if tables == 1 {
		for i := range blocks {
			addBlock(&counts[0], &blocks[i])
		}
		return counts
	}
	order := make([]uint64, len(blocks)) // mean and index in one word sort fast
	for i := range order {
		order[i] = uint64(blocks[i].mean)<<32 | uint64(i)
	}
	slices.Sort(order)
	for rank, o := range order {
		addBlock(&counts[rank*tables/len(order)], &blocks[uint32(o)])
	}
	next, by := make([][256]uint32, tables), make([][256]uint16, tables)
	rounds := 3
	if huffman {
		rounds = 2 // a third would save one byte in ten thousand
	}
	for round := range rounds {
		for i := range counts {
			if huffman && round >= 1 && counts[i] != [256]uint32{} {
				lens := roughLens(&counts[i])
				by[i] = lens.costs()
			} else {
				by[i] = shannonCosts(&counts[i])
			}
		}
		costs := packCosts(by)
		clear(next)
		for i := range blocks {
			k := min(len(ahead), 128)
			fetch(ahead[:k])
			ahead = ahead[k:]
			if haveKernels && len(blocks[i].hist) > 0 {
				assignBlock(costs, &blocks[i].hist[0], len(blocks[i].hist), &next[0])
				continue
			}
			t, _ := costs.best(&blocks[i], tables)
			addBlock(&next[t], &blocks[i])
		}
		counts, next = next, counts
	}
	return slices.DeleteFunc(counts, func(c [256]uint32) bool { return c == [256]uint32{} })
}

func addBlock(counts *[256]uint32, b *blockStats) {
	for _, h := range b.hist {
		counts[h.sym] += uint32(h.count)
	}
}

// packedCosts holds the costs of a symbol in up to eight tables, in lanes of 16
// bits of two words. Lanes without a table hold the most there is.
type packedCosts [256][2]uint64

func packCosts(tables [][256]uint16) *packedCosts {
	var p packedCosts
	for s := range p {
		p[s] = [2]uint64{maxCost * lanes16, maxCost * lanes16}
	}
	for t := range tables {
		for s, c := range tables[t] {
			p[s][t>>2] ^= uint64(c^maxCost) << (16 * (t & 3))
		}
	}
	return &p
}

// best returns the table that codes the block for the least cost.
func (p *packedCosts) best(b *blockStats, tables int) (table int, cost uint64) {
	var lo, hi uint64
	for _, h := range b.hist {
		lo += p[h.sym][0] * uint64(h.count)
		hi += p[h.sym][1] * uint64(h.count)
	}
	cost = 1 << 62
	for t := range tables {
		c := lo
		if t >= 4 {
			c = hi
		}
		if c = c >> (16 * (t & 3)) & 0xffff; c < cost {
			table, cost = t, c
		}
	}
	return table, cost
}

func newHuffman(counts [][256]uint32, stride int) *coder {
	c := &coder{stride: stride}
	for i := range counts {
		c.huff = append(c.huff, prunedLens(counts[i]))
	}
	return c
}

// exceptionCost is about what an exception costs in bits.
const exceptionCost = 26

// prunedLens is huffmanLens, but leaves rare symbols to exceptions where that
// costs less: in a code of few symbols, a rare one makes all others longer.
func prunedLens(counts [256]uint32) codeLens {
	lens := huffmanLens(&counts)
	for {
		rare, present, cost := -1, 0, uint64(0)
		for s, c := range counts {
			if c > 0 {
				present++
				cost += uint64(c) * uint64(lens[s])
				if rare < 0 || c < counts[rare] {
					rare = s
				}
			}
		}
		if present < 2 || present > 8 {
			return lens
		}
		fewer := counts
		fewer[rare] = 0
		next := huffmanLens(&fewer)
		pruned := uint64(counts[rare]) * exceptionCost
		for s, c := range fewer {
			if c > 0 {
				pruned += uint64(c) * uint64(next[s])
			}
		}
		if pruned >= cost {
			return lens
		}
		counts, lens = fewer, next
	}
}

// costs returns what each symbol costs in each table, in 1/costUnit bits.
func (c *coder) costs() [][256]uint16 {
	out := make([][256]uint16, 0, maxTables)
	for i := range c.huff {
		out = append(out, c.huff[i].costs())
	}
	for i := range c.rans {
		var counts [256]uint32
		for s, f := range c.rans[i] {
			counts[s] = uint32(f)
		}
		out = append(out, shannonCosts(&counts))
	}
	return out
}

func (c *codeLens) costs() (costs [256]uint16) {
	for s, l := range c {
		costs[s] = maxCost
		if l != absent {
			costs[s] = uint16(l) * costUnit
		}
	}
	return costs
}

// expect estimates the cost of total symbols, the tables and the choice between
// them, from the sample, in 1/costUnit bits.
func (c *coder) expect(blocks []blockStats, sampled int, total int64) uint64 {
	costs := packCosts(c.costs())
	sum := uint64(0)
	for i := range blocks {
		_, cost := costs.best(&blocks[i], len(c.huff)+len(c.rans))
		sum += cost
	}
	return c.expectSum(sum, sampled, total)
}

// expectCounts is expect for blocks that use the tables made from their counts,
// which is quicker and hardly more than the least.
func (c *coder) expectCounts(counts [][256]uint32, sampled int, total int64) uint64 {
	sum := uint64(0)
	for t := range c.huff {
		for s, l := range c.huff[t] {
			cost := uint64(maxCost)
			if l != absent {
				cost = uint64(l) * costUnit
			}
			sum += cost * uint64(counts[t][s])
		}
	}
	return c.expectSum(sum, sampled, total)
}

// expectSum is expect where the sampled symbols cost sum.
func (c *coder) expectSum(sum uint64, sampled int, total int64) uint64 {
	fixed := len(c.append(nil))
	chunks := int(total>>chunkLog) + 1
	if c.rans != nil {
		fixed += chunks * c.lanes * 4
	} else {
		fixed += chunks * 3 * (maxStreams - 1)
	}
	choice := uint64(total) / blockLen * uint64(selectorBits(len(c.huff)+len(c.rans)))
	return scale(sum, uint64(total), uint64(sampled)) + (uint64(fixed)*8+choice)*costUnit
}

// scale returns x*num/den, which must fit 64 bits.
func scale(x, num, den uint64) uint64 {
	hi, lo := bits.Mul64(x, num)
	q, _ := bits.Div64(hi, lo, den)
	return q
}

// filler returns a symbol that costs little in every table.
func (c *coder) filler() byte {
	if c.rans != nil {
		return c.ransEncoder().filler
	}
	return c.encoder().filler
}

package floatcodec

import "slices"

// leaf is a symbol in the low byte, with its count above: leaves sort by count.
type leaf uint64

func (l leaf) weight() uint64 { return uint64(l >> 8) }
func (l leaf) sym() uint8     { return uint8(l) }

// huffmanLens returns the lengths of an optimal code with at most maxCodeLen
// bits for the symbols with a count above zero. There must be at least one such
// symbol.
func huffmanLens(counts *[256]uint32) (lens codeLens) {
	return limitedLens(counts, true)
}

// roughLens is huffmanLens in less time, and not always optimal or complete where
// the limit binds: good enough for an estimate.
func roughLens(counts *[256]uint32) (lens codeLens) {
	return limitedLens(counts, false)
}

func limitedLens(counts *[256]uint32, optimal bool) (lens codeLens) {
	for i := range lens {
		lens[i] = absent
	}
	var buf [256]leaf
	leaves := buf[:0]
	for s, c := range counts {
		if c > 0 {
			leaves = append(leaves, leaf(c)<<8|leaf(s))
		}
	}
	if len(leaves) == 1 {
		lens[leaves[0].sym()] = 0
		return lens
	}
	slices.Sort(leaves) // ties by symbol: the result is unique
	if !plainHuffman(leaves, &lens) {
		if optimal {
			packageMerge(leaves, &lens)
		} else {
			clampLens(leaves, &lens)
		}
	}
	return lens
}

// plainHuffman sets the lengths of an optimal code for two or more leaves in
// ascending order and reports whether none is above maxCodeLen. Sums arise in
// ascending order, so two queues do, and lengths never grow from a leaf to the
// next.
func plainHuffman(leaves []leaf, lens *codeLens) bool {
	n := len(leaves)
	var weight [256]uint64 // of the sums
	var parent [512]uint16 // of leaves, then of sums, as an index of the sums
	leaf, sum := 0, 0
	for made := range n - 1 {
		for range 2 {
			if leaf < n && (sum == made || leaves[leaf].weight() <= weight[sum]) {
				weight[made] += leaves[leaf].weight()
				parent[leaf] = uint16(made)
				leaf++
			} else {
				weight[made] += weight[sum]
				parent[256+sum] = uint16(made)
				sum++
			}
		}
	}
	var depth [256]uint8 // of the sums; the last is the root
	for i := n - 3; i >= 0; i-- {
		depth[i] = depth[parent[256+i]] + 1
	}
	for i, l := range leaves {
		lens[l.sym()] = depth[parent[i]] + 1
	}
	return lens[leaves[0].sym()] <= maxCodeLen
}

// clampLens cuts the lengths of an optimal code to maxCodeLen, and lengthens the
// codes of the rarest symbols that have room until there is space for all.
func clampLens(leaves []leaf, lens *codeLens) {
	space := 1 << maxCodeLen
	for _, l := range leaves {
		n := &lens[l.sym()]
		*n = min(*n, maxCodeLen)
		space -= 1 << (maxCodeLen - *n)
	}
	for _, l := range leaves {
		for n := &lens[l.sym()]; space < 0 && *n < maxCodeLen; *n++ {
			space += 1 << (maxCodeLen - 1 - *n)
		}
	}
}

// packageMerge sets the lengths of an optimal code of limited length for two or
// more leaves in ascending order (Larmore and Hirschberg, 1990).
func packageMerge(leaves []leaf, lens *codeLens) {
	for _, l := range leaves {
		lens[l.sym()] = 0
	}
	// Each level's list merges the leaves with pairs of the level below. Only
	// which items are leaves matters afterwards. Which comes next is
	// unpredictable, so nothing branches on it; ends are marked by the most there is.
	n := len(leaves)
	var isLeaf [maxCodeLen][512]uint8
	var weights, pairs [257]uint64
	var list [512]uint64
	for i, l := range leaves {
		weights[i] = l.weight()
	}
	weights[n] = 1<<64 - 1
	pairs[0] = 1<<64 - 1
	items := 0
	for level := range maxCodeLen {
		items = n + items/2
		i, j := 0, 0
		for k := range list[:items] {
			leaf, pair := weights[i], pairs[j]
			take := 0
			if leaf <= pair {
				take = 1
			}
			isLeaf[level][k] = uint8(take)
			list[k] = min(leaf, pair)
			i += take
			j += 1 - take
		}
		for j := range items / 2 {
			pairs[j] = list[2*j] + list[2*j+1]
		}
		pairs[items/2] = 1<<64 - 1
	}
	take := 2*n - 2
	for level := maxCodeLen - 1; level >= 0 && take > 0; level-- {
		n := 0
		for _, leaf := range isLeaf[level][:take] {
			n += int(leaf)
		}
		for _, l := range leaves[:n] {
			lens[l.sym()]++
		}
		take = 2 * (take - n)
	}
}

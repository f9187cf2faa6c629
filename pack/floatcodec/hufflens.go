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
		for _, l := range leaves {
			lens[l.sym()] = 0
		}
		packageMerge(leaves, &lens)
	}
	return lens
}

// plainHuffman sets the lengths of an optimal code for two or more leaves in
// ascending order and reports whether none is above maxCodeLen. Sums arise in
// ascending order, so two queues do.
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
		d := depth[parent[i]] + 1
		if d > maxCodeLen {
			return false
		}
		lens[l.sym()] = d
	}
	return true
}

// packageMerge adds up the lengths of an optimal code of limited length for two or
// more leaves in ascending order (Larmore and Hirschberg, 1990).
func packageMerge(leaves []leaf, lens *codeLens) {
	// Each level's list merges the leaves with pairs of the level below. Only
	// which items are leaves matters afterwards.
	var isLeaf [maxCodeLen][]bool
	var prev []uint64
	flags := make([]bool, 0, maxCodeLen*2*len(leaves))
	var buffers [2][]uint64 // take turns
	for i := range buffers {
		buffers[i] = make([]uint64, 0, 2*len(leaves))
	}
	for level := range maxCodeLen {
		pairs := len(prev) / 2
		cur := buffers[level%2]
		start := len(flags)
		i, j := 0, 0
		for i < len(leaves) || j < pairs {
			if j < pairs && (i == len(leaves) || prev[2*j]+prev[2*j+1] < leaves[i].weight()) {
				cur = append(cur, prev[2*j]+prev[2*j+1])
				flags = append(flags, false)
				j++
			} else {
				cur = append(cur, leaves[i].weight())
				flags = append(flags, true)
				i++
			}
		}
		isLeaf[level] = flags[start:]
		prev = cur
	}
	take := 2*len(leaves) - 2
	for level := maxCodeLen - 1; level >= 0 && take > 0; level-- {
		n := 0
		for _, leaf := range isLeaf[level][:take] {
			if leaf {
				n++
			}
		}
		for _, l := range leaves[:n] {
			lens[l.sym()]++
		}
		take = 2 * (take - n)
	}
}

package xet

import (
	"encoding/binary"
	"strconv"
)

// The shape of the tree: a group is closed by a child whose hash is a multiple
// of branching, from the third child on, and has at most maxChildren.
const (
	branching   = 4
	minChildren = 3
	maxChildren = 9
)

// Tree folds the chunk hashes of a xorb or of a file, given in order, into
// one. It keeps at most nine nodes for each level, so its size grows with the
// logarithm of the number of chunks. The zero value is ready for use.
//
// A group ends where its own content says so, and that is known when the
// closing child arrives. What a level still holds at the end is always one
// group. That is why nothing must be kept for a second look.
type Tree struct {
	levels []level
	count  int64
	size   uint64
}

type level struct {
	open   []node // the group that is not closed yet
	closed bool   // at least one group was closed before
}

// node is a hash and the number of content bytes under it.
type node struct {
	hash Hash
	size uint64
}

// Add appends a chunk of the given uncompressed size in bytes.
func (t *Tree) Add(h Hash, size uint64) {
	t.count++
	t.size += size
	t.add(0, node{h, size})
}

// Size is the number of content bytes added.
func (t *Tree) Size() uint64 { return t.size }

func (t *Tree) add(i int, n node) {
	for {
		if i == len(t.levels) {
			t.levels = append(t.levels, level{})
		}
		l := &t.levels[i]
		l.open = append(l.open, n)
		k := len(l.open)
		if k < maxChildren && (k < minChildren || binary.LittleEndian.Uint64(n.hash[24:])%branching != 0) {
			return
		}
		n = l.close()
		i++
	}
}

func (l *level) close() node {
	n := merge(l.open)
	l.open, l.closed = l.open[:0], true
	return n
}

// merge hashes a group: one line "hash : size" for each child.
func merge(children []node) (sum node) {
	text := make([]byte, 0, maxChildren*(2*HashSize+24))
	for _, c := range children {
		text = c.hash.appendText(text)
		text = append(text, " : "...)
		text = strconv.AppendUint(text, c.size, 10)
		text = append(text, '\n')
		sum.size += c.size
	}
	sum.hash = keyedSum(newKeyed(&nodeKey), text)
	return sum
}

// XorbHash is the root over the chunks added so far: the hash of a xorb of
// these chunks. Without chunks it is zero. More chunks may be added after it.
func (t *Tree) XorbHash() Hash {
	c := Tree{levels: make([]level, len(t.levels))}
	for i, l := range t.levels {
		c.levels[i] = level{open: append([]node(nil), l.open...), closed: l.closed}
	}
	for i := 0; i < len(c.levels); i++ {
		l := &c.levels[i]
		switch {
		case len(l.open) == 1 && !l.closed:
			return l.open[0].hash // alone on its level: the root
		case len(l.open) > 0:
			c.add(i+1, l.close())
		}
	}
	return Hash{}
}

// FileHash is the Xet hash of a file of the chunks added so far. That of the
// empty file is zero.
func (t *Tree) FileHash() Hash {
	if t.count == 0 {
		return Hash{}
	}
	root := t.XorbHash()
	return keyedSum(newKeyed(&zeroKey), root[:])
}

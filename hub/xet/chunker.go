package xet

import (
	"errors"
	"io"
)

// Sizes of chunks in bytes. Only the last chunk of a file may be shorter than
// MinChunk.
const (
	MinChunk = 8 << 10
	MaxChunk = 128 << 10
)

const (
	gearMask   = 0xffff << 48
	gearWindow = 64 // bytes that a gear hash remembers: one for each bit
)

// Chunker cuts a stream into content-defined chunks: the same content gives
// the same chunks for every client. It is not safe for concurrent use.
type Chunker struct {
	r          io.Reader
	buf        []byte
	start, end int
	err        error
}

// NewChunker reads r to its end in steps of up to 1 MiB.
func NewChunker(r io.Reader) *Chunker {
	return &Chunker{r: r, buf: make([]byte, 1<<20)}
}

// Next returns the next chunk, valid until the next call, and io.EOF after
// the last one.
func (c *Chunker) Next() ([]byte, error) {
	if c.end-c.start < MaxChunk && c.err == nil {
		copy(c.buf, c.buf[c.start:c.end])
		c.start, c.end = 0, c.end-c.start
		for c.end < len(c.buf) && c.err == nil {
			var n int
			n, c.err = c.r.Read(c.buf[c.end:])
			c.end += n
		}
	}
	if c.err != nil && !errors.Is(c.err, io.EOF) {
		return nil, c.err
	}
	if c.start == c.end {
		return nil, io.EOF
	}
	n := cut(c.buf[c.start:c.end])
	c.start += n
	return c.buf[c.start-n : c.start], nil
}

// cut is the length of the first chunk of data, which holds MaxChunk bytes or
// all that is left.
func cut(data []byte) int {
	if len(data) <= MinChunk {
		return len(data)
	}
	data = data[:min(len(data), MaxChunk)]
	// What lies more than a window before the first place where a cut is
	// allowed has left the hash by then.
	var h uint64
	for _, b := range data[MinChunk-gearWindow : MinChunk-1] {
		h = h<<1 + gear[b]
	}
	for i, b := range data[MinChunk-1:] {
		h = h<<1 + gear[b]
		if h&gearMask == 0 {
			return MinChunk + i
		}
	}
	return len(data)
}

// HashFile computes the Xet hash and the size in bytes of everything r gives,
// by cutting it into chunks. Memory does not depend on the size.
//
// An equal hash proves the content. Another one does not disprove it: older
// uploaders could cut up to 64 bytes before [MinChunk], and a file keeps the
// hash of the chunks that it was uploaded with. [Client.Fetch] hashes the
// chunks that the store has and is not concerned.
func HashFile(r io.Reader) (h Hash, size int64, err error) {
	var tree Tree
	hasher := newKeyed(&dataKey)
	for c := NewChunker(r); ; {
		chunk, err := c.Next()
		if errors.Is(err, io.EOF) {
			return tree.FileHash(), int64(tree.Size()), nil
		}
		if err != nil {
			return Hash{}, 0, err
		}
		tree.Add(keyedSum(hasher, chunk), uint64(len(chunk)))
	}
}

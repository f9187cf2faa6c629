package archive

import "sync"

// chunkReader reads the chunks of a segment. It keeps some of those that are read
// for a model, since they will be encoded soon.
type chunkReader struct {
	source
	size  int // of every chunk but the last
	room  int // bytes that may still be kept
	kept  map[int]*[]byte
	spare []byte
}

// keptBytes bounds the chunks that are kept of one segment.
const keptBytes = 2 << 20

// readBuffers holds buffers for chunks.
var readBuffers = sync.Pool{New: func() any { return new([]byte) }}

// chunk returns chunk i. Unless it is kept, it is valid until the next call.
func (r *chunkReader) chunk(i int) ([]byte, error) {
	if b, ok := r.at(i); ok {
		return b, nil
	}
	n := r.sizeOf(i)
	if r.room < n {
		r.spare = resize(r.spare, n)
		return r.spare, r.readAt(r.spare, int64(i)*int64(r.size))
	}
	r.room -= n
	b := readBuffers.Get().(*[]byte)
	*b = resize(*b, n)
	if err := r.readAt(*b, int64(i)*int64(r.size)); err != nil {
		return nil, err
	}
	if r.kept == nil {
		r.kept = map[int]*[]byte{}
	}
	r.kept[i] = b
	return *b, nil
}

// at returns chunk i if it is in memory.
func (r *chunkReader) at(i int) ([]byte, bool) {
	if r.mem != nil {
		return r.mem[int64(i)*int64(r.size):][:r.sizeOf(i)], true
	}
	if b := r.kept[i]; b != nil {
		return *b, true
	}
	return nil, false
}

func (r *chunkReader) sizeOf(i int) int {
	return int(min(int64(r.size), r.source.size-int64(i)*int64(r.size)))
}

// release gives up what is kept.
func (c *choice) release() {
	for _, b := range c.kept {
		readBuffers.Put(b)
	}
	c.kept = nil
}

// take exchanges raw for chunk i, if that is kept.
func (c *choice) take(i int, raw []byte) ([]byte, bool) {
	b := c.kept[i]
	if b == nil {
		return raw, false
	}
	delete(c.kept, i)
	chunk := *b
	*b = raw
	readBuffers.Put(b)
	return chunk, true
}

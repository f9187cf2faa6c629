package archive

import (
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/hfcompress/compress/pack/floatcodec"
)

// tableCache keeps the tables of the streams used last. Tables of thousands of
// tensors would take more memory than their tensors' chunks.
type tableCache struct {
	mu     sync.Mutex
	tables map[int]*table
	order  []int // from the one read first
}

const cachedTables = 32

// table returns that of stream i, a head.
func (r *Reader) table(i int) (*table, error) {
	c := &r.tables
	c.mu.Lock()
	t := c.tables[i]
	c.mu.Unlock()
	if t != nil {
		return t, nil
	}
	s := &r.x.streams[i]
	b := make([]byte, s.table)
	if err := r.readAt(b, s.offset+s.data); err != nil {
		return nil, err
	}
	t, err := parseTable(b, s)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tables == nil {
		c.tables = make(map[int]*table, cachedTables)
	}
	if other := c.tables[i]; other != nil {
		return other, nil // somebody else was faster
	}
	if len(c.order) == cachedTables {
		delete(c.tables, c.order[0])
		c.order = append(c.order[:0], c.order[1:]...)
	}
	c.tables[i] = t
	c.order = append(c.order, i)
	return t, nil
}

// resolve follows a stream that is one of the base, or joined to others, to
// where it is stored: stream head of the reader it returns, from byte start.
func (r *Reader) resolve(i int) (owner *Reader, head int, start int64, err error) {
	for r.x.streams[i].kind == kindCopy {
		if r.base == nil {
			return nil, 0, 0, r.noBase()
		}
		r, i = r.base, r.x.streams[i].base
	}
	s := &r.x.streams[i]
	return r, s.head, s.start, nil
}

// probe reads a stream's table, and with it makes sure that what is stored could
// decode to what is declared.
func (r *Reader) probe(i int) error {
	r, i, _, err := r.resolve(i)
	if err != nil {
		return err
	}
	_, err = r.table(i)
	return err
}

func (r *Reader) noBase() error {
	return fmt.Errorf("%w: it is stored as differences from the archive %v", ErrBase, r.x.base)
}

// runBytes is how much is read from the archive at once: enough that requests
// to a server pay.
const runBytes = 1 << 20

var encBuffers = sync.Pool{New: func() any { return new([]byte) }}

// readStream fills dst from byte off of a stream. The caller has checked that the
// stream is that long.
func (r *Reader) readStream(i int, off int64, dst []byte, workers int) error {
	if len(dst) == 0 {
		return nil
	}
	r, i, start, err := r.resolve(i)
	if err != nil {
		return err
	}
	off += start
	s := &r.x.streams[i]
	if s.needsBase() && r.base == nil {
		return r.noBase()
	}
	t, err := r.table(i)
	if err != nil {
		return err
	}
	if s.total > s.size && int64(len(dst)) < min(int64(t.chunk), s.total) {
		return r.readJoined(i, t, off, dst)
	}
	first := int(off / int64(t.chunk))
	last := int((off + int64(len(dst)) - 1) / int64(t.chunk))
	var g errgroup.Group
	g.SetLimit(max(workers, 1))
	for first <= last {
		end := first + 1
		for end <= last && t.starts[end+1]-t.starts[first] <= runBytes && int64(end+1-first)*int64(t.chunk) <= 2*runBytes {
			end++
		}
		from, to := first, end
		first = end
		if from == int(off/int64(t.chunk)) && end > last { // a single run
			return r.readRun(s, t, from, to, off, dst)
		}
		g.Go(func() error { return r.readRun(s, t, from, to, off, dst) })
	}
	return g.Wait()
}

// readRun decodes the chunks from first up to end into dst, which begins at byte
// off of the stream.
func (r *Reader) readRun(s *stream, t *table, first, end int, off int64, dst []byte) error {
	buf := encBuffers.Get().(*[]byte)
	defer encBuffers.Put(buf)
	n := int(t.starts[end] - t.starts[first])
	if cap(*buf) < n {
		*buf = make([]byte, n)
	}
	enc := (*buf)[:n]
	if err := r.readAt(enc, s.offset+t.starts[first]); err != nil {
		return err
	}
	for i := first; i < end; i++ {
		at := int64(i)*int64(t.chunk) - off // of the chunk in dst
		size := t.chunkSize(i)
		part := enc[t.starts[i]-t.starts[first] : t.starts[i+1]-t.starts[first]]
		if at >= 0 && at+int64(size) <= int64(len(dst)) {
			if err := r.decodeChunk(s, t, i, part, dst[at:at+int64(size)]); err != nil {
				return fmt.Errorf("chunk %d: %w", i, err)
			}
			continue
		}
		whole := make([]byte, size)
		if err := r.decodeChunk(s, t, i, part, whole); err != nil {
			return fmt.Errorf("chunk %d: %w", i, err)
		}
		if at < 0 {
			copy(dst, whole[-at:])
		} else {
			copy(dst[at:], whole)
		}
	}
	return nil
}

func (r *Reader) decodeChunk(s *stream, t *table, i int, enc, dst []byte) error {
	switch t.kind {
	case kindBytes:
		return decodeBytesChunk(dst, i, enc)
	case kindFloat:
		return codecError(t.model.DecodeChunk(dst, i, enc))
	}
	base := make([]byte, len(dst))
	if err := r.base.readStream(s.base, int64(i)*int64(t.chunk), base, 1); err != nil {
		return fmt.Errorf("base archive: %w", err)
	}
	t.delta.prepare(base, int64(i)*floatcodec.ChunkElements)
	return t.delta.decodeChunk(dst, i, enc, base)
}

// chunkCache keeps the chunks of joined streams that were decoded last: their
// neighbours are likely to be read next.
type chunkCache struct {
	mu     sync.Mutex
	chunks map[chunkID]*keptChunk
	order  []chunkID // from the one read first
}

type chunkID struct{ stream, chunk int }

type keptChunk struct {
	once sync.Once
	raw  []byte
	err  error
}

const cachedChunks = 8

func (c *chunkCache) get(id chunkID) *keptChunk {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.chunks[id]; k != nil {
		return k
	}
	if c.chunks == nil {
		c.chunks = make(map[chunkID]*keptChunk, cachedChunks)
	}
	if len(c.order) == cachedChunks {
		delete(c.chunks, c.order[0])
		c.order = append(c.order[:0], c.order[1:]...)
	}
	k := &keptChunk{}
	c.chunks[id] = k
	c.order = append(c.order, id)
	return k
}

// readJoined fills dst from byte off of the chunks of stream i, which it keeps.
func (r *Reader) readJoined(i int, t *table, off int64, dst []byte) error {
	for len(dst) > 0 {
		c := int(off / int64(t.chunk))
		start := int64(c) * int64(t.chunk)
		k := r.chunks.get(chunkID{i, c})
		k.once.Do(func() {
			raw := make([]byte, t.chunkSize(c))
			if k.err = r.readRun(&r.x.streams[i], t, c, c+1, start, raw); k.err == nil {
				k.raw = raw
			}
		})
		if k.err != nil {
			return k.err
		}
		n := copy(dst, k.raw[off-start:])
		dst, off = dst[n:], off+int64(n)
	}
	return nil
}

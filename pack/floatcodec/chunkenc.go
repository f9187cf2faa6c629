package floatcodec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
)

// Kinds of chunk: the byte after its checksum.
const (
	chunkRaw      = iota // the bytes as they are
	chunkConstant        // one element, repeated
	chunkShuffled        // a zstd frame of all first bytes, all second bytes, …
	chunkSplit           // streams of all elements
	chunkSparse          // a bitmap of one frequent element, streams of the others
)

// Methods of a stream.
const (
	streamRaw      = iota // bytes as they are; fields packed
	streamConstant        // one byte, repeated
	streamHuffman         // the model's Huffman tables, symbols in runs by table
	streamZstd            // a zstd frame, one byte per element
	streamRANS            // the model's rANS tables
)

// chunkHeader is the size of the checksum and the kind.
const chunkHeader = 5

// exception is an element whose symbol the symbol stream does not hold.
type exception struct {
	index int // in the streams
	sym   int // relative to the window, modulo the number of symbols
}

// scratch is the working memory of one chunk.
type scratch struct {
	sym    []byte
	low    [8][]byte
	lows   [][]byte
	packed []byte
	elems  []byte // compacted elements of a sparse chunk
	mask   []byte
	alt    []byte
	exc    []exception
	runs   runReader
	first  int64  // the chunk's first element in the tensor
	tables []byte // the rANS table of each symbol
	ahead  prefetch

	touched byte // of no meaning: what touch read
}

var scratchPool = sync.Pool{New: func() any { return new(scratch) }}

// streams returns buffers for the streams of n elements.
func (s *scratch) streams(l layout, n int) (sym []byte, low [][]byte) {
	s.sym = resize(s.sym, n)
	s.lows = s.lows[:0]
	for i := range l.lowStreams() {
		s.low[i] = resize(s.low[i], n)
		s.lows = append(s.lows, s.low[i])
	}
	return s.sym, s.lows
}

func resize(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// AppendChunk encodes raw, the bytes of chunk i, and appends the result to dst.
// It panics if raw does not have [Model.ChunkSize] bytes. It is safe for
// concurrent use and never takes more than five bytes beyond len(raw).
func (m *Model) AppendChunk(dst []byte, i int, raw []byte) []byte {
	return m.appendChunk(dst, i, raw, prefetch{})
}

// appendChunk is AppendChunk that fetches other memory meanwhile.
func (m *Model) appendChunk(dst []byte, i int, raw []byte, ahead prefetch) []byte {
	if i < 0 || i >= m.Chunks() || len(raw) != m.ChunkSize(i) {
		panic(fmt.Sprintf("floatcodec: chunk %d with %d bytes does not belong to this model", i, len(raw)))
	}
	s := scratchPool.Get().(*scratch)
	defer scratchPool.Put(s)
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	// Two thirds is what weights take.
	room := newPrefetch(nil, dst[len(dst):cap(dst)][:min(cap(dst)-len(dst), len(raw)*2/3)])
	ahead.out, ahead.outEnd = room.out, room.outEnd
	s.first = int64(i) << m.chunkLog
	s.ahead = ahead
	dst = m.appendBody(dst, raw, s)
	if len(dst)-start > chunkHeader+len(raw) {
		dst = append(dst[:start+4], chunkRaw)
		dst = append(dst, raw...)
	}
	binary.LittleEndian.PutUint32(dst[start:], m.chunkSum(i, len(raw), dst[start+4:]))
	return dst
}

func (m *Model) appendBody(dst, raw []byte, s *scratch) []byte {
	w := m.layout.width
	n := len(raw) / w
	elems, tail := raw[:n*w], raw[n*w:]
	if n > 0 && isConstant(elems, w) {
		dst = append(dst, chunkConstant)
		dst = append(dst, elems[:w]...)
		return append(dst, tail...)
	}
	start := len(dst)
	zeros, repeats := probe(elems, w)
	if m.sparsePays(n, zeros) {
		dst = m.appendSparse(dst, elems, s)
	} else {
		dst = append(dst, chunkSplit)
		dst = m.appendStreams(dst, elems, n, s)
	}
	dst = append(dst, tail...)
	if repeats || m.tryZstd || m.level != Fast {
		s.alt = append(s.alt[:0], chunkShuffled)
		s.alt = appendZstd(s.alt, shuffle(s, elems, w), m.level)
		s.alt = append(s.alt, tail...)
		if len(s.alt) < len(dst)-start {
			dst = append(dst[:start], s.alt...)
		}
	}
	return dst
}

// isConstant reports whether all elements of b equal the first.
func isConstant(b []byte, w int) bool { return bytes.Equal(b[w:], b[:len(b)-w]) }

// probe estimates the number of zero elements, from a sample, and whether
// sequences of elements repeat.
//
// Repeats are found by words whose low bits have one certain pattern: a copy of
// a stretch holds copies of its words, wherever it lies. Small remembered words
// suffice, so that the table stays in the first-level cache.
func probe(b []byte, w int) (zeros int, repeats bool) {
	if len(b) < 64 {
		return 0, false
	}
	n := len(b) / w
	step := max(1, n/1024)
	seen, p := 0, 0
	mask := ^uint64(0) >> (64 - 8*w)
	for ; p+8 <= len(b); p += step * w {
		seen++
		if binary.LittleEndian.Uint64(b[p:])&mask == 0 {
			zeros++
		}
	}
	for ; p+w <= len(b); p += step * w {
		seen++
		if loadElement(b[p:], w) == 0 {
			zeros++
		}
	}
	zeros = zeros * n / seen

	// An eighth of the words will do: where much repeats, some of it shows.
	var table [1024]uint32
	tried, hits := 0, 0
	for page := 0; page < len(b); page += 8192 {
		words := b[page:min(page+1024, len(b))]
		for ; len(words) >= 8; words = words[8:] {
			q := binary.LittleEndian.Uint64(words)
			if q&0xf != 5 {
				continue
			}
			h := q * 0x9e3779b97f4a7c15
			slot, tag := h>>54, uint32(h>>16)|1
			tried++
			if table[slot] == tag {
				hits++
			}
			table[slot] = tag
		}
	}
	return zeros, hits*32 > tried && hits > 1
}

// sparsePays reports whether a bitmap of the zeros is expected to cost less than
// coding them as symbols with their low bits.
func (m *Model) sparsePays(n, zeros int) bool {
	// A zero costs its low bits, unless they are coded, and a few for the
	// symbol; the bitmap costs at most one bit per element. At less than one
	// zero in sixteen, entropy is still above what most layouts pay.
	return n >= 64 && zeros*16 >= n && m.layout.exp > 0 && (m.syms == nil || m.syms.ctx == nil)
}

// shuffle transposes elements into planes of bytes, the lowest first.
func shuffle(s *scratch, b []byte, w int) []byte {
	n := len(b) / w
	s.elems = resize(s.elems, len(b))
	for p := range w {
		out := s.elems[p*n : (p+1)*n]
		for i := range out {
			out[i] = b[i*w+p]
		}
	}
	return s.elems
}

func unshuffle(dst, planes []byte, w int) {
	n := len(dst) / w
	for p := range w {
		for i, v := range planes[p*n : (p+1)*n] {
			dst[i*w+p] = v
		}
	}
}

// appendSparse writes the zero element, the number of others, their bitmap and
// their streams.
func (m *Model) appendSparse(dst, elems []byte, s *scratch) []byte {
	w := m.layout.width
	n := len(elems) / w
	s.mask = resize(s.mask, (n+7)/8)
	clear(s.mask)
	s.elems = resize(s.elems, len(elems)+8)
	k := 0
	for i := range n {
		x := loadElement(elems[i*w:], w)
		storeElement(s.elems[k*w:], w, x)
		bit := 0
		if x != 0 {
			bit = 1
		}
		s.mask[i>>3] |= byte(bit << (i & 7))
		k += bit
	}
	dst = append(dst, chunkSparse)
	dst = append(dst, make([]byte, w)...)
	dst = binary.AppendUvarint(dst, uint64(k))
	dst = appendBytes(dst, s.mask, nil, m.level, true)
	return m.appendStreams(dst, s.elems[:k*w], k, s)
}

// appendStreams writes the symbols, their exceptions and the low streams of n
// elements.
func (m *Model) appendStreams(dst, elems []byte, n int, s *scratch) []byte {
	sym, low := s.streams(m.layout, n)
	s.exc = s.exc[:0]
	if m.fusable(elems, n, low) {
		return m.appendFused(dst, elems, n, low, s)
	}
	over := m.split.split(elems, n, sym, low)
	if over {
		m.findOver(elems, n, sym, s)
	}
	dst = m.appendSymbols(dst, sym, s)
	dst = appendExceptions(dst, s.exc)
	for j, b := range low {
		bits := 8
		if j == 0 && m.layout.field() > 0 {
			bits = m.layout.field()
		}
		dst = m.appendLow(dst, b, bits, m.low[j])
	}
	return dst
}

// fusable reports whether appendFused may write the streams: elements whose fields
// are packed, not coded. It looks at some fields to see that they differ.
func (m *Model) fusable(elems []byte, n int, low [][]byte) bool {
	if !m.split.packs() || m.low[0] != nil || m.level == Max || n < 64 {
		return false
	}
	var sym [64]byte
	m.split.split(elems, 64, sym[:], low) // low is filled later
	return !isConstant(low[0][:64], 1)
}

// appendFused is appendStreams with a kernel that splits elements and packs
// fields at once.
func (m *Model) appendFused(dst, elems []byte, n int, low [][]byte, s *scratch) []byte {
	blocks := n / 64
	full := blocks * 64
	field := m.layout.field()
	s.packed = resize(s.packed, packedFieldSize(n, field)+packSlack)
	over := m.split.splitPacked(elems, blocks, s.sym, s.packed, low[1:])
	if full < n {
		rest := [][]byte{s.packed[full/8*field:]}
		for _, b := range low[1:] {
			rest = append(rest, b[full:])
		}
		if m.split.split(elems[m.layout.width*full:], n-full, s.sym[full:], rest) {
			over = true
		}
	}
	if over {
		m.findOver(elems, n, s.sym, s)
	}
	dst = m.appendSymbols(dst, s.sym, s)
	dst = appendExceptions(dst, s.exc)
	dst = append(append(dst, streamRaw), s.packed[:packedFieldSize(n, field)]...)
	for j, b := range low[1:] {
		dst = m.appendLow(dst, b, 8, m.low[j+1])
	}
	return dst
}

// contextTables returns the rANS table of each of a chunk's n symbols, in
// stream order; nil if tables go by block.
func (m *Model) contextTables(n int, s *scratch) []byte {
	if m.syms.ctx == nil {
		return nil
	}
	s.tables = resize(s.tables, n)
	m.syms.ctx.tables(s.tables, s.first, m.split)
	return s.tables
}

// findOver lists the elements whose symbols fall outside the window and puts
// a cheap symbol in their place.
func (m *Model) findOver(elems []byte, n int, sym []byte, s *scratch) {
	filler := byte(0)
	if m.syms != nil {
		filler = m.syms.filler()
	}
	w := m.layout.width
	for at := 0; at < n; at += 8 {
		if at+8 <= n && !m.split.over(elems[at*w:(at+8)*w]) {
			continue
		}
		for i := at; i < min(n, at+8); i++ {
			y, _ := m.split.element(elems[m.split.elementIndex(i, n)*w:])
			if y > 255 {
				s.exc = append(s.exc, exception{i, y})
				sym[i] = filler
			}
		}
	}
}

func appendExceptions(dst []byte, exc []exception) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(exc)))
	next := 0
	for _, e := range exc {
		dst = binary.AppendUvarint(dst, uint64(e.index-next))
		dst = binary.AppendUvarint(dst, uint64(e.sym))
		next = e.index + 1
	}
	return dst
}

// mergeExceptions sorts the exceptions from split on, found by a coder, into
// those found before; both come in stream order. Where a coder lacks the filler
// of an element found before, the first exception stands.
func mergeExceptions(a []exception, split int) []exception {
	if split == 0 || split == len(a) {
		return a
	}
	out := make([]exception, 0, len(a))
	x, y := a[:split], a[split:]
	for len(x) > 0 && len(y) > 0 {
		switch {
		case x[0].index < y[0].index:
			out, x = append(out, x[0]), x[1:]
		case x[0].index > y[0].index:
			out, y = append(out, y[0]), y[1:]
		default:
			y = y[1:]
		}
	}
	return append(append(out, x...), y...)
}

// appendSymbols writes the symbol stream and completes the exceptions.
func (m *Model) appendSymbols(dst, sym []byte, s *scratch) []byte {
	if len(sym) > 0 && isConstant(sym, 1) {
		return append(dst, streamConstant, sym[0])
	}
	if m.syms == nil {
		return appendBytes(dst, sym, nil, m.level, false)
	}
	start, over := len(dst), len(s.exc)
	missing := func(i int) { s.exc = append(s.exc, exception{i, int(sym[i])}) }
	method := byte(streamHuffman)
	if m.syms.rans != nil {
		method = streamRANS
	}
	dst = append(dst, method)
	dst = appendSized(dst, func(dst []byte) []byte {
		if m.syms.rans != nil {
			return m.syms.ransEncoder().append(dst, sym, m.contextTables(len(sym), s), missing)
		}
		return m.syms.encoder().append(dst, sym, s.ahead, missing)
	})
	// An exception takes about three bytes.
	if cost := len(dst) - start + 3*(len(s.exc)-over); cost > len(sym)+1 {
		s.exc = s.exc[:over]
		return append(append(dst[:start], streamRaw), sym...)
	}
	s.exc = mergeExceptions(s.exc, over)
	return dst
}

// sizeBytes is the width of the length that precedes a stream.
const sizeBytes = 4

// appendSized appends what write appends, preceded by its length.
func appendSized(dst []byte, write func([]byte) []byte) []byte {
	at := len(dst)
	dst = write(append(dst, make([]byte, sizeBytes)...))
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at-sizeBytes))
	return dst
}

// appendLow writes a stream of values below 1<<bits.
func (m *Model) appendLow(dst, b []byte, bits int, c *coder) []byte {
	if len(b) > 0 && isConstant(b, 1) {
		return append(dst, streamConstant, b[0])
	}
	skewed := bits == 8 && isSkewed(b)
	if c != nil || skewed || m.level == Max {
		start := len(dst)
		dst = appendBytes(dst, b, c, m.level, skewed || m.level == Max)
		if len(dst)-start <= packedLowSize(len(b), bits) {
			return dst
		}
		dst = dst[:start]
	}
	dst = append(dst, streamRaw)
	if bits < 8 {
		return packFields(dst, b, bits)
	}
	return append(dst, b...)
}

// isSkewed reports whether the bytes, judging by a sample, have an order-0
// entropy that is worth coding. A tensor's sample may have missed the chunk.
func isSkewed(b []byte) bool {
	const samples = 1024
	if len(b) < samples {
		return false
	}
	var counts [256]uint16
	step := len(b) / samples
	for i := range samples {
		counts[b[i*step]]++
	}
	// The sum of squares is samples for a uniform distribution over samples
	// values and samples² for a single one; noise over 256 values has about
	// samples²/256 + samples.
	sum := 0
	for _, c := range counts {
		sum += int(c) * int(c)
	}
	return sum > 2*(samples*samples/256+samples)
}

func packedLowSize(n, bits int) int {
	if bits < 8 {
		return packedFieldSize(n, bits)
	}
	return n
}

// appendBytes writes a stream of bytes in the smallest form at hand.
func appendBytes(dst, b []byte, c *coder, level Level, tryZstd bool) []byte {
	if len(b) > 0 && isConstant(b, 1) {
		return append(dst, streamConstant, b[0])
	}
	start := len(dst)
	best := len(b)
	if c != nil {
		complete := true
		dst = append(dst, streamHuffman)
		dst = appendSized(dst, func(dst []byte) []byte {
			return c.encoder().append(dst, b, prefetch{}, func(int) { complete = false })
		})
		if size := len(dst) - start - 1; complete && size < best {
			best = size
		} else {
			dst = dst[:start]
		}
	}
	if tryZstd || c != nil && level != Fast {
		end := len(dst)
		dst = append(dst, streamZstd)
		dst = appendSized(dst, func(dst []byte) []byte { return appendZstd(dst, b, level) })
		if size := len(dst) - end - 1; size < best {
			dst = append(dst[:start], dst[end:]...)
			best = size
		} else {
			dst = dst[:end]
		}
	}
	if len(dst) == start {
		dst = append(append(dst, streamRaw), b...)
	}
	return dst
}

package floatcodec

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// DecodeChunk fills dst with chunk i, which enc holds. dst must have
// [Model.ChunkSize] bytes; its content is undefined after an error. It is safe for
// concurrent use.
func (m *Model) DecodeChunk(dst []byte, i int, enc []byte) error {
	return m.decodeChunk(dst, i, enc, prefetch{})
}

// decodeChunk is DecodeChunk that fetches other memory meanwhile.
func (m *Model) decodeChunk(dst []byte, i int, enc []byte, ahead prefetch) error {
	if i < 0 || i >= m.Chunks() || len(dst) != m.ChunkSize(i) {
		return fmt.Errorf("floatcodec: chunk %d with %d bytes does not belong to this model of %d bytes", i, len(dst), m.size)
	}
	if len(enc) < chunkHeader {
		return fmt.Errorf("%w: chunk %d has %d bytes", ErrCorrupt, i, len(enc))
	}
	s := scratchPool.Get().(*scratch)
	defer scratchPool.Put(s)
	s.first = int64(i) << m.chunkLog
	s.runs.st.ahead = ahead
	if !haveKernels {
		s.touched ^= touch(enc) ^ touch(dst)
	}
	err := m.decodeBody(dst, enc[4], enc[chunkHeader:len(enc):len(enc)], s)
	// Decoders are safe on any bytes, and their passes bring these close: the
	// checksum is cheapest afterwards. It has the say on what is wrong.
	if sum, got := binary.LittleEndian.Uint32(enc), m.chunkSum(i, len(dst), enc[4:]); sum != got {
		return fmt.Errorf("%w: chunk %d checksum %08x, stored %08x", ErrCorrupt, i, got, sum)
	}
	if err != nil {
		return fmt.Errorf("chunk %d: %w", i, err)
	}
	return nil
}

func (m *Model) decodeBody(dst []byte, kind byte, b []byte, s *scratch) error {
	if kind == chunkRaw {
		if len(b) != len(dst) {
			return fmt.Errorf("%w: %d raw bytes, need %d", ErrCorrupt, len(b), len(dst))
		}
		copy(dst, b)
		return nil
	}
	w := m.layout.width
	n := len(dst) / w
	elems, tail := dst[:n*w], dst[n*w:]
	if len(b) < len(tail) {
		return fmt.Errorf("%w: cut short", ErrCorrupt)
	}
	copy(tail, b[len(b)-len(tail):])
	b = b[:len(b)-len(tail)]
	switch kind {
	case chunkConstant:
		if n == 0 || len(b) != w {
			return fmt.Errorf("%w: constant of %d bytes", ErrCorrupt, len(b))
		}
		fill(elems, b)
		return nil
	case chunkShuffled:
		s.elems = resize(s.elems, len(elems))
		if err := decodeZstd(s.elems, b); err != nil {
			return err
		}
		unshuffle(elems, s.elems, w)
		return nil
	case chunkSplit:
		return m.decodeStreams(elems, n, b, s)
	case chunkSparse:
		return m.decodeSparse(elems, n, b, s)
	}
	return fmt.Errorf("%w: unknown kind %d", ErrCorrupt, kind)
}

// fill repeats the element over dst.
func fill(dst, element []byte) {
	copy(dst, element)
	for have := len(element); have < len(dst); have *= 2 {
		copy(dst[have:], dst[:have])
	}
}

func (m *Model) decodeSparse(dst []byte, n int, b []byte, s *scratch) error {
	w := m.layout.width
	if len(b) < w {
		return fmt.Errorf("%w: cut short", ErrCorrupt)
	}
	if m.syms != nil && m.syms.ctx != nil {
		return fmt.Errorf("%w: sparse chunk with tables by row and column", ErrCorrupt)
	}
	value, b := loadElement(b, w), b[w:]
	others, b, ok := uvarint(b, uint64(n))
	if !ok {
		return fmt.Errorf("%w: bad count of elements", ErrCorrupt)
	}
	k := int(others)
	s.mask = resize(s.mask, (n+7)/8)
	b, err := readBytes(s.mask, b, nil, s)
	if err != nil {
		return err
	}
	ones := 0
	for _, x := range s.mask {
		ones += bits.OnesCount8(x)
	}
	if ones != k || n&7 != 0 && s.mask[n>>3]>>(n&7) != 0 {
		return fmt.Errorf("%w: bitmap has %d ones, need %d", ErrCorrupt, ones, k)
	}
	s.elems = resize(s.elems, k*w+w) // one more, which is read but not used
	if err := m.decodeStreams(s.elems[:k*w], k, b, s); err != nil {
		return err
	}
	at := 0
	for i := range n {
		x := value
		if s.mask[i>>3]>>(i&7)&1 != 0 {
			x = loadElement(s.elems[at*w:], w)
			at++
		}
		storeElement(dst[i*w:], w, x)
	}
	return nil
}

// cut takes n bytes off b.
func cut(b []byte, n int) (head, rest []byte, err error) {
	if n < 0 || n > len(b) {
		return nil, nil, fmt.Errorf("%w: stream needs %d bytes, %d left", ErrCorrupt, n, len(b))
	}
	return b[:n], b[n:], nil
}

// cutSized takes a stream preceded by its length off b. The stream's capacity
// is left alone, so that decoders may read (not use) bytes beyond it.
func cutSized(b []byte) (stream, rest []byte, err error) {
	head, b, err := cut(b, sizeBytes)
	if err != nil {
		return nil, nil, err
	}
	size := binary.LittleEndian.Uint32(head)
	if uint64(size) > uint64(len(b)) {
		return nil, nil, fmt.Errorf("%w: stream needs %d bytes, %d left", ErrCorrupt, size, len(b))
	}
	return b[:size], b[size:], nil
}

// readBytes fills dst from a stream that appendBytes wrote, and returns what
// follows it.
func readBytes(dst, b []byte, c *coder, s *scratch) ([]byte, error) {
	method, b, err := cut(b, 1)
	if err != nil {
		return nil, err
	}
	var stream []byte
	switch method[0] {
	case streamRaw:
		if stream, b, err = cut(b, len(dst)); err != nil {
			return nil, err
		}
		copy(dst, stream)
		return b, nil
	case streamConstant:
		if stream, b, err = cut(b, 1); err != nil {
			return nil, err
		}
		fill(dst, stream)
		return b, nil
	case streamZstd:
		if stream, b, err = cutSized(b); err != nil {
			return nil, err
		}
		return b, decodeZstd(dst, stream)
	case streamHuffman:
		if c == nil || c.huff == nil {
			break
		}
		if stream, b, err = cutSized(b); err != nil {
			return nil, err
		}
		return b, s.decodeHuffman(stream, len(dst), c.decoder(), func(blocks []uint16, sym []byte) {
			for _, block := range blocks {
				k := copy(dst[int(block)*blockLen:], sym[:min(len(sym), blockLen)])
				sym = sym[k:]
			}
		})
	}
	return nil, fmt.Errorf("%w: unknown stream method %d", ErrCorrupt, method[0])
}

// decodeHuffman decodes n symbols and hands them out by blocks, in any order.
func (s *scratch) decodeHuffman(payload []byte, n int, tables []decodeTable, emit func(blocks []uint16, sym []byte)) error {
	if err := s.runs.init(payload, n, tables); err != nil {
		return err
	}
	return s.runs.each(emit)
}

// lowSource is where the bytes of a low stream come from: either one byte per
// element, or fields still packed.
type lowSource struct {
	bytes  []byte
	packed []byte
	bits   int
}

// decodeStreams rebuilds n elements; b must hold their streams and nothing else.
func (m *Model) decodeStreams(dst []byte, n int, b []byte, s *scratch) error {
	symAt := b
	symStream, b, err := skipSymbols(b, n)
	if err != nil {
		return err
	}
	exc, b, err := m.readExceptions(b, n, s)
	if err != nil {
		return err
	}
	_, lows := s.streams(m.layout, n)
	var src [8]lowSource
	for j := range lows {
		bits := 8
		if j == 0 && m.layout.field() > 0 {
			bits = m.layout.field()
		}
		if src[j], b, err = m.readLow(lows[j], b, bits, m.low[j], s); err != nil {
			return err
		}
	}
	if len(b) != 0 {
		return fmt.Errorf("%w: %d bytes after the last stream", ErrCorrupt, len(b))
	}
	if err := m.mergeStreams(dst, n, symAt[0], symStream, src[:len(lows)], s); err != nil {
		return err
	}
	for _, e := range exc {
		m.patch(dst[m.split.elementIndex(e.index, n)*m.layout.width:], e.sym)
	}
	return nil
}

// patch puts another symbol into an element.
func (m *Model) patch(b []byte, sym int) {
	w := m.layout.width
	mask := uint64(1)<<m.layout.sym - 1
	y := (uint64(sym) + uint64(m.base)) & mask
	sh := m.split.symShift
	storeElement(b, w, loadElement(b, w)&^(mask<<sh)|y<<sh)
}

// skipSymbols returns the symbol stream without its method and length.
func skipSymbols(b []byte, n int) (stream, rest []byte, err error) {
	method, b, err := cut(b, 1)
	if err != nil {
		return nil, nil, err
	}
	switch method[0] {
	case streamRaw:
		return cut(b, n)
	case streamConstant:
		return cut(b, 1)
	case streamHuffman, streamZstd, streamRANS:
		return cutSized(b)
	}
	return nil, nil, fmt.Errorf("%w: unknown stream method %d", ErrCorrupt, method[0])
}

func (m *Model) readExceptions(b []byte, n int, s *scratch) ([]exception, []byte, error) {
	count, b, ok := uvarint(b, uint64(n))
	if !ok {
		return nil, nil, fmt.Errorf("%w: bad count of exceptions", ErrCorrupt)
	}
	s.exc = s.exc[:0]
	next := uint64(0)
	for range count {
		var gap, sym uint64
		if gap, b, ok = uvarint(b, uint64(n)); !ok || next+gap >= uint64(n) {
			return nil, nil, fmt.Errorf("%w: exception beyond the chunk", ErrCorrupt)
		}
		if sym, b, ok = uvarint(b, 1<<m.layout.sym-1); !ok {
			return nil, nil, fmt.Errorf("%w: exception with a bad symbol", ErrCorrupt)
		}
		s.exc = append(s.exc, exception{int(next + gap), int(sym)})
		next += gap + 1
	}
	return s.exc, b, nil
}

func (m *Model) readLow(buf, b []byte, bits int, c *coder, s *scratch) (lowSource, []byte, error) {
	if len(b) > 0 && b[0] == streamRaw {
		stream, rest, err := cut(b[1:], packedLowSize(len(buf), bits))
		if err != nil {
			return lowSource{}, nil, err
		}
		if bits < 8 {
			return lowSource{packed: stream, bytes: buf, bits: bits}, rest, nil
		}
		return lowSource{bytes: stream}, rest, nil
	}
	rest, err := readBytes(buf, b, c, s)
	return lowSource{bytes: buf}, rest, err
}

// mergeRun merges full blocks with a kernel, if there is one.
func (m *Model) mergeRun(dst []byte, src []lowSource, sym []byte, blocks []uint16) bool {
	if len(src) == 0 || src[0].packed == nil {
		return false
	}
	n := len(blocks)
	end := int(blocks[n-1])*blockLen + blockLen // blocks come in order
	packed, field := src[0].packed, m.layout.field()
	_, _, _ = dst[end*m.layout.width-1], packed[end/8*field-1], sym[n*blockLen-1]
	for _, low := range src[1:] {
		_ = low.bytes[end-1]
	}
	switch m.layout {
	case bf16Layout:
		mergeRunBF16(&dst[0], &packed[0], &sym[0], &blocks[0], n, m.split.swar.base)
	case f16Layout:
		mergeRunF16(&dst[0], &packed[0], &src[1].bytes[0], &sym[0], &blocks[0], n)
	case f32Layout:
		// The words are those of BF16, so their lanes hold 16 bits.
		mergeRunF32(&dst[0], &packed[0], &src[1].bytes[0], &src[2].bytes[0], &sym[0], &blocks[0], n, lanes16*uint64(m.base))
	case e4m3Layout:
		mergeRunE4M3(&dst[0], &packed[0], &sym[0], &blocks[0], n)
	default:
		return false
	}
	return true
}

// mergeStreams decodes the symbols block by block, so that what it works on
// stays in the first-level cache.
func (m *Model) mergeStreams(dst []byte, n int, method byte, stream []byte, src []lowSource, s *scratch) error {
	w := m.layout.width
	var fields [blockLen]byte
	var low [8][]byte
	fused := m.layout == bf16Layout && src[0].packed != nil
	emit := func(at int, sym []byte) {
		if fused && len(sym) == blockLen {
			p := src[0].packed[at/64*8*7:][:blockLen/64*8*7]
			d := dst[at*2:][:blockLen*2]
			if haveFieldKernels {
				mergeFieldsBF16(&d[0], &sym[0], &p[0], blockLen/64, m.split.swar.base)
			} else {
				mergeBlockBF16((*[2 * blockLen]byte)(d), (*[blockLen]byte)(sym), (*[blockLen / 8 * 7]byte)(p), m.split.swar.base)
			}
			return
		}
		for j := range src {
			if p := src[j].packed; p != nil {
				// Blocks are multiples of the 64 fields that pack together.
				unpackFields(fields[:len(sym)], p[at/64*8*src[j].bits:], src[j].bits)
				low[j] = fields[:len(sym)]
			} else {
				low[j] = src[j].bytes[at : at+len(sym)]
			}
		}
		m.split.merge(dst[at*w:(at+len(sym))*w], len(sym), sym, low[:len(src)])
	}
	emitRun := func(blocks []uint16, sym []byte) {
		if full := len(sym) / blockLen; haveWideKernels && full > 0 && m.mergeRun(dst, src, sym, blocks[:full]) {
			blocks, sym = blocks[full:], sym[full*blockLen:]
		}
		for _, b := range blocks {
			k := min(len(sym), blockLen)
			emit(int(b)*blockLen, sym[:k])
			sym = sym[k:]
		}
	}
	switch method {
	case streamHuffman:
		if m.syms == nil || m.syms.huff == nil {
			return fmt.Errorf("%w: Huffman stream without tables", ErrCorrupt)
		}
		return s.decodeHuffman(stream, n, m.syms.decoder(), emitRun)
	case streamRANS:
		if m.syms == nil || m.syms.rans == nil {
			return fmt.Errorf("%w: rANS stream without tables", ErrCorrupt)
		}
		if err := m.syms.ransDecode(s.sym[:n], stream, m.contextTables(n, s)); err != nil {
			return err
		}
	case streamRaw:
		copy(s.sym[:n], stream)
	case streamConstant:
		fill(s.sym[:n], stream)
	case streamZstd:
		if err := decodeZstd(s.sym[:n], stream); err != nil {
			return err
		}
	}
	for at := 0; at < n; at += blockLen {
		emit(at, s.sym[at:min(n, at+blockLen)])
	}
	return nil
}

package archive

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/hfcompress/compress/pack/floatcodec"
)

// bytesChunk is the size of the chunks of streams of kind kindBytes.
const bytesChunk = 1 << 20

// table is what is needed to decode any chunk of one stream.
type table struct {
	kind   byte
	size   int64
	model  *floatcodec.Model // of kindFloat
	delta  *deltaModel       // of differences
	chunk  int               // bytes of every chunk but the last
	starts []int64           // of the chunks from the stream's first one, and their end
}

// chunkSize returns the decoded bytes of chunk i.
func (t *table) chunkSize(i int) int {
	return int(min(int64(t.chunk), t.size-int64(i)*int64(t.chunk)))
}

func chunkCount(size int64, chunk int) int64 { return (size + int64(chunk) - 1) / int64(chunk) }

// encodeTable writes the part of a stream that follows its chunks: the models
// with their lengths, the lengths of the chunks, a checksum.
func encodeTable(c *choice, lengths []int) []byte {
	var b []byte
	model := func(m *floatcodec.Model) {
		var stored []byte
		if m != nil {
			stored = m.Append(nil)
		}
		b = binary.AppendUvarint(b, uint64(len(stored)))
		b = append(b, stored...)
	}
	switch {
	case c.delta != nil:
		model(c.delta.classes)
		model(c.delta.fine)
		b = binary.AppendUvarint(b, uint64(c.delta.run))
		if c.delta.product != nil {
			b = c.delta.product.append(b)
		}
	case c.kind == kindFloat:
		model(c.model)
	}
	for _, n := range lengths {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// parseTable reads a table. It allocates no more than a small multiple of b.
func parseTable(b []byte, s *stream) (*table, error) {
	if len(b) < 4 {
		return nil, corruptf("table of %d bytes", len(b))
	}
	rest, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if got := crc32.Checksum(rest, castagnoli); got != sum {
		return nil, corruptf("checksum of the table is %08x, stored is %08x", got, sum)
	}
	t := &table{kind: s.kind, size: s.total, chunk: bytesChunk}
	var err error
	switch s.kind {
	case kindBytes:
	case kindFloat:
		if t.model, rest, err = parseModel(rest, s.total); err == nil && t.model == nil {
			err = corruptf("no model")
		}
		if err != nil {
			return nil, err
		}
		t.chunk = t.model.ChunkBytes()
	default:
		if t.delta, rest, err = parseDelta(rest, s); err != nil {
			return nil, err
		}
		t.chunk = t.delta.classes.ChunkBytes() * t.delta.form.width
	}
	if t.chunk > maxChunk {
		return nil, corruptf("chunks of %d bytes, at most %d are possible", t.chunk, maxChunk)
	}
	chunks := chunkCount(s.total, t.chunk)
	if chunks > int64(len(rest)) {
		return nil, corruptf("%d chunks, but the lengths of fewer", chunks)
	}
	t.starts = make([]int64, chunks+1)
	at := int64(0)
	for i := range chunks {
		var n uint64
		// Differences may take more than what they differ from, but not thrice.
		if n, rest, err = uvarint(rest, uint64(3*t.chunkSize(int(i))+chunkOverhead)); err != nil {
			return nil, err
		}
		at += int64(n)
		t.starts[i+1] = at
	}
	if len(rest) > 0 || at != s.data {
		return nil, corruptf("chunks of %d bytes together, expected %d", at, s.data)
	}
	return t, nil
}

// parseModel reads a model of so many bytes with its length; nil if there is none.
func parseModel(b []byte, size int64) (*floatcodec.Model, []byte, error) {
	n, b, err := uvarint(b, uint64(len(b)))
	if err != nil {
		return nil, nil, err
	}
	if n > uint64(len(b)) {
		return nil, nil, corruptf("model cut short")
	}
	if n == 0 {
		return nil, b, nil
	}
	// A limit of 0 would be the default one.
	m, err := floatcodec.ParseModel(b[:n], floatcodec.Limits{MaxSize: max(size, 1)})
	if err != nil {
		return nil, nil, codecError(err)
	}
	if m.Size() != size {
		return nil, nil, corruptf("model of %d bytes, expected %d", m.Size(), size)
	}
	return m, b[n:], nil
}

// parseDelta reads the models of a stream of differences.
func parseDelta(b []byte, s *stream) (m *deltaModel, rest []byte, err error) {
	m = &deltaModel{kind: s.kind, form: formOf(dtypes[s.dtype])}
	elements := s.size / int64(m.form.width)
	if m.classes, b, err = parseModel(b, elements); err != nil {
		return nil, nil, err
	}
	if m.classes == nil || m.classes.ChunkBytes() != floatcodec.ChunkElements {
		return nil, nil, corruptf("no model of bytes for the classes")
	}
	if m.fine, b, err = parseModel(b, elements); err != nil {
		return nil, nil, err
	}
	if m.fine != nil && m.fine.ChunkBytes() != floatcodec.ChunkElements {
		return nil, nil, corruptf("the models of the differences have different chunks")
	}
	run, b, err := uvarint(b, maxRun)
	m.run = int(run)
	if err == nil && s.kind == kindRank {
		m.product, b, err = parseProduct(b, elements)
	}
	return m, b, err
}

const (
	// maxChunk bounds what the chunks of any stream may decode to: 65,536
	// elements of 8 bytes, or bytesChunk.
	maxChunk = 1 << 20
	// chunkOverhead is by how much a chunk may be longer than thrice its content.
	chunkOverhead = 64
)

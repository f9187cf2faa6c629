package archive

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/hfcompress/compress/pack/floatcodec"
	"github.com/hfcompress/compress/tensor"
)

// bytesChunk is the size of the chunks of streams of kind kindBytes.
const bytesChunk = 1 << 20

// table is what is needed to decode any chunk of one stream.
type table struct {
	kind   byte
	size   int64
	width  int // of an element, for differences
	dtype  tensor.DType
	model  *floatcodec.Model // nil for kindBytes
	chunk  int               // bytes of every chunk but the last
	starts []int64           // of the chunks from the stream's first one, and their end
}

// chunkSize returns the decoded bytes of chunk i.
func (t *table) chunkSize(i int) int {
	return int(min(int64(t.chunk), t.size-int64(i)*int64(t.chunk)))
}

func chunkCount(size int64, chunk int) int64 { return (size + int64(chunk) - 1) / int64(chunk) }

// encodeTable writes the part of a stream that follows its chunks: the model
// with its length, the lengths of the chunks, a checksum.
func encodeTable(model []byte, lengths []int) []byte {
	b := binary.AppendUvarint(nil, uint64(len(model)))
	b = append(b, model...)
	for _, n := range lengths {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// parseTable reads a table. It allocates no more than a small multiple of b.
func parseTable(b []byte, s *stream) (*table, error) {
	if len(b) < 5 {
		return nil, corruptf("table of %d bytes", len(b))
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if got := crc32.Checksum(body, castagnoli); got != sum {
		return nil, corruptf("checksum of the table is %08x, stored is %08x", got, sum)
	}
	n, rest, err := uvarint(body, uint64(len(body)))
	if err != nil {
		return nil, err
	}
	if n > uint64(len(rest)) {
		return nil, corruptf("model cut short")
	}
	stored, rest := rest[:n], rest[n:]
	t := &table{kind: s.kind, size: s.total, chunk: bytesChunk}
	if s.kind == kindBytes {
		if n > 0 {
			return nil, corruptf("a model where none belongs")
		}
	} else {
		want := s.total
		if s.kind != kindFloat {
			t.dtype = dtypes[s.dtype]
			t.width = max(t.dtype.Size(), 1)
			want /= int64(t.width)
		}
		// A limit of 0 would be the default one.
		if t.model, err = floatcodec.ParseModel(stored, floatcodec.Limits{MaxSize: max(want, 1)}); err != nil {
			return nil, codecError(err)
		}
		if t.model.Size() != want {
			return nil, corruptf("model of %d bytes, expected %d", t.model.Size(), want)
		}
		t.chunk = t.model.ChunkBytes() * max(t.width, 1)
		if t.chunk > maxChunk {
			return nil, corruptf("chunks of %d bytes, at most %d are possible", t.chunk, maxChunk)
		}
	}
	chunks := chunkCount(s.total, t.chunk)
	if chunks > int64(len(rest)) {
		return nil, corruptf("%d chunks, but the lengths of fewer", chunks)
	}
	t.starts = make([]int64, chunks+1)
	at := int64(0)
	for i := range chunks {
		var n uint64
		// Differences may take more than what they differ from, but not twice.
		if n, rest, err = uvarint(rest, uint64(2*t.chunkSize(int(i))+chunkOverhead)); err != nil {
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

const (
	// maxChunk bounds what the chunks of any stream may decode to: 65,536
	// elements of 8 bytes, or bytesChunk.
	maxChunk = 1 << 20
	// chunkOverhead is by how much a chunk may be longer than twice its content.
	chunkOverhead = 64
)

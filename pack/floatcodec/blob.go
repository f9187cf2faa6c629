package floatcodec

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hfcompress/compress/tensor"
)

// blobMagic starts what Encode writes; the last byte is the version.
var blobMagic = [4]byte{'F', 'L', 'C', formatVersion}

// Encode compresses raw, the bytes of a tensor with elements of type d, and
// appends the result to dst. The shape may be nil (see [NewTrainer]). Equal
// arguments give equal bytes on every machine.
func Encode(dst []byte, d tensor.DType, shape tensor.Shape, raw []byte, opts Options) ([]byte, error) {
	m, err := train(d, shape, raw, opts)
	if err != nil {
		return dst, err
	}
	start := len(dst)
	dst = slices.Grow(dst, len(raw)+len(raw)/64+maxChunkSlack)
	dst = m.appendBlob(dst, raw, opts)
	if len(dst)-start > len(raw) {
		// Tables may cost more than they save, in small tensors above all.
		plain := (&Model{layout: m.layout, size: m.size, chunkLog: m.chunkLog, low: make([]*coder, len(m.low))}).seal()
		if len(dst)-start > plain.rawBlobSize() {
			dst = plain.appendBlob(dst[:start], raw, opts)
		}
	}
	return dst, nil
}

// rawBlobSize returns the size of a blob with this model and raw chunks.
func (m *Model) rawBlobSize() int {
	head := len(binary.AppendUvarint(nil, uint64(len(m.stored))))
	return len(blobMagic) + head + len(m.stored) + 4 + m.Chunks()*(4+chunkHeader) + int(m.size)
}

func (m *Model) appendBlob(dst, raw []byte, opts Options) []byte {
	start := len(dst)
	dst = append(dst, blobMagic[:]...)
	dst = binary.AppendUvarint(dst, uint64(len(m.stored)))
	dst = append(dst, m.stored...)
	// The lengths of the chunks come before them, so that a reader finds each
	// without reading the others.
	table := len(dst)
	chunks := m.Chunks()
	dst = append(dst, make([]byte, 4*chunks+4)...)
	if opts.Workers > 1 {
		dst = slices.Grow(dst, m.chunksRoom())
	}
	put := func(i, size int) { binary.LittleEndian.PutUint32(dst[table+4*i:], uint32(size)) }
	if opts.Workers <= 1 || chunks == 1 {
		for i := range chunks {
			at := len(dst)
			var ahead prefetch
			if i+1 < chunks {
				ahead = newPrefetch(m.chunkOf(raw, i+1), nil)
			}
			dst = m.appendChunk(dst, i, m.chunkOf(raw, i), ahead)
			put(i, len(dst)-at)
		}
	} else {
		dst = m.appendParallel(dst, raw, opts.Workers, put)
	}
	sum := crc32.Checksum(dst[start:table+4*chunks], castagnoli)
	binary.LittleEndian.PutUint32(dst[table+4*chunks:], sum)
	return dst
}

// maxChunkSlack is about what encoding a chunk needs beyond its raw bytes, so
// that a blob need not be moved to make room for its last chunks.
const maxChunkSlack = 96 << 10

// chunkOf returns the bytes of chunk i in the whole tensor.
func (m *Model) chunkOf(raw []byte, i int) []byte {
	at := i * m.ChunkBytes()
	return raw[at : at+m.ChunkSize(i)]
}

func train(d tensor.DType, shape tensor.Shape, raw []byte, opts Options) (*Model, error) {
	t, err := NewTrainer(d, shape, int64(len(raw)), opts)
	if err != nil {
		return nil, err
	}
	for _, i := range t.Sample() {
		if err := t.add(i, t.model.chunkOf(raw, i)); err != nil {
			return nil, err
		}
	}
	if len(raw) > 0 {
		t.ahead = t.model.chunkOf(raw, 0)
	}
	return t.Model()
}

// each calls f for 0 to n-1 from several goroutines, the caller's among them, and
// returns the error of the lowest index.
func each(n, workers int, f func(i int) error) error {
	workers = min(workers, n)
	errs := make([]error, max(workers, 1))
	if workers <= 1 {
		for i := range n {
			if err := f(i); err != nil {
				return err
			}
		}
		return nil
	}
	var wg sync.WaitGroup
	var next atomic.Int64
	at := make([]int, workers)
	run := func(w int) {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			if errs[w] = f(i); errs[w] != nil {
				at[w] = i
				return
			}
		}
	}
	for w := range workers - 1 {
		wg.Go(func() { run(w) })
	}
	run(workers - 1)
	wg.Wait()
	first := -1
	for w, err := range errs {
		if err != nil && (first < 0 || at[w] < at[first]) {
			first = w
		}
	}
	if first < 0 {
		return nil
	}
	return errs[first]
}

// Decode appends the tensor's bytes that Encode compressed to enc. Errors wrap
// [ErrCorrupt], [ErrTooLarge] or [ErrVersion]; dst is returned unchanged then.
func Decode(dst, enc []byte, limits Limits) ([]byte, error) {
	m, chunks, err := parseBlob(enc, limits)
	if err != nil {
		return dst, err
	}
	if m.size != int64(int(m.size)) {
		return dst, fmt.Errorf("%w: %d bytes do not fit the address space", ErrTooLarge, m.size)
	}
	defer m.release()
	start := len(dst)
	out := grow(dst, int(m.size))
	err = each(len(chunks), limits.Workers, func(i int) error {
		var ahead prefetch
		if next := i + max(limits.Workers, 1); next < len(chunks) {
			ahead = newPrefetch(chunks[next], m.chunkOf(out[start:], next))
		}
		return m.decodeChunk(m.chunkOf(out[start:], i), i, chunks[i], ahead)
	})
	if err != nil {
		return dst, err
	}
	return out, nil
}

// parseBlob finds the model and the chunks.
func parseBlob(enc []byte, limits Limits) (*Model, [][]byte, error) {
	if len(enc) < len(blobMagic) || [3]byte(enc[:3]) != [3]byte(blobMagic[:3]) {
		return nil, nil, fmt.Errorf("%w: no magic", ErrCorrupt)
	}
	if enc[3] != formatVersion {
		return nil, nil, fmt.Errorf("%w %d", ErrVersion, enc[3])
	}
	size, b, ok := uvarint(enc[len(blobMagic):], uint64(len(enc)))
	if !ok || size > uint64(len(b)) {
		return nil, nil, fmt.Errorf("%w: model cut short", ErrCorrupt)
	}
	m, err := ParseModel(b[:size], limits)
	if err != nil {
		return nil, nil, err
	}
	b = b[size:]
	if m.size > int64(len(b))/4*int64(m.ChunkBytes()) {
		return nil, nil, fmt.Errorf("%w: chunk table cut short", ErrCorrupt)
	}
	n := m.Chunks()
	if len(b) < 4*n+4 {
		return nil, nil, fmt.Errorf("%w: chunk table cut short", ErrCorrupt)
	}
	table := b[:4*n]
	sum := binary.LittleEndian.Uint32(b[4*n:])
	if got := crc32.Checksum(enc[:len(enc)-len(b)+4*n], castagnoli); got != sum {
		return nil, nil, fmt.Errorf("%w: header checksum %08x, stored %08x", ErrCorrupt, got, sum)
	}
	b = b[4*n+4:]
	chunks := make([][]byte, n)
	for i := range chunks {
		size := binary.LittleEndian.Uint32(table[4*i:])
		if uint64(size) > uint64(len(b)) {
			return nil, nil, fmt.Errorf("%w: chunk %d cut short", ErrCorrupt, i)
		}
		chunks[i], b = b[:size], b[size:]
	}
	if len(b) != 0 {
		return nil, nil, fmt.Errorf("%w: %d bytes after the last chunk", ErrCorrupt, len(b))
	}
	return m, chunks, nil
}

package archive

import (
	"crypto/sha256"
	"encoding/binary"
	"io"

	"github.com/hfcompress/compress/pack/floatcodec"
	"github.com/hfcompress/compress/tensor"
)

// choice says how a segment will be stored.
type choice struct {
	kind  byte
	dtype tensor.DType
	model *floatcodec.Model // of kindFloat
	delta *deltaModel       // of differences
	base  int               // stream of the base
	// key is equal for equal segments, and rarely for others.
	key Digest
	// kept has chunks of a segment of kindFloat that were read for its model.
	kept map[int]*[]byte
}

// source is where a segment's bytes are read.
type source struct {
	r    io.ReaderAt
	off  int64
	size int64
	mem  []byte // instead of r, what is in memory
}

func (s *source) readAt(b []byte, off int64) error {
	if s.mem != nil {
		copy(b, s.mem[off:])
		return nil
	}
	return fillAt(s.r, b, s.off+off)
}

// fillAt fills b. Fewer bytes mean that the source was cut.
func fillAt(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		return ErrChanged
	}
	return err
}

const (
	// sampleBlock is how much of a segment is looked at in one place.
	sampleBlock = 1 << 17
	// keyBlock is how much of one in one place tells it from others.
	keyBlock = 1 << 12
)

// sample is one of up to four chunks of a segment, spread over it.
type sample struct {
	chunk int
	raw   []byte
}

func samples(s source, chunk int) ([]sample, error) {
	return (&chunkReader{source: s, size: chunk}).samples()
}

func (r *chunkReader) samples() ([]sample, error) {
	chunks := chunkCount(r.source.size, r.size)
	take := min(chunks, 4)
	out := make([]sample, take)
	for i := range take {
		n := int(i)
		if take > 1 {
			n = int(i * (chunks - 1) / (take - 1))
		}
		raw, ok := r.at(n)
		if !ok {
			raw = make([]byte, r.sizeOf(n))
			if err := r.readAt(raw, int64(n)*int64(r.size)); err != nil {
				return nil, err
			}
		}
		out[i] = sample{n, raw}
	}
	return out, nil
}

// choose looks at samples of a segment and fixes how it is stored.
func (w *Writer) choose(seg *segment, src source) (*choice, error) {
	blocks, err := samples(src, keyBlock)
	if err != nil {
		return nil, err
	}
	key := sampleKey(src.size, blocks)
	c, err := w.chooseModel(seg, src)
	if err != nil {
		return nil, err
	}
	c.key = key
	if seg.tensor && src.size > 0 {
		err = w.chooseDelta(c, seg, src)
	}
	return c, err
}

// chooseModel chooses between the float codec and bytes.
func (w *Writer) chooseModel(seg *segment, src source) (c *choice, err error) {
	c = &choice{dtype: seg.dtype}
	if src.size == 0 {
		return c, nil
	}
	if !seg.tensor {
		blocks, err := samples(src, sampleBlock)
		if err != nil {
			return nil, err
		}
		if c.dtype = w.guess(blocks, src.size); c.dtype == tensor.Invalid {
			return c, nil
		}
	}
	chunks := &chunkReader{source: src, room: keptBytes}
	if c.model, err = w.train(c.dtype, seg.shape, chunks); err != nil {
		return nil, err
	}
	c.kept = chunks.kept
	if seg.tensor {
		worse, err := w.worse(c, chunks)
		if err != nil {
			return nil, err
		}
		if worse {
			c.model = nil
			c.release()
		}
	}
	if c.model != nil {
		c.kind = kindFloat
	}
	return c, nil
}

// train makes the model of a segment.
func (w *Writer) train(d tensor.DType, shape tensor.Shape, chunks *chunkReader) (*floatcodec.Model, error) {
	t, err := floatcodec.NewTrainer(d, shape, chunks.source.size, floatcodec.Options{Level: w.opts.Level})
	if err != nil {
		return nil, err
	}
	for _, i := range t.Sample() {
		if i == 0 {
			_, chunks.size = t.ChunkRange(0)
		}
		raw, err := chunks.chunk(i)
		if err != nil {
			return nil, err
		}
		if err := t.Add(i, raw); err != nil {
			return nil, err
		}
	}
	return t.Model()
}

// worse reports whether bytes are smaller than what the codec makes of a tensor.
// At the fast level that is asked only where it may be: the codec tries
// Zstandard for itself.
func (w *Writer) worse(c *choice, r *chunkReader) (bool, error) {
	size := r.source.size
	rarely := w.opts.Level == floatcodec.Fast && c.dtype.IsFloat() && size > 8*keyBlock
	if rarely && size > 4*sampleBlock {
		return false, nil
	}
	chunks, err := r.samples()
	if err != nil {
		return false, err
	}
	if rarely {
		odd := false
		for _, s := range chunks {
			odd = odd || repeats(s.raw) || manyZeros(s.raw, c.dtype)
		}
		if !odd {
			return false, nil
		}
	}
	plain := estimate(size, chunks, w.bytesCost)
	coded := estimate(size, chunks, func(i int, raw []byte) int64 { return int64(len(c.model.AppendChunk(nil, i, raw))) })
	return plain < coded+int64(len(c.model.Append(nil))), nil
}

func sampleKey(size int64, blocks []sample) Digest {
	h := sha256.New()
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(size)))
	for _, b := range blocks {
		h.Write(b.raw)
	}
	return Digest(h.Sum(nil))
}

// trainBytes makes a model of what transform makes of each chunk of a segment: a
// byte for each element of width bytes.
func trainBytes(src source, level floatcodec.Level, width int, transform func([]byte, int64) ([]byte, error)) (*floatcodec.Model, error) {
	t, err := floatcodec.NewTrainer(tensor.U8, nil, src.size/int64(width), floatcodec.Options{Level: level})
	if err != nil {
		return nil, err
	}
	var b []byte
	for _, i := range t.Sample() {
		off, n := t.ChunkRange(i)
		if cap(b) < n*width {
			b = make([]byte, n*width)
		}
		raw := b[:n*width]
		if err := src.readAt(raw, off*int64(width)); err != nil {
			return nil, err
		}
		if raw, err = transform(raw, off*int64(width)); err != nil {
			return nil, err
		}
		if err := t.Add(i, raw); err != nil {
			return nil, err
		}
	}
	return t.Model()
}

// guess finds what elements a stretch of unknown bytes may consist of: files of
// other formats hold weights too. Invalid means none.
func (w *Writer) guess(blocks []sample, size int64) tensor.DType {
	if size < sampleBlock {
		return tensor.Invalid
	}
	plain := estimate(size, blocks, w.bytesCost)
	if plain < size/10*6 {
		return tensor.Invalid // text, or something else that a codec for floats does not know
	}
	best, cost := tensor.Invalid, plain/100*97
	for _, d := range []tensor.DType{tensor.F32, tensor.BF16, tensor.F16} {
		coded := estimate(size, blocks, func(_ int, raw []byte) int64 {
			enc, err := floatcodec.Encode(nil, d, nil, raw, floatcodec.Options{Level: w.opts.Level})
			if err != nil { // the type and the level are known to be good
				panic(err)
			}
			return int64(len(enc))
		})
		if coded < cost {
			best, cost = d, coded
		}
	}
	return best
}

// bytesCost returns what raw takes as plain bytes.
func (w *Writer) bytesCost(i int, raw []byte) int64 {
	return int64(len(appendBytesChunk(nil, i, raw, w.opts.Level)))
}

// estimate returns what size bytes take if they are like the samples, of which
// cost gives the encoded size.
func estimate(size int64, samples []sample, cost func(chunk int, raw []byte) int64) int64 {
	raw, sum := int64(0), int64(0)
	for _, s := range samples {
		raw += int64(len(s.raw))
		sum += cost(s.chunk, s.raw)
	}
	return int64(float64(sum) * (float64(size) / float64(raw)))
}

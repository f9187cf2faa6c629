package archive

import (
	"fmt"

	"github.com/hfcompress/compress/pack/floatcodec"
	"github.com/hfcompress/compress/tensor"
)

// deltaSource makes classes of the differences between a segment and a stream of
// the base.
type deltaSource struct {
	kind   byte
	form   form
	base   *Reader
	stream int
	d      delta
	buf    []byte
	low    []byte
}

// classes returns the classes of raw, which begins at byte off; they are valid
// until the next call, as are the bits below in s.low.
func (s *deltaSource) classes(raw []byte, off int64) ([]byte, error) {
	if cap(s.buf) < len(raw) {
		s.buf = make([]byte, len(raw))
	}
	b := s.buf[:len(raw)]
	if err := s.base.readStream(s.stream, off, b, 1); err != nil {
		return nil, fmt.Errorf("base archive: %w", err)
	}
	s.low = s.d.symbols(s.low[:0], s.kind, &s.form, raw, b)
	return s.d.sym, nil
}

// chooseDelta replaces a choice by differences from the base's tensor of the same
// name, type and shape, if samples of them are smaller.
func (w *Writer) chooseDelta(c *choice, seg *segment, src source) error {
	at, ok := w.baseTensor(seg)
	if !ok {
		return nil
	}
	f := formOf(seg.dtype)
	if src.size%int64(f.width) != 0 || src.size == 0 {
		return nil
	}
	chunks, err := samples(src, floatcodec.ChunkElements*f.width)
	if err != nil {
		return err
	}
	best := estimate(src.size, chunks, func(i int, raw []byte) int64 {
		if c.model == nil || c.model.ChunkBytes() != floatcodec.ChunkElements*f.width {
			return w.bytesCost(i, raw)
		}
		return int64(len(c.model.AppendChunk(nil, i, raw)))
	})
	if c.model != nil {
		best += int64(len(c.model.Append(nil)))
	}
	for _, kind := range []byte{kindULP, kindXOR} {
		d := &deltaSource{kind: kind, form: f, base: w.opts.Base, stream: at}
		// Huffman codes cannot go below one bit for each element; differences do.
		model, err := train(tensor.U8, nil, src, max(w.opts.Level, floatcodec.Dense), d)
		if err != nil {
			return err
		}
		cost := estimate(src.size, chunks, func(i int, raw []byte) int64 {
			sym, failed := d.classes(raw, int64(i)*int64(floatcodec.ChunkElements*f.width))
			if failed != nil {
				err = failed
				return 0
			}
			return int64(len(model.AppendChunk(nil, i, sym)) + len(d.low) + 6)
		})
		if err != nil {
			return err
		}
		if cost += int64(len(model.Append(nil))); cost < best {
			best = cost
			c.kind, c.model, c.base, c.dtype = kind, model, at, seg.dtype
		}
	}
	return nil
}

// baseTensor finds the base's tensor of the same name, type and shape.
func (w *Writer) baseTensor(seg *segment) (stream int, ok bool) {
	b := w.opts.Base
	if b == nil {
		return 0, false
	}
	b.lookups()
	for _, i := range b.names.tensors[seg.name] {
		t := &b.x.tensors[i]
		if t.dtype == seg.dtype && t.shape.Equal(seg.shape) {
			return int(b.tensorStream(i)), true
		}
	}
	return 0, false
}

package archive

import (
	"fmt"

	"github.com/hfcompress/compress/pack/floatcodec"
	"github.com/hfcompress/compress/tensor"
)

// deltaSource makes symbols of the differences between a segment and a stream of
// the base.
type deltaSource struct {
	model  *deltaModel
	base   *Reader
	stream int
	d      delta
	buf    []byte
}

// split takes raw, which begins at byte off, apart: the result is in s.d, until
// the next call.
func (s *deltaSource) split(raw []byte, off int64) error {
	s.buf = resize(s.buf, len(raw))
	if err := s.base.readStream(s.stream, off, s.buf, 1); err != nil {
		return fmt.Errorf("base archive: %w", err)
	}
	first := off / int64(s.model.form.width)
	s.model.prepare(s.buf, first)
	s.d.split(s.model, first, raw, s.buf)
	return nil
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
	d := &deltaSource{base: w.opts.Base, stream: at}
	// try keeps a way to store differences if it is smaller.
	try := func(m deltaModel, fine bool) error {
		d.model = &m
		cost, err := w.tryDelta(d, fine, src, chunks)
		if err == nil && cost < best {
			best = cost
			c.kind, c.delta, c.base, c.dtype = m.kind, &m, at, seg.dtype
		}
		return err
	}
	for _, kind := range []byte{kindULP, kindXOR} {
		if err := try(deltaModel{kind: kind, form: f}, false); err != nil {
			return err
		}
	}
	if c.delta == nil {
		return nil
	}
	p, err := w.findProduct(seg, src, at)
	if err != nil {
		return err
	}
	if p != nil {
		if err := try(deltaModel{kind: kindRank, form: f, product: p}, false); err != nil {
			return err
		}
	}
	p = c.delta.product
	if run := runOf(seg.shape, src.size/int64(f.width)); run > 0 {
		if err := try(deltaModel{kind: c.kind, form: f, run: run, product: p}, false); err != nil {
			return err
		}
	}
	return try(deltaModel{kind: c.kind, form: f, run: c.delta.run, product: p}, true)
}

// runOf returns how many elements of a tensor are likely to have moved alike: a
// row, some of them if they are short, a part if they are long; 0 if there is
// nothing to tell apart.
func runOf(shape tensor.Shape, elements int64) int {
	const shortest, longest, part = 128, 2048, 1024
	if len(shape) < 2 || elements <= shortest {
		return 0
	}
	row, err := shape[1:].Elements()
	switch {
	case err != nil || row == 0 || row > longest:
		return part
	case row < shortest:
		return (shortest + row - 1) / row * row
	}
	return row
}

// tryDelta trains the models of d and estimates what the segment takes with them.
func (w *Writer) tryDelta(d *deltaSource, fine bool, src source, chunks []sample) (int64, error) {
	// Huffman codes cannot go below one bit for each element; differences do.
	level := max(w.opts.Level, floatcodec.Dense)
	m := d.model
	var err error
	if m.classes, err = trainBytes(src, level, m.form.width, func(raw []byte, off int64) ([]byte, error) {
		err := d.split(raw, off)
		return d.d.sym, err
	}); err != nil {
		return 0, err
	}
	if fine {
		m.fine = m.classes // any, so that the bits are taken apart
		trained, err := trainBytes(src, level, m.form.width, func(raw []byte, off int64) ([]byte, error) {
			err := d.split(raw, off)
			return d.d.fine, err
		})
		if err != nil {
			return 0, err
		}
		m.fine = trained
	}
	cost := estimate(src.size, chunks, func(i int, raw []byte) int64 {
		if failed := d.split(raw, int64(i)*int64(floatcodec.ChunkElements*m.form.width)); failed != nil {
			err = failed
			return 0
		}
		n := len(m.classes.AppendChunk(nil, i, d.d.sym)) + len(d.d.low) + 7
		if m.fine != nil {
			n += len(m.fine.AppendChunk(nil, i, d.d.fine)) + 2
		}
		if m.run > 0 {
			n += len(appendActivities(nil, d.d.active))
		}
		return int64(n)
	})
	cost += int64(len(m.classes.Append(nil)))
	if m.fine != nil {
		cost += int64(len(m.fine.Append(nil)))
	}
	if m.product != nil {
		cost += int64(len(m.product.append(nil)))
	}
	return cost, err
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

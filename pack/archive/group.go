package archive

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/hfcompress/compress/pack/floatcodec"
	"github.com/hfcompress/compress/tensor"
)

// A model costs some hundred bytes and the time to train it, which is too much
// for a tensor of a few kilobytes. Small tensors of one type are therefore
// joined, in the order of the file, into groups that share a model and chunks.
// Each remains a stream of its own in the index, with its digest.

// groupBytes is when a group is full: a few chunks, so that one tensor alone is
// still read fast.
const groupBytes = 256 << 10

// smallBytes is how large a tensor may be that is joined with others. The
// higher levels gain more from a model of a tensor's own, and take the time.
var smallBytes = [...]int64{floatcodec.Fast: 128 << 10, floatcodec.Dense: 8 << 10, floatcodec.Max: 8 << 10}

// groupsAhead is how many full groups wait for their models. The order of
// streams depends on it, so it must not depend on the number of workers.
const groupsAhead = 3

// groupBuffers holds buffers for the bytes of groups.
var groupBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, groupBytes+smallBytes[floatcodec.Fast])
	return &b
}}

// group is a number of small tensors on their way into the archive.
type group struct {
	dtype   tensor.DType
	shape   tensor.Shape // of the first member
	raw     *[]byte
	members []*outStream
	sizes   []int64

	choice *choice
	err    error
	ready  chan struct{} // closed when choice or err is there
}

// joins reports whether a segment is joined with others if its content allows it.
func (in *adding) joins(seg *segment) bool {
	if !seg.tensor || seg.size == 0 || seg.size > smallBytes[in.w.opts.Level] {
		return false
	}
	_, differs := in.w.baseTensor(seg)
	return !differs
}

// addSmall stores a small tensor, or finds that it is stored.
func (in *adding) addSmall(seg *segment) (*outStream, error) {
	w := in.w
	u := <-w.free
	u.users.Wait()
	u.raw = resize(u.raw, int(seg.size))
	u.s = nil
	src := in.source(seg)
	if err := src.readAt(u.raw, 0); err != nil {
		w.free <- u
		return nil, err
	}
	s, err := in.join(seg, u.raw)
	in.send(u)
	in.advance(seg.size)
	return s, err
}

func (in *adding) join(seg *segment, raw []byte) (*outStream, error) {
	w := in.w
	digest := Digest(sha256.Sum256(raw))
	if s := w.byDigest[digest]; s != nil {
		w.stats.Repeated += seg.size
		return s, nil
	}
	s := &outStream{digest: digest, hashed: closed}
	w.byDigest[digest] = s
	if at, known := w.baseD[digest]; known && w.opts.Base.x.streams[at].size == seg.size {
		w.stats.Repeated += seg.size
		w.number(s, stream{kind: kindCopy, size: seg.size, base: at})
		return s, nil
	}
	// What repeats within itself would spoil the statistics of others, and is
	// smaller alone.
	alone := len(raw) >= 256 && (repeats(raw) || manyZeros(raw, seg.dtype))
	g := in.open[seg.dtype]
	if alone || g == nil {
		g = &group{dtype: seg.dtype, shape: seg.shape, raw: groupBuffers.Get().(*[]byte)}
		*g.raw = (*g.raw)[:0]
		if !alone {
			in.open[seg.dtype] = g
			in.opened = append(in.opened, seg.dtype)
		}
	}
	*g.raw = append(*g.raw, raw...)
	g.members = append(g.members, s)
	g.sizes = append(g.sizes, seg.size)
	if alone {
		return s, in.fill(g)
	}
	if len(*g.raw) >= groupBytes {
		delete(in.open, seg.dtype)
		in.opened = slices.DeleteFunc(in.opened, func(d tensor.DType) bool { return d == seg.dtype })
		return s, in.fill(g)
	}
	return s, nil
}

// fill has a model made for a group, and dispatches the one that has waited
// longest if there are enough.
func (in *adding) fill(g *group) error {
	g.ready = make(chan struct{})
	if len(g.members) > 1 {
		g.shape = nil
	}
	go func() {
		defer close(g.ready)
		seg := &segment{size: int64(len(*g.raw)), tensor: true, dtype: g.dtype, shape: g.shape}
		g.choice, g.err = in.w.chooseModel(seg, source{mem: *g.raw, size: seg.size})
	}()
	in.full = append(in.full, g)
	if len(in.full) > groupsAhead {
		return in.dispatch()
	}
	return nil
}

// finish dispatches all groups: no tensor is joined with those of other files.
func (in *adding) finish() error {
	for _, d := range in.opened {
		if err := in.fill(in.open[d]); err != nil {
			return err
		}
	}
	for len(in.full) > 0 {
		if err := in.dispatch(); err != nil {
			return err
		}
	}
	return nil
}

// dispatch sends the group that was filled first to the encoders.
func (in *adding) dispatch() error {
	w, g := in.w, in.full[0]
	in.full = in.full[1:]
	<-g.ready
	if g.err != nil {
		return g.err
	}
	head := g.members[0]
	head.choice = g.choice
	for i, s := range g.members {
		kind := byte(kindJoined)
		if i == 0 {
			kind = g.choice.kind
		}
		w.number(s, stream{kind: kind, size: g.sizes[i]})
	}
	chunk := bytesChunk
	if g.choice.kind == kindFloat {
		chunk = g.choice.model.ChunkBytes()
	}
	raw := *g.raw
	for i := 0; i*chunk < len(raw); i++ {
		if err := in.ctx.Err(); err != nil {
			return err
		}
		if err := w.failed(); err != nil {
			return err
		}
		u := <-w.free
		u.users.Wait()
		u.raw = append(u.raw[:0], raw[i*chunk:min((i+1)*chunk, len(raw))]...)
		u.s, u.chunk = head, i
		w.encodeUnit(u)
		w.free <- u
	}
	w.order <- &unit{s: head, end: true}
	groupBuffers.Put(g.raw)
	return nil
}

// repeats reports whether words of eight bytes occur again and again, as in
// constant, sparse and periodic tensors, but not among trained weights. Of long
// ones it looks at every other stretch.
func repeats(raw []byte) bool {
	const bits = 11
	const stretch = 8 << 10
	var seen [1 << bits]uint64
	words, again := 0, 0
	for at := 0; at < len(raw); at += 2 * stretch {
		part := raw[at:min(at+stretch, len(raw))]
		for ; len(part) >= 8; part = part[8:] {
			v := binary.LittleEndian.Uint64(part)
			at := v * 0x9E3779B97F4A7C15 >> (64 - bits)
			if seen[at] == v { // zeros too: they are there from the beginning
				again++
			}
			seen[at] = v
			words++
		}
	}
	return again*16 > words
}

// manyZeros reports whether more than one in 16 elements is zero, which has a
// coding of its own.
func manyZeros(raw []byte, d tensor.DType) bool {
	width := d.Size()
	if width != 2 && width != 4 || !d.IsFloat() {
		return false
	}
	n, zeros := len(raw)/width, 0
	step := max(n/4096, 1)
	for i := 0; i < n; i += step {
		at := i * width
		if width == 2 && binary.LittleEndian.Uint16(raw[at:])<<1 == 0 ||
			width == 4 && binary.LittleEndian.Uint32(raw[at:])<<1 == 0 {
			zeros++
		}
	}
	return zeros*16*step > n
}

// closed is for what is known from the start.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

package archive

import (
	"context"
	"crypto/sha256"
	"io"

	"github.com/hfcompress/compress/pack/archive/internal/pairsum"
	"github.com/hfcompress/compress/pack/floatcodec"
	"github.com/hfcompress/compress/tensor"
)

// adding is one file on its way into the archive.
type adding struct {
	w      *Writer
	ctx    context.Context
	name   string
	size   int64
	done   int64
	src    io.ReaderAt
	sum    *pairsum.Digest
	single bool // one segment, whose digest is the file's

	segments []segment
	choices  []*pending
	started  int

	open   map[tensor.DType]*group // groups that are not full
	opened []tensor.DType          // their types, from the first
	full   []*group
}

// pending is a choice that is being made.
type pending struct {
	c     *choice
	err   error
	ready chan struct{}
}

// ahead is for how many segments choices are made at the same time as others
// are encoded. At the highest level a choice may take tens of megabytes.
func (in *adding) ahead() int {
	if in.w.opts.Level == floatcodec.Max {
		return 1
	}
	return min(in.w.opts.Workers, 8)
}

func (in *adding) chooseAhead(segments []segment) error {
	in.segments = segments
	in.choices = make([]*pending, len(segments))
	return in.ctx.Err()
}

// choice returns that of segment i, and starts those of the next ones.
func (in *adding) choice(i int) (*choice, error) {
	for ; in.started < min(i+1+in.ahead(), len(in.segments)); in.started++ {
		seg := &in.segments[in.started]
		if in.joins(seg) {
			continue
		}
		p := &pending{ready: make(chan struct{})}
		in.choices[in.started] = p
		go func() {
			defer close(p.ready)
			p.c, p.err = in.w.choose(seg, in.source(seg))
		}()
		if in.started == i && in.ahead() == 1 {
			<-p.ready // one at a time
		}
	}
	p := in.choices[i]
	<-p.ready
	in.choices[i] = nil
	return p.c, p.err
}

// stop waits for choices that are still being made: they read the source.
func (in *adding) stop() {
	for _, p := range in.choices[:in.started] {
		if p != nil {
			<-p.ready
		}
	}
	for _, g := range in.full {
		<-g.ready
	}
}

func (in *adding) source(seg *segment) source { return source{r: in.src, off: seg.off, size: seg.size} }

// add stores a segment, or finds that it is stored, and returns its stream.
func (in *adding) add(seg *segment, i int) (*outStream, error) {
	if in.joins(seg) {
		return in.addSmall(seg)
	}
	w := in.w
	c, err := in.choice(i)
	if err != nil {
		return nil, err
	}
	if s, err := in.repeated(seg, c); err != nil {
		return nil, err
	} else if s != nil {
		w.stats.Repeated += seg.size
		c.release()
		return s, in.pass(seg, nil)
	}
	s := &outStream{choice: c, sum: pairsum.New(), hashed: make(chan struct{})}
	e := stream{kind: c.kind, size: seg.size}
	if c.delta != nil {
		e.base = c.base
		e.dtype, _ = dtypeCode(c.dtype)
		w.stats.Deltas += seg.size
	}
	w.number(s, e)
	w.byKey[c.key] = append(w.byKey[c.key], s)
	return s, in.pass(seg, s)
}

// repeated looks for a segment among the streams of this archive and the base.
// Only one that resembles another is read whole for this.
func (in *adding) repeated(seg *segment, c *choice) (*outStream, error) {
	w := in.w
	candidates := w.byKey[c.key]
	if len(candidates) == 0 && !w.baseN[seg.size] {
		return nil, nil
	}
	h := sha256.New()
	b := make([]byte, 1<<18)
	src := in.source(seg)
	for off := int64(0); off < seg.size; {
		n := min(int64(len(b)), seg.size-off)
		if err := src.readAt(b[:n], off); err != nil {
			return nil, err
		}
		h.Write(b[:n])
		if off += n; in.ctx.Err() != nil {
			return nil, in.ctx.Err()
		}
	}
	digest := Digest(h.Sum(nil))
	for _, s := range candidates {
		<-s.hashed
		if s.digest == digest && w.x.streams[s.number].size == seg.size {
			return s, nil
		}
	}
	at, known := w.baseD[digest]
	if !known || w.opts.Base.x.streams[at].size != seg.size {
		return nil, nil
	}
	s := &outStream{hashed: closed, digest: digest}
	w.number(s, stream{kind: kindCopy, size: seg.size, base: at})
	w.byKey[c.key] = append(w.byKey[c.key], s)
	return s, nil
}

// pass sends a segment's bytes through the digests, and to the encoders if it is
// to be stored as s.
func (in *adding) pass(seg *segment, s *outStream) error {
	w := in.w
	chunk := bytesChunk
	if s != nil {
		switch {
		case s.choice.kind == kindFloat:
			chunk = s.choice.model.ChunkBytes()
		case s.choice.kind != kindBytes:
			chunk = floatcodec.ChunkElements * s.choice.delta.form.width
		}
	}
	src := in.source(seg)
	for off, i := int64(0), 0; off < seg.size; i++ {
		if err := in.ctx.Err(); err != nil {
			return err
		}
		if err := w.failed(); err != nil {
			return err
		}
		u := <-w.free
		u.users.Wait()
		n := int(min(int64(chunk), seg.size-off))
		u.s, u.chunk = s, i
		kept := false
		if s != nil {
			u.raw, kept = s.choice.take(i, u.raw)
		}
		if !kept {
			u.raw = resize(u.raw, n)
			if err := src.readAt(u.raw, off); err != nil {
				w.free <- u
				return err
			}
		}
		in.send(u)
		off += int64(n)
		in.advance(int64(n))
	}
	if s != nil {
		w.sums <- hashing{finish: func() {
			s.digest = s.sum.Sum()
			close(s.hashed)
		}}
		w.order <- &unit{s: s, end: true}
	}
	return nil
}

func (in *adding) advance(n int64) {
	in.done += n
	if in.w.opts.Progress != nil {
		in.w.opts.Progress(in.name, in.done, in.size)
	}
}

func resize(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// encodeUnit hands a chunk to the encoders, and to the emitter in its turn.
func (w *Writer) encodeUnit(u *unit) {
	u.users.Add(2)
	u.done = make(chan struct{})
	w.order <- u
	w.work <- u
}

// send hands a unit to all who need it. It goes back to the free ones at once,
// in turn; whoever takes it waits for its users.
func (in *adding) send(u *unit) {
	w := in.w
	h := hashing{u: u}
	if u.s != nil {
		h.stream = u.s.sum
	}
	if !in.single {
		h.file = in.sum
	}
	if h.stream != nil || h.file != nil {
		u.users.Add(1)
		w.sums <- h
	}
	if u.s != nil {
		w.encodeUnit(u)
	}
	w.free <- u
}

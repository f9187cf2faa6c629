package archive

import (
	"context"
	"crypto/sha256"
	"hash"
	"io"

	"github.com/hfcompress/compress/pack/floatcodec"
)

// adding is one file on its way into the archive.
type adding struct {
	w      *Writer
	ctx    context.Context
	name   string
	size   int64
	done   int64
	src    io.ReaderAt
	sum    hash.Hash
	single bool // one segment, whose digest is the file's

	segments []segment
	choices  []*pending
	started  int
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
		p := &pending{ready: make(chan struct{})}
		in.choices[in.started] = p
		seg := &in.segments[in.started]
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
}

func (in *adding) source(seg *segment) source { return source{in.src, seg.off, seg.size} }

// add stores a segment, or finds that it is stored, and returns its stream.
func (in *adding) add(seg *segment, i int) (int, error) {
	w := in.w
	c, err := in.choice(i)
	if err != nil {
		return 0, err
	}
	if number, found, err := in.repeated(seg, c); err != nil {
		return 0, err
	} else if found {
		w.stats.Repeated += seg.size
		return number, in.pass(seg, nil)
	}
	s := &outStream{choice: c, number: len(w.outs), sum: sha256.New(), hashed: make(chan struct{})}
	e := stream{kind: c.kind, size: seg.size}
	if c.kind == kindULP || c.kind == kindXOR {
		s.form = formOf(c.dtype)
		e.base = c.base
		e.dtype, _ = dtypeCode(c.dtype)
		w.stats.Deltas += seg.size
	}
	w.outs = append(w.outs, s)
	w.x.streams = append(w.x.streams, e)
	w.byKey[c.key] = append(w.byKey[c.key], s.number)
	return s.number, in.pass(seg, s)
}

// repeated looks for a segment among the streams of this archive and the base.
// Only one that resembles another is read whole for this.
func (in *adding) repeated(seg *segment, c *choice) (number int, found bool, err error) {
	w := in.w
	candidates := w.byKey[c.key]
	if len(candidates) == 0 && !w.baseN[seg.size] {
		return 0, false, nil
	}
	h := sha256.New()
	b := make([]byte, 1<<18)
	for off := int64(0); off < seg.size; {
		n := min(int64(len(b)), seg.size-off)
		if err := in.source(seg).readAt(b[:n], off); err != nil {
			return 0, false, err
		}
		h.Write(b[:n])
		if off += n; in.ctx.Err() != nil {
			return 0, false, in.ctx.Err()
		}
	}
	digest := Digest(h.Sum(nil))
	for _, i := range candidates {
		s := w.outs[i]
		<-s.hashed
		if s.digest == digest && w.x.streams[i].size == seg.size {
			return i, true, nil
		}
	}
	at, known := w.baseD[digest]
	if !known || w.opts.Base.x.streams[at].size != seg.size {
		return 0, false, nil
	}
	s := &outStream{number: len(w.outs), hashed: make(chan struct{}), digest: digest}
	close(s.hashed)
	w.outs = append(w.outs, s)
	w.x.streams = append(w.x.streams, stream{kind: kindCopy, size: seg.size, base: at})
	w.byKey[c.key] = append(w.byKey[c.key], s.number)
	return s.number, true, nil
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
			chunk = s.choice.model.ChunkBytes() * s.form.width
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
		if cap(u.raw) < n {
			u.raw = make([]byte, n)
		}
		u.raw = u.raw[:n]
		u.s, u.chunk = s, i
		if err := src.readAt(u.raw, off); err != nil {
			w.free <- u
			return err
		}
		in.send(u)
		off += int64(n)
		in.done += int64(n)
		if w.opts.Progress != nil {
			w.opts.Progress(in.name, in.done, in.size)
		}
	}
	if s != nil {
		w.streamSums <- hashing{finish: func() {
			s.digest = Digest(s.sum.Sum(nil))
			close(s.hashed)
		}}
		w.order <- &unit{s: s, end: true}
	}
	return nil
}

// send hands a unit to all who need it. It goes back to the free ones at once,
// in turn; whoever takes it waits for its users.
func (in *adding) send(u *unit) {
	w := in.w
	if u.s != nil {
		u.users.Add(3)
		u.done = make(chan struct{})
		w.streamSums <- hashing{h: u.s.sum, u: u}
		w.order <- u
		w.work <- u
	}
	if !in.single {
		u.users.Add(1)
		w.fileSums <- hashing{h: in.sum, u: u}
	}
	w.free <- u
}

package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"path/filepath"
	"sync"

	"github.com/hfcompress/compress/internal/ramp"
)

const (
	// copyBuffer is for reading back from disk.
	copyBuffer = 256 << 10
	// parallelFrom: below it a second connection gains nothing.
	parallelFrom = 16 << 20
	maxClaim     = 32 << 20
	// minProgress is what an attempt must bring to count as progress. A
	// server that sends a few bytes and stalls, again and again, would
	// otherwise keep a client for ever.
	minProgress = 64 << 10
	// maxBad is how many unusable answers (wrong range, wrong length, other
	// content) a segment takes before it gives up.
	maxBad = 2
)

var buffers = sync.Pool{New: func() any { b := make([]byte, copyBuffer); return &b }}

// transfer brings one blob from the Hub into a partial.
type transfer struct {
	c    *Client
	repo Repo
	file string
	etag string
	size int64
	src  *source
	p    *partial

	mu   sync.Mutex
	next int   // first part that may be unclaimed
	sent int64 // bytes of this file on disk, for progress

	// Of the pass that is running:
	flow *flow
	ramp *ramp.Ramp
}

// newDigest is the hash that an etag of this shape states.
func newDigest(etag string, size int64) (h hash.Hash, algorithm string) {
	if isSHA256(etag) {
		return sha256.New(), "sha256"
	}
	h = sha1.New()
	fmt.Fprintf(h, "blob %d\x00", size)
	return h, "git-sha1"
}

// run fetches all missing parts and checks the digest of the whole. The first
// try is made over Xet, where the Hub offers it; plain HTTP brings whatever
// that leaves.
func (t *transfer) run(ctx context.Context, try int, cm Commit, f File) error {
	if s := t.c.xetStoreOf(t.repo, cm, f); s != nil && try == 0 && len(t.p.missing()) > 0 {
		final, err := t.overXet(ctx, s, f.XetHash)
		if final {
			return err
		}
		t.c.log.Warn("Xet failed, going on over HTTP", "repo", t.repo.String(), "file", t.file, "err", redactText(err.Error()))
		t.c.progress.send(Event{Kind: FellBack, Repo: t.repo, File: t.file, Total: t.size, Err: err})
	}
	err := t.pass(ctx, true)
	if errors.Is(err, errNoRanges) {
		// Discard and take the file as one stream from the start.
		t.c.log.Debug("server ignores ranges, starting over", "file", t.file)
		if err := t.p.reset(); err != nil {
			return err
		}
		t.src.forget(nil)
		t.setSent(0)
		err = t.pass(ctx, false)
	}
	return err
}

// pass runs transfers until every part is complete, and a digest that follows
// the first missing part. With ranges off a single one takes the whole file
// from its start.
func (t *transfer) pass(ctx context.Context, ranges bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.next = 0
	most := 1
	if ranges && t.size >= t.c.parallelFrom {
		most = min(t.c.opts.ConnsPerFile, cap(t.c.conns))
	}
	t.ramp = ramp.New(most)
	t.flow = t.newFlow(ctx, cancel, true)
	t.ramp.Run(ctx, func(more func() bool) {
		for more() {
			from, to, ok := t.claim(most)
			if !ok {
				return
			}
			var err error
			if ranges {
				err = t.segment(ctx, from, to)
			} else {
				err = t.stream(ctx)
			}
			if err != nil {
				cancel(err)
				return
			}
		}
	})
	t.flow.close()
	err := t.flow.verify(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// claim takes the next run of missing parts. It becomes shorter towards the
// end, so that all transfers end at about the same time; where there can be
// only one it has no bound.
func (t *transfer) claim(most int) (from, to int64, ok bool) {
	running := t.ramp.Transfers()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	for t.next < len(t.p.done) && t.p.done[t.next] {
		t.next++
	}
	if t.next >= len(t.p.done) {
		return 0, 0, false
	}
	from, to = t.p.span(t.next)
	limit := t.size
	if most > 1 {
		limit = min(max((t.size-from)/int64(2*max(running, 1)), t.p.head.Part), maxClaim)
	}
	for t.next++; t.next < len(t.p.done) && !t.p.done[t.next] && to-from < limit; t.next++ {
		_, to = t.p.span(t.next)
	}
	return from, to, true
}

// writer puts the bytes of one segment into the partial, in order.
type writer struct {
	t   *transfer
	crc uint32 // of what the current part has
}

// write is called by the flow alone.
func (w *writer) write(b []byte, pos int64) (full []finishedPart, err error) {
	if _, err := w.t.p.f.WriteAt(b, pos); err != nil {
		return nil, err
	}
	for len(b) > 0 {
		i := int(pos / w.t.p.head.Part)
		_, end := w.t.p.span(i)
		n := min(int64(len(b)), end-pos)
		w.crc = crc32.Update(w.crc, castagnoli, b[:n])
		if pos, b = pos+n, b[n:]; pos == end {
			full = append(full, finishedPart{i, w.crc})
			w.crc = 0
		}
	}
	return full, nil
}

// stretch is what one segment has received so far.
type stretch struct {
	w   *writer
	pos int64
}

// segment fetches [from, to), which starts at a part. A broken transfer goes
// on where it stopped; the count of failures starts anew whenever an attempt
// brought minProgress.
func (t *transfer) segment(ctx context.Context, from, to int64) error {
	s := &stretch{w: &writer{t: t}, pos: from}
	fails, bad := 0, 0
	for s.pos < to {
		start := s.pos
		err := t.once(ctx, s, to)
		if s.pos-start >= minProgress {
			fails = 0
		}
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if unusable(err) {
			t.src.forget(nil)
			if bad++; bad > maxBad {
				return err
			}
		} else if !temporary(err) || fails >= t.c.opts.Retries {
			return err
		}
		if perr := t.c.pause(ctx, t.file, fails, err); perr != nil {
			return perr
		}
		fails++
	}
	return nil
}

// once opens one answer and receives it as far as it goes.
func (t *transfer) once(ctx context.Context, s *stretch, to int64) error {
	release, err := t.c.takeConn(ctx)
	if err != nil {
		return err
	}
	defer release()
	a, err := t.src.get(ctx, s.pos, to)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	end, err := t.src.check(a, s.pos, to)
	if err != nil {
		return err
	}
	return t.receive(ctx, a, s, end)
}

// takeConn waits for one of the client's transfers to be free.
func (c *Client) takeConn(ctx context.Context) (release func(), err error) {
	select {
	case c.conns <- struct{}{}:
		return func() { <-c.conns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// receive reads until end and hands the bytes on. Bytes beyond it are not
// read.
func (t *transfer) receive(ctx context.Context, a *answer, s *stretch, end int64) error {
	for s.pos < end {
		mem, err := t.flow.pool.get(ctx)
		if err != nil {
			return err
		}
		n, err := fill(a.Body, mem[:min(end-s.pos, int64(len(mem)))], t.ramp.Add)
		if n > 0 {
			t.flow.send(block{mem: mem, data: mem[:n], off: s.pos, to: s.w})
			s.pos += int64(n)
		} else {
			t.flow.pool.put(mem)
		}
		switch {
		case err == io.EOF && s.pos < end:
			return &Error{Kind: ErrNetwork, URL: redactURL(a.url), Err: errTruncated}
		case err != nil && err != io.EOF:
			return networkError(ctx, a.url, err)
		}
	}
	return nil
}

func (t *transfer) diskError(err error) error {
	if isNoSpace(err) {
		dir := filepath.Dir(t.p.path)
		free, _ := freeSpace(dir)
		have, _ := t.p.state()
		return &DiskSpaceError{Dir: dir, Need: t.size - have, Free: free}
	}
	return &Error{Kind: ErrCache, File: t.file, Err: err}
}

// stream takes the whole file in one answer, again from the start after a
// failure. Failures without getting further than before use up the retries.
func (t *transfer) stream(ctx context.Context) error {
	var best int64
	for fails := 0; ; fails++ {
		t.flow.drain()
		if err := t.p.reset(); err != nil {
			return t.diskError(err)
		}
		t.setSent(0)
		s := &stretch{w: &writer{t: t}}
		err := t.once(ctx, s, t.size)
		if err == nil {
			t.mu.Lock()
			t.next = len(t.p.done)
			t.mu.Unlock()
			return nil
		}
		if s.pos-best >= minProgress {
			best, fails = s.pos, 0
		}
		if ctx.Err() != nil || !temporary(err) && !unusable(err) || fails >= t.c.opts.Retries {
			return err
		}
		t.src.forget(nil)
		if perr := t.c.pause(ctx, t.file, fails, err); perr != nil {
			return perr
		}
	}
}

func (t *transfer) addSent(n int64) {
	t.mu.Lock()
	t.sent += n
	done := t.sent
	t.mu.Unlock()
	t.c.progress.send(Event{Kind: FileProgress, Repo: t.repo, File: t.file, Done: done, Total: t.size})
}

func (t *transfer) setSent(n int64) {
	t.mu.Lock()
	t.sent = n
	t.mu.Unlock()
	t.c.progress.send(Event{Kind: FileProgress, Repo: t.repo, File: t.file, Done: n, Total: t.size})
}

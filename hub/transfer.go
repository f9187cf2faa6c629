package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"path/filepath"
	"sync"
)

const (
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
	// hashed is partial.taken as the digest saw it.
	hashed int
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

// pass runs workers until every part is complete, and a hasher that follows
// the first missing part. With ranges off a single worker takes the whole
// file from its start.
func (t *transfer) pass(ctx context.Context, ranges bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.next = 0
	workers := 1
	if ranges && t.size >= t.c.parallelFrom {
		workers = min(t.c.opts.ConnsPerFile, cap(t.c.conns))
	}
	claim := t.size
	if workers > 1 {
		claim = min(max(t.size/int64(2*workers), t.p.head.Part), maxClaim)
	}
	digest := make(chan error, 1)
	go func() { digest <- t.follow(ctx) }()
	var wg sync.WaitGroup
	for range workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				from, to, ok := t.claim(claim)
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
		}()
	}
	wg.Wait()
	if ctx.Err() != nil {
		t.p.cond.Broadcast()
		<-digest
		return context.Cause(ctx)
	}
	return <-digest
}

// claim takes the next run of missing parts, at most limit bytes long.
func (t *transfer) claim(limit int64) (from, to int64, ok bool) {
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
	for t.next++; t.next < len(t.p.done) && !t.p.done[t.next] && to-from < limit; t.next++ {
		_, to = t.p.span(t.next)
	}
	return from, to, true
}

// writer puts bytes into the partial and marks parts as they fill.
type writer struct {
	t   *transfer
	pos int64
	crc uint32
}

func (w *writer) write(b []byte) error {
	for len(b) > 0 {
		i := int(w.pos / w.t.p.head.Part)
		_, end := w.t.p.span(i)
		n := min(int64(len(b)), end-w.pos)
		if _, err := w.t.p.f.WriteAt(b[:n], w.pos); err != nil {
			return err
		}
		w.crc = crc32.Update(w.crc, castagnoli, b[:n])
		w.pos += n
		b = b[n:]
		if w.pos == end {
			if err := w.t.p.mark(i, w.crc); err != nil {
				return err
			}
			w.crc = 0
		}
	}
	return nil
}

// segment fetches [from, to), which starts at a part. A broken transfer goes
// on where it stopped; the count of failures starts anew whenever an attempt
// brought minProgress.
func (t *transfer) segment(ctx context.Context, from, to int64) error {
	w := &writer{t: t, pos: from}
	fails, bad := 0, 0
	for w.pos < to {
		start := w.pos
		err := t.once(ctx, w, to)
		if w.pos-start >= minProgress {
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

// once opens one answer and copies it as far as it goes.
func (t *transfer) once(ctx context.Context, w *writer, to int64) error {
	release, err := t.c.takeConn(ctx)
	if err != nil {
		return err
	}
	defer release()
	a, err := t.src.get(ctx, w.pos, to)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	end, err := t.src.check(a, w.pos, to)
	if err != nil {
		return err
	}
	return t.copy(ctx, a, w, end)
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

// copy moves bytes until end. Bytes beyond it are not read.
func (t *transfer) copy(ctx context.Context, a *answer, w *writer, end int64) error {
	bp := buffers.Get().(*[]byte)
	defer buffers.Put(bp)
	for w.pos < end {
		b := *bp
		if rest := end - w.pos; rest < int64(len(b)) {
			b = b[:rest]
		}
		n, err := a.Body.Read(b)
		if n > 0 {
			if werr := w.write(b[:n]); werr != nil {
				return t.diskError(werr)
			}
			t.addSent(int64(n))
		}
		switch {
		case err == io.EOF && w.pos < end:
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
		if err := t.p.reset(); err != nil {
			return err
		}
		t.setSent(0)
		w := &writer{t: t}
		err := t.once(ctx, w, t.size)
		if err == nil {
			t.mu.Lock()
			t.next = len(t.p.done)
			t.mu.Unlock()
			return nil
		}
		if w.pos-best >= minProgress {
			best, fails = w.pos, 0
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

// follow hashes the file in order, close behind the workers, by reading back
// what they wrote: it comes from the page cache.
func (t *transfer) follow(ctx context.Context) error {
	stop := context.AfterFunc(ctx, t.p.cond.Broadcast)
	defer stop()
	h, algorithm := newDigest(t.etag, t.size)
	bp := buffers.Get().(*[]byte)
	defer buffers.Put(bp)
	t.hashed = 0
	for i := 0; i < len(t.p.done); i++ {
		t.p.mu.Lock()
		for !t.p.done[i] && ctx.Err() == nil {
			t.p.cond.Wait()
		}
		if t.p.taken != t.hashed {
			// A part was taken back that may be in the digest already.
			t.hashed = t.p.taken
			t.p.mu.Unlock()
			h, _ = newDigest(t.etag, t.size)
			i = -1
			continue
		}
		t.p.mu.Unlock()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		from, to := t.p.span(i)
		if _, err := io.CopyBuffer(h, onlyReader{io.NewSectionReader(t.p.f, from, to-from)}, *bp); err != nil {
			return &Error{Kind: ErrCache, File: t.file, Err: err}
		}
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != t.etag {
		return &ChecksumError{File: t.file, Algorithm: algorithm, Expected: t.etag, Actual: got}
	}
	return nil
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

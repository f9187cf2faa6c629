package xet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/zeebo/blake3"
)

const (
	inBuffer  = 1 << 20 // must hold a header and maxStored
	outBuffer = 512 << 10
	// patience is how long a slow transfer may fill one lent block.
	patience = 50 * time.Millisecond
	// drainLimit is how much of an answer is read to keep its connection.
	drainLimit = 256 << 10
)

var errExpired = errors.New("the signed address is refused")

// worker unpacks the chunks of one answer into one buffer as they arrive and
// writes each run of them to every term that has it, so memory does not depend
// on the size of a job. A worker exists only while a transfer is open: their
// number is what bounds memory.
type worker struct {
	t       *transfer
	out     []byte // chunks are unpacked into it: own, or a lent block
	own     []byte
	since   time.Time // when the run in a lent block began
	body    *bufio.Reader
	hasher  *blake3.Hasher
	decoder Decoder

	// The run of chunks in out: the first one's index, and the end of each.
	first uint32
	ends  []int
}

var workers = sync.Pool{New: func() any {
	return &worker{body: bufio.NewReaderSize(nil, inBuffer), hasher: newKeyed(&dataKey)}
}}

// run fetches a job until it is complete. A failed attempt is made anew for
// the same byte range, since that alone is signed, but goes on at the first
// chunk not delivered.
func (t *transfer) job(ctx context.Context, j *job) error {
	fails, bad, expired := 0, 0, 0
	for j.next < j.until {
		at := j.next
		generation, err := t.attempt(ctx, j)
		if err == nil {
			t.prove(j)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if j.next > at {
			fails, expired = 0, 0
		}
		switch {
		case errors.Is(err, errExpired):
			if expired++; expired > maxBad {
				return err
			}
			if err := j.w.renew(ctx, generation, t.query); err != nil {
				return err
			}
			t.retries.Add(1)
			continue
		case errors.Is(err, ErrCorrupt) || errors.Is(err, ErrProtocol):
			if bad++; bad > maxBad {
				return err
			}
		case !temporary(err) || fails >= t.c.opts.Retries:
			return err
		}
		if err := t.pause(ctx, fails, err); err != nil {
			return err
		}
		fails++
	}
	return nil
}

// prove notes the ranges of a job that has all chunks of its xorb: the xorb's
// hash is the root over their hashes. Where they do not match, the job may
// simply have a part of the xorb, which says nothing.
func (t *transfer) prove(j *job) {
	if !t.verify || j.start != 0 {
		return
	}
	var tree Tree
	for _, n := range j.sums {
		if n.size == 0 {
			return // not needed, so not unpacked
		}
		tree.Add(n.hash, n.size)
	}
	if tree.XorbHash() != j.xorb {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tm := range j.terms {
		t.proven.add(Range{tm.off, tm.off + tm.size})
	}
}

// attempt makes one request for a job and delivers what it gives.
func (t *transfer) attempt(ctx context.Context, j *job) (generation int, err error) {
	select {
	case t.c.conns <- struct{}{}:
		defer func() { <-t.c.conns }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	u, generation := j.w.url(j.partKey)
	t.requests.Add(1)
	x, err := t.c.openContent(ctx, j.partKey, u)
	if err != nil {
		return generation, err
	}
	switch x.StatusCode {
	case http.StatusPartialContent:
	case http.StatusForbidden, http.StatusUnauthorized, http.StatusGone:
		e := x.statusError()
		e.Kind, e.Err, e.Xorb = ErrForbidden, errExpired, j.xorb
		return generation, e
	case http.StatusOK:
		x.Close()
		return generation, &Error{Kind: ErrProtocol, Xorb: j.xorb, Status: x.StatusCode, URL: redact(x.at), Message: "a byte range was answered with the whole"}
	default:
		e := x.statusError()
		e.Xorb = j.xorb
		return generation, e
	}
	defer x.Close()
	length := j.last - j.first + 1
	if cr := x.Header.Get("Content-Range"); !strings.HasPrefix(cr, fmt.Sprintf("bytes %d-%d/", j.first, j.last)) || x.ContentLength >= 0 && x.ContentLength != length {
		return generation, &Error{Kind: ErrProtocol, Xorb: j.xorb, URL: redact(x.at), Message: fmt.Sprintf("asked for bytes %d-%d, got %.64q with %d bytes", j.first, j.last, cr, x.ContentLength)}
	}
	in := &counted{t: t, r: x, left: length}
	w := workers.Get().(*worker)
	w.t = t
	w.body.Reset(in)
	err = w.deliver(j, in)
	if t.lender != nil && w.out != nil {
		t.lender.FreeBlock(w.out)
	}
	w.t, w.out = nil, nil
	w.body.Reset(nil)
	workers.Put(w)
	var e *Error
	// Once the fetch has ended, the error is the one that ended it, and others
	// hold it too.
	if ctx.Err() == nil && errors.As(err, &e) {
		e.Xorb = j.xorb
	}
	if err == nil && in.left <= drainLimit {
		_, _ = io.Copy(io.Discard, in)
		_, _ = x.Read(make([]byte, 1)) // the end of the body frees the connection
	}
	return generation, err
}

// deliver unpacks the chunks of an answer and writes them. What was unpacked
// before a failure counts.
func (w *worker) deliver(j *job, in *counted) error {
	w.ends = w.ends[:0]
	err := w.unpack(j, in)
	if ferr := w.flush(j); ferr != nil && (err == nil || errors.Is(ferr, ErrOutput)) {
		return ferr
	}
	return err
}

func (w *worker) unpack(j *job, in *counted) error {
	for i := j.start; i < j.until; i++ {
		head, err := w.body.Peek(HeaderSize)
		if err != nil {
			return in.short(err)
		}
		h, err := ParseChunkHeader(head)
		if err != nil {
			return err
		}
		_, _ = w.body.Discard(HeaderSize) // was peeked
		if i < j.next || !j.needs(i) {
			if err := w.flush(j); err != nil {
				return err
			}
			if _, err := w.body.Discard(h.Stored); err != nil {
				return in.short(err)
			}
			j.next = max(j.next, i+1)
			continue
		}
		stored, err := w.body.Peek(h.Stored)
		if err != nil {
			return in.short(err)
		}
		if h.Scheme == SchemeNone && w.t.lender == nil {
			// The stored bytes are the chunk: no copy of them is needed.
			if err := w.flush(j); err != nil {
				return err
			}
			w.first, w.ends = i, append(w.ends, h.Size)
			if err := w.emit(j, stored); err != nil {
				return err
			}
			_, _ = w.body.Discard(h.Stored) // was peeked
			continue
		}
		if w.used()+h.Size > len(w.out) || w.t.lender != nil && len(w.ends) > 0 && time.Since(w.since) > patience {
			if err := w.flush(j); err != nil {
				return err
			}
			if err := w.room(); err != nil {
				return err
			}
		}
		used := w.used()
		if err := w.decoder.Decode(w.out[used:used+h.Size], h, stored); err != nil {
			return err
		}
		_, _ = w.body.Discard(h.Stored) // was peeked
		if len(w.ends) == 0 {
			w.first = i
			if w.t.lender != nil {
				w.since = time.Now()
			}
		}
		w.ends = append(w.ends, used+h.Size)
	}
	if j.until == j.end && (w.body.Buffered() > 0 || in.left > 0) {
		return corrupt("%d bytes follow the last chunk of the range", int64(w.body.Buffered())+in.left)
	}
	return nil
}

// room makes sure that there is memory to unpack into.
func (w *worker) room() (err error) {
	switch {
	case w.out != nil:
	case w.t.lender == nil:
		if w.own == nil {
			w.own = make([]byte, outBuffer)
		}
		w.out = w.own
	default:
		if w.out, err = w.t.lender.Block(); err != nil {
			return &Error{Kind: ErrOutput, Err: err}
		}
	}
	return nil
}

// needs reports whether a term has chunk i.
func (j *job) needs(i uint32) bool {
	for _, t := range j.open() {
		if t.start > i {
			return false
		}
		if !t.done && i < t.end {
			return true
		}
	}
	return false
}

// open is the terms from the first that is not complete.
func (j *job) open() []*term {
	for j.live < len(j.terms) && j.terms[j.live].done {
		j.live++
	}
	return j.terms[j.live:]
}

func (w *worker) used() int {
	if len(w.ends) == 0 {
		return 0
	}
	return w.ends[len(w.ends)-1]
}

// flush emits the run of chunks in the buffer.
func (w *worker) flush(j *job) error {
	if len(w.ends) == 0 {
		return nil
	}
	return w.emit(j, w.out)
}

// emit hashes the run of chunks in buf and writes it to every term that has a
// part of it. The run is empty afterwards.
func (w *worker) emit(j *job, buf []byte) error {
	ends := w.ends
	w.ends = w.ends[:0]
	lent := w.t.lender != nil // then buf is the block
	first, last := w.first, w.first+uint32(len(ends))
	begin := func(i uint32) int {
		if i == first {
			return 0
		}
		return ends[i-first-1]
	}
	if w.t.verify {
		if j.sums == nil {
			j.sums = make([]node, j.until-j.start)
		}
		for i := first; i < last; i++ {
			data := buf[begin(i):ends[i-first]]
			j.sums[i-j.start] = node{keyedSum(w.hasher, data), uint64(len(data))}
		}
	}
	for _, t := range j.open() {
		if t.start >= last {
			break
		}
		if t.done || t.end <= first {
			continue
		}
		lo, hi := max(t.start, first), min(t.end, last)
		data := buf[begin(lo):ends[hi-first-1]]
		if n := t.pos + int64(len(data)); n > t.size || hi == t.end && n < t.size {
			w.restart(j)
			return corrupt("chunks %d-%d unpack to %d bytes, expected %d", t.start, t.end, n, t.size)
		}
		if err := w.put(t.off+t.pos, data, lent && lo == first && j.alone(t, last)); err != nil {
			return err
		}
		t.pos += int64(len(data))
		if hi < t.end {
			continue
		}
		t.done = true
		if w.t.verify {
			w.t.fold.complete(t, j.sums[t.start-j.start:t.end-j.start])
		}
	}
	j.next = last
	return nil
}

// alone reports whether no other term than t, which does, needs a chunk before
// last that was not delivered.
func (j *job) alone(t *term, last uint32) bool {
	for _, o := range j.open() {
		if o.start >= last {
			break
		}
		if o != t && !o.done && o.end > j.next {
			return false
		}
	}
	return true
}

// put writes data at off. With give the data is all that the lent block is
// needed for, and the block goes with it.
func (w *worker) put(off int64, data []byte, give bool) error {
	r := Range{off, off + int64(len(data))}
	if give && w.t.want.covers(r) {
		b := w.out
		w.out = nil
		if err := w.t.lender.WriteBlock(b, len(data), off); err != nil {
			return &Error{Kind: ErrOutput, Err: err}
		}
		w.t.wrote(r)
		return nil
	}
	return w.t.write(off, data)
}

// restart forgets what was delivered of terms that are not complete. Hashes
// go to new memory, since the complete terms keep theirs.
func (w *worker) restart(j *job) {
	j.sums = nil
	next := j.until
	for _, t := range j.terms {
		if !t.done {
			w.t.disown(Range{t.off, t.off + t.pos})
			t.pos = 0
			next = min(next, t.start)
		}
	}
	j.next = next
}

// counted reads at most left bytes of an answer.
type counted struct {
	t    *transfer
	r    io.Reader
	left int64
}

func (c *counted) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	c.t.received.Add(int64(n))
	c.t.ramp.Add(n)
	return n, err
}

// short explains why an answer ended in the middle of a chunk: the range was
// too short for its chunks, or the connection broke.
func (c *counted) short(err error) error {
	switch {
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	case c.left == 0:
		return corrupt("the byte range ends inside a chunk")
	}
	return &Error{Kind: ErrNetwork, Message: fmt.Sprintf("the answer ended %d bytes early", c.left), Err: io.ErrUnexpectedEOF}
}

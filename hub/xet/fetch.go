package xet

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hfcompress/compress/internal/ramp"
)

// maxBad is how many answers that cannot be the content, and how many newly
// signed addresses, a request takes before it gives up.
const maxBad = 2

// Request is one file to fetch.
type Request struct {
	// Hash is the Xet hash of the file and Size its length in bytes. Both
	// must be known; the Hub states them.
	Hash Hash
	Size int64
	// Tokens gives access, and says where the store is. Required, unless
	// Size is 0.
	Tokens *Tokens
	// Out receives the content, in pieces of up to 512 KiB, in any order and
	// from several goroutines. Required, unless Size is 0. A [BlockWriter] is
	// used as one.
	Out io.WriterAt
	// Missing is what to fetch. Nil: the whole file. Only a whole file can
	// be verified, since chunks have no hash of their own in the protocol.
	Missing []Range
	// Wrote is called after each write to Out with the range written, by
	// several goroutines, before the content was verified. Nil: not called.
	Wrote func(Range)
	// Retrying is called before a wait, with the failure and the wait, by
	// several goroutines. Nil: not called.
	Retrying func(err error, wait time.Duration)
}

// BlockWriter is an output that lends its memory: content is unpacked into it
// and not copied again, and the output may write it while the transfer goes on.
// Its methods are called by several goroutines. Content that belongs at more
// than one place is given to WriteAt.
type BlockWriter interface {
	io.WriterAt
	// Block lends memory of 256 KiB or more; a transfer has one block at a
	// time. It may wait, but not beyond the context of the fetch.
	Block() ([]byte, error)
	// WriteBlock takes a block back whose first n bytes belong at off. It may
	// return before they are written: then a failure is an error of later
	// calls, and the caller of Fetch has to ask the output for it.
	WriteBlock(b []byte, n int, off int64) error
	// FreeBlock takes a block back that holds nothing.
	FreeBlock(b []byte)
}

// Result says what a fetch did. It holds for a failed fetch too.
type Result struct {
	// Verified: the whole file came, and its Xet hash is the one asked for.
	Verified bool
	// Missing is what is not in Out, sorted. Ranges that turned out wrong are
	// in it, although Wrote was told of them. After a hash mismatch it is
	// everything but the content of xorbs that came whole and have their own
	// hash; if even that is not enough, the store lied about the order.
	Missing []Range
	// Written and Received are the bytes put into Out and those of content
	// that came over the network.
	Written, Received int64
	// Queries and Requests count reconstruction calls and content requests,
	// repeated ones included; Retries those made anew after a failure.
	Queries, Requests, Retries int64
}

// transfer is one fetch in progress.
type transfer struct {
	c      *Client
	req    Request
	want   ranges
	verify bool
	fold   folder
	lender BlockWriter // Out, if it is one
	ramp   *ramp.Ramp

	mu      sync.Mutex
	written ranges
	proven  ranges // content of whole xorbs that have their hash

	sent, received, queries, requests, retries atomic.Int64
}

// Fetch brings a file, or the missing parts of it, into Out. It returns when
// everything was written and, for a whole file, verified; or with the first
// failure that retries did not cure, after all its goroutines ended. Then
// Result.Missing is what another road has to bring. Errors are [*Error] or
// [*HashError] values, or the context's.
func (c *Client) Fetch(ctx context.Context, req Request) (Result, error) {
	t := &transfer{c: c, req: req, ramp: ramp.New(c.opts.Conns)}
	t.lender, _ = req.Out.(BlockWriter)
	whole := Range{0, req.Size}
	if req.Missing == nil {
		t.want.add(whole)
	} else {
		t.want = newRanges(req.Missing, req.Size)
	}
	t.verify = req.Size == 0 || len(t.want) == 1 && t.want[0] == whole
	err := t.run(ctx)
	if err == nil && t.verify {
		err = t.fold.check(req.Hash, req.Size)
	}
	var e *Error
	if errors.As(err, &e) {
		e.Hash = req.Hash
	}
	res := Result{
		Verified: err == nil && t.verify, Missing: t.want.without(t.written),
		Written: t.sent.Load(), Received: t.received.Load(),
		Queries: t.queries.Load(), Requests: t.requests.Load(), Retries: t.retries.Load(),
	}
	switch {
	case errors.Is(err, ErrHash):
		res.Missing = t.want.without(t.proven)
	case err != nil && t.fold.err != nil:
		res.Missing = t.want
	}
	return res, err
}

// run plans windows, hands their jobs to workers and waits for both.
func (t *transfer) run(ctx context.Context) error {
	switch {
	case len(t.want) == 0:
		return nil
	case t.req.Tokens == nil:
		return &Error{Kind: ErrToken, Message: "the request has no source of tokens"}
	case t.req.Out == nil:
		return &Error{Kind: ErrOutput, Message: "the request has no output"}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	windows := make(chan *window) // one is held by its sender: planned ahead
	jobs := make(chan *job)
	var wg sync.WaitGroup
	start := func(f func() error) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := f(); err != nil {
				cancel(err)
			}
		}()
	}
	start(func() error {
		defer close(windows)
		return t.plan(ctx, windows)
	})
	start(func() error {
		defer close(jobs)
		for w := range windows {
			for _, j := range w.jobs {
				select {
				case jobs <- j:
				case <-ctx.Done():
					return nil
				}
			}
		}
		return nil
	})
	t.ramp.Run(ctx, func(more func() bool) {
		for more() {
			j, ok := <-jobs
			if !ok {
				return
			}
			if err := t.job(ctx, j); err != nil {
				cancel(err)
				return
			}
		}
	})
	wg.Wait()
	return context.Cause(ctx)
}

// plan queries the store for one stretch of missing bytes after the other. A
// stretch ends where its last term ends, so that the next begins at a chunk.
func (t *transfer) plan(ctx context.Context, out chan<- *window) error {
	pos := t.want[0].Start
	for {
		i := t.want.from(pos)
		if i == len(t.want) {
			return nil
		}
		ask := Range{Start: max(pos, t.want[i].Start)}
		limit := ask.Start + t.c.opts.Window
		for ; i < len(t.want) && t.want[i].Start < limit; i++ {
			ask.End = min(t.want[i].End, limit)
		}
		r, err := t.query(ctx, ask)
		if err != nil {
			return err
		}
		w, err := plan(r, ask, t.req.Size, t.want)
		if err != nil {
			return err
		}
		if t.verify {
			t.fold.expect(w)
		}
		select {
		case out <- w:
		case <-ctx.Done():
			return nil
		}
		pos = w.end
	}
}

// write puts what is wanted of data, which belongs at off, into Out.
func (t *transfer) write(off int64, data []byte) error {
	return t.want.within(Range{off, off + int64(len(data))}, func(r Range) error {
		if _, err := t.req.Out.WriteAt(data[r.Start-off:r.End-off], r.Start); err != nil {
			return &Error{Kind: ErrOutput, Err: err}
		}
		t.wrote(r)
		return nil
	})
}

func (t *transfer) wrote(r Range) {
	t.sent.Add(r.End - r.Start)
	t.mu.Lock()
	t.written.add(r)
	t.mu.Unlock()
	if t.req.Wrote != nil {
		t.req.Wrote(r)
	}
}

// disown takes a range back that was written but is wrong.
func (t *transfer) disown(r Range) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.written.remove(r)
}

func (t *transfer) pause(ctx context.Context, n int, err error) error {
	t.retries.Add(1)
	return t.c.pause(ctx, n, err, t.req.Retrying)
}

package hub

import (
	"context"
	"sync"
)

// flow takes the content of one file from its transfers to the disk and to the
// digest. Receiving, writing and hashing are goroutines of their own, which
// hand the same memory on: on a fast network each is as slow as the network,
// and they must overlap.
type flow struct {
	t      *transfer
	pool   *blockPool
	digest *digest // nil: none is made
	cancel context.CancelCauseFunc

	in      chan block
	pending sync.WaitGroup // blocks sent and not written
	written chan struct{}  // closed when the writer has ended
	hashed  chan error

	mu  sync.Mutex
	err error // of the disk
}

// newFlow starts writing and, unless the content is verified otherwise,
// hashing. cancel ends the transfers when the disk fails; close must be called
// after they ended.
func (t *transfer) newFlow(ctx context.Context, cancel context.CancelCauseFunc, verify bool) *flow {
	pool := t.c.road.blocks
	f := &flow{t: t, pool: pool, cancel: cancel, in: make(chan block, cap(pool.tokens)),
		written: make(chan struct{}), hashed: make(chan error, 1)}
	if verify {
		f.digest = newFollower(t)
		go func() { f.hashed <- f.digest.run(ctx) }()
	} else {
		f.hashed <- nil
	}
	go f.write()
	return f
}

// send hands a block over. It does not wait: the number of blocks is bounded.
func (f *flow) send(b block) {
	f.pending.Add(1)
	f.in <- b
}

// copy sends data that its owner needs back.
func (f *flow) copy(ctx context.Context, to account, data []byte, off int64) error {
	for len(data) > 0 {
		mem, err := f.pool.get(ctx)
		if err != nil {
			return err
		}
		n := copy(mem, data)
		f.send(block{mem: mem, data: mem[:n], off: off, to: to})
		data, off = data[n:], off+int64(n)
	}
	return nil
}

// drain waits until all that was sent is on disk.
func (f *flow) drain() { f.pending.Wait() }

// write runs until close. What arrived before a cancellation is written too:
// a later run goes on from there.
func (f *flow) write() {
	defer close(f.written)
	for b := range f.in {
		if f.failure() == nil {
			if err := f.one(&b); err != nil {
				f.fail(err)
			}
		}
		if b.mem != nil {
			f.pool.put(b.mem)
		}
		f.pending.Done()
	}
}

// one writes a block and offers it to the digest, which keeps it or not.
func (f *flow) one(b *block) error {
	full, err := b.to.write(b.data, b.off)
	if err != nil {
		return err
	}
	n := len(b.data)
	// The digest is asked first: once parts are marked it would read them.
	if f.digest != nil && f.digest.offer(*b) {
		b.mem = nil
	}
	for _, p := range full {
		if err := f.t.p.mark(p.index, p.crc); err != nil {
			return err
		}
	}
	f.t.addSent(int64(n))
	return nil
}

func (f *flow) fail(err error) {
	f.mu.Lock()
	f.err = err
	f.mu.Unlock()
	f.cancel(f.t.diskError(err))
}

// failure is the first error of the disk, or nil.
func (f *flow) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// close waits for the writer. No block may be sent any more.
func (f *flow) close() {
	close(f.in)
	<-f.written
}

// verify waits for the digest of a complete file, after close.
func (f *flow) verify(ctx context.Context) error {
	err := <-f.hashed
	if f.digest != nil && ctx.Err() == nil && !f.digest.current() {
		// Bytes that it had seen were replaced afterwards.
		return newFollower(f.t).run(ctx)
	}
	return err
}

package hub

import (
	"context"
	"encoding/hex"
	"hash"
	"io"
)

// digest hashes a file from its start while it arrives. What comes in order is
// hashed from memory; what came out of order, and what an earlier run left, is
// read back once all before it is hashed: it comes from the page cache.
//
// Its state is guarded by the partial's mutex, whose condition tells of news.
type digest struct {
	t         *transfer
	h         hash.Hash
	algorithm string

	pos   int64           // hashed, or being hashed
	chain int64           // end of what is held without a gap from pos on
	held  map[int64]block // by offset
	seen  int             // partial.taken as of what was hashed
	over  bool
}

func newFollower(t *transfer) *digest {
	d := &digest{t: t, held: map[int64]block{}}
	d.h, d.algorithm = newDigest(t.etag, t.size)
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	d.seen = t.p.taken
	return d
}

// offer gives the digest a block that is on disk. It reports whether the
// digest keeps it: then it also gives it back to the pool.
func (d *digest) offer(b block) bool {
	d.t.p.mu.Lock()
	defer d.t.p.mu.Unlock()
	// Hashing is what takes longest on a fast network. Running far ahead of it
	// would only let what waits for it leave the processor's cache.
	for b.off == d.chain && len(d.held) >= aheadBlocks && !d.over {
		d.t.p.cond.Wait()
	}
	switch {
	case d.over || d.seen != d.t.p.taken || b.off < d.chain:
		return false
	case b.off > d.chain:
		if b.loose = d.t.c.road.blocks.holdLoose(); !b.loose {
			return false
		}
	}
	d.held[b.off] = b
	d.extend()
	d.t.p.cond.Broadcast()
	return true
}

// extend moves the end of the chain over what is held.
func (d *digest) extend() {
	for {
		b, ok := d.held[d.chain]
		if !ok {
			return
		}
		d.chain = b.end()
	}
}

// drop gives back blocks that start before pos.
func (d *digest) drop(pos int64) {
	for off, b := range d.held {
		if off < pos {
			delete(d.held, off)
			d.release(b)
		}
	}
}

func (d *digest) release(b block) {
	if b.loose {
		d.t.c.road.blocks.dropLoose()
	}
	d.t.c.road.blocks.put(b.mem)
}

// readable is how far the file can be read back from pos on.
func (d *digest) readable() int64 {
	p := d.t.p
	if d.pos >= d.t.size {
		return d.pos
	}
	i := int(d.pos / p.head.Part)
	if !p.done[i] {
		return d.pos
	}
	_, to := p.span(i)
	for off := range d.held {
		to = min(to, max(off, d.pos))
	}
	return to
}

// run hashes until the file is complete and compares the result.
func (d *digest) run(ctx context.Context) error {
	p := d.t.p
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.cond.Broadcast()
	})
	defer stop()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		d.over = true
		d.drop(d.t.size + 1)
		p.cond.Broadcast()
	}()
	for {
		b, from, to, err := d.next(ctx)
		switch {
		case err != nil:
			return err
		case from == to:
			return d.compare()
		case b.mem != nil:
			_, _ = d.h.Write(b.data) // a hash takes every write
			d.release(b)
		default:
			if err := d.readBack(from, to); err != nil {
				return &Error{Kind: ErrCache, File: d.t.file, Err: err}
			}
		}
	}
}

// next waits for what comes next in the file: a block in memory, or bytes to
// be read back. At the end of a complete file from is to.
func (d *digest) next(ctx context.Context) (b block, from, to int64, err error) {
	p := d.t.p
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if ctx.Err() != nil {
			return b, 0, 0, context.Cause(ctx)
		}
		if d.seen != p.taken {
			// A part was taken back that may have been hashed already.
			d.seen, d.pos, d.chain = p.taken, 0, 0
			d.drop(d.t.size)
			d.h, _ = newDigest(d.t.etag, d.t.size)
		}
		from = d.pos
		if from == d.t.size && p.count == len(p.done) {
			return b, from, from, nil
		}
		if held, ok := d.held[from]; ok {
			delete(d.held, from)
			d.pos = held.end()
			p.cond.Broadcast() // offer may wait for a place
			return held, from, d.pos, nil
		}
		if to = d.readable(); to > from {
			d.pos = to
			if d.chain < to {
				d.chain = to
				d.drop(to)
				d.extend()
			}
			return b, from, to, nil
		}
		p.cond.Wait()
	}
}

func (d *digest) readBack(from, to int64) error {
	bp := buffers.Get().(*[]byte)
	defer buffers.Put(bp)
	n, err := io.CopyBuffer(d.h, onlyReader{io.NewSectionReader(d.t.p.f, from, to-from)}, *bp)
	if err == nil && n < to-from {
		err = io.ErrUnexpectedEOF
	}
	return err
}

func (d *digest) compare() error {
	if got := hex.EncodeToString(d.h.Sum(nil)); got != d.t.etag {
		return &ChecksumError{File: d.t.file, Algorithm: d.algorithm, Expected: d.t.etag, Actual: got}
	}
	return nil
}

// current reports whether nothing was taken back since the digest was made.
func (d *digest) current() bool {
	d.t.p.mu.Lock()
	defer d.t.p.mu.Unlock()
	return d.seen == d.t.p.taken
}

package xet

import (
	"context"
	"net/url"
	"slices"
	"sync"
)

// window is a stretch of the file with the requests that bring it.
type window struct {
	ask   Range // the byte range of the query
	start int64 // where the first term starts in the file
	end   int64 // where the last term ends
	terms []*term
	jobs  []*job
	shape []reconTerm

	// renewal is a mutex that a context can leave. It guards the addresses,
	// which expire and are then asked for again by one of the workers.
	renewal    chan struct{}
	mu         sync.Mutex
	generation int
	urls       map[partKey]*url.URL
}

// term is a run of chunks and its place in the file.
type term struct {
	reconTerm
	off int64

	// Of the worker that runs the job:
	pos  int64 // bytes decoded
	done bool  // all chunks were decoded and have the length stated

	// Of the folder, when the file is verified:
	ready bool
	sums  []node // chunk hashes
}

// job is one request and all terms that it serves: content that is used more
// than once is fetched once.
type job struct {
	partKey
	w     *window
	terms []*term // by first chunk

	// Of the worker that runs the job:
	live  int    // terms before it are complete
	next  uint32 // first chunk not delivered
	until uint32 // end of the chunks that are needed
	sums  []node // by chunk, from the first of the part
}

// plan lays an answer out over the file. want is what is to be written.
func plan(r *recon, ask Range, size int64, want ranges) (*window, error) {
	w := &window{ask: ask, start: ask.Start - r.offset, shape: r.terms, renewal: make(chan struct{}, 1), urls: make(map[partKey]*url.URL)}
	if w.start < 0 {
		return nil, protocolError("offset %d is before the start of the file", r.offset)
	}
	jobs := make(map[partKey]*job)
	reaches := make(map[Hash][]int)
	w.end = w.start
	for i, rt := range r.terms {
		off := w.end
		if w.end += rt.size; w.end > size {
			return nil, protocolError("terms give %d bytes or more, the file has %d", w.end, size)
		}
		parts := r.parts[rt.xorb]
		if reaches[rt.xorb] == nil {
			reaches[rt.xorb] = reach(parts)
		}
		k := cover(parts, reaches[rt.xorb], rt)
		if k < 0 {
			return nil, protocolError("no byte range for term %d, chunks %d-%d of xorb %.16s", i, rt.start, rt.end, rt.xorb)
		}
		if !want.overlaps(Range{off, w.end}) {
			continue
		}
		p := parts[k]
		j := jobs[p.partKey]
		if j == nil {
			j = &job{partKey: p.partKey, w: w}
			jobs[p.partKey] = j
			w.jobs = append(w.jobs, j)
			w.urls[p.partKey] = p.url
		}
		t := &term{reconTerm: rt, off: off}
		j.terms = append(j.terms, t)
		w.terms = append(w.terms, t)
	}
	if w.end < ask.End {
		return nil, protocolError("terms end at byte %d, expected %d", w.end, ask.End)
	}
	for _, j := range w.jobs {
		slices.SortStableFunc(j.terms, func(a, b *term) int { return int(int64(a.start) - int64(b.start)) })
		j.next = j.terms[0].start
		for _, t := range j.terms {
			j.until = max(j.until, t.end)
		}
	}
	return w, nil
}

// url is where to fetch a job, and which generation of addresses that is.
func (w *window) url(k partKey) (*url.URL, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.urls[k], w.generation
}

// renew replaces the addresses unless that happened since generation old. The
// new answer must describe the same content: what was fetched so far stays.
func (w *window) renew(ctx context.Context, old int, query func(context.Context, Range) (*recon, error)) error {
	select {
	case w.renewal <- struct{}{}:
		defer func() { <-w.renewal }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if _, now := w.url(partKey{}); now != old {
		return nil
	}
	r, err := query(ctx, w.ask)
	if err != nil {
		return err
	}
	if w.ask.Start-r.offset != w.start || !slices.Equal(r.terms, w.shape) {
		return protocolError("the terms of bytes %d-%d changed", w.ask.Start, w.ask.End-1)
	}
	fresh := make(map[partKey]*url.URL)
	for _, parts := range r.parts {
		for _, p := range parts {
			fresh[p.partKey] = p.url
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for k := range w.urls {
		if fresh[k] == nil {
			return protocolError("chunks %d-%d of xorb %.16s lost their byte range", k.start, k.end, k.xorb)
		}
	}
	for k := range w.urls {
		w.urls[k] = fresh[k]
	}
	w.generation++
	return nil
}

// folder takes the chunk hashes of terms as they complete, in any order, and
// adds them to the file's tree in the order of the file. What it keeps is a
// hash for each chunk between the slowest transfer and the fastest.
type folder struct {
	mu    sync.Mutex
	queue []*term // not folded yet, in file order
	pos   int64
	tree  Tree
	err   error
}

func (f *folder) expect(w *window) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = append(f.queue, w.terms...)
}

func (f *folder) complete(t *term, sums []node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t.sums, t.ready = sums, true
	i := 0
	for ; i < len(f.queue) && f.queue[i].ready; i++ {
		t := f.queue[i]
		off := t.off
		for _, n := range t.sums {
			switch end := off + int64(n.size); {
			case off == f.pos:
				f.tree.Add(n.hash, n.size)
				f.pos = end
			case end > f.pos && f.err == nil:
				// Windows may overlap, but only by whole chunks.
				f.err = protocolError("chunks do not tile the file: one lies at byte %d, expected %d", off, f.pos)
			}
			off += int64(n.size)
		}
		t.sums = nil
	}
	if i > 0 {
		f.queue = slices.Delete(f.queue, 0, i)
	}
}

// check compares the hash of the complete file.
func (f *folder) check(want Hash, size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	if f.pos != size {
		return protocolError("chunks give %d bytes, the file has %d", f.pos, size)
	}
	if got := f.tree.FileHash(); got != want {
		return &HashError{Expected: want, Actual: got}
	}
	return nil
}

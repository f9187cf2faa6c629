package floatcodec

import (
	"sync"
	"sync/atomic"
)

// chunksAhead is how many chunks for each worker may be encoded before their
// turn, which bounds the buffers in use.
const chunksAhead = 16

// chunkPlacer lines up chunks that several goroutines encode out of order. Whoever
// completes a sequence copies it, so that nobody waits for a turn.
type chunkPlacer struct {
	dst []byte // with room for all chunks
	put func(i, size int)

	mu    sync.Mutex
	moved sync.Cond // next has grown
	next  int       // the first chunk without a place
	end   int       // where its place starts
	ready []*[]byte // encoded chunks from next on, as a ring
}

// chunkBuffers holds buffers for encoded chunks.
var chunkBuffers = sync.Pool{New: func() any { return new([]byte) }}

// appendParallel appends all chunks, encoded by so many goroutines, and calls put
// with the size of each. dst must have the room that chunksRoom says.
func (m *Model) appendParallel(dst, raw []byte, workers int, put func(i, size int)) []byte {
	chunks := m.Chunks()
	workers = min(workers, chunks)
	p := chunkPlacer{dst: dst[:len(dst)+m.chunksRoom()], put: put, end: len(dst)}
	p.ready = make([]*[]byte, chunksAhead*workers)
	p.moved.L = &p.mu
	var wg sync.WaitGroup
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)) - 1; i < chunks; i = int(next.Add(1)) - 1 {
			p.await(i)
			b := chunkBuffers.Get().(*[]byte)
			var ahead prefetch
			if i+workers < chunks {
				ahead = newPrefetch(m.chunkOf(raw, i+workers), nil)
			}
			*b = m.appendChunk((*b)[:0], i, m.chunkOf(raw, i), ahead)
			p.place(i, b)
		}
	}
	for range workers - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	return p.dst[:p.end]
}

// chunksRoom returns what all chunks take at most.
func (m *Model) chunksRoom() int { return int(m.size) + m.Chunks()*chunkHeader }

// await waits until chunk i may be encoded.
func (p *chunkPlacer) await(i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i >= p.next+len(p.ready) {
		p.moved.Wait()
	}
}

// place takes chunk i and copies what has a place now. It keeps b.
func (p *chunkPlacer) place(i int, b *[]byte) {
	p.mu.Lock()
	p.ready[i%len(p.ready)] = b
	at := p.end
	var list []*[]byte
	for b := p.ready[p.next%len(p.ready)]; b != nil; b = p.ready[p.next%len(p.ready)] {
		p.ready[p.next%len(p.ready)] = nil
		list = append(list, b)
		p.put(p.next, len(*b))
		p.end += len(*b)
		p.next++
	}
	if len(list) > 0 {
		p.moved.Broadcast()
	}
	p.mu.Unlock()
	for _, b := range list {
		at += copy(p.dst[at:], *b)
		chunkBuffers.Put(b)
	}
}

package hub

import (
	"context"
	"io"
	"sync"
	"time"
)

const (
	// blockSize is how much of an answer is collected before it goes on.
	// Writes of this size cost the least, and what was read is still in the
	// processor's cache when it is written and hashed.
	blockSize = 2 << 20
	// blockPatience is how long a slow answer may fill one block: what has
	// arrived shall be on disk soon.
	blockPatience = 50 * time.Millisecond
	// looseBlocks is how many blocks may wait for a digest that has not come
	// near yet. It saves reading them back.
	looseBlocks = 4
	// aheadBlocks is how many blocks of a file may wait for its digest.
	aheadBlocks = 12
	// movingBlocks is how many are on their way to the disk and through the
	// digests, beside one in the hands of each transfer.
	movingBlocks = 12
	// idleBlocks are kept for the next file.
	idleBlocks = 4
)

// blockPool bounds the memory of all content on its way. The block given back
// last is lent first, since it is in the cache.
type blockPool struct {
	tokens chan struct{}
	mu     sync.Mutex
	free   [][]byte
	loose  int
}

func newBlockPool(transfers int) *blockPool {
	return &blockPool{tokens: make(chan struct{}, transfers+looseBlocks+movingBlocks)}
}

// get waits for a block.
func (p *blockPool) get(ctx context.Context) ([]byte, error) {
	select {
	case p.tokens <- struct{}{}:
	default:
		select {
		case p.tokens <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free = p.free[:n-1]
		return b, nil
	}
	return make([]byte, blockSize), nil
}

// put takes a block back.
func (p *blockPool) put(b []byte) {
	p.mu.Lock()
	if p.free = append(p.free, b[:cap(b)]); len(p.tokens) == 1 && len(p.free) > idleBlocks {
		clear(p.free[idleBlocks:])
		p.free = p.free[:idleBlocks]
	}
	p.mu.Unlock()
	<-p.tokens
}

// holdLoose asks for one of the places of blocks out of order.
func (p *blockPool) holdLoose() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loose >= looseBlocks {
		return false
	}
	p.loose++
	return true
}

func (p *blockPool) dropLoose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loose--
}

// block is content at a place of a file.
type block struct {
	mem   []byte // to give back
	data  []byte // a part of it
	off   int64
	to    account
	loose bool // it has one of the loose places
}

func (b block) end() int64 { return b.off + int64(len(b.data)) }

// account writes content and knows which parts that completes. Its calls come
// one at a time.
type account interface {
	write(data []byte, off int64) ([]finishedPart, error)
}

// finishedPart is a part that is on disk, with its checksum.
type finishedPart struct {
	index int
	crc   uint32
}

// fill reads until b is half full, or for blockPatience. It does not insist on
// the other half, since small reads cost as much as large ones. count hears of
// every read.
func fill(r io.Reader, b []byte, count func(int)) (n int, err error) {
	var first time.Time
	for {
		m, err := r.Read(b[n:])
		n += m
		count(m)
		if err != nil || n >= len(b)/2 {
			return n, err
		}
		now := time.Now()
		if first.IsZero() {
			first = now
		} else if now.Sub(first) > blockPatience {
			return n, nil
		}
	}
}

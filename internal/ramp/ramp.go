package ramp

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// tick is how often the bytes are looked at.
	tick = 50 * time.Millisecond
	// firstTicks is how long the first transfer is measured, from its first
	// byte. It is short: at this point speed is lost by waiting.
	firstTicks = 2
	// settleTicks lets new transfers get up to speed before they are judged
	// over judgeTicks.
	settleTicks = 5
	judgeTicks  = 3
	// againTicks is how long a result stands before it is put to the test
	// again: links and servers change their minds.
	againTicks = 100

	// firstStep is the number of transfers after the first rise.
	firstStep = 8
	// gain is what a rise must bring to stand: a share of the rate before.
	gain = 1.05
	// Fast is the rate in bytes per second from which nothing is added: it is
	// this machine, not a server or a link, that bounds it.
	Fast = 250e6
)

// Ramp counts the bytes of a download and says how many transfers may run.
// It is safe for concurrent use.
type Ramp struct {
	max   int
	bytes atomic.Int64

	mu      sync.Mutex
	running int
	plan    plan
}

// New makes a ramp of at most max transfers, at least one.
func New(max int) *Ramp {
	r := &Ramp{max: max, plan: plan{max: max, limit: 1}}
	if max < 1 {
		r.max, r.plan.max = 1, 1
	}
	return r
}

// Add counts n bytes that arrived.
func (r *Ramp) Add(n int) { r.bytes.Add(int64(n)) }

// Transfers is how many transfers are running.
func (r *Ramp) Transfers() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running
}

// Run starts transfers, each in a goroutine of its own, and returns when all
// have ended. A transfer is a loop that calls more before every piece of work
// and ends when it says no or when there is no work. When a transfer ends for
// want of work, no further one is started.
func (r *Ramp) Run(ctx context.Context, transfer func(more func() bool)) {
	var wg sync.WaitGroup
	over := make(chan struct{})
	var once sync.Once
	start := func() {
		r.running++
		wg.Add(1)
		go func() {
			defer wg.Done()
			left := false
			transfer(func() bool {
				left = r.leave()
				return !left
			})
			if !left {
				r.mu.Lock()
				r.running--
				r.mu.Unlock()
				once.Do(func() { close(over) })
			}
		}()
	}
	r.mu.Lock()
	start()
	r.mu.Unlock()
	if r.max > 1 {
		t := time.NewTicker(tick)
		defer t.Stop()
		last := time.Now()
		for open := true; open; {
			select {
			case now := <-t.C:
				r.mu.Lock()
				limit := r.plan.step(r.bytes.Swap(0), now.Sub(last))
				for last = now; r.running < limit; {
					start()
				}
				r.mu.Unlock()
			case <-over:
				open = false
			case <-ctx.Done():
				open = false
			}
		}
	}
	wg.Wait()
}

// leave reports whether the transfer that asks is one too many, and then
// counts it out.
func (r *Ramp) leave() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running <= max(r.plan.limit, 1) {
		return false
	}
	r.running--
	return true
}

// plan is the rule, apart from clocks and goroutines.
type plan struct {
	max, limit int

	before  int     // the limit before the rise that is being judged; 0: none
	rate    float64 // at that limit
	started bool    // a byte has come
	wait    int     // ticks to leave out
	ticks   int     // measured
	bytes   int64
	took    time.Duration
}

// step takes what came in the last stretch of time and returns how many
// transfers may run.
func (p *plan) step(bytes int64, took time.Duration) int {
	if !p.started {
		// What came in this stretch came in a part of it only.
		p.started = bytes > 0
		return p.limit
	}
	if p.wait > 0 {
		p.wait--
		return p.limit
	}
	p.bytes, p.took, p.ticks = p.bytes+bytes, p.took+took, p.ticks+1
	need := judgeTicks
	if p.limit == 1 && p.before == 0 {
		need = firstTicks
	}
	if p.ticks < need {
		return p.limit
	}
	rate := float64(p.bytes) / max(p.took.Seconds(), 1e-9)
	p.ticks, p.bytes, p.took = 0, 0, 0
	switch {
	case p.before > 0 && rate < gain*p.rate:
		// The rise brought nothing.
		p.limit, p.before, p.wait = p.before, 0, againTicks
	case rate >= Fast || p.limit >= p.max:
		p.before = 0
	default:
		p.before, p.rate, p.wait = p.limit, rate, settleTicks
		p.limit = min(p.max, max(firstStep, 2*p.limit))
	}
	return p.limit
}

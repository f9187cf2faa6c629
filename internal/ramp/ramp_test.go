package ramp

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// A server is what a plan meets: a rate for a number of transfers.
type server func(transfers int) float64

func perConnection(each, link float64) server {
	return func(n int) float64 { return min(float64(n)*each, link) }
}

// play runs a plan against a server for a time and returns the limit at the
// end and the share of the best rate that it reached.
func play(s server, most int, d time.Duration) (limit int, share float64) {
	p := plan{max: most, limit: 1}
	var got, best float64
	limit = 1
	for range d / tick {
		b := s(limit) * tick.Seconds()
		got += b
		top := 0.0
		for n := range most {
			top = max(top, s(n+1))
		}
		best += top * tick.Seconds()
		limit = p.step(int64(b), tick)
	}
	return limit, got / best
}

func TestPlan(t *testing.T) {
	tests := []struct {
		name   string
		server server
		most   int
		limit  int
		share  float64
	}{
		{"one connection takes the link", perConnection(100e6, 100e6), 16, 1, 0.99},
		{"faster than any link", perConnection(900e6, 2e9), 16, 1, 0.4},
		{"per connection, link for 8", perConnection(20e6, 160e6), 16, 8, 0.9},
		{"per connection, link for 5", perConnection(20e6, 100e6), 16, 8, 0.9},
		{"per connection, link beyond the limit", perConnection(20e6, 1e9), 16, 16, 0.85},
		{"limit of one", perConnection(20e6, 100e6), 1, 1, 0.99 * 1},
		{"limit of three", perConnection(20e6, 100e6), 3, 3, 0.9},
		{"every further one costs", func(n int) float64 { return 100e6 / float64(n) }, 16, 1, 0.8},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// Just after the first rises, and before they are tried again.
			limit, share := play(tt.server, tt.most, 5*time.Second)
			if limit != tt.limit || share < tt.share {
				t.Errorf("after 5 s %d transfers and %.2f of the rate, expected %d and at least %.2f", limit, share, tt.limit, tt.share)
			}
		})
	}
}

// A link that becomes free later is found.
func TestPlanTriesAgain(t *testing.T) {
	p := plan{max: 16, limit: 1}
	limit, link := 1, 20e6
	for i := range int(20 * time.Second / tick) {
		if i == int(5*time.Second/tick) {
			link = 160e6
		}
		limit = p.step(int64(min(float64(limit)*20e6, link)*tick.Seconds()), tick)
	}
	if limit != 8 {
		t.Errorf("%d transfers, expected 8", limit)
	}
}

// Nothing is judged before the first byte, however long it takes.
func TestPlanWaitsForTheFirstByte(t *testing.T) {
	p := plan{max: 16, limit: 1}
	for range 1000 {
		if p.step(0, tick) != 1 {
			t.Fatal("rose without a byte")
		}
	}
}

// All work is done once whatever the limit does, and Run returns after the
// last transfer.
func TestRun(t *testing.T) {
	for _, most := range []int{0, 1, 8} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			r := New(most)
			var mu sync.Mutex
			next, peak, alive := 0, 0, 0
			r.Run(t.Context(), func(more func() bool) {
				mu.Lock()
				alive++
				peak = max(peak, alive)
				mu.Unlock()
				defer func() { mu.Lock(); alive--; mu.Unlock() }()
				for more() {
					mu.Lock()
					next++
					n := next
					mu.Unlock()
					if n > 40 {
						return
					}
					// A piece of work takes time as a slow connection does.
					timer := time.NewTimer(10 * time.Millisecond)
					select {
					case <-timer.C:
					case <-t.Context().Done():
					}
					r.Add(1000)
				}
			})
			if next < 41 || alive != 0 || r.Transfers() != 0 {
				t.Errorf("%d pieces begun, %d transfers alive, %d counted", next, alive, r.Transfers())
			}
			if peak > max(most, 1) {
				t.Errorf("%d transfers at once, expected at most %d", peak, max(most, 1))
			}
		})
	}
}

// A cancelled run starts nothing more and waits for what runs.
func TestRunCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := New(8)
	r.Run(ctx, func(more func() bool) {
		for more() {
			cancel()
			<-ctx.Done()
			return
		}
	})
	if n := r.Transfers(); n != 0 {
		t.Errorf("%d transfers counted", n)
	}
}

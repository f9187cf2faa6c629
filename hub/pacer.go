package hub

import (
	"context"
	"math"
	"net/http"
	"sync"
	"time"
)

// pacer keeps the client below a published limit, so that a queue of requests
// waits for the next window in place of running into 429s. One pacer serves
// one bucket of one origin.
//
// Other processes may draw on the same limit. What they take between two
// answers tells how much faster or slower than this client they are; they are
// assumed to have as many times its requests under way. When no more remain
// than may be under way elsewhere, the client goes on one by one, and stops a
// little before the end.
type pacer struct {
	mu       sync.Mutex
	known    bool      // an answer with or without limits was seen
	limited  bool      // the server publishes limits
	left     int64     // requests that may still start in this window
	quota    int64     // size of a window, 0 unknown
	resetAt  time.Time // end of the window
	probing  bool      // a new window, of which no answer has come yet
	inFlight int64
	peak     int64         // of inFlight
	sent     int64         // requests started in this window
	first    usage         // at the window's first answer
	others   float64       // requests of others for each of ours
	changed  chan struct{} // closed and replaced whenever a waiter may go on
}

// usage counts a window's requests at one time: all that the server has
// counted, and ours.
type usage struct{ all, ours int64 }

// ready reports whether a request may start now.
func (p *pacer) ready() bool {
	switch {
	case !p.known || p.probing:
		// The first request to a bucket or in a window goes alone: its
		// answer says what the limit is, and what others have taken.
		return p.inFlight == 0
	case !p.limited:
		return true
	case p.others == 0:
		return p.left > 0
	}
	many := min(int64(math.Ceil(2*p.others*float64(p.peak))), p.quota/2)
	few := int64(math.Ceil(2*p.others)) + 1
	return p.left > many || p.left > few && p.inFlight == 0
}

// acquire waits until a request may start. onWait is told once how long.
func (p *pacer) acquire(ctx context.Context, now func() time.Time, onWait func(time.Duration)) error {
	told := false
	for {
		p.mu.Lock()
		if p.changed == nil {
			p.changed = make(chan struct{})
		}
		t := now()
		if p.limited && !t.Before(p.resetAt) {
			p.left, p.sent, p.probing = max(p.quota, 1), 0, true
			p.resetAt = t.Add(time.Hour)
		}
		if p.ready() {
			p.inFlight++
			p.peak = max(p.peak, p.inFlight)
			p.sent++
			p.left--
			p.mu.Unlock()
			return nil
		}
		changed := p.changed
		wait := time.Duration(-1)
		if p.known && !p.probing {
			wait = p.resetAt.Sub(t)
		}
		tell := p.inFlight == 0 // else an answer may help sooner
		p.mu.Unlock()

		var timer *time.Timer
		var fire <-chan time.Time
		if wait >= 0 {
			if !told && wait > 0 && tell {
				onWait(wait)
				told = true
			}
			timer = time.NewTimer(wait)
			fire = timer.C
		}
		select {
		case <-fire:
		case <-changed:
		case <-ctx.Done():
		}
		if timer != nil {
			timer.Stop()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// done records the answer to a request (nil header: there was none).
func (p *pacer) done(h http.Header, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight--
	if h != nil {
		p.known = true
		st, ok := parseRateLimit(h.Get("RateLimit"))
		if ok {
			p.learn(st, h, now)
		}
		p.limited = ok
		p.probing = p.probing && ok && p.resetAt.Sub(now) > 30*time.Minute
	}
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// learn takes in what an answer says about the window.
func (p *pacer) learn(st rateState, h http.Header, now time.Time) {
	if q, ok := parseRatePolicy(h.Get("RateLimit-Policy"), st.bucket); ok {
		p.quota = q
	}
	p.quota = max(p.quota, st.remaining)
	// The t of the header is cut to whole seconds; one more is safe.
	resetAt := now.Add(st.reset + time.Second)
	// Requests in flight may not be counted in r yet.
	left := st.remaining - p.inFlight
	seen := usage{p.quota - st.remaining, p.sent}
	if !p.limited || resetAt.After(p.resetAt.Add(2*time.Second)) || p.probing {
		p.left = left
		p.sent = p.inFlight + 1
		seen.ours = p.sent
		p.first = seen
	} else {
		p.left = min(p.left, left)
	}
	p.resetAt = resetAt
	if ours := seen.ours - p.first.ours; ours > 0 {
		// Answers overtake each other; a smaller sum says nothing new.
		others := seen.all - p.first.all - ours
		if others > 0 || ours >= 16 {
			p.others = float64(max(others, 0)) / float64(ours)
		}
	}
}

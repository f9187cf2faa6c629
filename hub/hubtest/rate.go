package hubtest

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// window is the state of one rate bucket.
type window struct {
	start time.Time
	used  int
}

// admit counts a request against its bucket, publishes the state in the
// headers and refuses what is beyond the limit.
func (s *Server) admit(x *exchange, esc string) bool {
	if s.opts.Rate == nil {
		return true
	}
	bucket, quota := "api", s.opts.Rate.API
	if strings.Contains(esc, "/resolve/") || strings.Contains(esc, "/resolve-cache/") {
		bucket, quota = "resolvers", s.opts.Rate.Resolvers
	}
	if quota <= 0 {
		return true
	}
	s.mu.Lock()
	now := s.now()
	w := s.windows[bucket]
	if w == nil || now.Sub(w.start) >= s.opts.Rate.Window {
		w = &window{start: now}
		s.windows[bucket] = w
	}
	over := w.used >= quota
	if !over {
		w.used++
	}
	left := quota - w.used
	reset := int(w.start.Add(s.opts.Rate.Window).Sub(now) / time.Second)
	s.mu.Unlock()
	x.Header().Set("RateLimit", fmt.Sprintf(`"%s";r=%d;t=%d`, bucket, left, reset))
	x.Header().Set("RateLimit-Policy", fmt.Sprintf(`"fixed window";"%s";q=%d;w=%d`, bucket, quota, int(s.opts.Rate.Window/time.Second)))
	if over {
		s.violate("request beyond the limit of " + bucket)
		x.fail(http.StatusTooManyRequests, "", "We had to rate limit you")
		return false
	}
	return true
}

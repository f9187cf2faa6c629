package hub

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// rateState is what a RateLimit header says: how many requests remain in the
// window and how long the window lasts.
type rateState struct {
	bucket    string
	remaining int64
	reset     time.Duration
}

// parseRateLimit reads `"resolvers";r=2999;t=172`. Several policies may be
// listed with commas; the one with the fewest requests left counts.
func parseRateLimit(h string) (rateState, bool) {
	var best rateState
	ok := false
	for _, item := range splitQuoted(h, ',') {
		parts := splitQuoted(item, ';')
		st := rateState{bucket: strings.Trim(strings.TrimSpace(parts[0]), `"`), remaining: -1, reset: -1}
		for _, p := range parts[1:] {
			k, v, _ := strings.Cut(strings.TrimSpace(p), "=")
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil || n < 0 || n > 1<<40 {
				continue
			}
			switch k {
			case "r":
				st.remaining = n
			case "t":
				st.reset = time.Duration(min(n, 1<<30)) * time.Second
			}
		}
		if st.remaining < 0 || st.reset < 0 {
			continue
		}
		if !ok || st.remaining < best.remaining {
			best, ok = st, true
		}
	}
	return best, ok
}

// parseRatePolicy reads `"fixed window";"resolvers";q=3000;w=300` and returns
// the quota q of the named bucket (or of any, if the name is not found).
func parseRatePolicy(h, bucket string) (quota int64, ok bool) {
	for _, item := range splitQuoted(h, ',') {
		named := false
		q := int64(-1)
		for _, p := range splitQuoted(item, ';') {
			p = strings.TrimSpace(p)
			if strings.Trim(p, `"`) == bucket {
				named = true
			}
			if v, found := strings.CutPrefix(p, "q="); found {
				if n, err := strconv.ParseInt(v, 10, 64); err == nil && n > 0 {
					q = n
				}
			}
		}
		if q > 0 && (named || !ok) {
			quota, ok = q, true
			if named {
				return quota, true
			}
		}
	}
	return quota, ok
}

// splitQuoted splits at a separator that stands outside double quotes.
func splitQuoted(s string, sep byte) []string {
	var out []string
	quoted := false
	start := 0
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == sep && !quoted:
			out = append(out, s[start:i])
			start = i + 1
		}
	}
	return append(out, s[start:])
}

// retryAfter reads Retry-After as seconds or as an HTTP date.
func retryAfter(h string, now time.Time) (time.Duration, bool) {
	h = strings.TrimSpace(h)
	if h == "" {
		return 0, false
	}
	if n, err := strconv.ParseInt(h, 10, 64); err == nil {
		if n < 0 {
			return 0, false
		}
		return time.Duration(min(n, 1<<30)) * time.Second, true
	}
	if t, err := http.ParseTime(h); err == nil {
		return max(t.Sub(now), 0), true
	}
	return 0, false
}

// rateWait says how long a 429 asks to wait. A RateLimit header counts only
// if it says that nothing remains: a 429 beside r>0 came from elsewhere.
func rateWait(h http.Header, now time.Time) (time.Duration, bool) {
	if st, ok := parseRateLimit(h.Get("RateLimit")); ok && st.remaining == 0 {
		return st.reset + time.Second, true
	}
	if d, ok := retryAfter(h.Get("Retry-After"), now); ok {
		return d + time.Second, true
	}
	return 0, false
}

// bucketOf names the Hub's rate bucket of an API or file address.
func bucketOf(path string) string {
	switch {
	case strings.Contains(path, "/api/resolve-cache/"), strings.Contains(path, "/resolve/"):
		return "resolvers"
	case strings.Contains(path, "/api/"):
		return "api"
	}
	return "pages"
}

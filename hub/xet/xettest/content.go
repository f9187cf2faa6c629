package xettest

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hfcompress/compress/hub/xet"
)

// serveContent answers byte ranges of xorbs. Each range of a request must be
// one that its address is signed for.
func (s *Server) serveContent(x *exchange) {
	x.call = Content
	if x.r.Header.Get("Authorization") != "" || x.r.Header.Get("Cookie") != "" {
		s.violate("a content request carries credentials")
	}
	fault := s.fault(Content)
	if x.early(fault) {
		return
	}
	q := x.r.URL.Query()
	if fault.Kind == Redirect {
		http.Redirect(x, x.r, "/moved"+x.r.URL.Path+"?"+x.r.URL.RawQuery, http.StatusTemporaryRedirect)
		return
	}
	hash := strings.TrimPrefix(strings.TrimPrefix(x.r.URL.Path, "/moved"), "/xorbs/default/")
	signed, err := parseRanges(q.Get("X-Xet-Signed-Range"))
	expires, terr := strconv.ParseInt(q.Get("Expires"), 10, 64)
	s.mu.Lock()
	revision := s.revision
	s.mu.Unlock()
	if err != nil || terr != nil || q.Get("Signature") != s.signature(hash, q.Get("X-Xet-Signed-Range"), q.Get("Expires"), revision) || time.Now().UnixNano() > expires {
		http.Error(x, "the signature is not valid", http.StatusForbidden)
		return
	}
	asked, err := parseRanges(x.r.Header.Get("Range"))
	if err != nil {
		s.violate("a content request has the range %q", x.r.Header.Get("Range"))
		http.Error(x, "a range is required", http.StatusForbidden)
		return
	}
	for _, a := range asked {
		if !slices.Contains(signed, a) {
			s.violate("range %d-%d is not signed", a.Start, a.End)
			http.Error(x, "the range is not signed", http.StatusForbidden)
			return
		}
	}
	h, err := xet.ParseHash(hash)
	if err != nil {
		http.Error(x, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	xorb := s.store.xorbs[h]
	s.mu.Unlock()
	if xorb == nil {
		http.NotFound(x, x.r)
		return
	}
	x.Header().Set("Content-Type", "application/octet-stream")
	if len(asked) > 1 {
		http.ServeContent(x, x.r, "", time.Time{}, bytes.NewReader(xorb.data))
		return
	}
	a := asked[0]
	switch fault.Kind {
	case IgnoreRange:
		x.Header().Set("Content-Length", strconv.Itoa(len(xorb.data)))
		x.send(fault, xorb.data)
		return
	case WrongRange:
		a.Start++
	}
	body := xorb.data[a.Start : a.End+1]
	x.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", a.Start, a.End, len(xorb.data)))
	x.Header().Set("Content-Length", strconv.Itoa(len(body)))
	x.WriteHeader(http.StatusPartialContent)
	x.send(fault, body)
}

// exchange is one request and what was answered.
type exchange struct {
	http.ResponseWriter
	s      *Server
	r      *http.Request
	call   string
	status int
	bytes  int64
}

// WriteHeader notes the status for the log.
func (x *exchange) WriteHeader(status int) {
	if x.status == 0 {
		x.status = status
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write counts the body for the log.
func (x *exchange) Write(b []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	n, err := x.ResponseWriter.Write(b)
	x.bytes += int64(n)
	return n, err
}

func (x *exchange) finish() {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	x.s.log = append(x.s.log, Request{Call: x.call, Range: x.r.Header.Get("Range"), Status: x.status, Token: x.r.Header.Get("Authorization") != "", Bytes: x.bytes})
}

// early runs the faults that need no content, and reports whether the request
// is done with.
func (x *exchange) early(f Fault) bool {
	switch f.Kind {
	case StallHeaders:
		x.hang()
	case Status:
		if f.RetryAfter > 0 {
			x.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter/time.Second)))
		}
		http.Error(x, "injected", f.Code)
	default:
		return false
	}
	return true
}

func (x *exchange) hang() {
	select {
	case <-x.r.Context().Done():
	case <-x.s.closed.Done():
	}
}

// send writes the body as the fault wants it. Writes to a client that left
// fail, which is no concern of the server.
func (x *exchange) send(f Fault, body []byte) {
	at := max(0, min(f.At, int64(len(body))))
	switch f.Kind {
	case Stall:
		_, _ = x.Write(body[:at])
		x.flush()
		x.hang()
	case Reset:
		_, _ = x.Write(body[:at])
		x.flush()
		conn, _, err := http.NewResponseController(x.ResponseWriter).Hijack()
		if err != nil {
			x.s.violate("cannot reset: %v", err)
			return
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	case Corrupt:
		bad := slices.Clone(body)
		if at < int64(len(bad)) {
			bad[at] ^= 1
		}
		_, _ = x.Write(bad)
	case Slow:
		step := max(1, f.Rate/50)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for len(body) > 0 {
			n := min(step, int64(len(body)))
			if _, err := x.Write(body[:n]); err != nil {
				return
			}
			x.flush()
			body = body[n:]
			select {
			case <-tick.C:
			case <-x.r.Context().Done():
				return
			case <-x.s.closed.Done():
				return
			}
		}
	default:
		_, _ = x.Write(body)
	}
}

func (x *exchange) flush() { _ = http.NewResponseController(x.ResponseWriter).Flush() }

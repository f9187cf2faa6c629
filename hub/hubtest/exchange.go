package hubtest

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// exchange is one request and its answer in the making.
type exchange struct {
	s      *Server
	w      http.ResponseWriter
	r      *http.Request
	origin string
	file   string // repository path of the file
	// redirects says that the answer will be a redirect.
	redirects bool
	fault     *Fault
	status    int
	bytes     int64
	slow      *slowWriter
	limit     int64 // body bytes until the fault strikes; -1: never
}

func (s *Server) handle(origin string, h func(*exchange), w http.ResponseWriter, r *http.Request) {
	x := &exchange{s: s, w: w, r: r, origin: origin, limit: -1}
	s.mu.Lock()
	epoch := s.epoch
	s.active++
	s.peakActive = max(s.peakActive, s.active)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.active--
		s.idle.Broadcast()
		if s.epoch != epoch {
			return // begun before Forget
		}
		s.log = append(s.log, Request{
			Origin: origin, Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, File: x.file,
			Range: r.Header.Get("Range"), Auth: r.Header.Get("Authorization"),
			AcceptEncoding: r.Header.Get("Accept-Encoding"), UserAgent: r.UserAgent(),
			Trace:  r.Header.Get("X-Amzn-Trace-Id"),
			Status: x.status, Bytes: x.bytes,
		})
	}()
	h(x)
}

// Header, WriteHeader and Write make the exchange a ResponseWriter that
// counts and that breaks where its fault says.
func (x *exchange) Header() http.Header { return x.w.Header() }

// WriteHeader sends the status line.
func (x *exchange) WriteHeader(code int) {
	if x.status != 0 {
		return
	}
	x.status = code
	if f := x.fault; f != nil {
		switch f.Kind {
		case DropHeader:
			for k := range f.Header {
				x.w.Header().Del(k)
			}
		case SetHeader:
			for k, v := range f.Header {
				x.w.Header()[http.CanonicalHeaderKey(k)] = v
			}
		case NoLength, TruncateClean:
			x.w.Header().Del("Content-Length")
			// Without this net/http adds the length of short bodies.
			x.w.Header().Set("Transfer-Encoding", "chunked")
		}
	}
	x.w.WriteHeader(code)
}

// Write sends body bytes.
func (x *exchange) Write(b []byte) (int, error) {
	x.WriteHeader(http.StatusOK)
	total := 0
	for len(b) > 0 {
		chunk := b[:min(len(b), 32<<10)]
		if x.limit >= 0 && int64(len(chunk)) > x.limit-x.bytes {
			chunk = chunk[:x.limit-x.bytes]
		}
		if x.slow != nil {
			chunk = chunk[:min(len(chunk), int(max(x.slow.rate/50, 256)))]
			x.slow.pace(len(chunk))
		}
		n, err := x.w.Write(chunk)
		x.bytes += int64(n)
		total += n
		if err != nil {
			return total, err
		}
		b = b[n:]
		if x.limit >= 0 && x.bytes >= x.limit {
			x.strike()
			return total, io.ErrClosedPipe
		}
	}
	return total, nil
}

// ReadFrom lets whole files go to the socket without a copy.
func (x *exchange) ReadFrom(r io.Reader) (int64, error) {
	rf, ok := x.w.(io.ReaderFrom)
	if x.limit >= 0 || x.slow != nil || !ok {
		return io.Copy(struct{ io.Writer }{x}, r)
	}
	x.WriteHeader(http.StatusOK)
	n, err := rf.ReadFrom(r)
	x.bytes += n
	return n, err
}

// strike ends the answer in the way of its fault. Only TruncateClean returns.
func (x *exchange) strike() {
	flush := func() {
		if f, ok := x.w.(http.Flusher); ok {
			f.Flush()
		}
	}
	switch x.fault.Kind {
	case Truncate:
		flush()
		panic(http.ErrAbortHandler)
	case Stall, StallHeaders:
		if x.fault.Kind == Stall {
			x.WriteHeader(http.StatusOK)
			flush()
		}
		select {
		case <-x.r.Context().Done():
		case <-x.s.closed.Done():
		}
		panic(http.ErrAbortHandler)
	case Reset:
		flush()
		if h, ok := x.w.(http.Hijacker); ok {
			if c, _, err := h.Hijack(); err == nil {
				if t, ok := c.(*net.TCPConn); ok {
					_ = t.SetLinger(0)
				}
				_ = c.Close()
				if x.status == 0 {
					x.status = -1
				}
			}
		}
		panic(http.ErrAbortHandler)
	}
}

// misbehave handles faults that replace the whole answer. It reports whether
// the answer is done.
func (x *exchange) misbehave() bool {
	x.fault = x.s.faultFor(x)
	f := x.fault
	if f == nil {
		return false
	}
	switch f.Kind {
	case Status, Redirect:
		for k, v := range f.Header {
			x.Header()[http.CanonicalHeaderKey(k)] = v
		}
		x.WriteHeader(f.Code)
		_, _ = io.WriteString(x, f.Body)
		return true
	case Expired:
		x.Header().Set("Content-Type", "application/xml")
		x.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(x, `<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>`)
		return true
	case StallHeaders:
		x.strike()
	case Reset:
		if f.At == 0 {
			x.strike()
		}
		x.limit = f.At
	case Truncate, TruncateClean:
		x.limit = f.At
	case Stall:
		x.limit = f.At
	case Slow:
		x.slow = &slowWriter{x: x, rate: max(f.Rate, 1)}
	case IgnoreRange:
		x.r.Header.Del("Range")
	}
	return false
}

// content serves a file's bytes with ranges, or what a fault makes of them.
func (x *exchange) content(f *file, etag string) {
	rs, done, err := f.open()
	if err != nil {
		x.fail(http.StatusInternalServerError, "", err.Error())
		return
	}
	defer done()
	x.Header().Set("ETag", `"`+etag+`"`)
	x.Header().Set("Accept-Ranges", "bytes")
	x.Header().Set("Content-Type", contentType(f.path))
	if x.fault != nil {
		switch x.fault.Kind {
		case Pointer:
			x.text("text/plain; charset=utf-8", f.pointer)
			return
		case HTML:
			x.text("text/html; charset=utf-8", "<!DOCTYPE html><html><head><title>Log in</title></head><body>Please log in.</body></html>")
			return
		case Longer:
			x.Header().Set("Content-Length", strconv.FormatInt(f.size+7, 10))
			_, _ = io.Copy(x, rs)
			_, _ = io.WriteString(x, "surplus")
			return
		case Gzip:
			x.Header().Set("Content-Encoding", "gzip")
			x.WriteHeader(http.StatusOK)
			if x.r.Method != http.MethodHead {
				z := gzip.NewWriter(x)
				_, _ = io.Copy(z, rs)
				_ = z.Close()
			}
			return
		case Corrupt:
			rs = &corruptReader{ReadSeeker: rs, at: x.fault.At}
		case LyingRange:
			rs = wrongReader{rs}
		case WrongRange:
			if x.shiftRange(f, rs) {
				return
			}
		case Stall:
			if x.limit == 0 {
				x.Header().Set("Content-Length", strconv.FormatInt(f.size, 10))
				x.WriteHeader(http.StatusOK)
				x.strike()
			}
		}
	}
	if strings.Contains(x.r.Header.Get("Range"), ",") {
		x.s.violate("several ranges in one request: " + x.r.Header.Get("Range"))
	}
	http.ServeContent(x, x.r, "", time.Time{}, rs)
}

// shiftRange answers a range with the one that starts a byte later.
func (x *exchange) shiftRange(f *file, rs io.ReadSeeker) bool {
	var a, b int64
	if n, _ := fmt.Sscanf(x.r.Header.Get("Range"), "bytes=%d-%d", &a, &b); n != 2 || b <= a {
		return false
	}
	x.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", a+1, b, f.size))
	x.Header().Set("Content-Length", strconv.FormatInt(b-a, 10))
	x.WriteHeader(http.StatusPartialContent)
	_, _ = rs.Seek(a+1, io.SeekStart)
	_, _ = io.CopyN(x, rs, b-a)
	return true
}

func (x *exchange) text(contentType, body string) {
	x.Header().Del("ETag")
	x.Header().Del("Accept-Ranges")
	x.Header().Set("Content-Type", contentType)
	x.Header().Set("Content-Length", strconv.Itoa(len(body)))
	x.WriteHeader(http.StatusOK)
	if x.r.Method != http.MethodHead {
		_, _ = io.WriteString(x, body)
	}
}

// fail sends an error in the Hub's form.
func (x *exchange) fail(status int, code, message string) {
	if code != "" {
		x.Header().Set("X-Error-Code", code)
	}
	x.Header().Set("X-Error-Message", message)
	x.Header().Set("Content-Type", "application/json; charset=utf-8")
	x.WriteHeader(status)
	if x.r.Method != http.MethodHead {
		_ = json.NewEncoder(x).Encode(map[string]string{"error": message})
	}
}

func (x *exchange) json(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		x.fail(http.StatusInternalServerError, "", err.Error())
		return
	}
	x.Header().Set("Content-Type", "application/json; charset=utf-8")
	x.Header().Set("Content-Length", strconv.Itoa(len(b)))
	x.WriteHeader(http.StatusOK)
	if x.r.Method != http.MethodHead {
		_, _ = x.Write(b)
	}
}

func contentType(p string) string {
	switch {
	case strings.HasSuffix(p, ".json"):
		return "application/json"
	case strings.HasSuffix(p, ".md"), strings.HasSuffix(p, ".txt"):
		return "text/plain; charset=utf-8"
	case strings.HasSuffix(p, ".html"):
		return "text/html; charset=utf-8"
	}
	return "application/octet-stream"
}

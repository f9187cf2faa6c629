package hubtest

import "time"

// Request is one recorded request.
type Request struct {
	// Origin is hub or cdn.
	Origin string
	Method string
	// Path is the URL path as sent, still percent-encoded; Query its query.
	Path, Query string
	// File is the repository path of the file asked for, if any.
	File  string
	Range string
	// Auth is the Authorization header.
	Auth string
	// AcceptEncoding and UserAgent are the headers of these names.
	AcceptEncoding, UserAgent string
	// Trace is the X-Amzn-Trace-Id header.
	Trace string
	// Status and Bytes are those of the answer; Bytes counts body bytes that
	// were handed to the connection.
	Status int
	Bytes  int64
}

// Requests returns a copy of the record, in the order of completion. A client
// has its last byte before the server has closed the books on a request, so
// the call waits a moment for answers that are being finished.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	deadline := time.Now().Add(time.Second)
	wake := time.AfterFunc(time.Until(deadline), s.idle.Broadcast)
	defer wake.Stop()
	for s.active > 0 && time.Now().Before(deadline) {
		s.idle.Wait()
	}
	return append([]Request(nil), s.log...)
}

// Count counts the recorded requests for which f is true (nil: all).
func (s *Server) Count(f func(Request) bool) int {
	n := 0
	for _, r := range s.Requests() {
		if f == nil || f(r) {
			n++
		}
	}
	return n
}

// BodyBytes sums the body bytes of the recorded requests for which f is true.
func (s *Server) BodyBytes(f func(Request) bool) int64 {
	var n int64
	for _, r := range s.Requests() {
		if f == nil || f(r) {
			n += r.Bytes
		}
	}
	return n
}

// Forget empties the record and the violations. Requests that are still being
// answered will not be recorded either.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	s.peakActive = s.active
	s.log, s.violations = nil, nil
}

// Violations lists what a client did that it must not do: a token sent to the
// second origin, a HEAD without "Accept-Encoding: identity", a resolve path
// that is not percent-encoded as the Hub expects, a request beyond a
// published limit. Those of the Xet store are added; Forget keeps them.
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := append([]string(nil), s.violations...)
	if s.xet != nil {
		for _, v := range s.xet.Violations() {
			all = append(all, "xet: "+v)
		}
	}
	return all
}

func (s *Server) violate(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.violations = append(s.violations, what)
}

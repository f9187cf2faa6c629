package hubtest

import (
	"io"
	"net/http"
	"path"
	"time"
)

// FaultKind says how an answer goes wrong.
type FaultKind string

// FaultKinds lists all of them.
var FaultKinds = []FaultKind{
	Truncate, TruncateClean, Stall, StallHeaders, Corrupt, WrongRange, LyingRange, IgnoreRange, Status, Reset,
	Gzip, Pointer, HTML, NoLength, Slow, Expired, DropHeader, SetHeader, Redirect, Longer,
}

// The faults. Offsets are bytes of the answer's body unless stated otherwise.
const (
	// Truncate closes the connection after At bytes of a body whose length
	// was announced.
	Truncate FaultKind = "truncate"
	// TruncateClean ends a body without announced length after At bytes, in
	// proper form.
	TruncateClean FaultKind = "truncate-clean"
	// Stall sends At bytes and then nothing until the client leaves.
	Stall FaultKind = "stall"
	// StallHeaders never answers.
	StallHeaders FaultKind = "stall-headers"
	// Corrupt flips a bit of the byte at offset At of the file.
	Corrupt FaultKind = "corrupt"
	// WrongRange shifts a range answer by one byte and says so.
	WrongRange FaultKind = "wrong-range"
	// LyingRange sends other bytes than Content-Range says.
	LyingRange FaultKind = "lying-range"
	// IgnoreRange answers 200 with the whole file.
	IgnoreRange FaultKind = "ignore-range"
	// Status answers with Code, Header and Body.
	Status FaultKind = "status"
	// Reset breaks the connection (RST) after At bytes.
	Reset FaultKind = "reset"
	// Gzip compresses the body although identity was asked for.
	Gzip FaultKind = "gzip"
	// Pointer sends the LFS pointer text in place of the file.
	Pointer FaultKind = "pointer"
	// HTML sends a login page with status 200.
	HTML FaultKind = "html"
	// NoLength sends the body without announcing its length.
	NoLength FaultKind = "no-length"
	// Slow limits the connection to Rate bytes per second.
	Slow FaultKind = "slow"
	// Expired refuses a signed address with 403.
	Expired FaultKind = "expired"
	// DropHeader leaves out the headers named in Header.
	DropHeader FaultKind = "drop-header"
	// SetHeader sets the headers given in Header.
	SetHeader FaultKind = "set-header"
	// Redirect answers with Code and the Location in Header.
	Redirect FaultKind = "redirect"
	// Longer appends bytes to the file and its announced length.
	Longer FaultKind = "longer"
)

// Fault makes matching requests go wrong.
type Fault struct {
	Kind FaultKind
	// Origin is hub or cdn; empty: both.
	Origin string
	// Method restricts the fault to one method; empty: all.
	Method string
	// Path is a path.Match pattern for the file's base name or the whole
	// repository path of the file, or for the URL path of other requests;
	// empty: every request.
	Path string
	// Skip lets the first matching requests pass. Count is how many then
	// fail: 0 means one, negative all.
	Skip, Count int
	// At is a byte offset, see the kinds.
	At int64
	// Code, Header and Body make up the answer of Status and Redirect.
	Code   int
	Header http.Header
	Body   string
	// Rate is for Slow, in bytes per second.
	Rate int64
}

// Inject adds a fault. Several may match one request; the first that is still
// active is used.
func (s *Server) Inject(f Fault) {
	if f.Count == 0 {
		f.Count = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// ClearFaults removes all faults.
func (s *Server) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// faultFor consumes a fault for a request, if one matches.
func (s *Server) faultFor(x *exchange) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		if f.Count == 0 || f.Origin != "" && f.Origin != x.origin || f.Method != "" && f.Method != x.r.Method || !f.matches(x) || x.redirects && f.needsBody() {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Count > 0 {
			f.Count--
		}
		g := *f
		return &g
	}
	return nil
}

// needsBody says that a fault spoils content. On a redirect it has nothing to
// do and waits for the second origin.
func (f *Fault) needsBody() bool {
	switch f.Kind {
	case Truncate, TruncateClean, Stall, Corrupt, WrongRange, LyingRange, IgnoreRange, Gzip, NoLength, Slow, Expired, Longer:
		return true
	case Reset:
		return f.At > 0
	}
	return false
}

func (f *Fault) matches(x *exchange) bool {
	if f.Path == "" {
		return true
	}
	for _, name := range []string{x.file, path.Base(x.file), x.r.URL.Path} {
		if ok, _ := path.Match(f.Path, name); ok && name != "" {
			return true
		}
	}
	return false
}

// corruptReader flips a bit of one byte of a file.
type corruptReader struct {
	io.ReadSeeker
	at, pos int64
}

func (c *corruptReader) Seek(off int64, whence int) (int64, error) {
	p, err := c.ReadSeeker.Seek(off, whence)
	c.pos = p
	return p, err
}

func (c *corruptReader) Read(b []byte) (int, error) {
	n, err := c.ReadSeeker.Read(b)
	if i := c.at - c.pos; i >= 0 && i < int64(n) {
		b[i] ^= 1
	}
	c.pos += int64(n)
	return n, err
}

// wrongReader gives other bytes than those asked for.
type wrongReader struct{ io.ReadSeeker }

func (s wrongReader) Read(b []byte) (int, error) {
	n, err := s.ReadSeeker.Read(b)
	for i := range b[:n] {
		b[i] ^= 0x5a
	}
	return n, err
}

// slowWriter sends at most rate bytes per second, measured from its first
// byte, so that short bodies are slow too.
type slowWriter struct {
	x     *exchange
	rate  int64
	start time.Time
	sent  int64
}

func (w *slowWriter) pace(n int) {
	if w.start.IsZero() {
		w.start = time.Now()
	}
	w.sent += int64(n)
	due := w.start.Add(time.Duration(float64(w.sent) / float64(w.rate) * float64(time.Second)))
	t := time.NewTimer(time.Until(due))
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.x.r.Context().Done():
	case <-w.x.s.closed.Done():
	}
}

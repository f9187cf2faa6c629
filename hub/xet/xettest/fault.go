package xettest

import "time"

// Kind says how an answer goes wrong.
type Kind string

// The faults. Offsets count bytes of the answer's body.
const (
	// Stall sends At bytes and then nothing until the client leaves.
	Stall Kind = "stall"
	// StallHeaders never answers.
	StallHeaders Kind = "stall-headers"
	// Reset breaks the connection after At bytes.
	Reset Kind = "reset"
	// Status answers with Code and, if set, RetryAfter.
	Status Kind = "status"
	// Corrupt flips the lowest bit of byte At.
	Corrupt Kind = "corrupt"
	// WrongLength makes the first term one byte longer than it is.
	WrongLength Kind = "wrong-length"
	// WrongRange shifts the range by one byte and says so.
	WrongRange Kind = "wrong-range"
	// IgnoreRange answers 200 with the whole xorb.
	IgnoreRange Kind = "ignore-range"
	// Slow sends Rate bytes per second.
	Slow Kind = "slow"
	// Edit changes a reconstruction with the function Edit.
	Edit Kind = "edit"
	// Garbage answers a query with bytes that are no JSON.
	Garbage Kind = "garbage"
	// Redirect sends content from another address.
	Redirect Kind = "redirect"
)

// The calls that a fault can be for.
const (
	V1      = "v1"
	V2      = "v2"
	Content = "content"
)

// Fault makes matching requests go wrong.
type Fault struct {
	Kind Kind
	// Call is V1, V2 or Content; empty: all.
	Call string
	// Skip lets the first matching requests pass. Count is how many then
	// fail: 0 means one, negative all.
	Skip, Count int
	// At is a byte offset, see the kinds.
	At int64
	// Code and RetryAfter are for Status.
	Code       int
	RetryAfter time.Duration
	// Rate is for Slow, in bytes per second.
	Rate int64
	// Edit is for the kind of that name.
	Edit func(*Reconstruction)
}

// Inject adds a fault. Of several that match a request the first added is
// used.
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

// fault consumes a fault for a call, or returns one that does nothing.
func (s *Server) fault(call string) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		switch {
		case f.Count == 0 || f.Call != "" && f.Call != call:
		case f.Skip > 0:
			f.Skip--
		default:
			if f.Count > 0 {
				f.Count--
			}
			return *f
		}
	}
	return Fault{}
}

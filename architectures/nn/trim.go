package nn

// Trimmer is implemented by sessions that can free results before they are
// closed. Where a session does not, results live as long as it.
type Trimmer interface {
	// Trim frees all results of the session but those of keep, which must be its
	// own. The others must not be used any more.
	Trim(keep ...Array)
}

// Trim implements [Trimmer].
func (s *session) Trim(keep ...Array) {
	const op = "trim"
	if !s.begin(op) {
		return
	}
	kept := make(map[*array]bool, len(keep))
	for _, x := range keep {
		a := s.operand(op, "a result to keep", x)
		if a == nil {
			return
		}
		kept[a] = true
	}
	rest := s.arrays[:0]
	for _, a := range s.arrays {
		if kept[a] {
			rest = append(rest, a)
		} else {
			s.free(a)
		}
	}
	clear(s.arrays[len(rest):])
	s.arrays = rest
}

// free gives an array's storage back.
func (s *session) free(a *array) {
	a.f, a.other, a.freed = nil, nil, true
	if a.pooled != nil {
		s.device.pool.put(a.pooled)
		a.pooled = nil
	}
}

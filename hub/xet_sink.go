package hub

import (
	"hash/crc32"
	"io"
	"sync"

	"github.com/hfcompress/compress/hub/xet"
)

// xetSink takes content in any order and marks the parts of a partial as they
// fill. A part needs the checksum of its bytes in order. Most parts are
// written front to back by one transfer, and then the checksum is made on the
// way; others are read back once they are full.
type xetSink struct {
	t *transfer

	mu    sync.Mutex
	parts map[int]*xetPart
	err   error // the first failure, for the caller of Fetch
}

// xetPart is a part that is being filled.
type xetPart struct {
	have  []xet.Range // sorted, apart from each other
	crc   uint32      // of [start, end of the first range), while clean
	clean bool        // one range, and written once, in order
	busy  int         // writes under way
	full  bool        // its checksum was recorded
}

func newXetSink(t *transfer) *xetSink { return &xetSink{t: t, parts: map[int]*xetPart{}} }

// failure is the cause of a failed write.
func (s *xetSink) failure(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	return err
}

func (s *xetSink) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	return err
}

// WriteAt writes b and accounts for it part by part.
func (s *xetSink) WriteAt(b []byte, off int64) (int, error) {
	n := 0
	for n < len(b) {
		pos := off + int64(n)
		i := int(pos / s.t.p.head.Part)
		_, end := s.t.p.span(i)
		m := int(min(int64(len(b)-n), end-pos))
		if err := s.writePart(i, b[n:n+m], pos); err != nil {
			return n, s.fail(err)
		}
		n += m
	}
	s.t.addSent(int64(n))
	return n, nil
}

func (s *xetSink) writePart(i int, b []byte, pos int64) error {
	from, to := s.t.p.span(i)
	to0 := pos + int64(len(b))
	s.mu.Lock()
	p := s.parts[i]
	if p == nil {
		p = &xetPart{clean: true}
		s.parts[i] = p
	}
	switch {
	case p.full:
		// Something was wrong the first time: the part does not count until
		// the new bytes are there.
		s.t.p.unmark(i)
		p.full, p.clean = false, false
	case pos != from && (len(p.have) != 1 || p.have[0].Start != from || p.have[0].End != pos), pos == from && len(p.have) > 0, p.busy > 0:
		p.clean = false
	}
	p.busy++
	s.mu.Unlock()
	_, err := s.t.p.f.WriteAt(b, pos)
	s.mu.Lock()
	p.busy--
	if err != nil {
		s.mu.Unlock()
		return err
	}
	if p.clean {
		p.crc = crc32.Update(p.crc, castagnoli, b)
	}
	p.have = joinRanges(p.have, xet.Range{Start: pos, End: to0})
	full := p.busy == 0 && len(p.have) == 1 && p.have[0] == xet.Range{Start: from, End: to}
	sum, clean := p.crc, p.clean
	p.full = full
	s.mu.Unlock()
	if !full {
		return nil
	}
	if !clean {
		if sum, err = s.t.p.checksum(i); err != nil {
			return err
		}
	}
	return s.t.p.mark(i, sum)
}

// joinRanges adds a range to a sorted list and joins what touches it.
func joinRanges(rs []xet.Range, r xet.Range) []xet.Range {
	out := rs[:0:0]
	placed := false
	for _, o := range rs {
		switch {
		case o.End < r.Start:
			out = append(out, o)
		case o.Start > r.End:
			if !placed {
				out, placed = append(out, r), true
			}
			out = append(out, o)
		default:
			r.Start, r.End = min(r.Start, o.Start), max(r.End, o.End)
		}
	}
	if !placed {
		out = append(out, r)
	}
	return out
}

// missing is the parts that are not complete, adjacent ones joined.
func (p *partial) missing() []xet.Range {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []xet.Range
	for i, done := range p.done {
		if done {
			continue
		}
		from, to := p.span(i)
		if n := len(out); n > 0 && out[n-1].End == from {
			out[n-1].End = to
		} else {
			out = append(out, xet.Range{Start: from, End: to})
		}
	}
	return out
}

// checksum reads a part back.
func (p *partial) checksum(i int) (uint32, error) {
	bp := buffers.Get().(*[]byte)
	defer buffers.Put(bp)
	from, to := p.span(i)
	h := crc32.New(castagnoli)
	if _, err := io.CopyBuffer(h, onlyReader{io.NewSectionReader(p.f, from, to-from)}, *bp); err != nil {
		return 0, err
	}
	return h.Sum32(), nil
}

// unmark takes a part back whose bytes are being replaced. Its line in the
// journal no longer matches the bytes, or matches them again; either is safe.
func (p *partial) unmark(i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken++ // even if its mark is only about to be made
	if p.done[i] {
		from, to := p.span(i)
		p.done[i] = false
		p.count--
		p.bytes -= to - from
	}
}

// disown forgets complete parts that have a byte in rs, in the journal too:
// their bytes are wrong and their checksums right. No transfer may be running.
func (p *partial) disown(rs []xet.Range) error {
	changed := false
	for i := range p.done {
		from, to := p.span(i)
		for _, r := range rs {
			if r.Start < to && from < r.End && p.done[i] {
				p.unmark(i)
				changed = true
			}
		}
	}
	if !changed || p.j == nil {
		return nil
	}
	sums := map[int]uint32{}
	for i, done := range p.done {
		if done {
			sum, err := p.checksum(i)
			if err != nil {
				return err
			}
			sums[i] = sum
		}
	}
	return p.rewriteJournal(sums)
}

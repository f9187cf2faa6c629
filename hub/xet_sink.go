package hub

import (
	"context"
	"hash/crc32"
	"io"

	"github.com/hfcompress/compress/hub/xet"
)

// xetSink takes content in any order and knows which parts of a partial it
// fills. A part needs the checksum of its bytes in order. Most parts are
// written front to back by one transfer, and then the checksum is made on the
// way; others are read back once they are full.
type xetSink struct {
	t     *transfer
	ctx   context.Context
	flow  *flow
	parts map[int]*xetPart // of the flow's writer
}

// xetPart is a part that is being filled.
type xetPart struct {
	have  []xet.Range // sorted, apart from each other
	crc   uint32      // of [start, end of the first range), while clean
	clean bool        // one range, and written once, in order
	full  bool        // its checksum was recorded
}

func newXetSink(ctx context.Context, t *transfer, f *flow) *xetSink {
	return &xetSink{t: t, ctx: ctx, flow: f, parts: map[int]*xetPart{}}
}

// Block lends memory for content.
func (s *xetSink) Block() ([]byte, error) { return s.flow.pool.get(s.ctx) }

// WriteBlock takes a block back whose first n bytes belong at off.
func (s *xetSink) WriteBlock(b []byte, n int, off int64) error {
	if err := s.flow.failure(); err != nil {
		s.flow.pool.put(b)
		return err
	}
	s.flow.send(block{mem: b, data: b[:n], off: off, to: s})
	return nil
}

// FreeBlock takes back a block that was not needed.
func (s *xetSink) FreeBlock(b []byte) { s.flow.pool.put(b) }

// WriteAt takes a copy of b.
func (s *xetSink) WriteAt(b []byte, off int64) (int, error) {
	err := s.flow.failure()
	if err == nil {
		err = s.flow.copy(s.ctx, s, b, off)
	}
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// write is called by the flow alone.
func (s *xetSink) write(b []byte, off int64) (full []finishedPart, err error) {
	size := s.t.p.head.Part
	end := off + int64(len(b))
	for i := int(off / size); int64(i)*size < end; i++ {
		s.begin(i, max(off, int64(i)*size), end)
	}
	if _, err := s.t.p.f.WriteAt(b, off); err != nil {
		return nil, err
	}
	for pos := off; pos < end; {
		i := int(pos / size)
		from, to := s.t.p.span(i)
		n := min(end, to) - pos
		p := s.parts[i]
		if p.clean {
			p.crc = crc32.Update(p.crc, castagnoli, b[:n])
		}
		p.have = joinRanges(p.have, xet.Range{Start: pos, End: pos + n})
		pos, b = pos+n, b[n:]
		if len(p.have) != 1 || p.have[0] != (xet.Range{Start: from, End: to}) {
			continue
		}
		p.full = true
		if !p.clean {
			if p.crc, err = s.t.p.checksum(i); err != nil {
				return full, err
			}
		}
		full = append(full, finishedPart{i, p.crc})
	}
	return full, nil
}

// begin prepares part i for a write of [pos, end).
func (s *xetSink) begin(i int, pos, end int64) {
	from, _ := s.t.p.span(i)
	p := s.parts[i]
	if p == nil {
		p = &xetPart{clean: true}
		s.parts[i] = p
	}
	for _, r := range p.have {
		if r.Start < end && pos < r.End {
			// Something was wrong the first time. What was hashed may be it,
			// and the part does not count until the new bytes are there.
			s.t.p.unmark(i)
			p.full, p.clean = false, false
			return
		}
	}
	if pos != from && (len(p.have) != 1 || p.have[0].Start != from || p.have[0].End != pos) || pos == from && len(p.have) > 0 {
		p.clean = false
	}
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

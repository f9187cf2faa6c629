package xettest

import (
	"cmp"
	"slices"

	"github.com/hfcompress/compress/hub/xet"
)

// Span is a range in an answer. Chunk ranges exclude their end, byte ranges
// include it.
type Span struct {
	Start int64 `json:"start"`
	End   int64 `json:"end"`
}

// Term is one run of chunks in an answer.
type Term struct {
	Hash           xet.Hash `json:"hash"`
	UnpackedLength int64    `json:"unpacked_length"`
	Range          Span     `json:"range"`
}

// FetchInfo is a byte range of a xorb in an answer of V1.
type FetchInfo struct {
	Range    Span   `json:"range"`
	URL      string `json:"url"`
	URLRange Span   `json:"url_range"`
}

// MultiRange is an address with the ranges it is signed for, in an answer of
// V2.
type MultiRange struct {
	URL    string        `json:"url"`
	Ranges []ChunkedSpan `json:"ranges"`
}

// ChunkedSpan is one range of a [MultiRange].
type ChunkedSpan struct {
	Chunks Span `json:"chunks"`
	Bytes  Span `json:"bytes"`
}

// Reconstruction is an answer of either version: V1 has FetchInfo, V2 Xorbs.
// [Fault.Edit] may change it.
type Reconstruction struct {
	Offset    int64                   `json:"offset_into_first_range"`
	Terms     []Term                  `json:"terms"`
	FetchInfo map[string][]FetchInfo  `json:"fetch_info,omitempty"`
	Xorbs     map[string][]MultiRange `json:"xorbs,omitempty"`
	spans     map[*xorb][]ChunkedSpan // merged, sorted
}

// rebuild answers for the bytes [from, to) of a file.
func (s *Server) rebuild(f *File, from, to int64) *Reconstruction {
	r := &Reconstruction{spans: map[*xorb][]ChunkedSpan{}}
	var off int64
	for _, t := range f.terms {
		start, end := off, off+t.size()
		off = end
		if end <= from || start >= to {
			continue
		}
		if !s.opts.WholeTerms {
			base := t.xorb.unpacked[t.start]
			for ; start+t.xorb.unpacked[t.start+1]-base <= from; t.start++ {
			}
			start += t.xorb.unpacked[t.start] - base
			for ; end-(t.xorb.unpacked[t.end]-t.xorb.unpacked[t.end-1]) >= to; t.end-- {
				end -= t.xorb.unpacked[t.end] - t.xorb.unpacked[t.end-1]
			}
		}
		if len(r.Terms) == 0 {
			r.Offset = from - start
		}
		r.Terms = append(r.Terms, Term{t.xorb.hash, t.size(), Span{int64(t.start), int64(t.end)}})
		r.spans[t.xorb] = append(r.spans[t.xorb], ChunkedSpan{Chunks: Span{int64(t.start), int64(t.end)}})
	}
	for x, spans := range r.spans {
		r.spans[x] = mergeSpans(x, spans)
	}
	return r
}

// mergeSpans joins chunk ranges that touch or overlap, as a store does that
// wants few requests, and adds their bytes.
func mergeSpans(x *xorb, spans []ChunkedSpan) (out []ChunkedSpan) {
	slices.SortFunc(spans, func(a, b ChunkedSpan) int { return cmp.Compare(a.Chunks.Start, b.Chunks.Start) })
	for _, c := range spans {
		if last := len(out) - 1; last >= 0 && c.Chunks.Start <= out[last].Chunks.End {
			out[last].Chunks.End = max(out[last].Chunks.End, c.Chunks.End)
			continue
		}
		out = append(out, c)
	}
	for i := range out {
		c := &out[i]
		c.Bytes = Span{x.stored[c.Chunks.Start], x.stored[c.Chunks.End] - 1}
	}
	return out
}

// v1 signs each range by itself.
func (r *Reconstruction) v1(s *Server) {
	r.FetchInfo = map[string][]FetchInfo{}
	for x, spans := range r.spans {
		for _, c := range spans {
			r.FetchInfo[x.hash.String()] = append(r.FetchInfo[x.hash.String()], FetchInfo{c.Chunks, s.sign(x, c), c.Bytes})
		}
	}
}

// maxSigned is how many ranges one address of V2 may be signed for.
const maxSigned = 500

// v2 signs the ranges of a xorb together.
func (r *Reconstruction) v2(s *Server) {
	r.Xorbs = map[string][]MultiRange{}
	for x, spans := range r.spans {
		for part := range slices.Chunk(spans, maxSigned) {
			r.Xorbs[x.hash.String()] = append(r.Xorbs[x.hash.String()], MultiRange{s.sign(x, part...), part})
		}
	}
}

package xet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
)

// Limits of one reconstruction answer.
const (
	maxReply  = 32 << 20  // bytes of JSON
	maxTerms  = 1 << 17   // terms, and byte ranges; a window has at most a quarter
	maxSpan   = 128 << 20 // bytes of one range; a xorb has at most 64 MiB
	maxOffset = 1 << 40   // end of a byte range
)

// recon is an answer of either version of the reconstruction call.
type recon struct {
	offset int64 // bytes of the first term before the range asked for
	terms  []reconTerm
	parts  map[Hash][]part // by xorb, in the order of their chunks
}

// reconTerm is chunks [start, end) of a xorb, size bytes unpacked.
type reconTerm struct {
	xorb       Hash
	start, end uint32
	size       int64
}

// partKey names what one request fetches: chunks [start, end) of a xorb,
// stored in bytes first to last, both included.
type partKey struct {
	xorb        Hash
	start, end  uint32
	first, last int64
}

// part is a request that the store allows.
type part struct {
	partKey
	url *url.URL
}

type jsonRange struct {
	Start *uint64 `json:"start"`
	End   *uint64 `json:"end"`
}

// chunks reads an end-exclusive range of chunk indices.
func (r jsonRange) chunks() (start, end uint32, err error) {
	if r.Start == nil || r.End == nil || *r.Start >= *r.End || *r.End > 1<<31 {
		return 0, 0, protocolError("chunk range %s", r)
	}
	return uint32(*r.Start), uint32(*r.End), nil
}

// bytes reads an end-inclusive range of bytes.
func (r jsonRange) bytes() (first, last int64, err error) {
	if r.Start == nil || r.End == nil || *r.Start > *r.End || *r.End >= maxOffset || *r.End-*r.Start >= maxSpan {
		return 0, 0, protocolError("byte range %s", r)
	}
	return int64(*r.Start), int64(*r.End), nil
}

func (r jsonRange) String() string {
	text := func(p *uint64) string {
		if p == nil {
			return "absent"
		}
		return fmt.Sprint(*p)
	}
	return text(r.Start) + "-" + text(r.End)
}

// jsonRecon holds the fields of both versions; V1 has fetch_info, V2 xorbs.
type jsonRecon struct {
	Offset uint64 `json:"offset_into_first_range"`
	Terms  []struct {
		Hash  Hash      `json:"hash"`
		Size  uint64    `json:"unpacked_length"`
		Range jsonRange `json:"range"`
	} `json:"terms"`
	FetchInfo map[string][]struct {
		Range jsonRange `json:"range"`
		URL   string    `json:"url"`
		Bytes jsonRange `json:"url_range"`
	} `json:"fetch_info"`
	Xorbs map[string][]struct {
		URL    string `json:"url"`
		Ranges []struct {
			Chunks jsonRange `json:"chunks"`
			Bytes  jsonRange `json:"bytes"`
		} `json:"ranges"`
	} `json:"xorbs"`
}

// parseRecon reads an answer and checks everything in it that can be checked
// without the content.
func parseRecon(body []byte, base *url.URL) (*recon, error) {
	var j jsonRecon
	if err := json.Unmarshal(body, &j); err != nil {
		return nil, &Error{Kind: ErrProtocol, Message: "reconstruction is not the JSON expected", Err: err}
	}
	if len(j.Terms) > maxTerms {
		return nil, protocolError("%d terms, at most %d are allowed", len(j.Terms), maxTerms)
	}
	r := &recon{parts: make(map[Hash][]part)}
	for i, t := range j.Terms {
		start, end, err := t.Range.chunks()
		if err != nil {
			return nil, fmt.Errorf("term %d: %w", i, err)
		}
		if t.Size == 0 || t.Size > uint64(end-start)*MaxChunk {
			return nil, protocolError("term %d: %d bytes in %d chunks", i, t.Size, end-start)
		}
		r.terms = append(r.terms, reconTerm{t.Hash, start, end, int64(t.Size)})
	}
	if len(r.terms) == 0 || j.Offset >= uint64(r.terms[0].size) {
		return nil, protocolError("offset %d into the first of %d terms", j.Offset, len(r.terms))
	}
	r.offset = int64(j.Offset)
	n := 0
	add := func(xorb, address string, chunks, bytes jsonRange) error {
		h, err := ParseHash(xorb)
		if err != nil {
			return protocolError("xorb hash of %d digits", len(xorb))
		}
		p := part{partKey: partKey{xorb: h}}
		if p.start, p.end, err = chunks.chunks(); err != nil {
			return err
		}
		if p.first, p.last, err = bytes.bytes(); err != nil {
			return err
		}
		if p.url, err = checkURL(address, base); err != nil {
			return err
		}
		if n++; n > maxTerms {
			return protocolError("more than %d ranges", maxTerms)
		}
		r.parts[h] = append(r.parts[h], p)
		return nil
	}
	for xorb, infos := range j.FetchInfo {
		for _, f := range infos {
			if err := add(xorb, f.URL, f.Range, f.Bytes); err != nil {
				return nil, err
			}
		}
	}
	for xorb, urls := range j.Xorbs {
		for _, u := range urls {
			for _, f := range u.Ranges {
				if err := add(xorb, u.URL, f.Chunks, f.Bytes); err != nil {
					return nil, err
				}
			}
		}
	}
	for _, parts := range r.parts {
		slices.SortStableFunc(parts, func(a, b part) int {
			return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end), cmp.Compare(a.first, b.first), cmp.Compare(a.last, b.last))
		})
	}
	return r, nil
}

// checkURL accepts an address for content: absolute, and not less protected
// than the store's own. The error says nothing of it, since it may be signed.
func checkURL(address string, base *url.URL) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, protocolError("unusable address of content")
	}
	u = base.ResolveReference(u)
	if u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || base.Scheme == "https") {
		return nil, protocolError("address of content has the scheme %.16q, the store's is %q", u.Scheme, base.Scheme)
	}
	return u, nil
}

// reach gives, for each of a xorb's sorted parts, the index of the part among
// it and those before it that ends last. With it the part that covers a term
// is found by one binary search, whatever the answer looks like.
func reach(parts []part) []int {
	out := make([]int, len(parts))
	for i := range parts {
		out[i] = i
		if i > 0 && parts[out[i-1]].end >= parts[i].end {
			out[i] = out[i-1]
		}
	}
	return out
}

// cover finds the part that holds all chunks of a term, or -1.
func cover(parts []part, reach []int, t reconTerm) int {
	i, _ := slices.BinarySearchFunc(parts, t.start, func(p part, start uint32) int {
		if p.start <= start {
			return -1
		}
		return 1
	})
	if i == 0 || parts[reach[i-1]].end < t.end {
		return -1
	}
	return reach[i-1]
}

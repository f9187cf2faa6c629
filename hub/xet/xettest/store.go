package xettest

import (
	"bytes"
	"errors"
	"io"

	"github.com/hfcompress/compress/hub/xet"
	"github.com/pierrec/lz4/v4"
)

// File is a file in the store.
type File struct {
	Hash xet.Hash // what the Hub states as X-Xet-Hash
	Size int64
	// Chunks and Terms count what the file is made of.
	Chunks, Terms int

	terms []term
}

// term is chunks [start, end) of a xorb.
type term struct {
	xorb       *xorb
	start, end int
}

func (t term) size() int64 {
	return t.xorb.unpacked[t.end] - t.xorb.unpacked[t.start]
}

// xorb is chunks back to back. Its offsets have one entry more than chunks.
type xorb struct {
	hash     xet.Hash
	data     []byte
	stored   []int64 // where each chunk starts in data
	unpacked []int64 // where it starts in the chunks' joined content
	tree     xet.Tree
}

type place struct {
	xorb  *xorb
	chunk int
}

// store packs files. It is guarded by the server.
type store struct {
	opts   Options
	files  map[xet.Hash]*File
	xorbs  map[xet.Hash]*xorb
	chunks map[xet.Hash]place
	open   *xorb
	packer packer
	count  int
}

func newStore(opts Options) *store {
	return &store{opts: opts, files: map[xet.Hash]*File{}, xorbs: map[xet.Hash]*xorb{}, chunks: map[xet.Hash]place{}}
}

func (s *store) add(r io.Reader) (*File, error) {
	f := &File{}
	var tree xet.Tree
	for c := xet.NewChunker(r); ; f.Chunks++ {
		data, err := c.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		h := xet.ChunkHash(data)
		tree.Add(h, uint64(len(data)))
		f.Size += int64(len(data))
		p, ok := s.chunks[h]
		if !ok {
			p = s.pack(data, h)
			s.chunks[h] = p
		}
		last := len(f.terms) - 1
		if last >= 0 && f.terms[last].xorb == p.xorb && f.terms[last].end == p.chunk && (s.opts.TermChunks == 0 || p.chunk-f.terms[last].start < s.opts.TermChunks) {
			f.terms[last].end++
		} else {
			f.terms = append(f.terms, term{p.xorb, p.chunk, p.chunk + 1})
		}
	}
	s.seal()
	f.Hash, f.Terms = tree.FileHash(), len(f.terms)
	s.files[f.Hash] = f
	return f, nil
}

func (s *store) pack(data []byte, h xet.Hash) place {
	scheme := s.packer.best
	if s.opts.Scheme != nil {
		scheme = func(data []byte) (xet.Scheme, []byte) {
			want := s.opts.Scheme(s.count)
			return want, s.packer.pack(want, data)
		}
	}
	kind, stored := scheme(data)
	s.count++
	if s.open != nil && (int64(len(s.open.data)+xet.HeaderSize+len(stored)) > s.opts.MaxXorb || len(s.open.stored) > s.opts.MaxChunks) {
		s.seal()
	}
	if s.open == nil {
		s.open = &xorb{stored: []int64{0}, unpacked: []int64{0}}
	}
	x := s.open
	x.data = xet.ChunkHeader{Scheme: kind, Stored: len(stored), Size: len(data)}.Append(x.data)
	x.data = append(x.data, stored...)
	x.stored = append(x.stored, int64(len(x.data)))
	x.unpacked = append(x.unpacked, x.unpacked[len(x.unpacked)-1]+int64(len(data)))
	x.tree.Add(h, uint64(len(data)))
	return place{x, len(x.stored) - 2}
}

// seal closes the open xorb. Terms point to it already; its hash is known
// only now.
func (s *store) seal() {
	if s.open == nil {
		return
	}
	s.open.hash = s.open.tree.XorbHash()
	s.xorbs[s.open.hash] = s.open
	s.open = nil
}

// packer stores chunks.
type packer struct {
	buf bytes.Buffer
	w   *lz4.Writer
}

// best takes the scheme that needs the fewest bytes.
func (p *packer) best(data []byte) (xet.Scheme, []byte) {
	kind, out := xet.SchemeNone, data
	for _, k := range []xet.Scheme{xet.SchemeLZ4, xet.SchemeBG4} {
		if packed := p.pack(k, data); len(packed) < len(out) {
			kind, out = k, append([]byte(nil), packed...)
		}
	}
	return kind, out
}

// pack returns the stored form, valid until the next call.
func (p *packer) pack(kind xet.Scheme, data []byte) []byte {
	if kind == xet.SchemeNone {
		return data
	}
	if kind == xet.SchemeBG4 {
		grouped := make([]byte, 0, len(data))
		for j := range 4 {
			for i := j; i < len(data); i += 4 {
				grouped = append(grouped, data[i])
			}
		}
		data = grouped
	}
	p.buf.Reset()
	if p.w == nil {
		p.w = lz4.NewWriter(&p.buf)
	}
	p.w.Reset(&p.buf)
	if err := p.w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false)); err != nil {
		panic("xettest: " + err.Error())
	}
	// A buffer takes every write.
	_, _ = p.w.Write(data)
	_ = p.w.Close()
	return p.buf.Bytes()
}

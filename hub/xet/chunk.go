package xet

import (
	"encoding/binary"
	"fmt"
)

// HeaderSize is the length of the header before each chunk of a xorb.
const HeaderSize = 8

const (
	maxStored   = 2 * MaxChunk // stored length that a header may state
	footerIdent = "XETBLOB"
)

// Scheme says how a chunk is stored.
type Scheme uint8

// The schemes of the format. Other values are refused.
const (
	SchemeNone Scheme = 0 // as it is
	SchemeLZ4  Scheme = 1 // LZ4 frame
	SchemeBG4  Scheme = 2 // bytes grouped by their position modulo 4, then LZ4 frame
)

// ChunkHeader is the header of one chunk in a xorb: one byte of version (0),
// three of stored length, one of scheme, three of content length, numbers
// little-endian.
type ChunkHeader struct {
	Scheme Scheme
	Stored int // bytes that follow the header
	Size   int // bytes of content
}

// ParseChunkHeader reads the first [HeaderSize] bytes of b and checks all
// limits of the format, so that both lengths may size a buffer. The error
// matches [ErrCorrupt].
func ParseChunkHeader(b []byte) (h ChunkHeader, err error) {
	if len(b) < HeaderSize {
		return h, corrupt("chunk header has %d bytes, expected %d", len(b), HeaderSize)
	}
	if string(b[:len(footerIdent)]) == footerIdent {
		return h, corrupt("found the footer of the xorb, expected a chunk")
	}
	h = ChunkHeader{
		Scheme: Scheme(b[4]),
		Stored: int(b[1]) | int(b[2])<<8 | int(b[3])<<16,
		Size:   int(b[5]) | int(b[6])<<8 | int(b[7])<<16,
	}
	switch {
	case b[0] != 0:
		err = corrupt("chunk version is %d, expected 0", b[0])
	case h.Scheme > SchemeBG4:
		err = corrupt("chunk scheme is %d, expected at most %d", h.Scheme, SchemeBG4)
	case h.Size == 0 || h.Size > MaxChunk:
		err = corrupt("chunk has %d bytes, expected 1 to %d", h.Size, MaxChunk)
	case h.Stored == 0 || h.Stored > maxStored:
		err = corrupt("chunk is stored in %d bytes, expected 1 to %d", h.Stored, maxStored)
	case h.Scheme == SchemeNone && h.Stored != h.Size:
		err = corrupt("plain chunk of %d bytes is stored in %d", h.Size, h.Stored)
	}
	return h, err
}

// Append appends the header's eight bytes to dst. The lengths must fit 24
// bits.
func (h ChunkHeader) Append(dst []byte) []byte {
	return append(dst, 0, byte(h.Stored), byte(h.Stored>>8), byte(h.Stored>>16),
		byte(h.Scheme), byte(h.Size), byte(h.Size>>8), byte(h.Size>>16))
}

// Decoder unpacks chunks. The zero value is ready for use; it keeps one chunk
// of scratch memory and is not safe for concurrent use.
type Decoder struct {
	grouped []byte
}

// Decode unpacks stored, the bytes after the header, into dst, whose length
// must be h.Size. Exactly that many bytes must come out: anything else is
// [ErrCorrupt], and dst then holds no meaning.
func (d *Decoder) Decode(dst []byte, h ChunkHeader, stored []byte) error {
	if len(dst) != h.Size || len(stored) != h.Stored {
		return fmt.Errorf("xet: buffers of %d and %d bytes do not fit a chunk of %d stored in %d", len(dst), len(stored), h.Size, h.Stored)
	}
	switch h.Scheme {
	case SchemeNone:
		if h.Stored != h.Size {
			return corrupt("plain chunk of %d bytes is stored in %d", h.Size, h.Stored)
		}
		copy(dst, stored)
		return nil
	case SchemeLZ4:
		return decodeFrames(dst, stored)
	case SchemeBG4:
		if cap(d.grouped) < h.Size {
			d.grouped = make([]byte, max(h.Size, MaxChunk))
		}
		if err := decodeFrames(d.grouped[:h.Size], stored); err != nil {
			return err
		}
		ungroup(dst, d.grouped[:h.Size])
		return nil
	}
	return corrupt("chunk scheme is %d, expected at most %d", h.Scheme, SchemeBG4)
}

// ungroup puts the bytes of the four groups back in turn. The groups differ in
// length by at most one: the first len(dst)%4 hold one byte more.
func ungroup(dst, src []byte) {
	n := len(dst)
	q, r := n/4, n%4
	var g [4][]byte
	for i, rest := 0, src; i < 4; i++ {
		k := q
		if i < r {
			k++
		}
		g[i], rest = rest[:k], rest[k:]
	}
	a, b, c, e := g[0][:q], g[1][:q], g[2][:q], g[3][:q]
	out := dst[:4*q]
	for i := range a {
		binary.LittleEndian.PutUint32(out[4*i:4*i+4], uint32(a[i])|uint32(b[i])<<8|uint32(c[i])<<16|uint32(e[i])<<24)
	}
	for j := range r {
		dst[4*q+j] = g[j][q]
	}
}

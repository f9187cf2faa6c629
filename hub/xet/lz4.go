package xet

import (
	"encoding/binary"
	"math/bits"

	"github.com/pierrec/lz4/v4"
)

// The LZ4 frame format, as its public description gives it.
const (
	lz4Magic      = 0x184D2204
	lz4SkipMagic  = 0x184D2A50 // the lowest four bits are free
	lz4SkipMask   = 0xFFFFFFF0
	lz4StoredFlag = 1 << 31
	lz4Window     = 64 << 10
)

// The flags of a frame's descriptor.
const (
	flagDictID          = 1 << 0
	flagReserved        = 1 << 1
	flagContentChecksum = 1 << 2
	flagContentSize     = 1 << 3
	flagBlockChecksum   = 1 << 4
	flagIndependent     = 1 << 5
)

// decodeFrames unpacks one or more LZ4 frames that together give exactly
// len(dst) bytes. A library's stream reader would copy every byte twice more
// and run its own goroutines; both lengths are known here, so blocks are
// unpacked straight into place. Every checksum present is checked.
func decodeFrames(dst, src []byte) error {
	n := 0
	for len(src) > 0 {
		if len(src) >= 8 && binary.LittleEndian.Uint32(src)&lz4SkipMask == lz4SkipMagic {
			size := uint64(binary.LittleEndian.Uint32(src[4:]))
			if size > uint64(len(src)-8) {
				return corrupt("LZ4 skippable frame of %d bytes, %d are left", size, len(src)-8)
			}
			src = src[8+size:]
			continue
		}
		out, rest, err := decodeFrame(dst[n:], src)
		if err != nil {
			return err
		}
		n += out
		src = rest
	}
	if n != len(dst) {
		return corrupt("chunk unpacks to %d bytes, expected %d", n, len(dst))
	}
	return nil
}

// frame is the descriptor of an LZ4 frame.
type frame struct {
	flags    byte
	maxBlock int
	size     uint64 // if flagContentSize
}

func parseFrame(src []byte) (f frame, rest []byte, err error) {
	if len(src) < 7 {
		return f, nil, corrupt("LZ4 frame of %d bytes", len(src))
	}
	if m := binary.LittleEndian.Uint32(src); m != lz4Magic {
		return f, nil, corrupt("LZ4 magic is %#08x, expected %#08x", m, uint32(lz4Magic))
	}
	f.flags = src[4]
	bd := src[5]
	n := 2
	switch {
	case f.flags>>6 != 1:
		return f, nil, corrupt("LZ4 frame version is %d, expected 1", f.flags>>6)
	case f.flags&flagReserved != 0 || bd&0x8f != 0:
		return f, nil, corrupt("LZ4 reserved bits are set")
	case f.flags&flagDictID != 0:
		return f, nil, corrupt("LZ4 frame needs a dictionary")
	case bd>>4 < 4:
		return f, nil, corrupt("LZ4 block size code is %d, expected 4 to 7", bd>>4)
	}
	f.maxBlock = 1 << (8 + 2*(bd>>4))
	if f.flags&flagContentSize != 0 {
		n += 8
	}
	if len(src) < 4+n+1 {
		return f, nil, corrupt("LZ4 descriptor is cut")
	}
	if f.flags&flagContentSize != 0 {
		f.size = binary.LittleEndian.Uint64(src[6:])
	}
	if got, want := byte(xxh32(src[4:4+n])>>8), src[4+n]; got != want {
		return f, nil, corrupt("LZ4 descriptor checksum is %#02x, expected %#02x", got, want)
	}
	return f, src[4+n+1:], nil
}

// decodeFrame unpacks the frame at the start of src to the start of dst.
func decodeFrame(dst, src []byte) (n int, rest []byte, err error) {
	f, src, err := parseFrame(src)
	if err != nil {
		return 0, nil, err
	}
	word := func() (uint32, bool) {
		if len(src) < 4 {
			return 0, false
		}
		w := binary.LittleEndian.Uint32(src)
		src = src[4:]
		return w, true
	}
	for {
		w, ok := word()
		if !ok {
			return 0, nil, corrupt("LZ4 frame has no end mark")
		}
		if w == 0 {
			break
		}
		size := int(w &^ lz4StoredFlag)
		if size > f.maxBlock || size > len(src) {
			return 0, nil, corrupt("LZ4 block of %d bytes, %d are left and %d allowed", size, len(src), f.maxBlock)
		}
		block := src[:size]
		src = src[size:]
		if f.flags&flagBlockChecksum != 0 {
			sum, ok := word()
			if !ok || sum != xxh32(block) {
				return 0, nil, corrupt("LZ4 block checksum does not match")
			}
		}
		k := 0
		room := dst[n:min(len(dst), n+f.maxBlock)]
		switch {
		case w&lz4StoredFlag != 0:
			if size > len(room) {
				return 0, nil, corrupt("LZ4 block unpacks beyond the chunk's %d bytes", len(dst))
			}
			k = copy(room, block)
		case f.flags&flagIndependent != 0:
			k, err = lz4.UncompressBlock(block, room)
		default:
			k, err = lz4.UncompressBlockWithDict(block, room, dst[max(0, n-lz4Window):n])
		}
		if err != nil {
			return 0, nil, corrupt("LZ4 block of %d bytes is malformed or unpacks beyond the chunk's %d", size, len(dst))
		}
		n += k
	}
	if f.flags&flagContentChecksum != 0 {
		sum, ok := word()
		if !ok || sum != xxh32(dst[:n]) {
			return 0, nil, corrupt("LZ4 content checksum does not match")
		}
	}
	if f.flags&flagContentSize != 0 && f.size != uint64(n) {
		return 0, nil, corrupt("LZ4 frame states %d bytes, has %d", f.size, n)
	}
	return n, src, nil
}

// The primes of XXH32.
const (
	xxPrime1 uint32 = 2654435761
	xxPrime2 uint32 = 2246822519
	xxPrime3 uint32 = 3266489917
	xxPrime4 uint32 = 668265263
	xxPrime5 uint32 = 374761393
)

func xxRound(v, in uint32) uint32 { return bits.RotateLeft32(v+in*xxPrime2, 13) * xxPrime1 }

// xxh32 is the 32-bit xxHash of b with seed 0, the checksum of LZ4 frames.
func xxh32(b []byte) uint32 {
	n := uint32(len(b))
	h := xxPrime5
	if len(b) >= 16 {
		// The first lane starts at the sum of two primes and the last at
		// minus one, both wrapped to 32 bits.
		p1, p2 := xxPrime1, xxPrime2
		v0, v1, v2, v3 := p1+p2, p2, uint32(0), -p1
		for ; len(b) >= 16; b = b[16:] {
			v0 = xxRound(v0, binary.LittleEndian.Uint32(b))
			v1 = xxRound(v1, binary.LittleEndian.Uint32(b[4:]))
			v2 = xxRound(v2, binary.LittleEndian.Uint32(b[8:]))
			v3 = xxRound(v3, binary.LittleEndian.Uint32(b[12:]))
		}
		h = bits.RotateLeft32(v0, 1) + bits.RotateLeft32(v1, 7) + bits.RotateLeft32(v2, 12) + bits.RotateLeft32(v3, 18)
	}
	h += n
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*xxPrime3, 17) * xxPrime4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*xxPrime5, 11) * xxPrime1
	}
	h ^= h >> 15
	h *= xxPrime2
	h ^= h >> 13
	h *= xxPrime3
	return h ^ h>>16
}

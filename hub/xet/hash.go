package xet

import (
	"encoding/hex"
	"fmt"

	"github.com/zeebo/blake3"
)

// HashSize is the length of every hash of the protocol in bytes.
const HashSize = 32

// Hash is a chunk, xorb or file hash as raw bytes. Its text is not plain
// hexadecimal, see [Hash.String].
type Hash [HashSize]byte

// The keys are constants of the public specification (hashing): one for the
// content of chunks, one for the inner nodes of the tree, and the zero key for
// the last step of a file hash.
var (
	dataKey = [HashSize]byte{
		102, 151, 245, 119, 91, 149, 80, 222, 49, 53, 203, 172, 165, 151, 24, 28,
		157, 228, 33, 16, 155, 235, 43, 88, 180, 208, 176, 75, 147, 173, 242, 41,
	}
	nodeKey = [HashSize]byte{
		1, 126, 197, 199, 165, 71, 41, 150, 253, 148, 102, 102, 180, 138, 2, 230,
		93, 221, 83, 111, 55, 199, 109, 210, 248, 99, 82, 230, 74, 83, 113, 63,
	}
	zeroKey [HashSize]byte
)

// newKeyed cannot fail: the key has the one length that is allowed.
func newKeyed(key *[HashSize]byte) *blake3.Hasher {
	h, err := blake3.NewKeyed(key[:])
	if err != nil {
		panic("xet: " + err.Error())
	}
	return h
}

func keyedSum(h *blake3.Hasher, data []byte) (sum Hash) {
	h.Reset()
	_, _ = h.Write(data) // a hash takes every write
	h.Sum(sum[:0])
	return sum
}

// ChunkHash is the hash of a chunk's uncompressed content.
func ChunkHash(data []byte) Hash { return keyedSum(newKeyed(&dataKey), data) }

// String is the form used in addresses and headers: four little-endian 64-bit
// numbers, each in 16 hexadecimal digits. The bytes of each group of eight
// therefore appear in reverse.
func (h Hash) String() string {
	var b [2 * HashSize]byte
	h.appendText(b[:0])
	return string(b[:])
}

func (h Hash) appendText(dst []byte) []byte {
	for g := 0; g < HashSize; g += 8 {
		for i := 7; i >= 0; i-- {
			dst = hex.AppendEncode(dst, h[g+i:g+i+1])
		}
	}
	return dst
}

// ParseHash is the inverse of [Hash.String].
func ParseHash(s string) (h Hash, err error) {
	if len(s) != 2*HashSize {
		return h, fmt.Errorf("xet: a hash has %d digits, got %d", 2*HashSize, len(s))
	}
	var raw Hash
	if _, err := hex.Decode(raw[:], []byte(s)); err != nil {
		return h, fmt.Errorf("xet: hash: %w", err)
	}
	for i, b := range raw {
		h[i&^7|(7-i&7)] = b
	}
	return h, nil
}

// MarshalText is [Hash.String] for encoders.
func (h Hash) MarshalText() ([]byte, error) { return h.appendText(nil), nil }

// UnmarshalText is [ParseHash] for decoders.
func (h *Hash) UnmarshalText(text []byte) (err error) {
	*h, err = ParseHash(string(text))
	return err
}

package archive

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/hfcompress/compress/tensor"
)

// Digest is a SHA-256.
type Digest [sha256.Size]byte

// String returns the digest in lower-case hexadecimal.
func (d Digest) String() string { return fmt.Sprintf("%x", d[:]) }

// Magic is how every archive begins. Its odd bytes show when a file was sent as
// text.
const Magic = "\x89HFA\r\n\x1a\n"

const (
	version      = 1
	headerSize   = 16
	trailerSize  = 64
	trailerMagic = "HFA end\n"
)

// header is the first headerSize bytes: the magic, the version, zeros.
var header = append([]byte(Magic), version, 0, 0, 0, 0, 0, 0, 0)

// trailer is the last trailerSize bytes.
type trailer struct {
	indexStored int64  // bytes of the index in the file
	indexRaw    int64  // bytes of the index unpacked; equal if it is not packed
	total       int64  // bytes of the whole archive
	digest      Digest // see sum
}

func (t *trailer) sizes() []byte {
	b := make([]byte, 0, trailerSize)
	for _, v := range []int64{t.indexStored, t.indexRaw, t.total} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

// sum is the digest of an archive: of its header, its index as stored and the
// sizes in the trailer. Since the index has the digests of all contents, it
// stands for them.
func (t *trailer) sum(index []byte) Digest {
	h := sha256.New()
	h.Write(header)
	h.Write(index)
	h.Write(t.sizes())
	return Digest(h.Sum(nil))
}

func (t *trailer) encode() []byte {
	return append(append(t.sizes(), t.digest[:]...), trailerMagic...)
}

func parseTrailer(b []byte) (t trailer, err error) {
	if string(b[trailerSize-len(trailerMagic):]) != trailerMagic {
		return t, corruptf("the end is missing or damaged")
	}
	for i, v := range []*int64{&t.indexStored, &t.indexRaw, &t.total} {
		if *v = int64(binary.LittleEndian.Uint64(b[8*i:])); *v < 0 {
			return t, corruptf("impossible size in the trailer")
		}
	}
	copy(t.digest[:], b[24:])
	return t, nil
}

// Kinds of stream.
const (
	kindBytes  = 0 // raw or Zstandard, in chunks of 2^20 bytes
	kindFloat  = 1 // floatcodec
	kindULP    = 2 // differences of positions in the order of numbers, from the base
	kindXOR    = 3 // differences of bits, from the base
	kindCopy   = 4 // a stream of the base
	kindJoined = 5 // bytes that follow those of the stream before, in its chunks
	kindRank   = 6 // as kindULP, from the base plus a product of two thin matrices
)

// dtypes lists element types by their code in an archive, which must not depend
// on their order elsewhere.
var dtypes = [...]tensor.DType{
	0: tensor.Bool, 1: tensor.U8, 2: tensor.I8, 3: tensor.F8E4M3, 4: tensor.F8E5M2, 5: tensor.F8E8M0,
	6: tensor.F8E4M3FNUZ, 7: tensor.F8E5M2FNUZ, 8: tensor.F4, 9: tensor.F6E2M3, 10: tensor.F6E3M2,
	11: tensor.I16, 12: tensor.U16, 13: tensor.F16, 14: tensor.BF16, 15: tensor.I32, 16: tensor.U32,
	17: tensor.F32, 18: tensor.I64, 19: tensor.U64, 20: tensor.F64, 21: tensor.C64,
}

func dtypeCode(d tensor.DType) (byte, bool) {
	for i, other := range dtypes {
		if other == d {
			return byte(i), true
		}
	}
	return 0, false
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// chunkSum is the checksum of a chunk of the kinds that are not floatcodec's
// own. As there, it covers the chunk's place and size.
func chunkSum(kind byte, i, size int, body []byte) uint32 {
	id := [9]byte{0: kind}
	binary.LittleEndian.PutUint32(id[1:], uint32(i))
	binary.LittleEndian.PutUint32(id[5:], uint32(size))
	return crc32.Update(crc32.Checksum(id[:], castagnoli), castagnoli, body)
}

// uvarint reads a number in its shortest form, at most limit.
func uvarint(b []byte, limit uint64) (v uint64, rest []byte, err error) {
	v, n := binary.Uvarint(b)
	switch {
	case n <= 0:
		return 0, nil, corruptf("a number is cut short or too long")
	case n > 1 && b[n-1] == 0:
		return 0, nil, corruptf("a number is not in its shortest form")
	case v > limit:
		return 0, nil, corruptf("a number is %d, at most %d is possible", v, limit)
	}
	return v, b[n:], nil
}

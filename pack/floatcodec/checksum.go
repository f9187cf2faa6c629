package floatcodec

import (
	"encoding/binary"
	"hash/crc32"
)

// chunkSum is the checksum of a chunk: it covers the model's checksum, the
// chunk's index and its decoded size, so that a chunk is valid in one place only.
func (m *Model) chunkSum(i, size int, body []byte) uint32 {
	var id [12]byte
	binary.LittleEndian.PutUint32(id[0:], m.crc)
	binary.LittleEndian.PutUint32(id[4:], uint32(i))
	binary.LittleEndian.PutUint32(id[8:], uint32(size))
	return checksum(crc32.Checksum(id[:], castagnoli), body)
}

// checksum is crc32.Update for CRC-32C.
func checksum(crc uint32, b []byte) uint32 {
	if blocks := len(b) / 256; haveWideSums && blocks > 0 {
		crc = ^sumWide(^crc, &b[0], blocks)
		b = b[blocks*256:]
	}
	return crc32.Update(crc, castagnoli, b)
}

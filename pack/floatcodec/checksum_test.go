package floatcodec

import (
	"hash/crc32"
	"testing"
)

func TestChecksum(t *testing.T) {
	b := randomBytes(3000, 1)
	for n := range len(b) {
		for _, crc := range []uint32{0, 1, 0xdeadbeef} {
			if got, want := checksum(crc, b[n/7:n]), crc32.Update(crc, castagnoli, b[n/7:n]); got != want {
				t.Fatalf("%d bytes: %08x, want %08x", n-n/7, got, want)
			}
		}
	}
}

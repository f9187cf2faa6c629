//go:build unix

package loader

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

const canMap = true

// mapFile maps a whole file for reading.
func mapFile(f *os.File, size int64) ([]byte, error) {
	if size > math.MaxInt {
		return nil, fmt.Errorf("%s: %d bytes do not fit the address space", f.Name(), size)
	}
	return unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
}

func unmapFile(b []byte) error { return unix.Munmap(b) }

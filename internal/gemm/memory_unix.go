//go:build unix

package gemm

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// outside is from how many bytes on panels lie outside of the garbage collector's
// heap, which may grow to twice what it holds before it is collected.
const outside = 1 << 18

// allocate returns n zeros that live as long as m.
func allocate[T float32 | uint32 | uint16](m *Matrix, n int) []T {
	var zero T
	size := n * int(unsafe.Sizeof(zero))
	if size < outside {
		return make([]T, n)
	}
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil { // a limit on maps
		return make([]T, n)
	}
	// A mapping is unmapped as a whole or not at all: no error that could be
	// handled is left.
	runtime.AddCleanup(m, func(b []byte) { _ = unix.Munmap(b) }, b)
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
}

//go:build amd64 && !noasm

package gemm

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:noescape
func interleave4x8(dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, blocks int)

//go:noescape
func pairUp16(dst *uint32, src *float32, blocks int, seen *[3][8]uint32)

//go:noescape
func widenPairs16(dst *float32, src *uint32, steps int)

// interleaveFast does as many leading elements of each row as it can and returns
// their number.
func interleaveFast[T element](dst, src []T, rows, k, ld int) int {
	if rows < 4 || k < 8 || !cpu.X86.HasAVX2 {
		return 0
	}
	n := k &^ 7
	_, _ = dst[rows*n-1], src[(rows-1)*ld+n-1]
	for r := 0; r < rows; r += 4 {
		r := min(r, rows-4) // the last four rows may overlap those before
		interleave4x8(unsafe.Pointer(&dst[r]), 4*rows, unsafe.Pointer(&src[r*ld]), 4*ld, n/8)
	}
	return n
}

// pairUpFast does as many leading pairs as it can and returns their number.
func pairUpFast(dst []uint32, src []float32, s *spread) int {
	blocks := len(src) / 16
	if blocks == 0 || !cpu.X86.HasAVX2 {
		return 0
	}
	_ = dst[8*blocks-1]
	pairUp16(&dst[0], &src[0], blocks, (*[3][8]uint32)(s))
	return 8 * blocks
}

// widenPairsFast does as many leading steps as it can and returns their number.
func widenPairsFast(dst []float32, src []uint32) int {
	steps := len(src) / PanelWidth
	if steps == 0 || !cpu.X86.HasAVX2 {
		return 0
	}
	_ = dst[2*PanelWidth*steps-1]
	widenPairs16(&dst[0], &src[0], steps)
	return steps
}

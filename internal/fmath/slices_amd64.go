//go:build amd64 && !noasm

package fmath

import "golang.org/x/sys/cpu"

//go:noescape
func exp8s(x *float32, blocks int)

//go:noescape
func silu8s(dst, src *float32, blocks int)

// exps does as many as come in whole vectors and returns their number.
func exps(x []float32) int {
	if len(x) < 8 || !cpu.X86.HasAVX2 {
		return 0
	}
	exp8s(&x[0], len(x)/8)
	return len(x) &^ 7
}

func silus(dst, src []float32) int {
	if len(src) < 8 || !cpu.X86.HasAVX2 {
		return 0
	}
	silu8s(&dst[0], &src[0], len(src)/8)
	return len(src) &^ 7
}

//go:noescape
func widenBF16x8(dst *float32, src *uint16, blocks int)

//go:noescape
func widenF16x8(dst *float32, src *uint16, blocks int)

func widenBF16(dst []float32, src []uint16) int {
	if len(dst) < 8 || !cpu.X86.HasAVX2 {
		return 0
	}
	widenBF16x8(&dst[0], &src[0], len(dst)/8)
	return len(dst) &^ 7
}

func widenF16(dst []float32, src []uint16) int {
	if len(dst) < 8 || !cpu.X86.HasAVX2 {
		return 0
	}
	widenF16x8(&dst[0], &src[0], len(dst)/8)
	return len(dst) &^ 7
}

//go:noescape
func gelu4s(dst, src *float32, blocks int)

//go:noescape
func geluTanh4s(dst, src *float32, blocks int)

func gelus(dst, src []float32) int {
	if len(src) < 4 || !cpu.X86.HasAVX2 {
		return 0
	}
	gelu4s(&dst[0], &src[0], len(src)/4)
	return len(src) &^ 3
}

func geluTanhs(dst, src []float32) int {
	if len(src) < 4 || !cpu.X86.HasAVX2 {
		return 0
	}
	geluTanh4s(&dst[0], &src[0], len(src)/4)
	return len(src) &^ 3
}

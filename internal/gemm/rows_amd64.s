//go:build amd64 && !noasm

#include "textflag.h"

// Transposes blocks of 4 rows × 8 elements of 32 bits.
//
// func interleave4x8(dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, blocks int)
TEXT ·interleave4x8(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ dstStep+8(FP), R8
	MOVQ src+16(FP), SI
	MOVQ srcStep+24(FP), R9
	MOVQ blocks+32(FP), CX
	LEAQ (R8)(R8*2), R10  // 3 steps
	LEAQ (R9)(R9*2), R11
	LEAQ (DI)(R8*4), DX

transpose:
	VMOVUPS      (SI), Y0
	VMOVUPS      (SI)(R9*1), Y1
	VMOVUPS      (SI)(R9*2), Y2
	VMOVUPS      (SI)(R11*1), Y3
	VUNPCKLPS    Y1, Y0, Y4
	VUNPCKHPS    Y1, Y0, Y5
	VUNPCKLPS    Y3, Y2, Y6
	VUNPCKHPS    Y3, Y2, Y7
	VUNPCKLPD    Y6, Y4, Y0      // elements 0 and 4
	VUNPCKHPD    Y6, Y4, Y1      // 1 and 5
	VUNPCKLPD    Y7, Y5, Y2
	VUNPCKHPD    Y7, Y5, Y3
	VMOVUPS      X0, (DI)
	VMOVUPS      X1, (DI)(R8*1)
	VMOVUPS      X2, (DI)(R8*2)
	VMOVUPS      X3, (DI)(R10*1)
	VEXTRACTF128 $1, Y0, (DX)
	VEXTRACTF128 $1, Y1, (DX)(R8*1)
	VEXTRACTF128 $1, Y2, (DX)(R8*2)
	VEXTRACTF128 $1, Y3, (DX)(R10*1)
	ADDQ         $32, SI
	LEAQ         (DI)(R8*8), DI
	LEAQ         (DX)(R8*8), DX
	DECQ         CX
	JNZ          transpose
	VZEROUPPER
	RET

// Puts pairs of numbers into the halves of 32 bits, the first one into the upper
// half, and notes the largest magnitude, the smallest one minus 1, and the bits
// that were lost.
//
// func pairUp16(dst *uint32, src *float32, blocks int, seen *[3][8]uint32)
TEXT ·pairUp16(SB), NOSPLIT, $0-32
	MOVQ     dst+0(FP), DI
	MOVQ     src+8(FP), SI
	MOVQ     blocks+16(FP), CX
	MOVQ     seen+24(FP), DX
	VMOVDQU  (DX), Y8
	VMOVDQU  32(DX), Y9
	VMOVDQU  64(DX), Y10
	VPCMPEQD Y15, Y15, Y15       // −1
	VPSRLD   $1, Y15, Y14        // magnitude
	VPSRLD   $16, Y15, Y13       // lower half

pair:
	VMOVUPS (SI), Y0
	VMOVUPS 32(SI), Y1
	VPAND   Y14, Y0, Y2
	VPAND   Y14, Y1, Y3
	VPMAXUD Y2, Y8, Y8
	VPMAXUD Y3, Y8, Y8
	VPADDD  Y15, Y2, Y2
	VPADDD  Y15, Y3, Y3
	VPMINUD Y2, Y9, Y9
	VPMINUD Y3, Y9, Y9
	VPOR    Y0, Y1, Y4
	VPAND   Y13, Y4, Y4
	VPOR    Y4, Y10, Y10
	VSHUFPS $0x88, Y1, Y0, Y2    // even ones, halves of both in turns
	VSHUFPS $0xdd, Y1, Y0, Y3
	VPANDN  Y2, Y13, Y2
	VPSRLD  $16, Y3, Y3
	VPOR    Y3, Y2, Y2
	VPERMQ  $0xd8, Y2, Y2
	VMOVDQU Y2, (DI)
	ADDQ    $64, SI
	ADDQ    $32, DI
	DECQ    CX
	JNZ     pair
	VMOVDQU Y8, (DX)
	VMOVDQU Y9, 32(DX)
	VMOVDQU Y10, 64(DX)
	VZEROUPPER
	RET

// func widenPairs16(dst *float32, src *uint32, steps int)
TEXT ·widenPairs16(SB), NOSPLIT, $0-24
	MOVQ     dst+0(FP), DI
	MOVQ     src+8(FP), SI
	MOVQ     steps+16(FP), CX
	VPCMPEQD Y15, Y15, Y15
	VPSLLD   $16, Y15, Y15

widen:
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VPAND   Y15, Y0, Y2
	VPAND   Y15, Y1, Y3
	VPSLLD  $16, Y0, Y0
	VPSLLD  $16, Y1, Y1
	VMOVDQU Y2, (DI)
	VMOVDQU Y3, 32(DI)
	VMOVDQU Y0, 64(DI)
	VMOVDQU Y1, 96(DI)
	ADDQ    $64, SI
	ADDQ    $128, DI
	DECQ    CX
	JNZ     widen
	VZEROUPPER
	RET

//go:build amd64 && !noasm

#include "textflag.h"

// func widenBF16x8(dst *float32, src *uint16, blocks int)
TEXT ·widenBF16x8(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ blocks+16(FP), CX

bf16:
	VPMOVZXWD (SI), Y0
	VPSLLD    $16, Y0, Y0
	VMOVDQU   Y0, (DI)
	ADDQ      $16, SI
	ADDQ      $32, DI
	DECQ      CX
	JNZ       bf16
	VZEROUPPER
	RET

// Magnitude, moved to a float32's exponent and fraction, times 2^112; where the
// exponent was all ones, all ones again. VCVTPH2PS would make signalling NaNs
// quiet.
//
// func widenF16x8(dst *float32, src *uint16, blocks int)
TEXT ·widenF16x8(SB), NOSPLIT, $0-24
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         blocks+16(FP), CX
	MOVL         $0x7fff, AX
	MOVQ         AX, X0
	VPBROADCASTD X0, Y8
	MOVL         $0x77800000, AX // 2^112
	MOVQ         AX, X0
	VPBROADCASTD X0, Y9
	MOVL         $0x0f7fffff, AX
	MOVQ         AX, X0
	VPBROADCASTD X0, Y10
	MOVL         $0x7f800000, AX
	MOVQ         AX, X0
	VPBROADCASTD X0, Y11

f16:
	VPMOVZXWD (SI), Y0
	VPAND     Y8, Y0, Y1
	VPXOR     Y1, Y0, Y0
	VPSLLD    $16, Y0, Y0
	VPSLLD    $13, Y1, Y1
	VPCMPGTD  Y10, Y1, Y2
	VPAND     Y11, Y2, Y2
	VMULPS    Y9, Y1, Y1
	VPOR      Y2, Y1, Y1
	VPOR      Y0, Y1, Y1
	VMOVDQU   Y1, (DI)
	ADDQ      $16, SI
	ADDQ      $32, DI
	DECQ      CX
	JNZ       f16
	VZEROUPPER
	RET

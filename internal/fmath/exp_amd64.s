//go:build amd64 && !noasm

#include "textflag.h"

// Eight lanes of [Exp], operation by operation. The constants are those of
// exp.go, each eight times.

#define EIGHT(name, v) \
DATA name<>+0(SB)/4, v \
DATA name<>+4(SB)/4, v \
DATA name<>+8(SB)/4, v \
DATA name<>+12(SB)/4, v \
DATA name<>+16(SB)/4, v \
DATA name<>+20(SB)/4, v \
DATA name<>+24(SB)/4, v \
DATA name<>+28(SB)/4, v \
GLOBL name<>(SB), RODATA|NOPTR, $32

EIGHT(log2e, $0x3fb8aa3b)
EIGHT(magic, $0x4b400000)
EIGHT(ln2Hi, $0x3f317200)
EIGHT(ln2Lo, $0x35bfbe8e)
EIGHT(q5, $0x395092b6)
EIGHT(q4, $0x3ab6a1d8)
EIGHT(q3, $0x3c088870)
EIGHT(q2, $0x3d2aaa74)
EIGHT(q1, $0x3e2aaaab)
EIGHT(q0, $0x3f000000)
EIGHT(one, $0x3f800000)
EIGHT(low, $0xc2d00000)
EIGHT(high, $0x42b20000)
EIGHT(bias, $0x0000007f)
EIGHT(nan, $0x7fc00000)
EIGHT(sign, $0x80000000)

// EXP8 sets Y0 to e^Y0; NaN lanes hold rubbish. It uses Y1 to Y4.
#define EXP8 \
	VMAXPS low<>(SB), Y0, Y0; \
	VMINPS high<>(SB), Y0, Y0; \
	VMULPS log2e<>(SB), Y0, Y1; \
	VADDPS magic<>(SB), Y1, Y1; \
	VPSUBD magic<>(SB), Y1, Y2; \
	VSUBPS magic<>(SB), Y1, Y1; \
	VMULPS ln2Hi<>(SB), Y1, Y3; \
	VSUBPS Y3, Y0, Y0; \
	VMULPS ln2Lo<>(SB), Y1, Y3; \
	VSUBPS Y3, Y0, Y0; \
	VMULPS q5<>(SB), Y0, Y1; \
	VADDPS q4<>(SB), Y1, Y1; \
	VMULPS Y0, Y1, Y1; \
	VADDPS q3<>(SB), Y1, Y1; \
	VMULPS Y0, Y1, Y1; \
	VADDPS q2<>(SB), Y1, Y1; \
	VMULPS Y0, Y1, Y1; \
	VADDPS q1<>(SB), Y1, Y1; \
	VMULPS Y0, Y1, Y1; \
	VADDPS q0<>(SB), Y1, Y1; \
	VMULPS Y0, Y0, Y3; \
	VMULPS Y1, Y3, Y3; \
	VADDPS Y0, Y3, Y0; \
	VADDPS one<>(SB), Y0, Y0; \
	VPSRAD $1, Y2, Y3; \
	VPSUBD Y3, Y2, Y2; \
	VPADDD bias<>(SB), Y3, Y3; \
	VPADDD bias<>(SB), Y2, Y2; \
	VPSLLD $23, Y3, Y3; \
	VPSLLD $23, Y2, Y2; \
	VMULPS Y3, Y0, Y0; \
	VMULPS Y2, Y0, Y0

// func exp8s(x *float32, blocks int)
TEXT ·exp8s(SB), NOSPLIT, $0-16
	MOVQ x+0(FP), SI
	MOVQ blocks+8(FP), CX
	VMOVUPS nan<>(SB), Y15

loop:
	VMOVUPS (SI), Y0
	VCMPPS $3, Y0, Y0, Y5
	EXP8
	VBLENDVPS Y5, Y15, Y0, Y0
	VMOVUPS Y0, (SI)
	ADDQ $32, SI
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET

// func silu8s(dst, src *float32, blocks int)
TEXT ·silu8s(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ blocks+16(FP), CX
	VMOVUPS nan<>(SB), Y15
	VMOVUPS one<>(SB), Y14
	VMOVUPS sign<>(SB), Y13

loop:
	VMOVUPS (SI), Y6
	VXORPS Y13, Y6, Y0
	EXP8
	VADDPS Y0, Y14, Y0
	VDIVPS Y0, Y6, Y0
	VCMPPS $3, Y6, Y0, Y5 // NaN in either: of the argument, or Inf/Inf
	VBLENDVPS Y5, Y15, Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DI
	DECQ CX
	JNZ loop
	VZEROUPPER
	RET

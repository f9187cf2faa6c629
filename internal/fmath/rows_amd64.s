//go:build amd64 && !noasm

#include "textflag.h"

// Eight lanes at a time of the functions in rows.go.

// CANONICAL replaces NaNs in Y0 by that of Y15. It uses Y14.
#define CANONICAL \
	VCMPPS    $3, Y0, Y0, Y14; \
	VBLENDVPS Y14, Y15, Y0, Y0

// LOADNAN sets Y15 to the canonical NaN. It uses AX.
#define LOADNAN \
	MOVL         $0x7fc00000, AX; \
	VMOVD        AX, X15; \
	VPBROADCASTD X15, Y15

// BINARY is the body of dst = a OP b.
#define BINARY(OP) \
	MOVQ dst+0(FP), DI; \
	MOVQ a+8(FP), SI; \
	MOVQ b+16(FP), DX; \
	MOVQ blocks+24(FP), CX; \
	LOADNAN; \
loop: \
	VMOVUPS (SI), Y0; \
	OP      (DX), Y0, Y0; \
	CANONICAL; \
	VMOVUPS Y0, (DI); \
	ADDQ    $32, SI; \
	ADDQ    $32, DX; \
	ADDQ    $32, DI; \
	DECQ    CX; \
	JNZ     loop; \
	VZEROUPPER; \
	RET

// SCALAR is the body of dst = a OP c.
#define SCALAR(OP) \
	MOVQ         dst+0(FP), DI; \
	MOVQ         a+8(FP), SI; \
	VBROADCASTSS c+16(FP), Y13; \
	MOVQ         blocks+24(FP), CX; \
	LOADNAN; \
loop: \
	VMOVUPS (SI), Y0; \
	OP      Y13, Y0, Y0; \
	CANONICAL; \
	VMOVUPS Y0, (DI); \
	ADDQ    $32, SI; \
	ADDQ    $32, DI; \
	DECQ    CX; \
	JNZ     loop; \
	VZEROUPPER; \
	RET

// func add8s(dst, a, b *float32, blocks int)
TEXT ·add8s(SB), NOSPLIT, $0-32
	BINARY(VADDPS)

// func mul8s(dst, a, b *float32, blocks int)
TEXT ·mul8s(SB), NOSPLIT, $0-32
	BINARY(VMULPS)

// func sub8s(dst, a, b *float32, blocks int)
TEXT ·sub8s(SB), NOSPLIT, $0-32
	BINARY(VSUBPS)

// func scale8s(dst, a *float32, c float32, blocks int)
TEXT ·scale8s(SB), NOSPLIT, $0-32
	SCALAR(VMULPS)

// func divide8s(dst, a *float32, c float32, blocks int)
TEXT ·divide8s(SB), NOSPLIT, $0-32
	SCALAR(VDIVPS)

// func shift8s(dst, a *float32, c float32, blocks int)
TEXT ·shift8s(SB), NOSPLIT, $0-32
	SCALAR(VSUBPS)

// A NaN among the values is passed over: VMAXPS returns its last operand, which
// is the maximum so far.
//
// func max8s(x *float32, blocks int, lanes *[8]float32)
TEXT ·max8s(SB), NOSPLIT, $0-24
	MOVQ    x+0(FP), SI
	MOVQ    blocks+8(FP), CX
	MOVQ    lanes+16(FP), DX
	VMOVUPS (DX), Y8

loop:
	VMOVUPS (SI), Y0
	VMAXPS  Y8, Y0, Y8
	ADDQ    $32, SI
	DECQ    CX
	JNZ     loop
	VMOVUPS Y8, (DX)
	VZEROUPPER
	RET

// func sum8s(x *float32, blocks int, lanes *[8]float32)
TEXT ·sum8s(SB), NOSPLIT, $0-24
	MOVQ   x+0(FP), SI
	MOVQ   blocks+8(FP), CX
	MOVQ   lanes+16(FP), DX
	VXORPS Y8, Y8, Y8

loop:
	VADDPS (SI), Y8, Y8
	ADDQ   $32, SI
	DECQ   CX
	JNZ    loop
	VMOVUPS Y8, (DX)
	VZEROUPPER
	RET

// func squares8s(x *float32, mean float32, blocks int, lanes *[8]float32)
TEXT ·squares8s(SB), NOSPLIT, $0-32
	MOVQ         x+0(FP), SI
	VBROADCASTSS mean+8(FP), Y13
	MOVQ         blocks+16(FP), CX
	MOVQ         lanes+24(FP), DX
	VXORPS       Y8, Y8, Y8

loop:
	VMOVUPS (SI), Y0
	VSUBPS  Y13, Y0, Y0
	VMULPS  Y0, Y0, Y0
	VADDPS  Y0, Y8, Y8
	ADDQ    $32, SI
	DECQ    CX
	JNZ     loop
	VMOVUPS Y8, (DX)
	VZEROUPPER
	RET

// Adds up eight rows, each from its first value to its last; rows lie ld bytes
// apart.
//
// func sumRows8(x *float32, ld, n int, sums *[8]float32)
TEXT ·sumRows8(SB), NOSPLIT, $0-32
	MOVQ  x+0(FP), SI
	MOVQ  ld+8(FP), R8
	MOVQ  n+16(FP), CX
	MOVQ  sums+24(FP), DX
	LEAQ  (R8)(R8*2), R9
	LEAQ  (SI)(R8*4), DI
	XORPS X0, X0
	XORPS X1, X1
	XORPS X2, X2
	XORPS X3, X3
	XORPS X4, X4
	XORPS X5, X5
	XORPS X6, X6
	XORPS X7, X7

loop:
	ADDSS (SI), X0
	ADDSS (SI)(R8*1), X1
	ADDSS (SI)(R8*2), X2
	ADDSS (SI)(R9*1), X3
	ADDSS (DI), X4
	ADDSS (DI)(R8*1), X5
	ADDSS (DI)(R8*2), X6
	ADDSS (DI)(R9*1), X7
	ADDQ  $4, SI
	ADDQ  $4, DI
	DECQ  CX
	JNZ   loop
	MOVSS X0, (DX)
	MOVSS X1, 4(DX)
	MOVSS X2, 8(DX)
	MOVSS X3, 12(DX)
	MOVSS X4, 16(DX)
	MOVSS X5, 20(DX)
	MOVSS X6, 24(DX)
	MOVSS X7, 28(DX)
	RET

// func rotate8s(u, v, a, b, cos, sin *float32, blocks int)
TEXT ·rotate8s(SB), NOSPLIT, $0-56
	MOVQ u+0(FP), DI
	MOVQ v+8(FP), R8
	MOVQ a+16(FP), SI
	MOVQ b+24(FP), R9
	MOVQ cos+32(FP), DX
	MOVQ sin+40(FP), R10
	MOVQ blocks+48(FP), CX
	LOADNAN
	XORQ BX, BX

loop:
	VMOVUPS (SI)(BX*1), Y1
	VMOVUPS (R9)(BX*1), Y2
	VMOVUPS (DX)(BX*1), Y3
	VMOVUPS (R10)(BX*1), Y4
	VMULPS  Y3, Y1, Y5
	VMULPS  Y4, Y2, Y6
	VSUBPS  Y6, Y5, Y0
	CANONICAL
	VMOVUPS Y0, (DI)(BX*1)
	VMULPS  Y3, Y2, Y5
	VMULPS  Y4, Y1, Y6
	VADDPS  Y6, Y5, Y0
	CANONICAL
	VMOVUPS Y0, (R8)(BX*1)
	ADDQ    $32, BX
	DECQ    CX
	JNZ     loop
	VZEROUPPER
	RET

// CONSTANT sets all lanes of a vector to 32 bits. It uses AX.
#define CONSTANT(v, x, y) \
	MOVL         v, AX; \
	VMOVD        AX, x; \
	VPBROADCASTD x, y

// A NaN whose lost bits are not all zero becomes quiet: Y5 of Y0 with those bits
// in Y1. Other lanes are those of Y2.
#define NANS \
	VCMPPS    $3, Y0, Y0, Y3; \
	VPAND     Y8, Y0, Y4; \
	VPXOR     Y5, Y5, Y5; \
	VPCMPEQD  Y5, Y4, Y5; \
	VPANDN    Y9, Y5, Y5; \
	VPANDN    Y0, Y8, Y4; \
	VPOR      Y4, Y5, Y5; \
	VBLENDVPS Y3, Y5, Y2, Y2

// func roundBF16x8(x *float32, blocks int)
TEXT ·roundBF16x8(SB), NOSPLIT, $0-16
	MOVQ x+0(FP), SI
	MOVQ blocks+8(FP), CX
	CONSTANT($0xffff, X8, Y8)     // bits that are lost
	CONSTANT($0x400000, X9, Y9)   // quiet
	CONSTANT($0x7fff, X10, Y10)
	CONSTANT($1, X11, Y11)

loop:
	VMOVUPS (SI), Y0
	VPSRLD  $16, Y0, Y1
	VPAND   Y11, Y1, Y1
	VPADDD  Y10, Y0, Y2
	VPADDD  Y1, Y2, Y2
	VPANDN  Y2, Y8, Y2
	NANS
	VMOVUPS Y2, (SI)
	ADDQ    $32, SI
	DECQ    CX
	JNZ     loop
	VZEROUPPER
	RET

// func roundF16x8(x *float32, blocks int)
TEXT ·roundF16x8(SB), NOSPLIT, $0-16
	MOVQ x+0(FP), SI
	MOVQ blocks+8(FP), CX
	CONSTANT($0x1fff, X8, Y8)
	CONSTANT($0x400000, X9, Y9)
	CONSTANT($0xfff, X10, Y10)
	CONSTANT($1, X11, Y11)
	CONSTANT($0x477fefff, X12, Y12) // what is larger becomes infinite
	CONSTANT($0x38800000, X13, Y13) // what is smaller is subnormal
	CONSTANT($0x80000000, X14, Y14)
	CONSTANT($0x7f800000, X15, Y15)
	CONSTANT($0x3f400000, X7, Y7)   // 0.75

loop:
	VMOVUPS   (SI), Y0
	VPSRLD    $13, Y0, Y1
	VPAND     Y11, Y1, Y1
	VPADDD    Y10, Y0, Y2
	VPADDD    Y1, Y2, Y2
	VPANDN    Y2, Y8, Y2
	VPANDN    Y0, Y14, Y1           // magnitude
	VPAND     Y14, Y0, Y6           // sign
	VADDPS    Y7, Y1, Y3
	VSUBPS    Y7, Y3, Y3
	VPOR      Y6, Y3, Y3
	VPCMPGTD  Y1, Y13, Y4
	VBLENDVPS Y4, Y3, Y2, Y2
	VPOR      Y6, Y15, Y3
	VPCMPGTD  Y12, Y1, Y4
	VBLENDVPS Y4, Y3, Y2, Y2
	NANS
	VMOVUPS   Y2, (SI)
	ADDQ      $32, SI
	DECQ      CX
	JNZ       loop
	VZEROUPPER
	RET

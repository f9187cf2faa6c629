//go:build amd64 && gc && !noasm

#include "textflag.h"

// CRC-32C by folding (Gopal and others, "Fast CRC computation for generic polynomials
// using PCLMULQDQ", 2009): 16 bytes are multiplied with powers of x modulo the
// polynomial and added to those that many bits further on. The constants are
// x^(d+32) and x^(d-32) for a distance of d bits, their bits reversed, times two.
DATA fold2048<>+0(SB)/8, $0x0dcb17aa4
DATA fold2048<>+8(SB)/8, $0x0b9e02b86
GLOBL fold2048<>(SB), RODATA|NOPTR, $16
DATA fold512<>+0(SB)/8, $0x0740eef02
DATA fold512<>+8(SB)/8, $0x09e4addf8
GLOBL fold512<>(SB), RODATA|NOPTR, $16
DATA fold128<>+0(SB)/8, $0x0f20c0dfe
DATA fold128<>+8(SB)/8, $0x14cd00bd6
GLOBL fold128<>(SB), RODATA|NOPTR, $16

// z = z times k, plus more; tmp is lost.
#define FOLD(k, more, z, tmp) \
	VPCLMULQDQ $0x00, k, z, tmp  \
	VPCLMULQDQ $0x11, k, z, z    \
	VPTERNLOGQ $0x96, more, tmp, z

// func sumWide(state uint32, p *byte, blocks int) uint32
TEXT ·sumWide(SB), NOSPLIT, $0-28
	MOVQ p+8(FP), SI
	MOVQ blocks+16(FP), CX
	VBROADCASTI32X4 fold2048<>(SB), Z8
	VBROADCASTI32X4 fold512<>(SB), Z9
	VMOVDQU fold128<>(SB), X10
	MOVL state+0(FP), AX
	VMOVD AX, X4
	VPXORQ (SI), Z4, Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU64 128(SI), Z2
	VMOVDQU64 192(SI), Z3
	DECQ CX
	JZ   sumfolded

sumloop:
	ADDQ $256, SI
	FOLD(Z8, (SI), Z0, Z4)
	FOLD(Z8, 64(SI), Z1, Z5)
	FOLD(Z8, 128(SI), Z2, Z6)
	FOLD(Z8, 192(SI), Z3, Z7)
	DECQ CX
	JNZ  sumloop

sumfolded:
	FOLD(Z9, Z1, Z0, Z4)
	FOLD(Z9, Z2, Z0, Z4)
	FOLD(Z9, Z3, Z0, Z4)
	VEXTRACTI32X4 $1, Z0, X1
	VEXTRACTI32X4 $2, Z0, X2
	VEXTRACTI32X4 $3, Z0, X3
	FOLD(X10, X1, X0, X4)
	FOLD(X10, X2, X0, X4)
	FOLD(X10, X3, X0, X4)
	VMOVQ X0, BX
	VPEXTRQ $1, X0, DX
	XORL AX, AX
	CRC32Q BX, AX
	CRC32Q DX, AX
	MOVL AX, ret+24(FP)
	VZEROUPPER
	RET

//go:build amd64 && gc && !noasm

#include "textflag.h"

// func fetchLines(p *byte, n int)
TEXT ·fetchLines(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX

fetchloop:
	PREFETCHT0 (SI)
	ADDQ       $64, SI
	DECQ       CX
	JNZ        fetchloop
	RET

// Puts the smallest byte of z to out; tmp names the lower half of the register
// of tmpx.
#define LEAST(z, y, x, tmpy, tmpx, out) \
	VEXTRACTI64X4 $1, z, tmpy \
	VPMINUB       tmpy, y, y  \
	VEXTRACTI128  $1, y, tmpx \
	VPMINUB       tmpx, x, x  \
	VPSRLW        $8, x, tmpx \
	VPMINUB       tmpx, x, x  \
	VPHMINPOSUW   x, x        \
	VMOVD         x, out      \
	MOVBLZX       out, out

// func countBlock(sym *byte, counts *symbolCount) (n, sum int)
TEXT ·countBlock(SB), NOSPLIT, $0-32
	MOVQ      sym+0(FP), SI
	MOVQ      counts+8(FP), DI
	VMOVDQU64 0(SI), Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU64 128(SI), Z2
	VMOVDQU64 192(SI), Z3

	// Their sum.
	VPXORQ        Z7, Z7, Z7
	VPSADBW       Z7, Z0, Z4
	VPSADBW       Z7, Z1, Z5
	VPADDQ        Z5, Z4, Z4
	VPSADBW       Z7, Z2, Z5
	VPADDQ        Z5, Z4, Z4
	VPSADBW       Z7, Z3, Z5
	VPADDQ        Z5, Z4, Z4
	VEXTRACTI64X4 $1, Z4, Y5
	VPADDQ        Y5, Y4, Y4
	VEXTRACTI128  $1, Y4, X5
	VPADDQ        X5, X4, X4
	VPSHUFD       $0x4e, X4, X5
	VPADDQ        X5, X4, X4
	VMOVQ         X4, AX
	MOVQ          AX, sum+24(FP)

	// The smallest and the largest, by way of its complement.
	VPMINUB    Z1, Z0, Z4
	VPMINUB    Z3, Z2, Z5
	VPMINUB    Z5, Z4, Z4
	VPMAXUB    Z1, Z0, Z6
	VPMAXUB    Z3, Z2, Z5
	VPMAXUB    Z5, Z6, Z6
	VPTERNLOGQ $0x55, Z6, Z6, Z6
	LEAST(Z4, Y4, X4, Y5, X5, AX)
	LEAST(Z6, Y6, X6, Y5, X5, BX)
	XORL       $255, BX

	// Go through all in between.
	VPTERNLOGQ   $0xff, Z8, Z8, Z8
	VPBROADCASTB AX, Z4
	MOVQ         DI, SI

countloop:
	VPCMPEQB Z4, Z0, K1
	VPCMPEQB Z4, Z1, K2
	VPCMPEQB Z4, Z2, K3
	VPCMPEQB Z4, Z3, K4
	VPSUBB   Z8, Z4, Z4
	KMOVQ    K1, R8
	KMOVQ    K2, R9
	KMOVQ    K3, R10
	KMOVQ    K4, R11
	POPCNTQ  R8, R8
	POPCNTQ  R9, R9
	POPCNTQ  R10, R10
	POPCNTQ  R11, R11
	ADDL     R9, R8
	ADDL     R11, R10
	LEAQ     4(DI), R9
	MOVB     AX, (DI)
	ADDL     R10, R8
	MOVW     R8, 2(DI)
	CMOVQNE  R9, DI
	INCL     AX
	CMPL     AX, BX
	JLS      countloop
	SUBQ     SI, DI
	SHRQ     $2, DI
	MOVQ     DI, n+16(FP)
	VZEROUPPER
	RET

// func assignBlock(costs *packedCosts, counts *symbolCount, n int, tables *[256]uint32)
TEXT ·assignBlock(SB), NOSPLIT, $0-32
	MOVQ  costs+0(FP), BX
	MOVQ  counts+8(FP), SI
	MOVQ  n+16(FP), CX
	MOVQ  tables+24(FP), DI
	MOVQ  SI, R8
	MOVQ  CX, R9
	VPXOR X0, X0, X0

costloop:
	MOVBLZX      (SI), AX
	VPBROADCASTW 2(SI), X1
	SHLL         $4, AX
	VPMULLW      (BX)(AX*1), X1, X1
	VPADDW       X1, X0, X0
	ADDQ         $4, SI
	DECQ         CX
	JNZ          costloop
	VPHMINPOSUW  X0, X0
	VPEXTRW      $1, X0, AX
	SHLQ         $10, AX
	ADDQ         AX, DI

addloop:
	MOVBLZX (R8), AX
	MOVWLZX 2(R8), DX
	ADDL    DX, (DI)(AX*4)
	ADDQ    $4, R8
	DECQ    R9
	JNZ     addloop
	VZEROUPPER
	RET

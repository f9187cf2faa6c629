//go:build amd64 && gc && !noasm

#include "textflag.h"

// Kernels that split 64 elements at a time. They are what the ones that merge
// undo; see split.go for the order of bytes and field.go for packed fields.

// Words 0, 2, 4, … of two registers, and words 1, 3, 5, ….
DATA evens<>+0(SB)/8, $0
DATA evens<>+8(SB)/8, $2
DATA evens<>+16(SB)/8, $4
DATA evens<>+24(SB)/8, $6
DATA evens<>+32(SB)/8, $8
DATA evens<>+40(SB)/8, $10
DATA evens<>+48(SB)/8, $12
DATA evens<>+56(SB)/8, $14
GLOBL evens<>(SB), RODATA|NOPTR, $64
DATA odds<>+0(SB)/8, $1
DATA odds<>+8(SB)/8, $3
DATA odds<>+16(SB)/8, $5
DATA odds<>+24(SB)/8, $7
DATA odds<>+32(SB)/8, $9
DATA odds<>+40(SB)/8, $11
DATA odds<>+48(SB)/8, $13
DATA odds<>+56(SB)/8, $15
GLOBL odds<>(SB), RODATA|NOPTR, $64

// Shifts that take bit i to bit 7 for word i.
DATA totop<>+0(SB)/8, $7
DATA totop<>+8(SB)/8, $6
DATA totop<>+16(SB)/8, $5
DATA totop<>+24(SB)/8, $4
DATA totop<>+32(SB)/8, $3
DATA totop<>+40(SB)/8, $2
DATA totop<>+48(SB)/8, $1
DATA totop<>+56(SB)/8, $0
GLOBL totop<>(SB), RODATA|NOPTR, $64

#define REPEAT(c, z) \
	MOVL         $c, AX \
	VPBROADCASTD AX, z

// Loads 64 elements of two bytes: the first four of each eight to a, the others
// to b.
#define UNZIP64(a, b) \
	VMOVDQU64 (SI), Z0   \
	VMOVDQU64 64(SI), Z1 \
	VMOVDQA64 Z30, a     \
	VMOVDQA64 Z31, b     \
	VPERMI2Q  Z1, Z0, a  \
	VPERMI2Q  Z1, Z0, b

// Packs fields of seven bits: word 7 goes to the top bits of the others. Z29 is
// 7 in all words, Z28 totop, Z27 0x80 in all bytes.
#define PACK7(f, tmp) \
	VPERMQ     f, Z29, tmp         \
	VPSLLVQ    Z28, tmp, tmp       \
	VPTERNLOGQ $0xf8, Z27, tmp, f

#define PACK7CONSTANTS \
	MOVL         $7, AX                \
	VPBROADCASTQ AX, Z29               \
	VMOVDQU64    totop<>(SB), Z28      \
	REPEAT(0x80808080, Z27)

// Stores whether a lane of z has bits of mask to AX.
#define OVER(z, mask) \
	REPEAT(mask, Z0)      \
	VPTESTMQ Z0, z, K1    \
	KMOVB    K1, AX

// func splitWideBF16(sym, packed, src *byte, blocks int, negBase uint64) (over uint64)
TEXT ·splitWideBF16(SB), NOSPLIT, $0-48
	MOVQ sym+0(FP), DI
	MOVQ packed+8(FP), BX
	MOVQ src+16(FP), SI
	MOVQ blocks+24(FP), CX
	VPBROADCASTQ negBase+32(FP), Z16
	REPEAT(0x01ff01ff, Z17)
	REPEAT(0x00ff00ff, Z18)
	REPEAT(0x003f003f, Z19)
	REPEAT(0x00400040, Z20)
	PACK7CONSTANTS
	VMOVDQU64 evens<>(SB), Z30
	VMOVDQU64 odds<>(SB), Z31
	VPXORQ Z9, Z9, Z9
	TESTQ  CX, CX
	JZ     bf16split

bf16loop:
	UNZIP64(Z2, Z3)
	VPSRLW $6, Z2, Z4
	VPSRLW $6, Z3, Z5
	VPANDQ Z17, Z4, Z4
	VPANDQ Z17, Z5, Z5
	VPADDW Z16, Z4, Z4
	VPADDW Z16, Z5, Z5
	VPANDQ Z17, Z4, Z4
	VPANDQ Z17, Z5, Z5
	VPTERNLOGQ $0xfe, Z5, Z4, Z9
	VPSLLW $8, Z5, Z5
	VPTERNLOGQ $0xf8, Z18, Z4, Z5
	VMOVDQU64 Z5, (DI)
	VPSRLW $9, Z2, Z4
	VPSRLW $9, Z3, Z5
	VPANDQ Z20, Z4, Z4
	VPANDQ Z20, Z5, Z5
	VPTERNLOGQ $0xf8, Z19, Z2, Z4
	VPTERNLOGQ $0xf8, Z19, Z3, Z5
	VPSLLW $8, Z5, Z5
	VPORQ  Z5, Z4, Z4
	PACK7(Z4, Z5)
	VMOVDQU64 Z4, (BX)
	ADDQ $56, BX
	ADDQ $64, DI
	ADDQ $128, SI
	DECQ CX
	JNZ  bf16loop

bf16split:
	OVER(Z9, 0xff00ff00)
	MOVQ AX, over+40(FP)
	VZEROUPPER
	RET

DATA quarters<>+0(SB)/8, $0
DATA quarters<>+8(SB)/8, $2
DATA quarters<>+16(SB)/8, $4
DATA quarters<>+24(SB)/8, $6
DATA quarters<>+32(SB)/8, $0
DATA quarters<>+40(SB)/8, $2
DATA quarters<>+48(SB)/8, $4
DATA quarters<>+56(SB)/8, $6
GLOBL quarters<>(SB), RODATA|NOPTR, $64

// func splitWideF16(sym, packed, plane, src *byte, blocks int)
TEXT ·splitWideF16(SB), NOSPLIT, $0-40
	MOVQ sym+0(FP), DI
	MOVQ packed+8(FP), BX
	MOVQ plane+16(FP), DX
	MOVQ src+24(FP), SI
	MOVQ blocks+32(FP), CX
	REPEAT(0x003f003f, Z17)
	REPEAT(0x3f003f00, Z18)
	REPEAT(0x00ff00ff, Z19)
	REPEAT(0x00010001, Z20)
	REPEAT(0x00020002, Z21)
	VMOVDQU64 quarters<>(SB), Z22
	VMOVDQU64 evens<>(SB), Z30
	VMOVDQU64 odds<>(SB), Z31
	TESTQ CX, CX
	JZ    f16split

f16loop:
	UNZIP64(Z2, Z3)
	VPSRLW $9, Z2, Z4
	VPANDQ Z17, Z4, Z4
	VPSRLW $1, Z3, Z5
	VPTERNLOGQ $0xf8, Z18, Z5, Z4
	VMOVDQU64 Z4, (DI)
	VPSLLW $8, Z3, Z4
	VPTERNLOGQ $0xf8, Z19, Z2, Z4
	VMOVDQU64 Z4, (DX)
	VPSRLW $8, Z2, Z4
	VPSRLW $14, Z2, Z5
	VPSRLW $8, Z3, Z6
	VPSRLW $14, Z3, Z7
	VPANDQ Z20, Z4, Z4
	VPANDQ Z20, Z6, Z6
	VPTERNLOGQ $0xf8, Z21, Z5, Z4
	VPTERNLOGQ $0xf8, Z21, Z7, Z6
	VPSLLW $8, Z6, Z6
	VPORQ  Z6, Z4, Z4
	VPSLLVQ Z22, Z4, Z4
	VPSHUFD $0x4e, Z4, Z5
	VPORQ  Z5, Z4, Z4
	VSHUFI64X2 $0xb1, Z4, Z4, Z5
	VPORQ  Z5, Z4, Z4
	VEXTRACTI64X4 $1, Z4, Y5
	VPUNPCKLQDQ X5, X4, X4
	VMOVDQU X4, (BX)
	ADDQ $16, BX
	ADDQ $64, DI
	ADDQ $64, DX
	ADDQ $128, SI
	DECQ CX
	JNZ  f16loop

f16split:
	VZEROUPPER
	RET

// For each of 16 elements of four bytes, in the order of streams: its first byte;
// its second; and so on.
DATA planes<>+0(SB)/8, $0x1c140c0418100800
DATA planes<>+8(SB)/8, $0x3c342c2438302820
DATA planes<>+16(SB)/8, $0x1d150d0519110901
DATA planes<>+24(SB)/8, $0x3d352d2539312921
DATA planes<>+32(SB)/8, $0x1e160e061a120a02
DATA planes<>+40(SB)/8, $0x3e362e263a322a22
DATA planes<>+48(SB)/8, $0x1f170f071b130b03
DATA planes<>+56(SB)/8, $0x3f372f273b332b23
GLOBL planes<>(SB), RODATA|NOPTR, $64

// Takes 16 elements at at(SI) apart: four times 16 bytes to out.
#define SPLIT16F32(at, out) \
	VMOVDQU64 at(SI), Z0          \
	VPSRLD $22, Z0, Z1            \
	VPANDQ Z17, Z1, Z1            \
	VPADDD Z16, Z1, Z1            \
	VPANDQ Z17, Z1, Z1            \
	VPORQ  Z1, Z9, Z9             \
	VPSLLD $24, Z1, Z1            \
	VPSRLD $9, Z0, Z2             \
	VPTERNLOGQ $0xf8, Z20, Z2, Z1 \
	VPTERNLOGQ $0xf8, Z19, Z0, Z1 \
	VPERMB Z1, Z18, out

// func splitWideF32(sym, packed, high, low, src *byte, blocks int, negBase uint64) (over uint64)
TEXT ·splitWideF32(SB), NOSPLIT, $0-64
	MOVQ sym+0(FP), DI
	MOVQ packed+8(FP), BX
	MOVQ high+16(FP), DX
	MOVQ low+24(FP), R8
	MOVQ src+32(FP), SI
	MOVQ blocks+40(FP), CX
	VPBROADCASTD negBase+48(FP), Z16
	REPEAT(0x1ff, Z17)
	VMOVDQU64 planes<>(SB), Z18
	REPEAT(0x003fffff, Z19)
	REPEAT(0x00400000, Z20)
	PACK7CONSTANTS
	VPXORQ Z9, Z9, Z9
	TESTQ  CX, CX
	JZ     f32split

f32loop:
	SPLIT16F32(0, Z4)
	SPLIT16F32(64, Z5)
	SPLIT16F32(128, Z6)
	SPLIT16F32(192, Z7)
	VSHUFI64X2 $0x44, Z5, Z4, Z0 // low, high of the first 32
	VSHUFI64X2 $0xee, Z5, Z4, Z1 // field, symbol
	VSHUFI64X2 $0x44, Z7, Z6, Z2
	VSHUFI64X2 $0xee, Z7, Z6, Z3
	VSHUFI64X2 $0x88, Z2, Z0, Z4
	VSHUFI64X2 $0xdd, Z2, Z0, Z5
	VSHUFI64X2 $0x88, Z3, Z1, Z6
	VSHUFI64X2 $0xdd, Z3, Z1, Z7
	PACK7(Z6, Z0)
	VMOVDQU64 Z4, (R8)
	VMOVDQU64 Z5, (DX)
	VMOVDQU64 Z6, (BX)
	VMOVDQU64 Z7, (DI)
	ADDQ $56, BX
	ADDQ $64, DI
	ADDQ $64, DX
	ADDQ $64, R8
	ADDQ $256, SI
	DECQ CX
	JNZ  f32loop

f32split:
	OVER(Z9, 0x100)
	MOVQ AX, over+56(FP)
	VZEROUPPER
	RET

DATA thirda<>+0(SB)/8, $0
DATA thirda<>+8(SB)/8, $2
DATA thirda<>+16(SB)/8, $4
DATA thirda<>+24(SB)/8, $0
GLOBL thirda<>(SB), RODATA|NOPTR, $32
DATA thirdb<>+0(SB)/8, $1
DATA thirdb<>+8(SB)/8, $3
DATA thirdb<>+16(SB)/8, $5
DATA thirdb<>+24(SB)/8, $0
GLOBL thirdb<>(SB), RODATA|NOPTR, $32
DATA thirdc<>+0(SB)/8, $6
DATA thirdc<>+8(SB)/8, $7
DATA thirdc<>+16(SB)/8, $6
DATA thirdc<>+24(SB)/8, $0
GLOBL thirdc<>(SB), RODATA|NOPTR, $32
DATA thirdup<>+0(SB)/8, $6
DATA thirdup<>+8(SB)/8, $6
DATA thirdup<>+16(SB)/8, $4
DATA thirdup<>+24(SB)/8, $0
GLOBL thirdup<>(SB), RODATA|NOPTR, $32
DATA thirdmask<>+0(SB)/8, $0xc0c0c0c0c0c0c0c0
DATA thirdmask<>+8(SB)/8, $0xc0c0c0c0c0c0c0c0
DATA thirdmask<>+16(SB)/8, $0x4040404040404040
DATA thirdmask<>+24(SB)/8, $0
GLOBL thirdmask<>(SB), RODATA|NOPTR, $32
DATA thirdlast<>+0(SB)/8, $0
DATA thirdlast<>+8(SB)/8, $0
DATA thirdlast<>+16(SB)/8, $0x8080808080808080
DATA thirdlast<>+24(SB)/8, $0
GLOBL thirdlast<>(SB), RODATA|NOPTR, $32

// func splitWideE4M3(sym, packed, src *byte, blocks int)
TEXT ·splitWideE4M3(SB), NOSPLIT, $0-32
	MOVQ sym+0(FP), DI
	MOVQ packed+8(FP), BX
	MOVQ src+16(FP), SI
	MOVQ blocks+24(FP), CX
	REPEAT(0x1f1f1f1f, Z17)
	REPEAT(0x03030303, Z18)
	REPEAT(0x04040404, Z19)
	VMOVDQU thirda<>(SB), Y8
	VMOVDQU thirdb<>(SB), Y9
	VMOVDQU thirdc<>(SB), Y10
	VMOVDQU thirdup<>(SB), Y11
	VMOVDQU thirdmask<>(SB), Y12
	VMOVDQU thirdlast<>(SB), Y13
	MOVL $7, AX
	VPBROADCASTQ AX, Z14
	TESTQ CX, CX
	JZ    e4m3split

e4m3loop:
	VMOVDQU64 (SI), Z0
	VPSRLW $2, Z0, Z1
	VPANDQ Z17, Z1, Z1
	VMOVDQU64 Z1, (DI)
	VPSRLW $5, Z0, Z1
	VPANDQ Z19, Z1, Z1
	VPTERNLOGQ $0xf8, Z18, Z0, Z1 // fields
	VPERMQ Z1, Z8, Z2
	VPERMQ Z1, Z9, Z3
	VPERMQ Z1, Z10, Z4
	VPERMQ Z1, Z14, Z5
	VPSLLQ $3, Y3, Y3
	VPSLLVQ Y11, Y4, Y4
	VPSLLQ $5, Y5, Y5
	VPORQ  Y3, Y2, Y2
	VPTERNLOGQ $0xf8, Y12, Y4, Y2
	VPTERNLOGQ $0xf8, Y13, Y5, Y2
	VMOVDQU Y2, (BX)
	ADDQ $24, BX
	ADDQ $64, DI
	ADDQ $64, SI
	DECQ CX
	JNZ  e4m3loop

e4m3split:
	VZEROUPPER
	RET

//go:build arm64 && gc && !noasm

#include "textflag.h"

// Two words of eight bytes lie in a register. What an element needs is put
// together by shifts that leave the other bits of a lane as they are (VSLI).

// Shifts a left by b, per word of eight bytes; right, where b is negative.
#define USHL(b, a, out) WORD $(0x6ee04400 | b<<16 | a<<5 | out)

// How far bit 7 of word i is from bit i.
DATA down<>+0(SB)/8, $-7
DATA down<>+8(SB)/8, $-6
DATA down<>+16(SB)/8, $-5
DATA down<>+24(SB)/8, $-4
DATA down<>+32(SB)/8, $-3
DATA down<>+40(SB)/8, $-2
DATA down<>+48(SB)/8, $-1
DATA down<>+56(SB)/8, $0
GLOBL down<>(SB), RODATA|NOPTR, $64

// Bit i of every byte for word i, but nothing for word 7.
DATA column<>+0(SB)/8, $0x0101010101010101
DATA column<>+8(SB)/8, $0x0202020202020202
DATA column<>+16(SB)/8, $0x0404040404040404
DATA column<>+24(SB)/8, $0x0808080808080808
DATA column<>+32(SB)/8, $0x1010101010101010
DATA column<>+40(SB)/8, $0x2020202020202020
DATA column<>+48(SB)/8, $0x4040404040404040
DATA column<>+56(SB)/8, $0
GLOBL column<>(SB), RODATA|NOPTR, $64

// Merges 16 elements: symbols in y, fields in f. The top bit of a field is of no
// meaning. V16 has 0x00ff, V17 the base, V18 0x8000 in every lane.
#define MERGE16(y, f) \
	VAND  V16.B16, y.B16, V8.B16   \
	VUSHR $8, y.H8, V9.H8          \
	VADD  V17.H8, V8.H8, V8.H8     \
	VADD  V17.H8, V9.H8, V9.H8     \
	VUSHR $8, f.H8, V10.H8         \
	VSHL  $9, f.H8, V11.H8         \
	VSHL  $9, V10.H8, V12.H8       \
	VSLI  $6, V8.H8, f.H8          \
	VSLI  $6, V9.H8, V10.H8        \
	VBIT  V18.B16, V11.B16, f.B16  \
	VBIT  V18.B16, V12.B16, V10.B16 \
	VZIP1 V10.D2, f.D2, V8.D2      \
	VZIP2 V10.D2, f.D2, V9.D2      \
	VST1.P [V8.B16, V9.B16], 32(R0)

// func mergeFieldsBF16(dst, sym, packed *byte, blocks int, base uint64)
TEXT ·mergeFieldsBF16(SB), NOSPLIT, $0-40
	MOVD dst+0(FP), R0
	MOVD sym+8(FP), R1
	MOVD packed+16(FP), R2
	MOVD blocks+24(FP), R3
	MOVD base+32(FP), R4
	VDUP R4, V17.D2
	MOVD $0x00ff00ff00ff00ff, R4
	VDUP R4, V16.D2
	MOVD $0x8000800080008000, R4
	VDUP R4, V18.D2
	MOVD $down<>(SB), R4
	VLD1 (R4), [V20.B16, V21.B16, V22.B16, V23.B16]
	MOVD $column<>(SB), R4
	VLD1 (R4), [V24.B16, V25.B16, V26.B16, V27.B16]
	CBZ  R3, merged

mergeloop:
	VLD1   (R2), [V0.B16, V1.B16, V2.B16]
	ADD    $40, R2, R5
	VLD1   (R5), [V3.B16]              // words 5 and 6
	ADD    $56, R2
	VLD1.P 64(R1), [V4.B16, V5.B16, V6.B16, V7.B16]
	VEXT   $8, V3.B16, V3.B16, V3.B16  // words 6 and 5

	// The top bits make word 7.
	USHL(20, 0, 8)
	USHL(21, 1, 9)
	USHL(22, 2, 10)
	USHL(23, 3, 11)
	VAND V24.B16, V8.B16, V8.B16
	VAND V25.B16, V9.B16, V9.B16
	VAND V26.B16, V10.B16, V10.B16
	VAND V27.B16, V11.B16, V11.B16
	VORR V9.B16, V8.B16, V8.B16
	VORR V11.B16, V10.B16, V10.B16
	VORR V10.B16, V8.B16, V8.B16
	VEXT $8, V8.B16, V8.B16, V9.B16
	VORR V9.B16, V8.B16, V8.B16
	VMOV V8.D[0], V3.D[1]
	MERGE16(V4, V0)
	MERGE16(V5, V1)
	MERGE16(V6, V2)
	MERGE16(V7, V3)
	SUB  $1, R3
	CBNZ R3, mergeloop

merged:
	RET

// Splits 16 elements in a and b: symbols to y, fields to f. V16 has 0x01ff, V17
// the base's complement in every lane; V19 collects symbols.
#define SPLIT16(a, b, y, f) \
	VZIP1 b.D2, a.D2, f.D2       \
	VZIP2 b.D2, a.D2, V11.D2     \
	VUSHR $6, f.H8, y.H8         \
	VUSHR $6, V11.H8, V12.H8     \
	VAND  V16.B16, y.B16, y.B16  \
	VAND  V16.B16, V12.B16, V12.B16 \
	VADD  V17.H8, y.H8, y.H8     \
	VADD  V17.H8, V12.H8, V12.H8 \
	VORR  y.B16, V19.B16, V19.B16 \
	VORR  V12.B16, V19.B16, V19.B16 \
	VSLI  $8, V12.H8, y.H8       \
	VUSHR $15, f.H8, V12.H8      \
	VUSHR $15, V11.H8, V13.H8    \
	VSLI  $6, V12.H8, f.H8       \
	VSLI  $6, V13.H8, V11.H8     \
	VSLI  $8, V11.H8, f.H8

// func splitFieldsBF16(sym, packed, src *byte, blocks int, negBase uint64) (over uint64)
TEXT ·splitFieldsBF16(SB), NOSPLIT, $0-48
	MOVD sym+0(FP), R0
	MOVD packed+8(FP), R1
	MOVD src+16(FP), R2
	MOVD blocks+24(FP), R3
	MOVD negBase+32(FP), R4
	VDUP R4, V17.D2
	MOVD $0x01ff01ff01ff01ff, R4
	VDUP R4, V16.D2
	MOVD $0x8080808080808080, R4
	VDUP R4, V18.D2
	VEOR V19.B16, V19.B16, V19.B16
	MOVD $down<>(SB), R4
	VLD1 (R4), [V20.B16, V21.B16, V22.B16, V23.B16]
	VEOR V28.B16, V28.B16, V28.B16
	VSUB V20.D2, V28.D2, V20.D2 // up instead
	VSUB V21.D2, V28.D2, V21.D2
	VSUB V22.D2, V28.D2, V22.D2
	VSUB V23.D2, V28.D2, V23.D2
	CBZ  R3, splitted

splitloop:
	VLD1.P 64(R2), [V0.B16, V1.B16, V2.B16, V3.B16]
	VLD1.P 64(R2), [V4.B16, V5.B16, V6.B16, V7.B16]
	SPLIT16(V0, V1, V24, V8)
	SPLIT16(V2, V3, V25, V9)
	SPLIT16(V4, V5, V26, V10)
	SPLIT16(V6, V7, V27, V14)
	VST1.P [V24.B16, V25.B16, V26.B16, V27.B16], 64(R0)

	// Word 7 goes to the top bits of the others.
	VDUP V14.D[1], V0.D2
	USHL(20, 0, 4)
	USHL(21, 0, 5)
	USHL(22, 0, 6)
	USHL(23, 0, 7)
	VBIT V18.B16, V4.B16, V8.B16
	VBIT V18.B16, V5.B16, V9.B16
	VBIT V18.B16, V6.B16, V10.B16
	VBIT V18.B16, V7.B16, V14.B16
	VST1 [V8.B16, V9.B16, V10.B16], (R1)
	ADD  $48, R1, R5
	VST1 [V14.B16], (R5)
	ADD  $56, R1
	SUB  $1, R3
	CBNZ R3, splitloop

splitted:
	VMOV V19.D[0], R4
	VMOV V19.D[1], R5
	ORR  R5, R4
	MOVD $0x0100010001000100, R5 // of sums up to 0x3fe, this bit alone counts
	AND  R5, R4
	MOVD R4, over+40(FP)
	RET

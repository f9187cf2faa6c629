//go:build amd64 && gc && !noasm

#include "textflag.h"

// One table lookup: w holds the stream's next bits from bit 2 on, o is where its
// next symbol goes.
#define LOOKUP(w, o) \
	MOVQ  w, AX          \
	ANDL  $0x1ffc, AX    \
	MOVL  (BX)(AX*1), AX \
	SHRXQ AX, w, w       \
	SHRXL DI, AX, CX     \
	MOVL  CX, (o)        \
	SHRL  $30, AX        \
	ADDQ  AX, o

// Adds the bits used, which are the zeros above the mark in w, to pos; loads the
// word that holds the next bits and marks it.
#define REFILL(w, pos) \
	LZCNTQ w, CX         \
	ADDQ   pos(SP), CX   \
	MOVQ   CX, pos(SP)   \
	MOVQ   CX, AX        \
	SHRQ   $3, AX        \
	MOVQ   (SI)(AX*1), w \
	ANDL   $7, CX        \
	SHRXQ  CX, w, w      \
	ORQ    BP, w

// The last lookup before w runs short. The next word does not wait for it: it is
// loaded from where the lookup starts, and shifted by what the lookup uses.
#define LASTLOOKUP(w, o, pos) \
	LZCNTQ w, CX           \
	ADDQ   pos(SP), CX     \
	MOVQ   CX, pos(SP)     \
	MOVQ   CX, DX          \
	SHRQ   $3, DX          \
	MOVQ   (SI)(DX*1), DX  \
	ANDL   $7, CX          \
	SHRXQ  CX, DX, DX      \
	ORQ    BP, DX          \
	ANDL   $0x1ffc, w      \
	MOVL   (BX)(w*1), AX   \
	SHRXQ  AX, DX, w       \
	SHRXL  DI, AX, CX      \
	MOVL   CX, (o)         \
	SHRL   $30, AX         \
	ADDQ   AX, o

#define ROUND \
	LOOKUP(R8, R12)  \
	LOOKUP(R9, R13)  \
	LOOKUP(R10, R14) \
	LOOKUP(R11, R15)

// func decodeRun(s *runState)
TEXT ·decodeRun(SB), NOSPLIT, $104-8
	MOVQ s+0(FP), AX
	MOVQ 0(AX), SI
	MOVQ 8(AX), BX
	MOVQ 16(AX), DX
	MOVQ 24(AX), R8
	MOVQ 32(AX), R9
	MOVQ 40(AX), R10
	MOVQ 48(AX), R11
	MOVQ 56(AX), R12
	MOVQ 64(AX), R13
	MOVQ 72(AX), R14
	MOVQ 80(AX), R15
	MOVQ 88(AX), CX
	MOVQ CX, 32(SP)
	MOVQ 96(AX), CX
	MOVQ CX, 40(SP)
	MOVQ 104(AX), CX
	MOVQ CX, 48(SP)
	MOVQ 112(AX), CX
	MOVQ CX, 56(SP)
	MOVQ 120(AX), CX
	MOVQ CX, 64(SP)
	MOVQ 128(AX), CX
	MOVQ CX, 72(SP)
	MOVQ 136(AX), CX
	MOVQ CX, 80(SP)
	MOVQ 144(AX), CX
	MOVQ CX, 88(SP)
	SUBQ $2, R8
	SUBQ $2, R9
	SUBQ $2, R10
	SUBQ $2, R11
	MOVQ R8, 0(SP)
	MOVQ R9, 8(SP)
	MOVQ R10, 16(SP)
	MOVQ R11, 24(SP)
	MOVQ DX, 96(SP)
	MOVL $6, DI
	MOVQ $0x8000000000000000, BP
	MOVQ BP, R8
	MOVQ BP, R9
	MOVQ BP, R10
	MOVQ BP, R11

	REFILL(R8, 0)
	REFILL(R9, 8)
	REFILL(R10, 16)
	REFILL(R11, 24)

runloop:
	ROUND
	ROUND
	ROUND

	// Lookups leave time to fetch what is needed soon.
	MOVQ 64(SP), AX
	CMPQ AX, 72(SP)
	JHS  fetchedin
	PREFETCHT0 0(AX)
	PREFETCHT0 64(AX)
	ADDQ $128, AX
	MOVQ AX, 64(SP)

fetchedin:
	LASTLOOKUP(R8, R12, 0)
	LASTLOOKUP(R9, R13, 8)
	LASTLOOKUP(R10, R14, 16)
	LASTLOOKUP(R11, R15, 24)
	ROUND
	ROUND
	ROUND
	MOVQ 80(SP), AX
	CMPQ AX, 88(SP)
	JHS  fetchedout
	PREFETCHT0 0(AX)
	PREFETCHT0 64(AX)
	PREFETCHT0 128(AX)
	ADDQ $192, AX
	MOVQ AX, 80(SP)

fetchedout:
	LASTLOOKUP(R8, R12, 0)
	LASTLOOKUP(R9, R13, 8)
	LASTLOOKUP(R10, R14, 16)
	LASTLOOKUP(R11, R15, 24)
	CMPQ R12, 32(SP)
	JHI  stepped
	CMPQ R13, 40(SP)
	JHI  stepped
	CMPQ R14, 48(SP)
	JHI  stepped
	CMPQ R15, 56(SP)
	JHI  stepped
	DECQ 96(SP)
	JNZ  runloop

stepped:
	LZCNTQ R8, R8
	LZCNTQ R9, R9
	LZCNTQ R10, R10
	LZCNTQ R11, R11
	ADDQ   0(SP), R8
	ADDQ   8(SP), R9
	ADDQ   16(SP), R10
	ADDQ   24(SP), R11
	ADDQ   $2, R8
	ADDQ   $2, R9
	ADDQ   $2, R10
	ADDQ   $2, R11
	MOVQ   s+0(FP), AX
	MOVQ   R8, 24(AX)
	MOVQ   R9, 32(AX)
	MOVQ   R10, 40(AX)
	MOVQ   R11, 48(AX)
	MOVQ   R12, 56(AX)
	MOVQ   R13, 64(AX)
	MOVQ   R14, 72(AX)
	MOVQ   R15, 80(AX)
	MOVQ   64(SP), CX
	MOVQ   CX, 120(AX)
	MOVQ   80(SP), CX
	MOVQ   CX, 136(AX)
	RET

// func leadingZeros(x uint64) uint64
TEXT ·leadingZeros(SB), NOSPLIT, $0-16
	LZCNTQ x+0(FP), AX
	MOVQ   AX, ret+8(FP)
	RET

DATA shifts0<>+0(SB)/8, $0
DATA shifts0<>+8(SB)/8, $1
DATA shifts0<>+16(SB)/8, $2
DATA shifts0<>+24(SB)/8, $3
GLOBL shifts0<>(SB), RODATA|NOPTR, $32
DATA shifts1<>+0(SB)/8, $64
DATA shifts1<>+8(SB)/8, $4
DATA shifts1<>+16(SB)/8, $5
DATA shifts1<>+24(SB)/8, $6
GLOBL shifts1<>(SB), RODATA|NOPTR, $32
DATA shifts2<>+0(SB)/8, $4
DATA shifts2<>+8(SB)/8, $5
DATA shifts2<>+16(SB)/8, $6
DATA shifts2<>+24(SB)/8, $64
GLOBL shifts2<>(SB), RODATA|NOPTR, $32

// y = all lanes hold the constant c of 16 bits
#define WORDS(c, y) \
	MOVL $(c*0x10001), AX \
	MOVQ AX, X0           \
	VPBROADCASTD X0, y

// Merges 32 elements: symbols at off(SI), fields in f, to 2*off(DI).
#define MERGE32(f, off) \
	VMOVDQU off(SI), Y2        \
	VPAND Y15, Y2, Y3          \
	VPSRLW $8, Y2, Y4          \
	VPADDW Y14, Y3, Y3         \
	VPADDW Y14, Y4, Y4         \
	VPAND Y13, Y3, Y3          \
	VPAND Y13, Y4, Y4          \
	VPSLLW $6, Y3, Y3          \
	VPSLLW $6, Y4, Y4          \
	VPSRLW $8, f, Y5           \
	VPAND Y8, f, Y6            \
	VPOR Y6, Y3, Y3            \
	VPAND Y8, Y5, Y6           \
	VPOR Y6, Y4, Y4            \
	VPSLLW $9, f, Y6           \
	VPSLLW $9, Y5, Y5          \
	VPAND Y7, Y6, Y6           \
	VPAND Y7, Y5, Y5           \
	VPOR Y6, Y3, Y3            \
	VPOR Y5, Y4, Y4            \
	VPUNPCKLQDQ Y4, Y3, Y5     \
	VPUNPCKHQDQ Y4, Y3, Y6     \
	VMOVDQU X5, (2*off+0)(DI)  \
	VMOVDQU X6, (2*off+16)(DI) \
	VEXTRACTI128 $1, Y5, (2*off+32)(DI) \
	VEXTRACTI128 $1, Y6, (2*off+48)(DI)

// func mergeFieldsBF16(dst, sym, packed *byte, blocks int, base uint64)
TEXT ·mergeFieldsBF16(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ sym+8(FP), SI
	MOVQ packed+16(FP), BX
	MOVQ blocks+24(FP), CX
	WORDS(0x00ff, Y15)
	VPBROADCASTQ base+32(FP), Y14
	WORDS(0x01ff, Y13)
	WORDS(0x7f7f, Y12)
	WORDS(0x0101, Y11)
	VMOVDQU shifts0<>(SB), Y10
	VMOVDQU shifts1<>(SB), Y9
	WORDS(0x003f, Y8)
	WORDS(0x8000, Y7)
	TESTQ CX, CX
	JZ    merged

mergeloop:
	// The next block of this segment comes from and goes to cold memory.
	PREFETCHT0 224(BX)
	PREFETCHT0 512(DI)
	PREFETCHT0 576(DI)
	VMOVDQU    (BX), Y0   // words 0 to 3
	VMOVDQU    24(BX), Y1 // words 3 to 6

	// The top bits make word 7.
	VPSRLW       $7, Y0, Y2
	VPSRLW       $7, Y1, Y3
	VPAND        Y11, Y2, Y2
	VPAND        Y11, Y3, Y3
	VPSLLVQ      Y10, Y2, Y2
	VPSLLVQ      Y9, Y3, Y3
	VPOR         Y3, Y2, Y2
	VEXTRACTI128 $1, Y2, X3
	VPOR         X3, X2, X2
	VPSHUFD      $0x4e, X2, X3
	VPOR         X3, X2, X2
	VPBROADCASTQ X2, Y2
	VPERMQ       $0x39, Y1, Y1
	VPBLENDD     $0xc0, Y2, Y1, Y1
	VPAND        Y12, Y0, Y0
	VPAND        Y12, Y1, Y1
	MERGE32(Y0, 0)
	MERGE32(Y1, 32)
	ADDQ         $56, BX
	ADDQ         $64, SI
	ADDQ         $128, DI
	DECQ         CX
	JNZ          mergeloop

merged:
	VZEROUPPER
	RET

// Lane i of the field words holds 1 << i: multiplied with a matrix of bits, it
// takes a column.
DATA columns<>+0(SB)/8, $0x8040201008040201
GLOBL columns<>(SB), RODATA|NOPTR, $8
DATA zipped<>+0(SB)/8, $0
DATA zipped<>+8(SB)/8, $8
DATA zipped<>+16(SB)/8, $1
DATA zipped<>+24(SB)/8, $9
DATA zipped<>+32(SB)/8, $2
DATA zipped<>+40(SB)/8, $10
DATA zipped<>+48(SB)/8, $3
DATA zipped<>+56(SB)/8, $11
DATA zipped<>+64(SB)/8, $4
DATA zipped<>+72(SB)/8, $12
DATA zipped<>+80(SB)/8, $5
DATA zipped<>+88(SB)/8, $13
DATA zipped<>+96(SB)/8, $6
DATA zipped<>+104(SB)/8, $14
DATA zipped<>+112(SB)/8, $7
DATA zipped<>+120(SB)/8, $15
GLOBL zipped<>(SB), RODATA|NOPTR, $128

#define WIDEWORDS(c, z) \
	MOVL $(c*0x10001), AX \
	VPBROADCASTD AX, z

// Merges the symbols and fields of 64 elements to words: those of the even bytes
// to Z0, those of the odd ones to Z3.
#define TOPS64(symat, fieldat) \
	VMOVDQU64 symat(SI), Z0             \
	VMOVDQU8.Z fieldat(R8), K2, Z1      \
	VPMOVB2M Z1, K1                     \
	KMOVQ K1, AX                        \
	BSWAPQ AX                           \
	VMOVQ AX, X2                        \
	VGF2P8AFFINEQB $0, X2, X20, X2      \
	VPBROADCASTQ X2, K3, Z1             \
	VPSRLW $8, Z0, Z3                   \
	VPANDQ Z16, Z0, Z0                  \
	VPADDW Z17, Z0, Z0                  \
	VPADDW Z17, Z3, Z3                  \
	VPANDQ Z18, Z0, Z0                  \
	VPANDQ Z18, Z3, Z3                  \
	VPSLLW $6, Z0, Z0                   \
	VPSLLW $6, Z3, Z3                   \
	VPSRLW $8, Z1, Z4                   \
	VPTERNLOGQ $0xf8, Z19, Z1, Z0       \
	VPTERNLOGQ $0xf8, Z19, Z4, Z3       \
	VPSLLW $9, Z1, Z5                   \
	VPSLLW $9, Z4, Z6                   \
	VPTERNLOGQ $0xf8, Z21, Z5, Z0       \
	VPTERNLOGQ $0xf8, Z21, Z6, Z3

// Stores the words of 64 elements in their order: Z0 has the first four of each
// eight, Z3 the others.
#define ZIP64(dstat) \
	VMOVDQA64 Z22, Z4                   \
	VMOVDQA64 Z23, Z5                   \
	VPERMI2Q Z3, Z0, Z4                 \
	VPERMI2Q Z3, Z0, Z5                 \
	VMOVDQU64 Z4, dstat(R9)             \
	VMOVDQU64 Z5, (dstat+64)(R9)

#define MERGE64(symat, fieldat, dstat) \
	TOPS64(symat, fieldat) \
	ZIP64(dstat)

// What the two kernels with nine symbol bits need.
#define TOPSCONSTANTS(base) \
	WIDEWORDS(0x00ff, Z16)              \
	VPBROADCASTQ base, Z17              \
	WIDEWORDS(0x01ff, Z18)              \
	WIDEWORDS(0x003f, Z19)              \
	WIDEWORDS(0x8000, Z21)              \
	VMOVQ columns<>(SB), X20            \
	MOVQ $0x00ffffffffffffff, AX        \
	KMOVQ AX, K2                        \
	MOVL $0x80, AX                      \
	KMOVQ AX, K3

// Merges 64 elements of four bytes: high plane at at(R11), low plane at at(R12).
// In each eight, bytes 0 4 1 5 2 6 3 7 are those of the elements in order.
#define MERGE64F32(at, fieldat, dstat) \
	TOPS64(at, fieldat)                 \
	VMOVDQU64 at(R11), Z1               \
	VMOVDQU64 at(R12), Z2               \
	VPSLLW $8, Z1, Z4                   \
	VPTERNLOGQ $0xf8, Z16, Z2, Z4       \
	VPSRLW $8, Z2, Z5                   \
	VPTERNLOGQ $0xf8, Z24, Z1, Z5       \
	VPUNPCKLWD Z0, Z4, Z6               \
	VPUNPCKHWD Z0, Z4, Z7               \
	VPUNPCKLWD Z3, Z5, Z8               \
	VPUNPCKHWD Z3, Z5, Z9               \
	VSHUFPS $0x88, Z8, Z6, Z0           \
	VSHUFPS $0xdd, Z8, Z6, Z1           \
	VSHUFPS $0x88, Z9, Z7, Z2           \
	VSHUFPS $0xdd, Z9, Z7, Z3           \
	VSHUFI64X2 $0x44, Z1, Z0, Z4        \
	VSHUFI64X2 $0x44, Z3, Z2, Z5        \
	VSHUFI64X2 $0xee, Z1, Z0, Z6        \
	VSHUFI64X2 $0xee, Z3, Z2, Z7        \
	VSHUFI64X2 $0x88, Z5, Z4, Z0        \
	VSHUFI64X2 $0xdd, Z5, Z4, Z1        \
	VSHUFI64X2 $0x88, Z7, Z6, Z2        \
	VSHUFI64X2 $0xdd, Z7, Z6, Z3        \
	VMOVDQU64 Z0, dstat(R9)             \
	VMOVDQU64 Z1, (dstat+64)(R9)        \
	VMOVDQU64 Z2, (dstat+128)(R9)       \
	VMOVDQU64 Z3, (dstat+192)(R9)

// func mergeRunF32(dst, packed, high, low, sym *byte, blocks *uint16, n int, base uint64)
TEXT ·mergeRunF32(SB), NOSPLIT, $0-64
	MOVQ sym+32(FP), SI
	MOVQ blocks+40(FP), DX
	MOVQ n+48(FP), CX
	TOPSCONSTANTS(base+56(FP))
	WIDEWORDS(0xff00, Z24)
	TESTQ CX, CX
	JZ    f32merged

f32loop:
	MOVWLZX (DX), R10
	MOVQ R10, R8
	SHLQ $8, R8
	MOVQ high+16(FP), R11
	ADDQ R8, R11
	MOVQ low+24(FP), R12
	ADDQ R8, R12
	MOVQ R8, R9
	SHLQ $2, R9
	ADDQ dst+0(FP), R9
	SHLQ $5, R10
	SUBQ R10, R8
	ADDQ packed+8(FP), R8
	MERGE64F32(0, 0, 0)
	MERGE64F32(64, 56, 256)
	MERGE64F32(128, 112, 512)
	MERGE64F32(192, 168, 768)
	ADDQ $256, SI
	ADDQ $2, DX
	DECQ CX
	JNZ  f32loop

f32merged:
	VZEROUPPER
	RET

DATA pairs<>+0(SB)/8, $0
DATA pairs<>+8(SB)/8, $2
DATA pairs<>+16(SB)/8, $4
DATA pairs<>+24(SB)/8, $6
DATA pairs<>+32(SB)/8, $0
DATA pairs<>+40(SB)/8, $2
DATA pairs<>+48(SB)/8, $4
DATA pairs<>+56(SB)/8, $6
GLOBL pairs<>(SB), RODATA|NOPTR, $64

// Merges 64 elements of F16: fields of two bits at fieldat(R8), plane at at(R11).
#define MERGE64F16(at, fieldat, dstat) \
	VMOVDQU64 at(SI), Z1                \
	VMOVDQU64 at(R11), Z2               \
	VPBROADCASTQ fieldat(R8), Z6        \
	VPBROADCASTQ (fieldat+8)(R8), K4, Z6 \
	VPSRLVQ Z20, Z6, Z6                 \
	VPANDQ Z16, Z2, Z0                  \
	VPSRLW $8, Z2, Z3                   \
	VPSLLW $9, Z1, Z4                   \
	VPTERNLOGQ $0xf8, Z17, Z4, Z0       \
	VPSLLW $1, Z1, Z4                   \
	VPTERNLOGQ $0xf8, Z17, Z4, Z3       \
	VPSLLW $8, Z6, Z4                   \
	VPTERNLOGQ $0xf8, Z18, Z4, Z0       \
	VPTERNLOGQ $0xf8, Z18, Z6, Z3       \
	VPSLLW $14, Z6, Z4                  \
	VPTERNLOGQ $0xf8, Z21, Z4, Z0       \
	VPSLLW $6, Z6, Z4                   \
	VPTERNLOGQ $0xf8, Z21, Z4, Z3       \
	ZIP64(dstat)

// func mergeRunF16(dst, packed, plane, sym *byte, blocks *uint16, n int)
TEXT ·mergeRunF16(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ packed+8(FP), BX
	MOVQ plane+16(FP), R13
	MOVQ sym+24(FP), SI
	MOVQ blocks+32(FP), DX
	MOVQ n+40(FP), CX
	WIDEWORDS(0x00ff, Z16)
	WIDEWORDS(0x7e00, Z17)
	WIDEWORDS(0x0100, Z18)
	WIDEWORDS(0x8000, Z21)
	VMOVDQU64 pairs<>(SB), Z20
	VMOVDQU64 zipped<>+0(SB), Z22
	VMOVDQU64 zipped<>+64(SB), Z23
	MOVL $0xf0, AX
	KMOVQ AX, K4
	TESTQ CX, CX
	JZ    f16merged

f16loop:
	MOVWLZX (DX), R10
	MOVQ R10, R8
	SHLQ $6, R8
	ADDQ BX, R8
	MOVQ R10, R11
	SHLQ $8, R11
	MOVQ R11, R9
	ADDQ R13, R11
	SHLQ $1, R9
	ADDQ DI, R9
	MERGE64F16(0, 0, 0)
	MERGE64F16(64, 16, 128)
	MERGE64F16(128, 32, 256)
	MERGE64F16(192, 48, 384)
	ADDQ $256, SI
	ADDQ $2, DX
	DECQ CX
	JNZ  f16loop

f16merged:
	VZEROUPPER
	RET

DATA thirds<>+0(SB)/8, $0
DATA thirds<>+8(SB)/8, $0
DATA thirds<>+16(SB)/8, $1
DATA thirds<>+24(SB)/8, $1
DATA thirds<>+32(SB)/8, $2
DATA thirds<>+40(SB)/8, $2
DATA thirds<>+48(SB)/8, $0
DATA thirds<>+56(SB)/8, $1
GLOBL thirds<>(SB), RODATA|NOPTR, $64
DATA thirdsdown<>+0(SB)/8, $0
DATA thirdsdown<>+8(SB)/8, $3
DATA thirdsdown<>+16(SB)/8, $0
DATA thirdsdown<>+24(SB)/8, $3
DATA thirdsdown<>+32(SB)/8, $0
DATA thirdsdown<>+40(SB)/8, $3
DATA thirdsdown<>+48(SB)/8, $6
DATA thirdsdown<>+56(SB)/8, $6
GLOBL thirdsdown<>(SB), RODATA|NOPTR, $64
DATA lastdown<>+0(SB)/8, $0
DATA lastdown<>+8(SB)/8, $0
DATA lastdown<>+16(SB)/8, $0
DATA lastdown<>+24(SB)/8, $0
DATA lastdown<>+32(SB)/8, $0
DATA lastdown<>+40(SB)/8, $0
DATA lastdown<>+48(SB)/8, $4
DATA lastdown<>+56(SB)/8, $5
GLOBL lastdown<>(SB), RODATA|NOPTR, $64

// Merges 64 elements of F8_E4M3: fields of three bits at fieldat(R8).
#define MERGE64E4M3(at, fieldat) \
	VMOVDQU64 at(SI), Z0                 \
	VMOVDQU64.Z fieldat(R8), K4, Z1      \
	VPERMQ Z1, Z20, Z1                   \
	VPSRLVQ Z22, Z1, Z1                  \
	VPANDQ Z24, Z1, Z1                   \
	VPBROADCASTQ.Z (fieldat+16)(R8), K5, Z2 \
	VPSRLVQ Z23, Z2, Z2                  \
	VPTERNLOGQ $0xf8, Z17, Z2, Z1        \
	VPSLLQ $2, Z0, Z0                    \
	VPANDQ Z16, Z0, Z0                   \
	VPTERNLOGQ $0xf8, Z18, Z1, Z0        \
	VPSLLQ $5, Z1, Z1                    \
	VPTERNLOGQ $0xf8, Z21, Z1, Z0        \
	VMOVDQU64 Z0, at(R9)

// func mergeRunE4M3(dst, packed, sym *byte, blocks *uint16, n int)
TEXT ·mergeRunE4M3(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ packed+8(FP), BX
	MOVQ sym+16(FP), SI
	MOVQ blocks+24(FP), DX
	MOVQ n+32(FP), CX
	WIDEWORDS(0x7c7c, Z16)
	WIDEWORDS(0x0404, Z17)
	WIDEWORDS(0x0303, Z18)
	WIDEWORDS(0x8080, Z21)
	WIDEWORDS(0x0707, Z24)
	MOVL $0xc0, AX
	KMOVQ AX, K5
	VMOVDQU64 Z18, K5, Z24
	MOVL $7, AX
	KMOVQ AX, K4
	VMOVDQU64 thirds<>(SB), Z20
	VMOVDQU64 thirdsdown<>(SB), Z22
	VMOVDQU64 lastdown<>(SB), Z23
	TESTQ CX, CX
	JZ    e4m3merged

e4m3loop:
	MOVWLZX (DX), R10
	MOVQ R10, R9
	SHLQ $8, R9
	ADDQ DI, R9
	MOVQ R10, R8
	SHLQ $6, R8
	SHLQ $5, R10
	ADDQ R10, R8
	ADDQ BX, R8
	MERGE64E4M3(0, 0)
	MERGE64E4M3(64, 24)
	MERGE64E4M3(128, 48)
	MERGE64E4M3(192, 72)
	ADDQ $256, SI
	ADDQ $2, DX
	DECQ CX
	JNZ  e4m3loop

e4m3merged:
	VZEROUPPER
	RET

// AHEAD is how many blocks before its turn a block is fetched.
#define AHEAD 8

// func mergeRunBF16(dst, packed, sym *byte, blocks *uint16, n int, base uint64)
TEXT ·mergeRunBF16(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ packed+8(FP), BX
	MOVQ sym+16(FP), SI
	MOVQ blocks+24(FP), DX
	MOVQ n+32(FP), CX
	TOPSCONSTANTS(base+40(FP))
	VMOVDQU64 zipped<>+0(SB), Z22
	VMOVDQU64 zipped<>+64(SB), Z23
	TESTQ CX, CX
	JZ    runmerged

runmergeloop:
	// What is merged comes from and goes to memory that is likely to be cold,
	// and the blocks of a run are not neighbours.
	CMPQ    CX, $AHEAD
	JLE     near
	MOVWLZX (2*AHEAD)(DX), R10
	MOVQ    R10, R8
	SHLQ    $8, R8
	MOVQ    R10, R9
	SHLQ    $5, R9
	SUBQ    R9, R8
	ADDQ    BX, R8
	SHLQ    $9, R10
	ADDQ    DI, R10
	PREFETCHT0 0(R10)
	PREFETCHT0 64(R10)
	PREFETCHT0 128(R10)
	PREFETCHT0 192(R10)
	PREFETCHT0 256(R10)
	PREFETCHT0 320(R10)
	PREFETCHT0 384(R10)
	PREFETCHT0 448(R10)
	PREFETCHT0 0(R8)
	PREFETCHT0 64(R8)
	PREFETCHT0 128(R8)
	PREFETCHT0 192(R8)

near:
	// 224 bytes of fields and 512 of elements
	MOVWLZX (DX), R10
	MOVQ R10, R8
	SHLQ $8, R8
	MOVQ R10, R9
	SHLQ $5, R9
	SUBQ R9, R8
	ADDQ BX, R8
	MOVQ R10, R9
	SHLQ $9, R9
	ADDQ DI, R9
	MERGE64(0, 0, 0)
	MERGE64(64, 56, 128)
	MERGE64(128, 112, 256)
	MERGE64(192, 168, 384)
	ADDQ $256, SI
	ADDQ $2, DX
	DECQ CX
	JNZ  runmergeloop

runmerged:
	VZEROUPPER
	RET

// Splits 32 elements at off(SI): symbols to off/2(DI), fields to f.
#define SPLIT32(f, off) \
	VMOVDQU (off+0)(SI), Y2    \
	VMOVDQU (off+32)(SI), Y3   \
	VPUNPCKLQDQ Y3, Y2, Y4     \
	VPUNPCKHQDQ Y3, Y2, Y5     \
	VPSRLW $6, Y4, Y2          \
	VPSRLW $6, Y5, Y3          \
	VPAND Y13, Y2, Y2          \
	VPAND Y13, Y3, Y3          \
	VPADDW Y14, Y2, Y2         \
	VPADDW Y14, Y3, Y3         \
	VPAND Y13, Y2, Y2          \
	VPAND Y13, Y3, Y3          \
	VPOR Y2, Y9, Y9            \
	VPOR Y3, Y9, Y9            \
	VPAND Y15, Y2, Y2          \
	VPSLLW $8, Y3, Y3          \
	VPOR Y3, Y2, Y2            \
	VPERMQ $0xd8, Y2, Y2       \
	VMOVDQU Y2, (off/2)(DI)    \
	VPSRLW $9, Y4, Y2          \
	VPSRLW $9, Y5, Y3          \
	VPAND Y7, Y2, Y2           \
	VPAND Y7, Y3, Y3           \
	VPAND Y8, Y4, Y4           \
	VPAND Y8, Y5, Y5           \
	VPOR Y2, Y4, Y4            \
	VPOR Y3, Y5, Y5            \
	VPSLLW $8, Y5, Y5          \
	VPOR Y5, Y4, Y4            \
	VPERMQ $0xd8, Y4, f

// func splitFieldsBF16(sym, packed, src *byte, blocks int, negBase uint64) (over uint64)
TEXT ·splitFieldsBF16(SB), NOSPLIT, $0-48
	MOVQ sym+0(FP), DI
	MOVQ packed+8(FP), BX
	MOVQ src+16(FP), SI
	MOVQ blocks+24(FP), CX
	WORDS(0x00ff, Y15)
	VPBROADCASTQ negBase+32(FP), Y14
	WORDS(0x01ff, Y13)
	VMOVDQU shifts2<>(SB), Y12
	WORDS(0x0101, Y11)
	VMOVDQU shifts0<>(SB), Y10
	VPXOR Y9, Y9, Y9
	WORDS(0x003f, Y8)
	WORDS(0x0040, Y7)
	TESTQ CX, CX
	JZ    splitted

splitloop:
	SPLIT32(Y0, 0)
	SPLIT32(Y1, 64)

	// Word 7 goes to the top bits of the others.
	VPERMQ  $0xff, Y1, Y2
	VPSRLVQ Y12, Y2, Y3
	VPSRLVQ Y10, Y2, Y2
	VPAND   Y11, Y2, Y2
	VPAND   Y11, Y3, Y3
	VPSLLW  $7, Y2, Y2
	VPSLLW  $7, Y3, Y3
	VPOR    Y2, Y0, Y0
	VPOR    Y3, Y1, Y1
	VMOVDQU Y0, (BX)
	VMOVDQU Y1, 32(BX)
	ADDQ    $56, BX
	ADDQ    $64, DI
	ADDQ    $128, SI
	DECQ    CX
	JNZ     splitloop

splitted:
	VEXTRACTI128 $1, Y9, X0
	VPOR         X9, X0, X0
	VPSHUFD      $0x4e, X0, X1
	VPOR         X1, X0, X0
	MOVQ         X0, AX
	MOVQ         $0xff00ff00ff00ff00, CX
	ANDQ         CX, AX
	MOVQ         AX, over+40(FP)
	VZEROUPPER
	RET

// Appends the code of the symbol in the low byte of AX.
#define CODE \
	MOVBLZX AX, R9              \
	SHRL $8, AX                 \
	MOVL (BX)(R9*4), R10        \
	ORL R10, R13                \
	MOVBLZX 2(BX)(R9*4), R11    \
	MOVWLZX R10, R10            \
	SHLXQ CX, R10, R10          \
	ORQ R10, R8                 \
	ADDQ R11, CX

// func encodeSymbols(s *encodeState)
TEXT ·encodeSymbols(SB), NOSPLIT, $0-8
	MOVQ s+0(FP), R12
	MOVQ 0(R12), DI
	MOVQ 8(R12), R8
	MOVQ 16(R12), CX
	MOVQ 24(R12), BX
	MOVQ 32(R12), SI
	MOVQ 40(R12), DX
	XORL  R13, R13
	TESTQ DX, DX
	JZ    encoded

encodeloop:
	MOVL  (SI), AX
	CODE
	CODE
	CODE
	CODE
	MOVQ  R8, (DI)
	MOVQ  CX, R9
	SHRQ  $3, R9
	ADDQ  R9, DI
	SHLQ  $3, R9
	SHRXQ R9, R8, R8
	ANDQ  $7, CX
	ADDQ  $4, SI
	DECQ  DX
	JNZ   encodeloop

encoded:
	MOVQ DI, 0(R12)
	MOVQ R8, 8(R12)
	MOVQ CX, 16(R12)
	SARL $31, R13
	MOVLQSX R13, R13
	MOVQ R13, 56(R12)
	RET

// Looks up the 64 symbols of idx in the table of 256 bytes in t0 to t3; k marks
// symbols of 128 and more.
#define LOOKUP64(idx, t0, t1, t2, t3, k, tmp, out) \
	VMOVDQA64 idx, out       \
	VMOVDQA64 idx, tmp       \
	VPERMI2B t1, t0, out     \
	VPERMI2B t3, t2, tmp     \
	VMOVDQU8 tmp, k, out

// Joins the four codes in each 64-bit word of w, which has them in its 16-bit
// lanes with their lengths on top, in codes; adds their lengths in lens.
#define JOIN(w, codes, lens) \
	VPSRLD $12, w, Z5        \
	VPANDD Z30, Z5, Z5       \
	VPSRLD $28, w, Z6        \
	VPSRLD $16, w, Z7        \
	VPANDD Z31, Z7, Z7       \
	VPANDD Z31, w, codes     \
	VPSLLVD Z5, Z7, Z7       \
	VPORD Z7, codes, codes   \
	VPADDD Z5, Z6, Z6        \
	VPSRLQ $32, codes, Z9    \
	VPANDQ Z29, codes, codes \
	VPANDQ Z29, Z6, Z7       \
	VPSRLQ $32, Z6, lens     \
	VPSLLVQ Z7, Z9, Z9       \
	VPORQ Z9, codes, codes   \
	VPADDQ Z7, lens, lens

// Appends the codes joined at at, whose length lies 128 bytes beyond.
#define PUT(at) \
	SHLXQ CX, at(SP), R10    \
	ADDQ (at+128)(SP), CX    \
	ORQ R10, R8              \
	MOVQ R8, (DI)            \
	MOVQ CX, R9              \
	SHRQ $3, R9              \
	ADDQ R9, DI              \
	SHLQ $3, R9              \
	SHRXQ R9, R8, R8         \
	ANDQ $7, CX

// func encodeWide(s *encodeState)
TEXT ·encodeWide(SB), NOSPLIT, $256-8
	MOVQ s+0(FP), R12
	MOVQ 0(R12), DI
	MOVQ 8(R12), R8
	MOVQ 16(R12), CX
	MOVQ 32(R12), SI
	MOVQ 40(R12), DX
	MOVQ 48(R12), BX
	SHRQ $4, DX
	VMOVDQU64 0(BX), Z16
	VMOVDQU64 64(BX), Z17
	VMOVDQU64 128(BX), Z18
	VMOVDQU64 192(BX), Z19
	VMOVDQU64 256(BX), Z20
	VMOVDQU64 320(BX), Z21
	VMOVDQU64 384(BX), Z22
	VMOVDQU64 448(BX), Z23
	MOVL $0x7ff, AX
	VPBROADCASTD AX, Z31
	MOVL $15, AX
	VPBROADCASTD AX, Z30
	MOVL $0xffffffff, AX
	VPBROADCASTQ AX, Z29
	MOVL $56, AX // with up to seven bits left over, fewer than 64
	VPBROADCASTQ AX, Z28
	VPXORQ Z10, Z10, Z10
	MOVQ 64(R12), R13
	MOVQ 72(R12), R14
	MOVQ 80(R12), R15
	TESTQ DX, DX
	JZ    widedone

wideloop:
	CMPQ R13, R14
	JHS  widefetched
	PREFETCHT1 0(R13)
	PREFETCHT1 64(R13)
	ADDQ $128, R13

widefetched:
	CMPQ R15, 88(R12)
	JHS  wideready
	PREFETCHT1 0(R15)
	PREFETCHT1 64(R15)
	ADDQ $128, R15

wideready:
	VMOVDQU64 (SI), Z0
	VPMOVB2M  Z0, K1
	KORTESTQ  K1, K1
	JCC       widemixed
	VMOVDQA64 Z0, Z1
	VPERMI2B  Z19, Z18, Z1
	VMOVDQA64 Z0, Z2
	VPERMI2B  Z23, Z22, Z2

widejoin:
	VPORQ Z2, Z10, Z10
	VPUNPCKLBW Z2, Z1, Z3
	VPUNPCKHBW Z2, Z1, Z4
	JOIN(Z3, Z11, Z12)
	JOIN(Z4, Z13, Z14)

	// Neighbours in pairs of words: eight codes, if they fit.
	VPUNPCKLQDQ Z14, Z12, Z5
	VPUNPCKHQDQ Z14, Z12, Z6
	VPUNPCKLQDQ Z13, Z11, Z7
	VPUNPCKHQDQ Z13, Z11, Z8
	VPADDQ      Z5, Z6, Z9
	VPCMPUQ     $6, Z28, Z9, K1
	KTESTQ      K1, K1
	JNZ         widelong
	VPSLLVQ     Z5, Z8, Z8
	VPORQ       Z8, Z7, Z7
	VMOVDQU64   Z7, 0(SP)
	VMOVDQU64   Z9, 128(SP)
	PUT(0)
	PUT(8)
	PUT(16)
	PUT(24)
	PUT(32)
	PUT(40)
	PUT(48)
	PUT(56)

widenext:
	ADDQ $64, SI
	DECQ DX
	JNZ  wideloop
	JMP  widedone

widemixed:
	LOOKUP64(Z0, Z16, Z17, Z18, Z19, K1, Z3, Z1)
	LOOKUP64(Z0, Z20, Z21, Z22, Z23, K1, Z3, Z2)
	JMP widejoin

widelong:
	VMOVDQU64 Z7, 0(SP)
	VMOVDQU64 Z8, 64(SP)
	VMOVDQU64 Z5, 128(SP)
	VMOVDQU64 Z6, 192(SP)
	PUT(0)
	PUT(64)
	PUT(8)
	PUT(72)
	PUT(16)
	PUT(80)
	PUT(24)
	PUT(88)
	PUT(32)
	PUT(96)
	PUT(40)
	PUT(104)
	PUT(48)
	PUT(112)
	PUT(56)
	PUT(120)
	JMP widenext

widedone:
	MOVQ DI, 0(R12)
	MOVQ R8, 8(R12)
	MOVQ CX, 16(R12)
	MOVL $0x08080808, AX
	VPBROADCASTD AX, Z0
	VPTESTMB Z0, Z10, K1
	KMOVQ K1, 56(R12)
	MOVQ  R13, 64(R12)
	MOVQ  R15, 80(R12)
	VZEROUPPER
	RET

// Adds the costs of the 64 symbols of idx to Z8.
#define COST64(idx, k) \
	LOOKUP64(idx, Z16, Z17, Z18, Z19, k, Z5, Z4) \
	VPSADBW Z9, Z4, Z4       \
	VPADDQ Z4, Z8, Z8

// func chooseWide(wide *wideTable, tables int, sym *byte) uint64
TEXT ·chooseWide(SB), NOSPLIT, $0-32
	MOVQ wide+0(FP), BX
	MOVQ tables+8(FP), DX
	MOVQ sym+16(FP), SI
	VMOVDQU64 0(SI), Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU64 128(SI), Z2
	VMOVDQU64 192(SI), Z3
	VPMOVB2M Z0, K1
	VPMOVB2M Z1, K2
	VPMOVB2M Z2, K3
	VPMOVB2M Z3, K4
	VPXORQ Z9, Z9, Z9
	XORQ R8, R8
	MOVQ $-1, R9

	// Exponents of weights below 2 give symbols of 128 and more: half a table does.
	KANDQ K1, K2, K5
	KANDQ K3, K4, K6
	KANDQ K5, K6, K5
	KORTESTQ K5, K5
	JCS  choosehigh

chooseloop:
	VMOVDQU64 512(BX), Z16
	VMOVDQU64 576(BX), Z17
	VMOVDQU64 640(BX), Z18
	VMOVDQU64 704(BX), Z19
	VPXORQ Z8, Z8, Z8
	COST64(Z0, K1)
	COST64(Z1, K2)
	COST64(Z2, K3)
	COST64(Z3, K4)
	VEXTRACTI64X4 $1, Z8, Y4
	VPADDQ Y4, Y8, Y8
	VEXTRACTI128 $1, Y8, X4
	VPADDQ X4, X8, X8
	VPSHUFD $0x4e, X8, X4
	VPADDQ X4, X8, X8
	MOVQ X8, AX
	SHLQ $8, AX
	ADDQ R8, AX
	CMPQ AX, R9
	CMOVQCS AX, R9
	ADDQ $768, BX
	INCQ R8
	CMPQ R8, DX
	JB   chooseloop
	MOVQ R9, ret+24(FP)
	VZEROUPPER
	RET

choosehigh:
	VMOVDQU64 640(BX), Z18
	VMOVDQU64 704(BX), Z19
	VMOVDQA64 Z0, Z4
	VMOVDQA64 Z1, Z5
	VMOVDQA64 Z2, Z6
	VMOVDQA64 Z3, Z7
	VPERMI2B Z19, Z18, Z4
	VPERMI2B Z19, Z18, Z5
	VPERMI2B Z19, Z18, Z6
	VPERMI2B Z19, Z18, Z7
	VPADDB Z5, Z4, Z4
	VPADDB Z7, Z6, Z6
	VPADDB Z6, Z4, Z4        // four costs of at most 31 in a byte
	VPSADBW Z9, Z4, Z8
	VEXTRACTI64X4 $1, Z8, Y4
	VPADDQ Y4, Y8, Y8
	VEXTRACTI128 $1, Y8, X4
	VPADDQ X4, X8, X8
	VPSHUFD $0x4e, X8, X4
	VPADDQ X4, X8, X8
	MOVQ X8, AX
	SHLQ $8, AX
	ADDQ R8, AX
	CMPQ AX, R9
	CMOVQCS AX, R9
	ADDQ $768, BX
	INCQ R8
	CMPQ R8, DX
	JB   choosehigh
	MOVQ R9, ret+24(FP)
	VZEROUPPER
	RET

DATA iota<>+0(SB)/4, $0
DATA iota<>+4(SB)/4, $1
DATA iota<>+8(SB)/4, $2
DATA iota<>+12(SB)/4, $3
DATA iota<>+16(SB)/4, $4
DATA iota<>+20(SB)/4, $5
DATA iota<>+24(SB)/4, $6
DATA iota<>+28(SB)/4, $7
GLOBL iota<>(SB), RODATA|NOPTR, $32

#define DWORDS(c, y) \
	MOVL $c, AX    \
	MOVQ AX, X0    \
	VPBROADCASTD X0, y

// func fillMulti(multi, single *[1 << maxCodeLen]uint32)
TEXT ·fillMulti(SB), NOSPLIT, $0-16
	MOVQ multi+0(FP), DI
	MOVQ single+8(FP), SI
	MOVQ SI, BX
	MOVQ $256, CX
	DWORDS(12, Y15)
	DWORDS(255, Y14)
	DWORDS(1, Y13)
	DWORDS(8, Y12)
	VMOVDQU iota<>(SB), Y11

fillloop:
	VMOVDQU    (SI), Y0
	VPSRLD     $8, Y0, Y1          // length of the first code
	VPSRLVD    Y1, Y11, Y2
	VPCMPEQD   Y3, Y3, Y3
	VPGATHERDD Y3, (BX)(Y2*4), Y4  // second code
	VPSRLD     $8, Y4, Y5
	VPADDD     Y1, Y5, Y6          // length of two
	VPSRLVD    Y6, Y11, Y2
	VPCMPEQD   Y3, Y3, Y3
	VPGATHERDD Y3, (BX)(Y2*4), Y7  // third code
	VPSRLD     $8, Y7, Y8
	VPADDD     Y6, Y8, Y9          // length of three
	VPCMPGTD   Y6, Y15, Y6         // -1 where two fit
	VPCMPGTD   Y9, Y15, Y9         // -1 where three fit
	VPAND      Y6, Y5, Y5
	VPAND      Y9, Y8, Y8
	VPADDD     Y5, Y1, Y1
	VPADDD     Y8, Y1, Y1
	VPSUBD     Y6, Y13, Y2
	VPSUBD     Y9, Y2, Y2
	VPAND      Y14, Y0, Y0
	VPAND      Y14, Y4, Y4
	VPAND      Y14, Y7, Y7
	VPSLLD     $6, Y0, Y0
	VPSLLD     $14, Y4, Y4
	VPSLLD     $22, Y7, Y7
	VPSLLD     $30, Y2, Y2
	VPOR       Y4, Y0, Y0
	VPOR       Y7, Y0, Y0
	VPOR       Y1, Y0, Y0
	VPOR       Y2, Y0, Y0
	VMOVDQU    Y0, (DI)
	VPADDD     Y12, Y11, Y11
	ADDQ       $32, SI
	ADDQ       $32, DI
	DECQ       CX
	JNZ        fillloop
	VZEROUPPER
	RET

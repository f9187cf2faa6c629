//go:build amd64 && gc && !noasm

#include "textflag.h"

// The constants of the rounds, four to a line, and the mask that turns the bytes
// of four big-endian words round.
DATA table<>+0(SB)/8, $0x71374491428a2f98
DATA table<>+8(SB)/8, $0xe9b5dba5b5c0fbcf
DATA table<>+16(SB)/8, $0x59f111f13956c25b
DATA table<>+24(SB)/8, $0xab1c5ed5923f82a4
DATA table<>+32(SB)/8, $0x12835b01d807aa98
DATA table<>+40(SB)/8, $0x550c7dc3243185be
DATA table<>+48(SB)/8, $0x80deb1fe72be5d74
DATA table<>+56(SB)/8, $0xc19bf1749bdc06a7
DATA table<>+64(SB)/8, $0xefbe4786e49b69c1
DATA table<>+72(SB)/8, $0x240ca1cc0fc19dc6
DATA table<>+80(SB)/8, $0x4a7484aa2de92c6f
DATA table<>+88(SB)/8, $0x76f988da5cb0a9dc
DATA table<>+96(SB)/8, $0xa831c66d983e5152
DATA table<>+104(SB)/8, $0xbf597fc7b00327c8
DATA table<>+112(SB)/8, $0xd5a79147c6e00bf3
DATA table<>+120(SB)/8, $0x1429296706ca6351
DATA table<>+128(SB)/8, $0x2e1b213827b70a85
DATA table<>+136(SB)/8, $0x53380d134d2c6dfc
DATA table<>+144(SB)/8, $0x766a0abb650a7354
DATA table<>+152(SB)/8, $0x92722c8581c2c92e
DATA table<>+160(SB)/8, $0xa81a664ba2bfe8a1
DATA table<>+168(SB)/8, $0xc76c51a3c24b8b70
DATA table<>+176(SB)/8, $0xd6990624d192e819
DATA table<>+184(SB)/8, $0x106aa070f40e3585
DATA table<>+192(SB)/8, $0x1e376c0819a4c116
DATA table<>+200(SB)/8, $0x34b0bcb52748774c
DATA table<>+208(SB)/8, $0x4ed8aa4a391c0cb3
DATA table<>+216(SB)/8, $0x682e6ff35b9cca4f
DATA table<>+224(SB)/8, $0x78a5636f748f82ee
DATA table<>+232(SB)/8, $0x8cc7020884c87814
DATA table<>+240(SB)/8, $0xa4506ceb90befffa
DATA table<>+248(SB)/8, $0xc67178f2bef9a3f7
DATA table<>+256(SB)/8, $0x0405060700010203
DATA table<>+264(SB)/8, $0x0c0d0e0f08090a0b
GLOBL table<>(SB), (NOPTR+RODATA), $272

// Turns the words of a state (A, B, C, D in ab, E, F, G, H in cd, the first lowest)
// into the order of the instructions: ABEF and CDGH, the last lowest.
#define ARRANGE(ab, cd, t) \
	PSHUFD  $0xb1, ab, ab \
	PSHUFD  $0x1b, cd, cd \
	MOVOA   ab, t         \
	PALIGNR $8, cd, ab    \
	PBLENDW $0xf0, t, cd

// The reverse.
#define RESTORE(ab, cd, t) \
	PSHUFD  $0x1b, ab, ab \
	PSHUFD  $0xb1, cd, cd \
	MOVOA   ab, t         \
	PBLENDW $0xf0, cd, ab \
	PALIGNR $8, t, cd

// Four words of the message.
#define LOAD(at, p, m) \
	MOVOU  at(p), m \
	PSHUFB X15, m

// Four rounds with the words m.
#define ROUNDS(k, m, ab, cd) \
	MOVOA       m, X0         \
	PADDD       k(AX), X0     \
	SHA256RNDS2 X0, ab, cd    \
	PSHUFD      $0x0e, X0, X0 \
	SHA256RNDS2 X0, cd, ab

// The next four words take the place of the oldest, m0.
#define SCHEDULE(m0, m1, m2, m3, t) \
	SHA256MSG1 m1, m0     \
	MOVOA      m3, t      \
	PALIGNR    $4, m2, t  \
	PADDD      t, m0      \
	SHA256MSG2 m3, m0

#define BOTH(k, m, n) \
	ROUNDS(k, m, X1, X2) \
	ROUNDS(k, n, X8, X9)

#define FIRST(at, m, n) \
	LOAD(at, SI, m)  \
	LOAD(at, DI, n)  \
	BOTH(at, m, n)

#define NEXT(k, m0, m1, m2, m3, n0, n1, n2, n3) \
	SCHEDULE(m0, m1, m2, m3, X7)  \
	SCHEDULE(n0, n1, n2, n3, X14) \
	BOTH(k, m0, n0)

// func hasSHA() bool
TEXT ·hasSHA(SB), NOSPLIT, $0-1
	XORL  AX, AX
	CPUID
	CMPL  AX, $7
	MOVL  $0, AX
	JLT   done
	MOVL  $7, AX
	XORL  CX, CX
	CPUID
	MOVL  BX, AX
	SHRL  $29, AX
	ANDL  $1, AX
done:
	MOVB  AX, ret+0(FP)
	RET

// func blocks(a, b *[8]uint32, p, q *byte, n int)
TEXT ·blocks(SB), NOSPLIT, $64-40
	MOVQ  a+0(FP), BX
	MOVQ  b+8(FP), DX
	MOVQ  p+16(FP), SI
	MOVQ  q+24(FP), DI
	MOVQ  n+32(FP), CX
	LEAQ  table<>(SB), AX
	MOVOU 256(AX), X15
	MOVOU 0(BX), X1
	MOVOU 16(BX), X2
	MOVOU 0(DX), X8
	MOVOU 16(DX), X9
	ARRANGE(X1, X2, X7)
	ARRANGE(X8, X9, X14)
	TESTQ CX, CX
	JZ    end

loop:
	MOVOU X1, 0(SP)
	MOVOU X2, 16(SP)
	MOVOU X8, 32(SP)
	MOVOU X9, 48(SP)
	FIRST(0, X3, X10)
	FIRST(16, X4, X11)
	FIRST(32, X5, X12)
	FIRST(48, X6, X13)
	NEXT(64, X3, X4, X5, X6, X10, X11, X12, X13)
	NEXT(80, X4, X5, X6, X3, X11, X12, X13, X10)
	NEXT(96, X5, X6, X3, X4, X12, X13, X10, X11)
	NEXT(112, X6, X3, X4, X5, X13, X10, X11, X12)
	NEXT(128, X3, X4, X5, X6, X10, X11, X12, X13)
	NEXT(144, X4, X5, X6, X3, X11, X12, X13, X10)
	NEXT(160, X5, X6, X3, X4, X12, X13, X10, X11)
	NEXT(176, X6, X3, X4, X5, X13, X10, X11, X12)
	NEXT(192, X3, X4, X5, X6, X10, X11, X12, X13)
	NEXT(208, X4, X5, X6, X3, X11, X12, X13, X10)
	NEXT(224, X5, X6, X3, X4, X12, X13, X10, X11)
	NEXT(240, X6, X3, X4, X5, X13, X10, X11, X12)
	MOVOU 0(SP), X7
	PADDD X7, X1
	MOVOU 16(SP), X7
	PADDD X7, X2
	MOVOU 32(SP), X7
	PADDD X7, X8
	MOVOU 48(SP), X7
	PADDD X7, X9
	ADDQ  $64, SI
	ADDQ  $64, DI
	DECQ  CX
	JNZ   loop

end:
	RESTORE(X1, X2, X7)
	RESTORE(X8, X9, X14)
	MOVOU X1, 0(BX)
	MOVOU X2, 16(BX)
	MOVOU X8, 0(DX)
	MOVOU X9, 16(DX)
	RET

// Package gemm multiplies float32 matrices, y = x·wᵀ, with results that are the
// same bits on every machine.
//
// In the sequential order, each output is
//
//	s = +0
//	for k := 0; k < K; k++ { s = s + x[k]·w[k] }
//
// with the product rounded before the sum: k is never split and nothing is
// fused, so the result depends on the operands alone, not on the number of rows,
// of threads, or on the instruction set. Speed comes from computing many outputs
// side by side. Every NaN result is the quiet NaN 0x7fc00000.
//
// The assembly kernels (AVX2 and AVX-512 on amd64, NEON on arm64) have a twin in
// plain Go that gives the same bits; the build tag noasm selects it.
package gemm

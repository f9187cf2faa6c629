//go:build !amd64 || noasm

package gemm

// There are no vector versions here.

func interleaveFast[T element](dst, src []T, rows, k, ld int) int { return 0 }

func pairUpFast(dst []uint32, src []float32, s *spread) int { return 0 }

func widenPairsFast(dst []float32, src []uint32) int { return 0 }

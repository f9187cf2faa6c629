//go:build amd64 && !noasm

package gemm

import "golang.org/x/sys/cpu"

// available lists the kernels that this processor can run, best first.
func available() []*kernels {
	var out []*kernels
	if cpu.X86.HasAVX512F {
		out = append(out, avx512Table.set("avx512", 12))
	}
	if cpu.X86.HasAVX2 {
		out = append(out, avx2Table.set("avx2", 6))
	}
	return append(out, portable)
}

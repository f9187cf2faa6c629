//go:build amd64 && !noasm

package gemm

import "golang.org/x/sys/cpu"

// available lists the kernels that this processor can run, best first.
func available() []*kernels {
	var out []*kernels
	if cpu.X86.HasAVX512F {
		plain := set("avx512", 12, &avx512Table)
		if cpu.X86.HasAVX512BF16 && addsInOrder(bf16Table.run) {
			paired := *plain
			paired.name, paired.pairs = "avx512-bf16", bf16Table.run
			out = append(out, &paired)
		}
		out = append(out, plain)
	}
	if cpu.X86.HasAVX2 {
		out = append(out, set("avx2", 6, &avx2Table))
	}
	return append(out, portable)
}

//go:build arm64 && !noasm

package gemm

// available lists the kernels that this processor can run, best first. Every
// arm64 processor that Go runs on has the instructions.
func available() []*kernels {
	return []*kernels{set("neon", 6, &neonTable), portable}
}

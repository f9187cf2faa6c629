//go:build noasm || !(amd64 || arm64)

package gemm

func available() []*kernels { return []*kernels{portable} }

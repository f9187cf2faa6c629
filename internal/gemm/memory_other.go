//go:build !unix

package gemm

// allocate returns n zeros that live as long as m.
func allocate[T float32 | uint32 | uint16](m *Matrix, n int) []T { return make([]T, n) }

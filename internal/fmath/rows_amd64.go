//go:build amd64 && !noasm

package fmath

import "golang.org/x/sys/cpu"

// Each of these does as many leading values as come in whole vectors and returns
// their number.

//go:noescape
func add8s(dst, a, b *float32, blocks int)

//go:noescape
func mul8s(dst, a, b *float32, blocks int)

//go:noescape
func sub8s(dst, a, b *float32, blocks int)

//go:noescape
func scale8s(dst, a *float32, c float32, blocks int)

//go:noescape
func divide8s(dst, a *float32, c float32, blocks int)

//go:noescape
func shift8s(dst, a *float32, c float32, blocks int)

//go:noescape
func max8s(x *float32, blocks int, lanes *[8]float32)

//go:noescape
func sum8s(x *float32, blocks int, lanes *[8]float32)

//go:noescape
func squares8s(x *float32, mean float32, blocks int, lanes *[8]float32)

//go:noescape
func sumRows8(x *float32, ld, n int, sums *[8]float32)

//go:noescape
func rotate8s(u, v, a, b, cos, sin *float32, blocks int)

//go:noescape
func roundBF16x8(x *float32, blocks int)

//go:noescape
func roundF16x8(x *float32, blocks int)

// vectors is the number of values of x that come in whole vectors.
func vectors(x []float32) int {
	if !cpu.X86.HasAVX2 {
		return 0
	}
	return len(x) &^ 7
}

func adds(dst, a, b []float32) int {
	n := vectors(a)
	if n > 0 {
		add8s(&dst[0], &a[0], &b[0], n/8)
	}
	return n
}

func subs(dst, a, b []float32) int {
	n := vectors(a)
	if n > 0 {
		sub8s(&dst[0], &a[0], &b[0], n/8)
	}
	return n
}

func muls(dst, a, b []float32) int {
	n := vectors(a)
	if n > 0 {
		mul8s(&dst[0], &a[0], &b[0], n/8)
	}
	return n
}

func scale(dst, a []float32, c float32) int {
	n := vectors(a)
	if n > 0 {
		scale8s(&dst[0], &a[0], c, n/8)
	}
	return n
}

func divide(dst, a []float32, c float32) int {
	n := vectors(a)
	if n > 0 {
		divide8s(&dst[0], &a[0], c, n/8)
	}
	return n
}

func shift(dst, a []float32, c float32) int {
	n := vectors(a)
	if n > 0 {
		shift8s(&dst[0], &a[0], c, n/8)
	}
	return n
}

func rotate(u, v, a, b, cos, sin []float32) int {
	n := vectors(a)
	if n > 0 {
		rotate8s(&u[0], &v[0], &a[0], &b[0], &cos[0], &sin[0], n/8)
	}
	return n
}

func maxs(x []float32, lanes *[8]float32) int {
	n := vectors(x)
	if n > 0 {
		max8s(&x[0], n/8, lanes)
	}
	return n
}

func sums(x []float32, lanes *[8]float32) int {
	n := vectors(x)
	if n > 0 {
		sum8s(&x[0], n/8, lanes)
	}
	return n
}

func squares(x []float32, mean float32, lanes *[8]float32) int {
	n := vectors(x)
	if n > 0 {
		squares8s(&x[0], mean, n/8, lanes)
	}
	return n
}

func roundBF16s(x []float32) int {
	n := vectors(x)
	if n > 0 {
		roundBF16x8(&x[0], n/8)
	}
	return n
}

func roundF16s(x []float32) int {
	n := vectors(x)
	if n > 0 {
		roundF16x8(&x[0], n/8)
	}
	return n
}

// sumRows does as many rows as come in eights: their sums run side by side.
func sumRows(dst, x []float32, n, ld int) int {
	rows := len(dst) &^ 7
	if n == 0 || rows == 0 {
		return 0
	}
	_ = x[(rows-1)*ld+n-1]
	for r := 0; r < rows; r += 8 {
		sumRows8(&x[r*ld], 4*ld, n, (*[8]float32)(dst[r:]))
	}
	return rows
}

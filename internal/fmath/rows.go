package fmath

import "math"

// Operations on rows, with vector instructions where the machine has them: each
// value is computed alone, so the bits are those of the plain loops, and every
// NaN is [NaN]. Slices of one call have the same length, and the destination may
// be one of the sources.

func canonical(x float32) float32 {
	if x != x {
		return NaN()
	}
	return x
}

// Adds sets dst to a + b.
func Adds(dst, a, b []float32) {
	dst, b = dst[:len(a)], b[:len(a)]
	for i := adds(dst, a, b); i < len(a); i++ {
		dst[i] = canonical(a[i] + b[i])
	}
}

// Subs sets dst to a − b.
func Subs(dst, a, b []float32) {
	dst, b = dst[:len(a)], b[:len(a)]
	for i := subs(dst, a, b); i < len(a); i++ {
		dst[i] = canonical(a[i] - b[i])
	}
}

// Muls sets dst to a · b.
func Muls(dst, a, b []float32) {
	dst, b = dst[:len(a)], b[:len(a)]
	for i := muls(dst, a, b); i < len(a); i++ {
		dst[i] = canonical(a[i] * b[i])
	}
}

// Scale sets dst to a · c.
func Scale(dst, a []float32, c float32) {
	dst = dst[:len(a)]
	for i := scale(dst, a, c); i < len(a); i++ {
		dst[i] = canonical(a[i] * c)
	}
}

// Divide sets dst to a / c.
func Divide(dst, a []float32, c float32) {
	dst = dst[:len(a)]
	for i := divide(dst, a, c); i < len(a); i++ {
		dst[i] = canonical(a[i] / c)
	}
}

// Shift sets dst to a − c.
func Shift(dst, a []float32, c float32) {
	dst = dst[:len(a)]
	for i := shift(dst, a, c); i < len(a); i++ {
		dst[i] = canonical(a[i] - c)
	}
}

// Rotate sets u to a·cos − b·sin and v to b·cos + a·sin, both products rounded.
func Rotate(u, v, a, b, cos, sin []float32) {
	n := len(a)
	u, v, b, cos, sin = u[:n], v[:n], b[:n], cos[:n], sin[:n]
	for i := rotate(u, v, a, b, cos, sin); i < n; i++ {
		x, y := a[i], b[i]
		u[i] = canonical(float32(x*cos[i]) - float32(y*sin[i]))
		v[i] = canonical(float32(y*cos[i]) + float32(x*sin[i]))
	}
}

// Max returns the largest value, NaNs aside, or −Inf when there is none. The sign
// of a zero is undefined.
func Max(x []float32) float32 {
	most := float32(math.Inf(-1))
	lanes := [8]float32{most, most, most, most, most, most, most, most}
	done := maxs(x, &lanes)
	for _, v := range lanes {
		if v > most {
			most = v
		}
	}
	for _, v := range x[done:] {
		if v > most {
			most = v
		}
	}
	return most
}

// tree adds eight lanes in the order of all row statistics.
func tree(l *[8]float32) float32 {
	return ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]))
}

// Sum adds up a row in eight interleaved lanes: element i goes to lane i mod 8,
// each from +0, and then the lanes as ((l0+l1)+(l2+l3)) + ((l4+l5)+(l6+l7)).
func Sum(x []float32) float32 {
	var l [8]float32
	for i := sums(x, &l); i < len(x); i++ {
		l[i%8] += x[i]
	}
	return tree(&l)
}

// Squares adds up (x−mean)² in the order of [Sum].
func Squares(x []float32, mean float32) float32 {
	var l [8]float32
	for i := squares(x, mean, &l); i < len(x); i++ {
		d := x[i] - mean
		l[i%8] += float32(d * d)
	}
	return tree(&l)
}

// SumRows sets each element of dst to the sum of a row of x, whose rows of n
// values begin ld apart: one value after the other, from +0.
func SumRows(dst, x []float32, n, ld int) {
	for r := sumRows(dst, x, n, ld); r < len(dst); r++ {
		var s float32
		for _, v := range x[r*ld:][:n] {
			s += v
		}
		dst[r] = s
	}
}

package longconv

// transform evaluates a polynomial modulo X^n − i, n = 4^p coefficients in x, at the
// n roots of X^n = i, in place. Where z² is the constant of a modulus X^m − z², the
// two polynomials modulo X^(m/2) − z and X^(m/2) + z take its place:
//
//	x[j] + z·x[j+m/2]    and    x[j] − z·x[j+m/2]
//
// until each is a number. No step reorders anything: results are in the order of the
// halves that they come from, and products of two transforms do not care. w holds z
// for half b of step s at 2^s + b; see [newRoots].
//
// Two steps are done in one pass, with the same operations on each number.
func transform(x, w []complex128) { forward(x, w, 1) }

// cached is how many points stay in the first-level cache.
const cached = 1 << 10

// forward transforms the block whose factor is w[at].
func forward(x, w []complex128, at int) {
	pass(x, w, at)
	q := len(x) / 4
	if q == 1 {
		return
	}
	if len(x) > cached { // a part at a time
		for i := range 4 {
			forward(x[i*q:(i+1)*q:(i+1)*q], w, 4*at+i)
		}
		return
	}
	for blocks := 4; q > 1; blocks, q = 4*blocks, q/4 {
		for i := range blocks {
			pass(x[i*q:(i+1)*q:(i+1)*q], w, blocks*at+i)
		}
	}
}

// pass does two steps for one block.
func pass(x, w []complex128, at int) {
	q := len(x) / 4
	x0, x1, x2, x3 := x[:q:q], x[q:2*q:2*q], x[2*q:3*q:3*q], x[3*q:4*q:4*q]
	z1, z2, z3 := w[at], w[2*at], w[2*at+1]
	for j := range x0 {
		a, b, c, d := x0[j], x1[j], times(z1, x2[j]), times(z1, x3[j])
		e, f := times(z2, b+d), times(z3, b-d)
		x0[j], x1[j] = (a+c)+e, (a+c)-e
		x2[j], x3[j] = (a-c)+f, (a-c)-f
	}
}

// inverse undoes [transform], but for the factor n by which its results are too
// large.
func inverse(x, w []complex128) { backward(x, w, 1) }

func backward(x, w []complex128, at int) {
	q := len(x) / 4
	if len(x) > cached {
		for i := range 4 {
			backward(x[i*q:(i+1)*q:(i+1)*q], w, 4*at+i)
		}
	} else {
		for blocks, n := len(x)/4, 4; n < len(x); blocks, n = blocks/4, n*4 {
			for i := range blocks {
				undo(x[i*n:(i+1)*n:(i+1)*n], w, blocks*at+i)
			}
		}
	}
	undo(x, w, at)
}

// undo is the inverse of pass.
func undo(x, w []complex128, at int) {
	q := len(x) / 4
	x0, x1, x2, x3 := x[:q:q], x[q:2*q:2*q], x[2*q:3*q:3*q], x[3*q:4*q:4*q]
	z1, z2, z3 := conj(w[at]), conj(w[2*at]), conj(w[2*at+1])
	for j := range x0 {
		a, b := x0[j]+x1[j], times(z2, x0[j]-x1[j])
		c, d := x2[j]+x3[j], times(z3, x2[j]-x3[j])
		x0[j], x1[j] = a+c, b+d
		x2[j], x3[j] = times(z1, a-c), times(z1, b-d)
	}
}

func conj(z complex128) complex128 { return complex(real(z), -imag(z)) }

// times multiplies with four products and two sums, each rounded.
func times(a, b complex128) complex128 {
	return complex(
		float64(real(a)*real(b))-float64(imag(a)*imag(b)),
		float64(real(a)*imag(b))+float64(imag(a)*real(b)),
	)
}

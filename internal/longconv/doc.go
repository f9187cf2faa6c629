// Package longconv convolves a sequence with a filter that is as long as the
// sequence, causally:
//
//	y[t] = Σ_{i ≤ t} u[i] · k[t−i]  +  skip · u[t]
//
// The result for t is a function of u[0] to u[t] and of k alone, to the bit: not of
// how long the sequence is, what follows in it, how many threads there are, or on
// which processor it runs. One Fourier transform over the whole sequence has none of
// the first two properties. Its size follows from the length, and every value passes
// through every result, so that a later value changes the rounding of an earlier
// result, and an infinite one makes it a NaN.
//
// # How
//
// Everything is computed in float64 and each result rounded once to float32. The
// products of two float32 numbers are exact there, so that the results are those of
// the real numbers, rounded, but where sums cancel by more than some 25 bits; the
// float32 transform of the reference loses about as many bits as its size has.
//
// Positions are cut into blocks of 64, and these into blocks of 64·16, 64·16², and
// so on, from position 0. What a result takes from its own block of 64 is added up
// directly, in the order of i. What it takes from an earlier block of a size within
// the same larger block is a product of polynomials: for blocks of H positions,
//
//	u(X)·k(X) mod (X^H − i),   k = k₀(X) + i·k₁(X)
//
// whose imaginary part is what the block gives to the one q blocks after it, where
// k₀ and k₁ are the filter's values from (q−1)·H and from q·H on. A transform without
// any reordering evaluates polynomials at the roots of X^H = i (see [transform]). Each
// block is transformed once, multiplied with the filter's parts for all later blocks
// of its larger one, and the products are added up before they are transformed back,
// in the order of blocks. This takes O(T·log²T) operations, about three times those
// of one transform over everything.
//
// The roots of unity are computed with twice the precision and rounded once. Every
// product that is added is converted explicitly, so that no compiler fuses the two.
package longconv

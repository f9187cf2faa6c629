package longconv

import (
	"fmt"
	"math/bits"
)

// Channel convolves sequences with one filter. It holds its scratch memory, some
// 50 bytes for each position of the longest sequence, and belongs to one goroutine.
// The zero value has a filter without values.
type Channel struct {
	// near holds the filter's first values.
	near [first]float64
	// parts[l] are the transforms of the filter's parts at level l, the one for the
	// q-th next block at (q−1)·size(l).
	parts  [levels][]complex128
	length int

	sums   []float64    // results so far
	blocks []complex128 // transforms of the blocks of one larger block
	acc    []complex128
}

// FilterLength is how many values of a filter decide the results for a sequence of
// so many positions: as many as positions, and up to the end of the block that the
// last of them is in. They are read even though they meet no value of the sequence,
// since the last bits of the results are those of a longer sequence then.
func FilterLength(positions int) int {
	if positions <= first {
		return positions
	}
	block := size(levelOf(positions))
	return (positions + block - 1) / block * block
}

// levelOf is the largest level with a block that a sequence is longer than.
func levelOf(positions int) int {
	level := 0
	for level+1 < levels && size(level+1) < positions {
		level++
	}
	return level
}

// SetFilter prepares for sequences of at most so many positions. Values of k from
// [FilterLength] on are not read, and those that k does not have are zeros.
func (c *Channel) SetFilter(k []float32, positions int) {
	if positions < 0 || positions > MaxLength {
		panic(fmt.Sprintf("longconv: %d positions; the limit is %d", positions, MaxLength))
	}
	c.length = positions
	clear(c.near[:])
	for i, v := range k[:min(len(k), first)] {
		c.near[i] = float64(v)
	}
	at := func(i int) float64 {
		if i < len(k) {
			return float64(k[i])
		}
		return 0
	}
	for level := range levels {
		n := size(level)
		count := 0
		if positions > 0 {
			count = min(arity-1, (positions-1)/n)
		}
		parts := resize(c.parts[level], count*n)
		c.parts[level] = parts
		for q := range count {
			part := parts[q*n : (q+1)*n]
			for j := range part {
				part[j] = complex(at(q*n+j), at((q+1)*n+j))
			}
			transform(part, roots[level]())
		}
	}
}

// Convolve sets dst to the filter's convolution with u plus skip·u. They have one
// length, which is at most that of SetFilter, and may be the same. NaNs have no
// particular bits.
func (c *Channel) Convolve(dst, u []float32, skip float32) {
	if len(u) > c.length || len(dst) != len(u) {
		panic(fmt.Sprintf("longconv: %d positions into %d; the filter is prepared for %d", len(u), len(dst), c.length))
	}
	c.sums = resize(c.sums, len(u))
	for at := 0; at < len(u); at += first {
		to := min(at+first, len(u))
		c.direct(c.sums[at:to], u[at:to])
	}
	for level := 0; level < levels && size(level) < len(u); level++ {
		whole := arity * size(level)
		for at := 0; at+size(level) < len(u); at += whole {
			to := min(at+whole, len(u))
			c.far(c.sums[at:to], u[at:to], level)
		}
	}
	d := float64(skip)
	for i, v := range c.sums {
		dst[i] = float32(v + float64(d*float64(u[i])))
	}
}

// direct sets y to what the values of a block give to each other, four results at a
// time, each added up in the order of u.
func (c *Channel) direct(y []float64, u []float32) {
	var x [first]float64
	for i, v := range u {
		x[i] = float64(v)
	}
	k := &c.near
	t := 0
	for ; t+4 <= len(y); t += 4 {
		var a, b, d, e float64
		for i := range t + 1 {
			v, w := x[i], (*[4]float64)(k[t-i:])
			a += float64(v * w[0])
			b += float64(v * w[1])
			d += float64(v * w[2])
			e += float64(v * w[3])
		}
		b += float64(x[t+1] * k[0])
		d += float64(x[t+1] * k[1])
		e += float64(x[t+1] * k[2])
		d += float64(x[t+2] * k[0])
		e += float64(x[t+2] * k[1])
		e += float64(x[t+3] * k[0])
		y[t], y[t+1], y[t+2], y[t+3] = a, b, d, e
	}
	for ; t < len(y); t++ {
		a := 0.0
		for i := range t + 1 {
			a += float64(x[i] * k[t-i])
		}
		y[t] = a
	}
}

// far adds what the blocks of one larger block give to the blocks after them.
func (c *Channel) far(y []float64, u []float32, level int) {
	n, w, parts := size(level), roots[level](), c.parts[level]
	c.blocks, c.acc = resize(c.blocks, (len(y)-1)/n*n), resize(c.acc, n)
	scale := 1 / float64(n) // exact
	for m := 1; m*n < len(y); m++ {
		block := c.blocks[(m-1)*n : m*n]
		for j, v := range u[(m-1)*n : m*n] {
			block[j] = complex(float64(v), 0)
		}
		transform(block, w)
		clear(c.acc)
		for j := range m {
			multiplyAdd(c.acc, c.blocks[j*n:(j+1)*n], parts[(m-j-1)*n:(m-j)*n])
		}
		inverse(c.acc, w)
		for j, r := 0, y[m*n:min((m+1)*n, len(y))]; j < len(r); j++ {
			r[j] += float64(imag(c.acc[j]) * scale)
		}
	}
}

// multiplyAdd adds a·b to dst, element by element.
func multiplyAdd(dst, a, b []complex128) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, z := range dst {
		p := times(a[i], b[i])
		dst[i] = complex(real(z)+real(p), imag(z)+imag(p))
	}
}

// resize returns a slice of n elements with undefined contents, in s's storage if
// there is room.
func resize[T any](s []T, n int) []T {
	if n > cap(s) {
		return make([]T, n, 1<<bits.Len(uint(n-1)))
	}
	return s[:n]
}

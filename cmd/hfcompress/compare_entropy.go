package main

import "math"

// entropies are those of the fields of a tensor, in bits for each weight, as if
// every field and every bit of the mantissa were independent of all else.
type entropies struct {
	Sign     float64 `json:"sign"`
	Exponent float64 `json:"exponent"`
	// Planes are the bits of the mantissa, the highest first.
	Planes []float64 `json:"planes"`
	// Top is that of exponent and highest bit of the mantissa together.
	Top float64 `json:"exponent_and_top_bit"`
}

// mantissa is the sum over the planes.
func (e *entropies) mantissa() float64 {
	sum := 0.0
	for _, p := range e.Planes {
		sum += p
	}
	return sum
}

// bound is what a coder of order 0 for each field cannot go below.
func (e *entropies) bound() float64 { return e.Sign + e.Exponent + e.mantissa() }

// joint is the bound for coders that take the highest bit of the mantissa with
// the exponent.
func (e *entropies) joint() float64 {
	if len(e.Planes) == 0 {
		return e.bound()
	}
	return e.bound() - e.Exponent - e.Planes[0] + e.Top
}

func (f *fields) entropies() entropies {
	n := len(f.exp)
	ones := 0
	for i := range n {
		ones += int(f.sign[i/8] >> (7 - i%8) & 1)
	}
	e := entropies{Sign: binaryEntropy(ones, n)}
	counts, both := make([]int, 1<<f.expBits), make([]int, 2<<f.expBits)
	for i, x := range f.exp {
		counts[x]++
		both[2*int(x)+int(f.mant[i]>>(f.mantBits-1))]++
	}
	e.Exponent, e.Top = entropy(counts, n), entropy(both, n)
	planes := make([]int, f.mantBits)
	for _, m := range f.mant {
		for k := range planes {
			planes[k] += int(m >> k & 1)
		}
	}
	for k := len(planes) - 1; k >= 0; k-- {
		e.Planes = append(e.Planes, binaryEntropy(planes[k], n))
	}
	return e
}

// entropy of a distribution of n values.
func entropy(counts []int, n int) (sum float64) {
	for _, c := range counts {
		if c > 0 {
			p := float64(c) / float64(n)
			sum -= p * math.Log2(p)
		}
	}
	return sum
}

func binaryEntropy(ones, n int) float64 {
	if ones == 0 || ones == n {
		return 0
	}
	p := float64(ones) / float64(n)
	return -p*math.Log2(p) - (1-p)*math.Log2(1-p)
}

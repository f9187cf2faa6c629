package gemm

import (
	"fmt"
	"math"
)

// The product of two bfloat16 numbers has at most 16 significant bits, so that
// float32 holds it exactly unless it is very large or small. Then adding it with
// one rounding is the same as rounding it first, and an instruction that does so
// for one product after the other gives the bits of the sequential order. That
// instruction also takes subnormal numbers for zero. [exponents.exact] says when
// none of this can happen.

// PackBF16 copies w, row-major [n, k] of bfloat16 numbers, into panels of pairs.
// Products give the same results as those of the float32 form of w and take half
// the memory; where the processor multiplies bfloat16 numbers in the order that
// this package demands, products with x of bfloat16 numbers use that.
func PackBF16(w []uint16, n, k int) *Matrix {
	if n < 0 || k < 0 || len(w) != n*k {
		panic(fmt.Sprintf("gemm: %d values for a matrix [%d,%d]", len(w), n, k))
	}
	m := &Matrix{n: n, k: k}
	steps := (k + 1) / 2
	panels := (n + PanelWidth - 1) / PanelWidth
	m.pairs = allocate[uint32](m, panels*PanelWidth*steps)
	m.spans = make([]exponents, (panels+maxTilePanels-1)/maxTilePanels)
	rows := make([]uint32, PanelWidth*steps)
	for p := range panels {
		if p%maxTilePanels == 0 {
			m.spans[p/maxTilePanels] = noExponents
		}
		clear(rows)
		lo, hi := uint32(math.MaxUint32), uint32(0)
		for r := range min(PanelWidth, n-p*PanelWidth) {
			row := w[(p*PanelWidth+r)*k:][:k]
			for i, v := range row {
				size := uint32(v) & 0x7fff
				lo, hi = min(lo, size-1), max(hi, size) // a zero wraps around
				rows[r*steps+i/2] |= uint32(v) << (16 - i%2*16)
			}
		}
		m.spans[p/maxTilePanels].extend((lo+1)<<16, hi<<16)
		interleave(m.pairs[p*PanelWidth*steps:][:PanelWidth*steps], rows, PanelWidth, steps, steps)
	}
	return m
}

// exponents bounds the biased exponents of numbers other than zero; those of
// infinities and NaNs are 255, of subnormal numbers 0.
type exponents struct{ lo, hi uint32 }

// noExponents are those of no number.
var noExponents = exponents{lo: 511}

// extend adds numbers by the magnitudes of the smallest, which is 0 when there is
// none but zeros, and the largest.
func (e *exponents) extend(smallest, largest uint32) {
	if smallest != 0 {
		e.lo = min(e.lo, smallest>>23)
	}
	e.hi = max(e.hi, largest>>23)
}

// exact reports whether all products of bfloat16 numbers with such exponents are
// finite, and multiples of the smallest normal float32, as their sums are then
// too: a number with exponent e is a multiple of 2^(e−134).
func (e exponents) exact(f exponents) bool {
	const bias = 127
	return e.lo > 0 && f.lo > 0 && e.hi < 255 && f.hi < 255 &&
		e.lo+f.lo >= 2*(bias+7)-126 && e.hi+f.hi <= 2*bias+125
}

// spread is what [pairUp] has seen, in lanes: the largest magnitude, the smallest
// one minus 1, and the bits that bfloat16 does not have.
type spread [3][8]uint32

func newSpread() *spread {
	s := new(spread)
	for i := range s[1] {
		s[1][i] = math.MaxUint32
	}
	return s
}

// exponents returns the bounds of what was seen. Numbers that bfloat16 does not
// have count as infinite.
func (s *spread) exponents() exponents {
	e := noExponents
	for i := range s[0] {
		e.extend(s[1][i]+1, s[0][i])
		if s[2][i] != 0 {
			e.hi = 255
		}
	}
	return e
}

// pairUp sets dst to pairs of numbers of src, of which the last may stand alone.
func pairUp(dst []uint32, src []float32, s *spread) {
	for i := pairUpFast(dst, src, s); i < len(dst); i++ {
		var pair [2]uint32
		for j, v := range src[2*i : min(2*i+2, len(src))] {
			b := math.Float32bits(v)
			size := b & 0x7fffffff
			s[0][0] = max(s[0][0], size)
			s[1][0] = min(s[1][0], size-1)
			s[2][0] |= b & 0xffff
			pair[j] = b
		}
		dst[i] = pair[0]&^0xffff | pair[1]>>16
	}
}

// widenPairs sets dst to the values of panels of pairs, two steps for each.
func widenPairs(dst []float32, src []uint32) {
	for i := widenPairsFast(dst, src); i < len(src)/PanelWidth; i++ {
		d, s := dst[2*i*PanelWidth:][:2*PanelWidth], src[i*PanelWidth:][:PanelWidth]
		for j, v := range s {
			d[j] = math.Float32frombits(v &^ 0xffff)
			d[PanelWidth+j] = math.Float32frombits(v << 16)
		}
	}
}

// addsInOrder tries whether a kernel of pairs adds products one after the other,
// each with one rounding: the instruction's description says so, and this is
// cheap. Any other order shows in every few sums.
func addsInOrder(run func(*tile[uint32])) bool {
	const steps, sums = 24, 64
	state := uint32(1)
	next := func() uint32 { // xorshift; exponents −7 … 8
		state ^= state << 13
		state ^= state >> 17
		state ^= state << 5
		return state&0x807f | (120+state>>16&15)<<7
	}
	a, b := make([]uint32, steps), make([]uint32, steps*PanelWidth)
	c := make([]float32, PanelWidth)
	for range sums {
		for i := range a {
			a[i] = next()<<16 | next()
		}
		for i := range b {
			b[i] = next()<<16 | next()
		}
		run(&tile[uint32]{rows: 1, panels: 1, k: steps, a: a, aStep: 1, b: b, bStep: PanelWidth, bPanel: len(b), c: c, ldc: PanelWidth})
		for j, got := range c {
			var want float32
			for i, x := range a {
				w := b[i*PanelWidth+j]
				want += float32(math.Float32frombits(x&^0xffff) * math.Float32frombits(w&^0xffff))
				want += float32(math.Float32frombits(x<<16) * math.Float32frombits(w<<16))
			}
			if got != want {
				return false
			}
		}
	}
	return true
}

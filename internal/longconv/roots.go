package longconv

import (
	"math"
	"math/bits"
	"sync"
)

// double is the unevaluated sum of two float64 numbers, hi being the nearest one to
// it: some 106 bits (Dekker, 1971).
type double struct{ hi, lo float64 }

// sum adds two numbers without error, for |a| ≥ |b| or a = 0.
func sum(a, b float64) double {
	s := a + b
	return double{s, b - (s - a)}
}

func (a double) plus(b double) double {
	s := a.hi + b.hi
	t := s - a.hi
	e := (a.hi - (s - t)) + (b.hi - t)
	return sum(s, e+(a.lo+b.lo))
}

func (a double) minus(b double) double { return a.plus(double{-b.hi, -b.lo}) }

func (a double) times(b double) double {
	p := float64(a.hi * b.hi)
	e := math.FMA(a.hi, b.hi, -p)
	return sum(p, e+(float64(a.hi*b.lo)+float64(a.lo*b.hi)))
}

// half divides by 2, without error.
func (a double) half() double { return double{a.hi / 2, a.lo / 2} }

// root is the square root of a positive number.
func (a double) root() double {
	r := math.Sqrt(a.hi)
	rest := math.FMA(-r, r, a.hi) + a.lo // of a − r²; the first is exact
	return sum(r, rest/(2*r))
}

// over divides.
func (a double) over(b double) double {
	q := a.hi / b.hi
	rest := a.minus(b.times(double{q, 0}))
	return sum(q, rest.hi/b.hi)
}

// turn is a point of the unit circle.
type turn struct{ cos, sin double }

func (a turn) times(b turn) turn {
	return turn{
		a.cos.times(b.cos).minus(a.sin.times(b.sin)),
		a.sin.times(b.cos).plus(a.cos.times(b.sin)),
	}
}

// halves returns e^(iπ/2^j) for j from 0 to n, by halving angles.
func halves(n int) []turn {
	one, zero := double{1, 0}, double{}
	out := []turn{{double{-1, 0}, zero}, {zero, one}}
	for len(out) <= n {
		last := out[len(out)-1]
		cos := last.cos.plus(one).half().root()
		out = append(out, turn{cos, last.sin.half().over(cos)})
	}
	return out[:n+1]
}

// powers returns e^(iπ·a/2^m) for a from 0 to 2^n − 1, n ≤ m.
func powers(half []turn, m, n int) []turn {
	out := make([]turn, 1, 1<<n)
	out[0] = turn{cos: double{1, 0}}
	for j := range n { // bit j of a turns by π/2^(m−j)
		for _, p := range out[:1<<j] {
			out = append(out, p.times(half[m-j]))
		}
	}
	return out
}

// newRoots returns the factors of a transform of 2^p points: element 2^s + b is
// e^(iπ·(1 + 4·r)/2^(s+2)), r being the s bits of b in reverse, for s < p.
func newRoots(p int) []complex128 {
	half := halves(p + 1)
	out := make([]complex128, 1<<p)
	for s := range p {
		m := s + 2
		low := min(m, 10)
		fine, coarse := powers(half, m, low), powers(half, m-low, m-low)
		for b := range 1 << s {
			a := 1 + 4*int(bits.Reverse32(uint32(b))>>(32-s))
			t := fine[a&(1<<low-1)].times(coarse[a>>low])
			out[1<<s+b] = complex(t.cos.hi, t.sin.hi)
		}
	}
	return out
}

// The sizes of blocks: first, and arity times that of the level before.
const (
	first  = 64
	arity  = 16
	levels = 4 // serve 64·16⁴ positions
)

// MaxLength is the longest sequence that can be convolved.
const MaxLength = first * arity * arity * arity * arity

// size is the number of positions in a block of a level.
func size(level int) int { return first << (4 * level) }

// roots holds the factors of each level's transform, made when they are needed.
var roots = func() (out [levels]func() []complex128) {
	for l := range out {
		out[l] = sync.OnceValue(func() []complex128 { return newRoots(bits.Len(uint(size(l))) - 1) })
	}
	return out
}()

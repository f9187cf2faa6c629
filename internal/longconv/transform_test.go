package longconv

import (
	"fmt"
	"math"
	"math/big"
	"math/cmplx"
	"math/rand/v2"
	"testing"
)

// order gives the exponents of the roots at which a transform of 2^p points
// evaluates: result i is the value at e^(iπ·(1+4r)/2^(p+1)).
func order(p int) []int {
	e := []int{1}
	for s := range p {
		var next []int
		for _, a := range e { // the roots of the constant's two square roots
			next = append(next, a, a+1<<(s+2))
		}
		e = next
	}
	return e
}

// TestTransform compares with the polynomial's values, and the inverse with what
// the transform was made from.
func TestTransform(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for level, n := range []int{64, 1024} {
		w := roots[level]()
		x := make([]complex128, n)
		for i := range x {
			x[i] = complex(rng.NormFloat64(), rng.NormFloat64())
		}
		y := append([]complex128(nil), x...)
		transform(y, w)
		p := int(math.Log2(float64(n)))
		for i, a := range order(p) {
			var want complex128
			for j, c := range x {
				// e^(iπ·a·j/2^(p+1)) with the exponent reduced exactly
				angle := math.Pi * float64(a*j%(4*n)) / float64(2*n)
				want += c * cmplx.Exp(complex(0, angle))
			}
			if d := cmplx.Abs(y[i] - want); !(d < 1e-12*float64(n)) {
				t.Fatalf("%d points: value %d is %v, want %v", n, i, y[i], want)
			}
		}
	}
	for level := range levels {
		n := size(level)
		x := make([]complex128, n)
		for i := range x {
			x[i] = complex(rng.NormFloat64(), rng.NormFloat64())
		}
		y := append([]complex128(nil), x...)
		transform(y, roots[level]())
		inverse(y, roots[level]())
		worst := 0.0
		for i := range x {
			worst = max(worst, cmplx.Abs(y[i]/complex(float64(n), 0)-x[i]))
		}
		if !(worst < 1e-14) {
			t.Errorf("%d points: back and forth changes a value by %.3g", n, worst)
		}
	}
}

const precision = 200

func number(x float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(x) }

// pi by Machin's formula, 16·atan(1/5) − 4·atan(1/239).
func pi() *big.Float {
	atan := func(n int64) *big.Float {
		total, power := number(0), new(big.Float).Quo(number(1), number(float64(n)))
		square := number(float64(n * n))
		for k := range int64(100) {
			term := new(big.Float).Quo(power, number(float64(2*k+1)))
			if k%2 == 1 {
				term.Neg(term)
			}
			total.Add(total, term)
			power.Quo(power, square)
		}
		return total
	}
	a := new(big.Float).Mul(number(16), atan(5))
	return a.Sub(a, new(big.Float).Mul(number(4), atan(239)))
}

// cosSin by their series.
func cosSin(x *big.Float) (cos, sin float64) {
	sums := [2]*big.Float{number(0), number(0)}
	term := number(1)
	for k := range 80 {
		s := sums[k%2]
		if k%4 < 2 {
			s.Add(s, term)
		} else {
			s.Sub(s, term)
		}
		term.Mul(term, x)
		term.Quo(term, number(float64(k+1)))
	}
	cos, _ = sums[0].Float64()
	sin, _ = sums[1].Float64()
	return cos, sin
}

// TestRoots: each factor is the nearest float64 number to the exact one: all of the
// two small tables, and a sample of the large ones.
func TestRoots(t *testing.T) {
	circle := pi()
	rng := rand.New(rand.NewPCG(2, 3))
	for level := range levels {
		w := roots[level]()
		for range 300 {
			at := 1 + rng.IntN(len(w)-1)
			checkRoot(t, w, at, circle)
		}
		if level < 2 {
			for at := 1; at < len(w); at++ {
				checkRoot(t, w, at, circle)
			}
		}
	}
}

func checkRoot(t *testing.T, w []complex128, at int, circle *big.Float) {
	s, a := 0, 1
	for 1<<(s+1) <= at {
		s++
	}
	for bit := range s { // the path from the whole to this part
		if at>>(s-1-bit)&1 == 1 {
			a += 1 << (bit + 2)
		}
	}
	x := new(big.Float).Quo(new(big.Float).Mul(circle, number(float64(a))), number(float64(int(1)<<(s+2))))
	cos, sin := cosSin(x)
	if w[at] != complex(cos, sin) {
		t.Fatalf("factor %d of %d is %v, want %v", at, len(w), w[at], complex(cos, sin))
	}
}

func ExampleChannel() {
	var c Channel
	c.SetFilter([]float32{1, 0.5, 0.25, 0.125}, 4)
	y := make([]float32, 4)
	c.Convolve(y, []float32{8, 0, 0, 1}, 0)
	fmt.Println(y)
	// Output: [8 4 2 2]
}

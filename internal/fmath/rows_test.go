package fmath_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hfcompress/compress/internal/fmath"
)

// TestRowsAreThePlainLoops compares operations on rows with their definitions, at
// every length up to 40 and with special values among the operands.
func TestRowsAreThePlainLoops(t *testing.T) {
	specials := []float32{0, float32(math.Copysign(0, -1)), math.MaxFloat32, math.SmallestNonzeroFloat32, -0x1p-127,
		float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.Float32frombits(0xffc12345)}
	rng := rand.New(rand.NewPCG(1, 2))
	values := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
			if rng.IntN(9) == 0 {
				x[i] = specials[rng.IntN(len(specials))]
			}
		}
		return x
	}
	canonical := func(x float32) float32 {
		if x != x {
			return fmath.NaN()
		}
		return x
	}
	check := func(name string, n int, got []float32, want func(i int) float32) {
		t.Helper()
		for i, v := range got {
			if w := canonical(want(i)); math.Float32bits(v) != math.Float32bits(w) {
				t.Fatalf("%s of %d: element %d is %x, want %x", name, n, i, math.Float32bits(v), math.Float32bits(w))
			}
		}
	}
	for n := range 41 {
		for range 20 {
			a, b, dst, second := values(n), values(n), values(n), values(n)
			c := values(1)[0]
			fmath.Adds(dst, a, b)
			check("adds", n, dst, func(i int) float32 { return a[i] + b[i] })
			fmath.Subs(dst, a, b)
			check("subs", n, dst, func(i int) float32 { return a[i] - b[i] })
			fmath.Muls(dst, a, b)
			check("muls", n, dst, func(i int) float32 { return a[i] * b[i] })
			fmath.Scale(dst, a, c)
			check("scale", n, dst, func(i int) float32 { return a[i] * c })
			fmath.Divide(dst, a, c)
			check("divide", n, dst, func(i int) float32 { return a[i] / c })
			fmath.Shift(dst, a, c)
			check("shift", n, dst, func(i int) float32 { return a[i] - c })
			copy(dst, a)
			fmath.Adds(dst, dst, b)
			check("adds in place", n, dst, func(i int) float32 { return a[i] + b[i] })

			cos, sin := values(n), values(n)
			fmath.Rotate(dst, second, a, b, cos, sin)
			check("rotate", n, dst, func(i int) float32 { return float32(a[i]*cos[i]) - float32(b[i]*sin[i]) })
			check("rotate", n, second, func(i int) float32 { return float32(b[i]*cos[i]) + float32(a[i]*sin[i]) })

			most := float32(math.Inf(-1))
			var sum, squares [8]float32
			for i, v := range a {
				if v > most {
					most = v
				}
				sum[i%8] += v
				squares[i%8] += float32((v - c) * (v - c))
			}
			if got := fmath.Max(a); got != most {
				t.Fatalf("max of %v is %v, want %v", a, got, most)
			}
			tree := func(l [8]float32) float32 { return ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7])) }
			check("sum", n, []float32{canonical(fmath.Sum(a))}, func(int) float32 { return tree(sum) })
			check("squares", n, []float32{canonical(fmath.Squares(a, c))}, func(int) float32 { return tree(squares) })

			rows := rng.IntN(20)
			ld := n + rng.IntN(3)
			x, sums := values(rows*ld), make([]float32, rows)
			fmath.SumRows(sums, x, n, ld)
			for i, v := range sums {
				sums[i] = canonical(v)
			}
			check("sum of rows", n, sums, func(i int) float32 {
				var s float32
				for _, v := range x[i*ld:][:n] {
					s += v
				}
				return s
			})
		}
	}
}

// TestRoundedSlicesAreTheScalarFunctions compares bits, NaN payloads included,
// over a sample of all float32 values, around each pattern of the 16-bit types,
// and at every length up to 20.
func TestRoundedSlicesAreTheScalarFunctions(t *testing.T) {
	for name, f := range map[string]struct {
		slice  func([]float32)
		scalar func(float32) float32
	}{
		"bf16": {fmath.RoundBF16s, fmath.RoundBF16},
		"f16":  {fmath.RoundF16s, fmath.RoundF16},
	} {
		var x []float32
		compare := func() {
			got := append([]float32(nil), x...)
			f.slice(got)
			for i, v := range x {
				if a, b := math.Float32bits(got[i]), math.Float32bits(f.scalar(v)); a != b {
					t.Fatalf("%s of %08x: %08x, want %08x", name, math.Float32bits(v), a, b)
				}
			}
			x = x[:0]
		}
		add := func(b uint32) {
			if x = append(x, math.Float32frombits(b)); len(x) == 1<<12 {
				compare()
			}
		}
		for b := uint64(0); b < 1<<32; b += 2039 {
			add(uint32(b))
		}
		for p := uint32(0); p < 1<<16; p++ {
			for _, mid := range []uint32{p << 16, math.Float32bits(fmath.F16(uint16(p)))} {
				for _, half := range []uint32{0, 0x1000, 0x8000} {
					add(mid + half - 1)
					add(mid + half)
					add(mid + half + 1)
				}
			}
		}
		compare()
		for n := range 21 {
			for i := range n {
				add(0x3f812345 + uint32(i)*0x10007)
			}
			compare()
		}
	}
}

package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func bfloat16s(x []float32) []uint16 {
	out := make([]uint16, len(x))
	for i, v := range x {
		b := math.Float32bits(v) >> 16
		out[i] = uint16(b)
		x[i] = math.Float32frombits(b << 16)
	}
	return out
}

// TestPairsAreTheNaiveLoop multiplies bfloat16 numbers of ordinary size, which
// go through kernels of pairs where there are any, and of all sizes, special
// values and a single one included, which must not.
func TestPairsAreTheNaiveLoop(t *testing.T) { withKernels(t, testPairs) }

func testPairs(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	sizes := []int{0, 1, 2, 7, 15, 16, 17, 31, 33, 64, 65, 130}
	check := func(rows, n, k int, scale float64, rareX, rareW int) {
		x, w := values(rng, rows*k, rareX), values(rng, n*k, rareW)
		for i := range x { // sums that cancel, and exponents of a wide range
			x[i] *= float32(math.Exp2(scale * rng.NormFloat64()))
		}
		for i := range w {
			w[i] *= float32(math.Exp2(scale * rng.NormFloat64()))
		}
		bfloat16s(x)
		m := PackBF16(bfloat16s(w), n, k)
		for _, order := range []Order{Sequential, Chunks4, Lanes8} {
			want := naive(x, w, rows, n, k, order)
			for name, run := range map[string]Runner{"inline": nil, "concurrent": concurrent} {
				got := values(rng, rows*n, 2)
				m.Mul(got, x, rows, order, run)
				if i := firstDifference(got, want); i >= 0 {
					t.Fatalf("%s order %d, %d rows of [%d,%d], scale %v: element %d is %x, want %x", name, order,
						rows, n, k, scale, i, math.Float32bits(got[i]), math.Float32bits(want[i]))
				}
			}
		}
		row := make([]float32, k)
		for i := range n {
			m.Row(row, i)
			if j := firstDifference(row, w[i*k:(i+1)*k]); j >= 0 {
				t.Fatalf("[%d,%d]: row %d differs at %d", n, k, i, j)
			}
		}
	}
	for rows := 0; rows <= 40; rows++ {
		for range 6 {
			n, k := sizes[rng.IntN(len(sizes))], sizes[rng.IntN(len(sizes))]
			check(rows, n, k, []float64{0, 3, 12, 50}[rng.IntN(4)], []int{0, 0, 3, 400}[rng.IntN(4)], []int{0, 0, 3, 4000}[rng.IntN(4)])
		}
	}
	check(1, 520, 301, 1, 0, 0)
	check(96, 200, 701, 1, 0, 0)
	check(96, 200, 700, 2, 50000, 50000) // some blocks and stripes are special
}

func TestExactMeansExact(t *testing.T) {
	pattern := func(b uint32) float32 { return math.Float32frombits(b << 16) }
	for _, c := range []struct {
		x, w []uint32
		want bool
	}{
		{[]uint32{0, 0x8000}, []uint32{0x7f7f, 0x80}, true}, // no number but zeros
		{[]uint32{0x3f80}, []uint32{0x3f80}, true},
		{[]uint32{0x3f80, 0x7f80}, []uint32{0x3f80}, false},
		{[]uint32{0x3f80, 0x7fc1}, []uint32{0x3f80}, false},
		{[]uint32{0x3f80, 1}, []uint32{0x3f80}, false},      // subnormal
		{[]uint32{71 << 7}, []uint32{71 << 7}, true},        // 2^−126 in all
		{[]uint32{71<<7 | 1}, []uint32{70<<7 | 1}, false},   // a product of 2^−127
		{[]uint32{189<<7 | 127}, []uint32{190 << 7}, true},  // below 2^127
		{[]uint32{190<<7 | 127}, []uint32{190 << 7}, false}, // may be above
	} {
		spans := [2]exponents{}
		for i, v := range [][]uint32{c.x, c.w} {
			for _, n := range []int{1, 40} { // alone, and in whole vectors
				src := make([]float32, n*len(v))
				for j := range src {
					src[j] = pattern(v[j%len(v)])
				}
				s := newSpread()
				pairUp(make([]uint32, (len(src)+1)/2), src, s)
				spans[i] = s.exponents()
			}
		}
		if got := spans[0].exact(spans[1]); got != c.want {
			t.Errorf("%x · %x: exact %t, want %t", c.x, c.w, got, c.want)
		}
	}
	s := newSpread()
	pairUp(make([]uint32, 1), []float32{1, 1 + 0x1p-20}, s)
	if s.exponents().exact(exponents{127, 127}) {
		t.Error("a number that is no bfloat16 passes")
	}
}

// TestOrderIsTried gives the check kernels that add in other orders.
func TestOrderIsTried(t *testing.T) {
	step := func(t *tile[uint32], j, i int) (hi, lo float64) {
		x, w := t.a[i], t.b[i*t.bStep+j]
		f := func(b uint32) float64 { return float64(math.Float32frombits(b)) }
		return f(x&^0xffff) * f(w&^0xffff), f(x<<16) * f(w<<16)
	}
	kernel := func(add func(s float32, hi, lo float64) float32) func(*tile[uint32]) {
		return func(t *tile[uint32]) {
			for j := range PanelWidth {
				var s float32
				for i := range t.k {
					hi, lo := step(t, j, i)
					s = add(s, hi, lo)
				}
				t.c[j] = s
			}
		}
	}
	for name, c := range map[string]struct {
		add  func(s float32, hi, lo float64) float32
		want bool
	}{
		"in order":     {func(s float32, hi, lo float64) float32 { return float32(s+float32(hi)) + float32(lo) }, true},
		"lower first":  {func(s float32, hi, lo float64) float32 { return float32(s+float32(lo)) + float32(hi) }, false},
		"pair first":   {func(s float32, hi, lo float64) float32 { return s + float32(hi+lo) }, false},
		"one rounding": {func(s float32, hi, lo float64) float32 { return float32(float64(s) + hi + lo) }, false},
	} {
		if got := addsInOrder(kernel(c.add)); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func BenchmarkPairs(b *testing.B) {
	best := active
	defer func() { active = best }()
	rng := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct{ rows, n, k int }{{128, 512, 512}, {1, 4096, 4096}} {
		for _, set := range available() {
			x, w := values(rng, c.rows*c.k, 0), values(rng, c.n*c.k, 0)
			bfloat16s(x)
			m, y := PackBF16(bfloat16s(w), c.n, c.k), make([]float32, c.rows*c.n)
			b.Run(fmt.Sprintf("%dx%dx%d/%s", c.rows, c.k, c.n, set.name), func(b *testing.B) {
				active = set
				b.SetBytes(int64(2 * c.n * c.k))
				for b.Loop() {
					m.Mul(y, x, c.rows, Sequential, nil)
				}
				flops := 2 * float64(c.rows) * float64(c.n) * float64(c.k)
				b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}

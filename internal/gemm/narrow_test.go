package gemm

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestNarrowIsItsWidenedForm compares products with a weight in a 16-bit type
// and with the same weight in float32.
func TestNarrowIsItsWidenedForm(t *testing.T) {
	upper := func(dst []float32, src []uint16) { // bfloat16
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(src[i]) << 16)
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for _, size := range [][3]int{{1, 1, 1}, {3, 16, 5}, {1, 70, 33}, {13, 130, 64}, {2, 0, 4}, {2, 5, 0}, {96, 200, 700}} {
		rows, n, k := size[0], size[1], size[2]
		narrow := make([]uint16, n*k)
		for i := range narrow {
			narrow[i] = uint16(math.Float32bits(float32(rng.NormFloat64())) >> 16)
		}
		wide := make([]float32, n*k)
		upper(wide, narrow)
		x := values(rng, rows*k, 0)
		a, b := Pack(wide, n, k), PackNarrow(narrow, n, k, upper)
		want, got := make([]float32, rows*n), make([]float32, rows*n)
		for _, order := range []Order{Sequential, Chunks4, Lanes8} {
			a.Mul(want, x, rows, order, nil)
			b.Mul(got, x, rows, order, concurrent)
			if i := firstDifference(got, want); i >= 0 {
				t.Fatalf("%v order %d: element %d is %v, want %v", size, order, i, got[i], want[i])
			}
		}
		for i := range n {
			row := make([]float32, k)
			b.Row(row, i)
			if j := firstDifference(row, wide[i*k:(i+1)*k]); j >= 0 {
				t.Fatalf("%v: row %d column %d is %v", size, i, j, row[j])
			}
		}
	}
}

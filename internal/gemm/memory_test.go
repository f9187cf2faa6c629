package gemm

import (
	"math/rand/v2"
	"runtime"
	"testing"
)

// TestPanelsOutlive packs and drops large matrices while another one is in use:
// what is freed must be nobody else's.
func TestPanelsOutlive(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n, k = 320, 300 // more than what stays in the heap
	w, x := values(rng, n*k, 0), values(rng, 3*k, 0)
	kept := Pack(w, n, k)
	want := naive(x, w, 3, n, k, Sequential)
	got := make([]float32, len(want))
	for range 8 {
		dropped := []*Matrix{Pack(w, n, k), PackBF16(make([]uint16, n*k), n, k)}
		dropped[0].Mul(got, x, 3, Sequential, concurrent)
		if i := firstDifference(got, want); i >= 0 {
			t.Fatalf("element %d of a new matrix is %v, want %v", i, got[i], want[i])
		}
		runtime.GC()
		kept.Mul(got, x, 3, Sequential, nil)
		if i := firstDifference(got, want); i >= 0 {
			t.Fatalf("element %d of the kept matrix is %v, want %v", i, got[i], want[i])
		}
	}
}

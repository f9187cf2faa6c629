package gemm

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkMatMul reports GFLOP/s on one core, and the bytes of weights read per
// second.
func BenchmarkMatMul(b *testing.B) {
	best := active
	defer func() { active = best }()
	rng := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct{ rows, n, k int }{{512, 512, 512}, {1, 512, 512}, {1, 4096, 4096}, {4, 2048, 2048}, {16, 512, 512}} {
		for _, set := range available() {
			x, w := values(rng, c.rows*c.k, 0), values(rng, c.n*c.k, 0)
			m, y := Pack(w, c.n, c.k), make([]float32, c.rows*c.n)
			b.Run(fmt.Sprintf("%dx%dx%d/%s", c.rows, c.k, c.n, set.name), func(b *testing.B) {
				active = set
				b.SetBytes(int64(4 * c.n * c.k))
				for b.Loop() {
					m.Mul(y, x, c.rows, Sequential, nil)
				}
				flops := 2 * float64(c.rows) * float64(c.n) * float64(c.k)
				b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}

package finitepass_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
)

var packedBlock = flag.Int("packed.block", 16, "rows of a block of BenchmarkPackedRows")

// BenchmarkPackedRows reads rows of a packed embedding [2048, 5120] of normal
// numbers, in random order and in order, beside the same rows as they are.
func BenchmarkPackedRows(b *testing.B) {
	x := randomTensor(b, rand.New(rand.NewPCG(1, 2)), 0.02, 2048, 5120)
	plain, err := nn.TensorRows(x)
	if err != nil {
		b.Fatal(err)
	}
	packed, report, err := finitepass.PackRows(context.Background(), "embed", plain, floatCodec{}, finitepass.PackOptions{BlockRows: *packedBlock})
	if err != nil || packed == nil {
		b.Fatalf("%+v, %v", report, err)
	}
	row := make([]byte, len(x.Row(0)))
	order := rand.New(rand.NewPCG(3, 4)).Perm(2048)
	for _, c := range []struct {
		name string
		rows nn.RowSource
		at   func(i int) int
	}{
		{"plain", plain, func(i int) int { return order[i%2048] }},
		{"random", packed, func(i int) int { return order[i%2048] }},
		{"in order", packed, func(i int) int { return i % 2048 }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(row)))
			i := 0
			for b.Loop() {
				if err := c.rows.DecodeRow(row, c.at(i)); err != nil {
					b.Fatal(err)
				}
				i++
			}
			if c.rows == nn.RowSource(packed) {
				b.ReportMetric(100*float64(report.StoredBytes)/float64(report.FullBytes), "%stored")
			}
		})
	}
}

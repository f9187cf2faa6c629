package nn_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// BenchmarkConvolve runs the convolutions of F5-TTS v1 Base over 512 rows: 16 groups
// of 64 channels and 31 taps, and 512 channels of their own with 7 taps.
func BenchmarkConvolve(b *testing.B) {
	dev := open(b, nn.CPUOptions{})
	rng := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		name                string
		groups, width, taps int
	}{{"grouped", 16, 1024, 31}, {"depthwise", 512, 512, 7}} {
		const rows = 512
		w := f32(b, normal(rng, c.width*c.width/c.groups*c.taps), c.width, c.width/c.groups, c.taps)
		conv, err := nn.NewConv1D(dev, func(string) (*tensor.Tensor, error) { return w, nil }, "w", "", c.groups)
		if err != nil {
			b.Fatal(err)
		}
		x := f32(b, normal(rng, rows*c.width), rows, c.width)
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				s := dev.Begin(context.Background())
				if _, err := conv.Forward(s, s.FromHost(x), 1); err != nil {
					b.Fatal(err)
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(2*rows*float64(c.width)*float64(c.width/c.groups*c.taps)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

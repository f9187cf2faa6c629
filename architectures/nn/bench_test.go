package nn_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hfcompress/compress/architectures/nn"
)

// BenchmarkMatMul times linear maps through a session, and reports GFLOP/s.
func BenchmarkMatMul(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, threads := range []int{1, 2} {
		for _, mode := range []string{"", nn.ModeSplitK} {
			dev := open(b, nn.CPUOptions{Mode: mode, Threads: threads})
			for _, c := range []struct{ rows, k, n int }{{512, 512, 512}, {1, 512, 512}, {1, 512, 2048}, {8, 512, 512}} {
				w := upload(b, dev, f32(b, normal(rng, c.n*c.k), c.n, c.k), nn.AsMatrix)
				x := f32(b, normal(rng, c.rows*c.k), c.rows, c.k)
				b.Run(fmt.Sprintf("%s/%dx%dx%d/threads=%d", dev.Info().Name, c.rows, c.k, c.n, threads), func(b *testing.B) {
					for b.Loop() {
						s := dev.Begin(context.Background())
						s.Linear(s.FromHost(x), w, nil)
						if err := s.Close(); err != nil {
							b.Fatal(err)
						}
					}
					flops := 2 * float64(c.rows) * float64(c.k) * float64(c.n)
					b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				})
			}
		}
	}
}

// BenchmarkAttention times one layer of 8 heads of 64: a prefill, and one step
// over a cache.
func BenchmarkAttention(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	dev := open(b, nn.CPUOptions{Threads: 1})
	const keys, width = 512, 512
	k, v := f32(b, normal(rng, keys*width), keys, width), f32(b, normal(rng, keys*width), keys, width)
	cache, err := dev.NewKVCache(1, width, keys)
	if err != nil {
		b.Fatal(err)
	}
	fill := dev.Begin(context.Background())
	fill.Append(cache, fill.FromHost(k), fill.FromHost(v))
	if err := fill.Close(); err != nil {
		b.Fatal(err)
	}
	in := nn.AttentionInput{Batch: 1, Heads: 8, KVHeads: 8, HeadDim: 64, Scale: 0.125, Causal: true}
	b.Run("prefill512", func(b *testing.B) {
		for b.Loop() {
			s := dev.Begin(context.Background())
			in := in
			in.Q, in.K, in.V = s.FromHost(k), s.FromHost(k), s.FromHost(v)
			s.Attention(in)
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	q := f32(b, normal(rng, width), 1, width)
	b.Run("step512", func(b *testing.B) {
		for b.Loop() {
			s := dev.Begin(context.Background())
			in := in
			in.Q, in.Cache = s.FromHost(q), cache
			s.Attention(in)
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkRows times operations on 512 rows of 512.
func BenchmarkRows(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	dev := open(b, nn.CPUOptions{Threads: 1})
	const rows, width = 512, 512
	x, w := f32(b, normal(rng, rows*width), rows, width), upload(b, dev, f32(b, normal(rng, width), width), nn.AsVector)
	for name, op := range map[string]func(s nn.Session, x nn.Array) nn.Array{
		"rmsnorm":   func(s nn.Session, x nn.Array) nn.Array { return s.RMSNorm(x, w, 1e-6) },
		"layernorm": func(s nn.Session, x nn.Array) nn.Array { return s.LayerNorm(x, w, w, 1e-6) },
		"silu":      func(s nn.Session, x nn.Array) nn.Array { return s.Map(nn.SiLU, x) },
		"gelu":      func(s nn.Session, x nn.Array) nn.Array { return s.Map(nn.GELU, x) },
		"tanh":      func(s nn.Session, x nn.Array) nn.Array { return s.Map(nn.Tanh, x) },
		"add":       func(s nn.Session, x nn.Array) nn.Array { return s.Add(x, x) },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(rows * width * 4)
			for b.Loop() {
				s := dev.Begin(context.Background())
				op(s, s.FromHost(x))
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package finitepass_test

import (
	"context"
	"testing"

	"github.com/hfcompress/compress/finitepass"
)

// BenchmarkCompile compiles and compares a wide token encoder: 4,096 tokens of
// width 1,280 to 320 columns. The second figure is what one product over the
// domain takes.
func BenchmarkCompile(b *testing.B) {
	dev := openCPU(b, "")
	f := newFixture(b, dev, shape{tokens: 4096, width: 1280, branches: []int{320}, noResidual: true})
	f.spec.Removes = append(f.spec.Removes, "embed")
	ids := make([]int, f.spec.NumTokens)
	for i := range ids {
		ids[i] = i
	}
	o := f.options(b)
	o.ChunkRows, o.ValidationChunk, o.RequireBitwise = 0, 0, true
	b.Run("whole", func(b *testing.B) {
		for b.Loop() {
			l, r := mustCompile(b, f, o)
			_, _ = l, r
		}
	})
	b.Run("product", func(b *testing.B) {
		for b.Loop() {
			s := dev.Begin(context.Background())
			f.source.Forward(s, ids)
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	l, _ := mustCompile(b, f, o)
	for name, n := range map[string]int{"lookup of 1": 1, "lookup of 512": 512} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s := dev.Begin(context.Background())
				l.Forward(s, ids[:n])
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("probe", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := finitepass.FindProfiles(context.Background(), dev, f.source, finitepass.ProbeOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

package llama_test

import (
	"context"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/llama"
	"github.com/hfcompress/compress/tensor"
)

// benchmarkIDs is a batch of ids that a model with 19 tokens or more takes.
func benchmarkIDs(b *testing.B, batch, length int) architectures.Inputs {
	b.Helper()
	rows := make([][]int, batch)
	for i := range rows {
		rows[i] = make([]int, length)
		for j := range rows[i] {
			rows[i][j] = (7*i + 3*j) % 19
		}
	}
	return architectures.Inputs{Tensors: map[string]*tensor.Tensor{"input_ids": ids(b, rows...)}}
}

// BenchmarkPrefill runs whole prompts through the trained demo model.
func BenchmarkPrefill(b *testing.B) {
	const batch, length = 8, 64
	m := build(b, openCPU(b), "demo", nil)
	in := benchmarkIDs(b, batch, length)
	for b.Loop() {
		forward(b, m, in)
	}
	b.ReportMetric(float64(b.N)*batch*length/b.Elapsed().Seconds(), "tokens/s")
}

// BenchmarkDecode runs single steps of the trained demo model behind 64 cached
// positions.
func BenchmarkDecode(b *testing.B) {
	const length = 64
	for name, batch := range map[string]int{"batch=1": 1, "batch=8": 8} {
		b.Run(name, func(b *testing.B) {
			m := build(b, openCPU(b), "demo", nil)
			d := prefilled(b, m, batch, length)
			in := benchmarkIDs(b, batch, 1)
			for b.Loop() {
				d.Truncate(length)
				if _, err := d.Step(context.Background(), in); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}

func prefilled(b *testing.B, m *llama.Model, batch, length int) *llama.Decoder {
	b.Helper()
	d, err := m.NewDecoder(batch, length+1)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := d.Step(context.Background(), benchmarkIDs(b, batch, length)); err != nil {
		b.Fatal(err)
	}
	return d
}

package hyenadna_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/goldens"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// BenchmarkForward reads one sequence with models of published shapes and random
// weights.
func BenchmarkForward(b *testing.B) {
	for _, c := range []struct {
		name                  string
		width, layers, length int
	}{{"tiny-1k", 128, 2, 1024}, {"small-32k", 256, 4, 32768}} {
		b.Run(fmt.Sprintf("%s/%d", c.name, c.length), func(b *testing.B) {
			m := shaped(b, c.width, c.layers, c.length+2)
			in := goldens.Input(b, ids(c.length))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.Forward(context.Background(), in); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(c.length*b.N)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}

// shaped builds a model of random weights.
func shaped(b *testing.B, width, layers, positions int) architectures.Model {
	text, err := json.Marshal(map[string]any{
		"model_type": "hyenadna", "vocab_size": 12, "d_model": width, "n_layer": layers, "max_seq_len": positions, "emb_dim": 5, "activation_freq": 10,
	})
	if err != nil {
		b.Fatal(err)
	}
	cfg, err := architectures.ParseConfig(text)
	if err != nil {
		b.Fatal(err)
	}
	family, err := architectures.Lookup("hyenadna")
	if err != nil {
		b.Fatal(err)
	}
	blueprint, err := family.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	weights := goldens.Tensors{}
	for _, p := range blueprint.Params() {
		t, err := tensor.New(tensor.F32, p.Shape...)
		if err != nil {
			b.Fatal(err)
		}
		for i := range t.Float32s() {
			t.Float32s()[i] = float32(rng.NormFloat64()) * 0.05
		}
		weights[p.Name] = t
	}
	dev, err := nn.OpenCPU(nn.CPUOptions{})
	if err != nil {
		b.Fatal(err)
	}
	m, err := blueprint.Build(dev, weights, nil)
	if err != nil {
		b.Fatal(err)
	}
	return m
}

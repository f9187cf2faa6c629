package finitepass_test

import (
	"context"
	"testing"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// trained opens the weights of the demo model, a Llama of width 128 over 32
// tokens.
func trained(t *testing.T) *loader.Checkpoint {
	t.Helper()
	c, err := loader.Open("../internal/demomodel/files/main/model.safetensors", loader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

const (
	trainedEmbedding = "model.embed_tokens.weight"
	trainedMatrix    = "model.layers.1.self_attn.q_proj.weight"
	trainedNorm      = "model.layers.1.input_layernorm.weight"
)

// TestTrained runs the passes that the demo itself does not on its trained
// weights, on both modes of the device.
func TestTrained(t *testing.T) {
	c := trained(t)
	get := func(name string) *tensor.Tensor {
		x, err := c.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	for _, mode := range []string{"", nn.ModeSplitK} {
		t.Run("cpu"+mode, func(t *testing.T) {
			dev := openCPU(t, mode)
			t.Run("projected", func(t *testing.T) {
				f := rawAndNormalised(t, dev, 32, 128, 128, false)
				copy(f.weights["embed"].Bytes(), get(trainedEmbedding).Bytes())
				copy(f.weights["w.weight"].Bytes(), get(trainedMatrix).Bytes())
				linear, err := nn.NewLinear(dev, f.weights.Tensor, "w.weight", "")
				if err != nil {
					t.Fatal(err)
				}
				f.source.Branches[0].Layers[0], f.source.Branches[1].Layers[1] = linear, linear
				o := f.optionsFor(t)
				o.RequireBitwise, o.Projected = false, true
				_, r := mustCompile(t, f, o)
				raw, normalised := r.Comparison.Outputs[0], r.Comparison.Outputs[1]
				if mode == "" && !raw.Bitwise || raw.MaxAbs > 1e-5 || normalised.MaxAbs > 1e-5 || r.Account.After.Values != 32*(128+1) {
					t.Errorf("%+v, %+v", r.Comparison, r.Account)
				}
				t.Logf("normalised: max abs %.3g, relative L2 %.3g", normalised.MaxAbs, normalised.RelL2)
			})
			t.Run("constant rows", func(t *testing.T) {
				norm, err := nn.NewRMSNorm(dev, c.Tensor, trainedNorm, 1e-6)
				if err != nil {
					t.Fatal(err)
				}
				linear, err := nn.NewLinear(dev, c.Tensor, trainedMatrix, "")
				if err != nil {
					t.Fatal(err)
				}
				layers := []nn.RowLocal{norm, linear}
				rows := constantRows(t, dev, layers, finitepass.ConstantRowsOptions{})
				embedding := get(trainedEmbedding)
				value, err := tensor.FromBytes(tensor.F32, tensor.Shape{128}, embedding.Row(5))
				if err != nil {
					t.Fatal(err)
				}
				got := mustRows(t, rows, tensor.Shape{4, 9, 128}, assign([]int{3}, []*tensor.Tensor{value}))
				// The same row among zeros, in a call of the same 36 rows.
				x, err := tensor.New(tensor.F32, 36, 128)
				if err != nil {
					t.Fatal(err)
				}
				copy(x.Row(3), embedding.Row(5))
				s := dev.Begin(context.Background())
				defer s.Close()
				want := s.ToHost(nn.Apply(s, layers, s.FromHost(x)))
				if string(got.Row(0)) != string(want.Row(3)) {
					t.Error("the row differs from the one computed at its place")
				}
			})
		})
	}

	t.Run("rows", func(t *testing.T) {
		embedding := get(trainedEmbedding)
		if e, report, err := finitepass.StoreEqualRows(trainedEmbedding, embedding); err != nil || e != nil || report.Distinct != 32 {
			t.Errorf("trained rows all differ: %v, %+v, %v", e, report, err)
		}
		matrix := get("model.layers.0.mlp.up_proj.weight")
		source, err := nn.TensorRows(matrix)
		if err != nil {
			t.Fatal(err)
		}
		p, report, err := finitepass.PackRows(context.Background(), "rows", source, floatCodec{}, finitepass.PackOptions{BlockRows: 64})
		if err != nil || p == nil {
			t.Fatalf("packed rows: %+v, %v", report, err)
		}
		if err := p.Verify(matrix); err != nil {
			t.Error(err)
		}
		t.Logf("packed rows: %d of %d bytes", report.StoredBytes, report.FullBytes)
	})
}

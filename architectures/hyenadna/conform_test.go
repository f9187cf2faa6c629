package hyenadna_test

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/hyenadna"
	"github.com/hfcompress/compress/architectures/internal/goldens"
	"github.com/hfcompress/compress/architectures/nn"
)

func TestConformance(t *testing.T) {
	for _, name := range []string{"plain", "third_order", "tied", "fixed_frequency", "classifier"} {
		t.Run(name, func(t *testing.T) {
			goldens.Conform(t, modelDir(name), func(m architectures.Model) architectures.Model {
				return m.(*hyenadna.Model).WithSessionBytes(1)
			})
		})
	}
}

func TestConfigRefusals(t *testing.T) {
	type object = map[string]any
	goldens.Refuses(t, modelDir("plain"), "hyenadna", hyenadna.ErrConfig, []goldens.Refusal{
		goldens.Want(object{"d_model": nil}, "d_model: is missing"),
		goldens.Want(object{"n_layer": 0}, "n_layer: expected an integer from 1"),
		goldens.Want(object{"max_seq_len": nil}, "max_seq_len: is missing"),
		goldens.Want(object{"max_seq_len": 5000000}, "max_seq_len: expected an integer from 1 to 4194304"),
		goldens.Want(object{"short_filter_order": 4}, "short_filter_order: 4: another length than 3"),
		goldens.Want(object{"layer_norm_epsilon": 1e-6}, "layer_norm_epsilon: 0.000001: another epsilon than 1e-5"),
		goldens.Want(object{"hyena_order": 1}, "hyena_order: 1: without a long convolution"),
		goldens.Want(object{"emb_dim": 4}, "emb_dim: 4: expected an odd number"),
		goldens.Want(object{"emb_dim": 1}, "emb_dim: 1: expected an odd number"),
		goldens.Want(object{"num_inner_mlps": -1}, "num_inner_mlps"),
		goldens.Want(object{"activation_freq": 1e200}, "activation_freq: 1e+200 is too large"),
		goldens.Want(object{"pad_token_id": 16}, "pad_token_id: 16 is outside the vocabulary of 16"),
		goldens.Want(object{"dtype": "bfloat16", "torch_dtype": nil}, `expected "float32", found "bfloat16"`),
		goldens.Want(object{"layer": object{"l_max": 1026}}, "layer: "),
		goldens.Want(object{"architectures": []string{"HyenaDNAForTokenClassification"}}, `found "HyenaDNAForTokenClassification"`),
		goldens.Want(object{"architectures": []string{"HyenaDNAForSequenceClassification"}, "num_labels": 0}, "num_labels"),
	}...)
}

func FuzzParseConfig(f *testing.F) {
	goldens.FuzzConfig(f, goldenDir, "hyenadna", hyenadna.ErrConfig)
}

// ids makes n token ids.
func ids(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = 7 + (i*i/3+i)%5
	}
	return out
}

// TestPrefixes: what follows, and what else is in the batch, changes no bit, over the
// boundaries of the convolution's blocks.
func TestPrefixes(t *testing.T) {
	dev := goldens.OpenCPU(t)
	m := goldens.Build(t, dev, modelDir("base"), nil)
	whole := ids(1300)
	long := goldens.Run(t, m, goldens.Input(t, whole, slices.Repeat([]int{4}, len(whole))))[0].Tensor
	for _, n := range []int{1, 63, 64, 65, 200, 1024, 1025, 1150} {
		got := goldens.Run(t, m, goldens.Input(t, whole[:n]))[0].Tensor
		if want := long.Bytes()[:len(got.Bytes())]; !slices.Equal(got.Bytes(), want) {
			t.Errorf("the first %d positions alone differ", n)
		}
	}
}

// TestInputs: what the model does not take is an error, and so is a sequence that is
// longer than its filters.
func TestInputs(t *testing.T) {
	dev := goldens.OpenCPU(t)
	m := goldens.Build(t, dev, modelDir("plain"), nil)
	in := goldens.Input(t, ids(3))
	in.Tensors["attention_mask"] = in.Tensors["input_ids"]
	if _, err := m.Forward(context.Background(), in); !errors.Is(err, hyenadna.ErrInput) || !strings.Contains(err.Error(), `"attention_mask" is not an input of this model; inputs: input_ids`) {
		t.Errorf("a mask: %v", err)
	}
	one := goldens.Build(t, dev, modelDir("classifier"), map[string]any{"pad_token_id": nil})
	if _, err := one.Forward(context.Background(), goldens.Input(t, ids(3), ids(3))); !errors.Is(err, hyenadna.ErrInput) || !strings.Contains(err.Error(), "2 sequences; without a pad_token_id") {
		t.Errorf("two sequences without a pad token: %v", err)
	}
	if _, err := m.Forward(context.Background(), goldens.Input(t, ids(151))); !errors.Is(err, hyenadna.ErrInput) || !strings.Contains(err.Error(), "151 positions; the model has 150") {
		t.Errorf("151 positions: %v", err)
	}
}

// plain is a device whose sessions have no convolutions.
type plain struct{ nn.Device }

type plainSession struct{ nn.Session }

func (p plain) Begin(ctx context.Context) nn.Session { return plainSession{p.Device.Begin(ctx)} }

func TestDeviceWithoutConvolutions(t *testing.T) {
	b := goldens.Blueprint(t, modelDir("plain"), nil)
	weights := goldens.Read(t, filepath.Join(modelDir("plain"), "model.safetensors"))
	_, err := b.Build(plain{goldens.OpenCPU(t)}, weights, nil)
	if !errors.Is(err, nn.ErrNoConvolution) || !strings.HasPrefix(err.Error(), "cpu: ") {
		t.Errorf("%v", err)
	}
}

// TestSharedTables: layers whose positions are one tensor read one table.
func TestSharedTables(t *testing.T) {
	dev := goldens.OpenCPU(t)
	dir := modelDir("fixed_frequency")
	weights := goldens.Read(t, filepath.Join(dir, "model.safetensors"))
	names := slices.Sorted(maps.Keys(weights))
	b := architectures.ForNames(goldens.Blueprint(t, dir, nil), names)
	build := func() *hyenadna.Model {
		m, err := b.Build(dev, weights, nil)
		if err != nil {
			t.Fatal(err)
		}
		return m.(*hyenadna.Model)
	}
	apart := build()
	for _, name := range names {
		if strings.Contains(name, ".pos_emb.") {
			weights[name] = weights["hyena.backbone.layers.0."+strings.SplitN(name, ".", 5)[4]]
		}
	}
	shared := build()
	if apart.Tables() != 4 || shared.Tables() != 2 {
		t.Errorf("%d tables apart and %d shared, want 4 and 2", apart.Tables(), shared.Tables())
	}
	in := goldens.Input(t, ids(70))
	goldens.SameBits(t, goldens.Run(t, shared, in), goldens.Run(t, apart, in))
}

// TestPublishedSizes counts the largest published model's values, from its
// configuration alone.
func TestPublishedSizes(t *testing.T) {
	b := goldens.Blueprint(t, modelDir("plain"), map[string]any{
		"d_model": 256, "d_inner": 1024, "n_layer": 8, "max_seq_len": 1000002, "emb_dim": 5, "filter_order": 64,
	})
	total, positions, tied := 0, 0, 0
	for _, p := range b.Params() {
		n, err := p.Shape.Elements()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case p.TiedTo != "":
			tied += n
			continue
		case strings.Contains(p.Name, ".pos_emb."):
			positions += n
		}
		total += n
	}
	if saved := positions * 7 / 8; total != 54556768 || saved != 42000084 || tied != 8*2*64 {
		t.Errorf("%d values, %d of them in repeated positions, %d in repeated frequencies", total, saved, tied)
	}
}

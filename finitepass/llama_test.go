package finitepass_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/llama"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/validation"
)

const llamaConfig = `{
	"architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "float32",
	"vocab_size": 19, "hidden_size": 64, "intermediate_size": 48,
	"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
	"max_position_embeddings": 64, "rms_norm_eps": 1e-06, "hidden_act": "silu",
	"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
	"tie_word_embeddings": TIED, "attention_bias": false, "mlp_bias": false,
	"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0
}`

// tinyLlama is a real model of the llama family with random weights.
func tinyLlama(t *testing.T, dev nn.Device, tied string) (architectures.Blueprint, architectures.Model, weights) {
	t.Helper()
	cfg, err := architectures.ParseConfig([]byte(strings.Replace(llamaConfig, "TIED", tied, 1)))
	if err != nil {
		t.Fatal(err)
	}
	family, err := architectures.ForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b, err := family.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 6))
	w := weights{}
	for _, p := range b.Params() {
		if p.Ignored || p.TiedTo != "" {
			continue
		}
		w[p.Name] = randomTensor(t, r, 0.2, p.Shape...)
	}
	for _, p := range b.Params() {
		if p.TiedTo != "" {
			w[p.Name] = w[p.TiedTo]
		}
	}
	m, err := b.Build(dev, w, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b, m, w
}

func TestLlama(t *testing.T) {
	for _, tied := range []string{"false", "true"} {
		t.Run("tied "+tied, func(t *testing.T) { testLlama(t, tied) })
	}
}

func testLlama(t *testing.T, tied string) {
	options := func(dev nn.Device, b architectures.Blueprint) finitepass.ModelOptions {
		examples := validation.Generate(b.Inputs(), validation.Options{})
		return finitepass.ModelOptions{
			Options:  finitepass.Options{Contract: architectures.TokenIndicesOnly},
			Examples: examples,
			Gate:     validation.Gate{Bitwise: true},
			Probe:    finitepass.ProbeOptions{MaxRows: 64},
		}
	}
	ctx := context.Background()

	// Three row functions: one table is not enough, and the gate says where.
	dev := openCPU(t, nn.ModeSplitK)
	b, m, w := tinyLlama(t, dev, tied)
	o := options(dev, b)
	o.Mode = finitepass.ProfilesNone
	r, err := finitepass.CompileModel(ctx, b, m, w, o)
	if err != nil {
		t.Fatal(err)
	}
	block := r.Report.Blocks[0]
	if statuses(r) != "rolled_back: rolled_back" || r.Model != m || !block.Comparison.Accepted || block.Gate.Example == "" || block.Gate.MaxAbs == 0 {
		t.Errorf("%s: %s", statuses(r), block.Reason)
	}
	t.Log(block.Reason)

	// Found profiles pass bitwise.
	o.Mode = finitepass.ProfilesAuto
	r, err = finitepass.CompileModel(ctx, b, m, w, o)
	if err != nil {
		t.Fatal(err)
	}
	if statuses(r) != "compressed: compiled" || !r.Report.Gate.Bitwise {
		t.Fatalf("%s: %s", statuses(r), r.Report.Blocks[0].Reason)
	}
	if block := r.Report.Blocks[0]; !slices.Equal(block.Profiles, twoProfiles) || !block.Comparison.Bitwise {
		t.Errorf("profiles %v", block.Profiles)
	}

	// The model rebuilt from what is stored, without the removed tensors, is the
	// same to the bit.
	lookup := r.Lookups[llama.QKVPath]
	rest := weights{}
	for name, x := range w {
		if !slices.Contains(r.Report.Blocks[0].Removes, name) {
			rest[name] = x
		}
	}
	rows, err := nn.TensorRows(rest[r.Report.Blocks[0].Embedding])
	if err != nil {
		t.Fatal(err)
	}
	table, err := dev.UploadRows(rows)
	if err != nil {
		t.Fatal(err)
	}
	reopened, err := finitepass.Open(lookup.Recipe(), stateOf(lookup).get, table, dev)
	if err != nil {
		t.Fatal(err)
	}
	rebuilt, err := b.Build(dev, rest, map[string]nn.TokenBlock{llama.QKVPath: reopened})
	if err != nil {
		t.Fatal(err)
	}
	verdict, err := validation.Run(ctx, m, rebuilt, o.Examples, o.Gate, nil)
	if err != nil || !verdict.Accepted {
		t.Errorf("rebuilt: %v, %+v", err, verdict)
	}

	// One row function: one table, whatever is asked for.
	dev = openCPU(t, "")
	b, m, w = tinyLlama(t, dev, tied)
	o = options(dev, b)
	r, err = finitepass.CompileModel(ctx, b, m, w, o)
	if err != nil {
		t.Fatal(err)
	}
	block = r.Report.Blocks[0]
	if statuses(r) != "compressed: compiled" || len(block.Profiles) != 0 || len(block.Tables) != 1 || !r.Report.Gate.Bitwise {
		t.Errorf("%s: %+v", statuses(r), block.Tables)
	}
	// d·w + d values removed, V·w added: w = 64 + 32 + 32.
	if want := int64(64*128 + 64 - 19*128); block.Account.ValuesSaved != want || r.Report.Account.ValuesSaved != want {
		t.Errorf("%d values saved, expected %d", block.Account.ValuesSaved, want)
	}
}

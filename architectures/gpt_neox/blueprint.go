package gpt_neox

import (
	"fmt"
	"slices"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

func init() { architectures.Register(family{}) }

// BlockPath addresses the one block that this family declares.
const BlockPath = "gpt_neox.layers.0"

// Output names of the declared block.
const (
	outputQKV      = "qkv"
	outputMLP      = "mlp"
	outputResidual = "residual"
)

const (
	embeddingName = "gpt_neox.embed_in.weight"
	finalNormName = "gpt_neox.final_layer_norm"
	headName      = "embed_out.weight"
)

type family struct{}

func (family) Name() string { return modelType }

func (family) Matches(cfg architectures.Config) bool {
	return cfg.ModelType == modelType || cfg.ModelType == "" && slices.Contains(cfg.Architectures, class)
}

func (family) New(cfg architectures.Config) (architectures.Blueprint, error) {
	c, err := ParseConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &Blueprint{cfg: *c}, nil
}

// Blueprint is a GPT-NeoX model without weights. It is immutable and safe for
// concurrent use.
type Blueprint struct{ cfg Config }

// Config returns the settings that the blueprint was made from.
func (b *Blueprint) Config() Config {
	c := b.cfg
	c.EndTokens = slices.Clone(c.EndTokens)
	return c
}

func layerName(i int) string { return fmt.Sprintf("gpt_neox.layers.%d.", i) }

// Params lists the checkpoint's tensors: embedding, layers in order, final norm
// and head. Old checkpoints carry causal masks and rotary frequencies, which are
// computed and not read.
func (b *Blueprint) Params() []loader.Param {
	c := &b.cfg
	var out []loader.Param
	add := func(name string, shape ...int) {
		out = append(out, loader.Param{Name: name, Shape: shape, DTypes: []tensor.DType{c.DType}})
	}
	linear := func(name string, in, width int, bias bool) {
		add(name+".weight", width, in)
		if bias {
			add(name+".bias", width)
		}
	}
	norm := func(name string) {
		add(name+".weight", c.HiddenSize)
		add(name+".bias", c.HiddenSize)
	}
	add(embeddingName, c.VocabSize, c.HiddenSize)
	for i := range c.Layers {
		at := layerName(i)
		norm(at + "input_layernorm")
		linear(at+"attention.query_key_value", c.HiddenSize, 3*c.HiddenSize, c.AttentionBias)
		linear(at+"attention.dense", c.HiddenSize, c.HiddenSize, c.AttentionBias)
		norm(at + "post_attention_layernorm")
		linear(at+"mlp.dense_h_to_4h", c.HiddenSize, c.IntermediateSize, true)
		linear(at+"mlp.dense_4h_to_h", c.IntermediateSize, c.HiddenSize, true)
		for _, stored := range []string{"attention.bias", "attention.masked_bias", "attention.rotary_emb.inv_freq"} {
			out = append(out, loader.Param{Name: at + stored, Ignored: true})
		}
	}
	norm(finalNormName)
	add(headName, c.VocabSize, c.HiddenSize)
	if c.TiedHead {
		out[len(out)-1].TiedTo = embeddingName
	}
	return out
}

// Blocks declares what layer 0 computes of the embedding alone.
func (b *Blueprint) Blocks() []architectures.BlockSpec {
	c, at := &b.cfg, layerName(0)
	both := func(name string) []string { return []string{at + name + ".weight", at + name + ".bias"} }
	removes := both("input_layernorm")
	removes = append(removes, at+"attention.query_key_value.weight")
	if c.AttentionBias {
		removes = append(removes, at+"attention.query_key_value.bias")
	}
	if c.Parallel {
		removes = slices.Concat(removes, both("post_attention_layernorm"), both("mlp.dense_h_to_4h"), both("mlp.dense_4h_to_h"))
	}
	return []architectures.BlockSpec{{
		Path:           BlockPath,
		Contract:       architectures.TokenIndicesOnly,
		NumTokens:      c.VocabSize,
		EmbeddingWidth: c.HiddenSize,
		Embedding:      embeddingName,
		OwnsEmbedding:  !c.TiedHead,
		Removes:        removes,
		Outputs:        c.outputs(),
	}}
}

func (c *Config) outputs() []nn.Output {
	out := []nn.Output{{Name: outputQKV, Width: 3 * c.HiddenSize, DType: c.DType}}
	if c.Parallel {
		out = append(out, nn.Output{Name: outputMLP, Width: c.HiddenSize, DType: c.DType})
	}
	return out
}

func (c *Config) slots() run.Slots {
	residual := nn.Output{Name: outputResidual, Width: c.HiddenSize, DType: c.DType}
	return run.Slots{{Path: BlockPath, Tokens: c.VocabSize, Outputs: append(c.outputs(), residual)}}
}

// Inputs says what the model takes.
func (b *Blueprint) Inputs() architectures.InputSpec {
	return architectures.InputSpec{
		Vocabulary:   b.cfg.VocabSize,
		MaxPositions: b.cfg.MaxPositions,
		PadToken:     b.cfg.fillToken(),
		Masks:        true,
	}
}

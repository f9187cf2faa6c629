package progen

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
const BlockPath = "transformer.h.0"

// Output names of the declared block.
const (
	outputQKV      = "qkv"
	outputMLP      = "mlp"
	outputResidual = "residual"
)

const (
	embeddingName = "transformer.wte.weight"
	finalNormName = "transformer.ln_f"
	headName      = "lm_head"
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

// Blueprint is a ProGen2 model without weights. It is immutable and safe for
// concurrent use.
type Blueprint struct{ cfg Config }

// Config returns the settings that the blueprint was made from.
func (b *Blueprint) Config() Config {
	c := b.cfg
	c.EndTokens = slices.Clone(c.EndTokens)
	return c
}

func layerName(i int) string { return fmt.Sprintf("transformer.h.%d.", i) }

// Params lists the checkpoint's tensors: embedding, layers in order, final norm
// and head. Old checkpoints carry causal masks, which are not read.
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
		norm(at + "ln_1")
		linear(at+"attn.qkv_proj", c.HiddenSize, 3*c.HiddenSize, false)
		linear(at+"attn.out_proj", c.HiddenSize, c.HiddenSize, false)
		linear(at+"mlp.fc_in", c.HiddenSize, c.IntermediateSize, true)
		linear(at+"mlp.fc_out", c.IntermediateSize, c.HiddenSize, true)
		for _, stored := range []string{"attn.bias", "attn.masked_bias"} {
			out = append(out, loader.Param{Name: at + stored, Ignored: true})
		}
	}
	norm(finalNormName)
	linear(headName, c.HiddenSize, c.Logits, true)
	return out
}

// Blocks declares what layer 0 computes of the embedding alone.
func (b *Blueprint) Blocks() []architectures.BlockSpec {
	c, at := &b.cfg, layerName(0)
	return []architectures.BlockSpec{{
		Path:           BlockPath,
		Contract:       architectures.TokenIndicesOnly,
		NumTokens:      c.VocabSize,
		EmbeddingWidth: c.HiddenSize,
		Embedding:      embeddingName,
		OwnsEmbedding:  true,
		Removes: []string{
			at + "ln_1.weight", at + "ln_1.bias", at + "attn.qkv_proj.weight",
			at + "mlp.fc_in.weight", at + "mlp.fc_in.bias", at + "mlp.fc_out.weight", at + "mlp.fc_out.bias",
		},
		Outputs: c.outputs(),
	}}
}

func (c *Config) outputs() []nn.Output {
	return []nn.Output{
		{Name: outputQKV, Width: 3 * c.HiddenSize, DType: c.DType},
		{Name: outputMLP, Width: c.HiddenSize, DType: c.DType},
	}
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
	}
}

package llama

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

// QKVPath addresses the one block that this family declares.
const QKVPath = "model.layers.0.qkv"

// Output names of the declared block.
const (
	outputQ        = "q"
	outputK        = "k"
	outputV        = "v"
	outputResidual = "residual"
)

// Checkpoint names outside the layers.
const (
	embeddingName = "model.embed_tokens.weight"
	finalNormName = "model.norm.weight"
	headName      = "lm_head.weight"
)

type family struct{}

func (family) Name() string { return "llama" }

func (family) Matches(cfg architectures.Config) bool { return variantOf(cfg) >= 0 }

func (family) New(cfg architectures.Config) (architectures.Blueprint, error) {
	c, err := ParseConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &Blueprint{cfg: *c}, nil
}

// Blueprint is a Llama model without weights. It is immutable and safe for
// concurrent use.
type Blueprint struct{ cfg Config }

// Config returns the settings that the blueprint was made from.
func (b *Blueprint) Config() Config {
	c := b.cfg
	c.EndTokens, c.Sliding = slices.Clone(c.EndTokens), slices.Clone(c.Sliding)
	return c
}

// Params lists the checkpoint's tensors: embedding, layers in order, final norm
// and head. A tied head may be absent. Old checkpoints carry rotary frequencies
// per layer, which are computed and not read.
func (b *Blueprint) Params() []loader.Param {
	c := &b.cfg
	var out []loader.Param
	add := func(name string, shape ...int) {
		out = append(out, loader.Param{Name: name, Shape: shape, DTypes: []tensor.DType{c.DType}})
	}
	add(embeddingName, c.VocabSize, c.HiddenSize)
	for i := range c.Layers {
		at := layerPrefix(i)
		add(at+"input_layernorm.weight", c.HiddenSize)
		for _, l := range c.layerLinears() {
			add(at+l.name+".weight", l.out, l.in)
			if l.bias {
				add(at+l.name+".bias", l.out)
			}
		}
		if c.HeadNorms {
			add(at+"self_attn.q_norm.weight", c.HeadDim)
			add(at+"self_attn.k_norm.weight", c.HeadDim)
		}
		add(at+"post_attention_layernorm.weight", c.HiddenSize)
		out = append(out, loader.Param{
			Name:    at + "self_attn.rotary_emb.inv_freq",
			Shape:   tensor.Shape{c.HeadDim / 2},
			DTypes:  []tensor.DType{tensor.F32, tensor.F16, tensor.BF16},
			Ignored: true,
		})
	}
	add(finalNormName, c.HiddenSize)
	add(headName, c.VocabSize, c.HiddenSize)
	if c.TiedHead {
		out[len(out)-1].TiedTo = embeddingName
	}
	return out
}

// Blocks declares the query, key and value projections of layer 0.
func (b *Blueprint) Blocks() []architectures.BlockSpec {
	c := &b.cfg
	at := layerPrefix(0)
	removes := []string{at + "input_layernorm.weight"}
	for _, l := range c.layerLinears()[:3] {
		removes = append(removes, at+l.name+".weight")
		if l.bias {
			removes = append(removes, at+l.name+".bias")
		}
	}
	if c.HeadNorms {
		removes = append(removes, at+"self_attn.q_norm.weight", at+"self_attn.k_norm.weight")
	}
	return []architectures.BlockSpec{{
		Path:           QKVPath,
		Contract:       architectures.TokenIndicesOnly,
		NumTokens:      c.VocabSize,
		EmbeddingWidth: c.HiddenSize,
		Embedding:      embeddingName,
		OwnsEmbedding:  !c.TiedHead,
		Removes:        removes,
		Outputs:        c.qkvOutputs(),
	}}
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

type linearSpec struct {
	name    string
	in, out int
	bias    bool
}

// layerLinears lists a layer's linear maps in the order of Params; q, k and v
// come first.
func (c *Config) layerLinears() []linearSpec {
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	return []linearSpec{
		{"self_attn.q_proj", c.HiddenSize, q, c.QKVBias},
		{"self_attn.k_proj", c.HiddenSize, kv, c.QKVBias},
		{"self_attn.v_proj", c.HiddenSize, kv, c.QKVBias},
		{"self_attn.o_proj", q, c.HiddenSize, c.OutputBias},
		{"mlp.gate_proj", c.HiddenSize, c.IntermediateSize, c.MLPBias},
		{"mlp.up_proj", c.HiddenSize, c.IntermediateSize, c.MLPBias},
		{"mlp.down_proj", c.IntermediateSize, c.HiddenSize, c.MLPBias},
	}
}

func (c *Config) qkvOutputs() []nn.Output {
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	return []nn.Output{
		{Name: outputQ, Width: q, DType: c.DType},
		{Name: outputK, Width: kv, DType: c.DType},
		{Name: outputV, Width: kv, DType: c.DType},
	}
}

// slots is the place of the declared block.
func (c *Config) slots() run.Slots {
	residual := nn.Output{Name: outputResidual, Width: c.HiddenSize, DType: c.DType}
	return run.Slots{{Path: QKVPath, Tokens: c.VocabSize, Outputs: append(c.qkvOutputs(), residual)}}
}

func layerPrefix(i int) string { return fmt.Sprintf("model.layers.%d.", i) }

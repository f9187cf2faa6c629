package gpt2

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

// BlockPath addresses the one block that this family declares, and refuses.
const BlockPath = "h.0.attn.c_attn"

const headName = "lm_head.weight"

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
	return &Blueprint{cfg: *c, prefix: "transformer."}, nil
}

// Blueprint is a GPT-2 model without weights. It is immutable and safe for
// concurrent use.
type Blueprint struct {
	cfg Config
	// prefix stands before all names but the head's.
	prefix string
}

// Config returns the settings that the blueprint was made from.
func (b *Blueprint) Config() Config {
	c := b.cfg
	c.EndTokens = slices.Clone(c.EndTokens)
	return c
}

// ForNames leaves out "transformer." before all names where the checkpoint does,
// as the first GPT-2 files do.
func (b *Blueprint) ForNames(names []string) architectures.Blueprint {
	view := *b
	view.prefix = "transformer."
	if slices.Contains(names, "wpe.weight") {
		view.prefix = ""
	}
	return &view
}

func (b *Blueprint) layer(i int) string { return fmt.Sprintf("%sh.%d.", b.prefix, i) }

// Params lists the checkpoint's tensors: embeddings, layers in order, final norm
// and head. Old checkpoints carry causal masks, which are not read.
func (b *Blueprint) Params() []loader.Param {
	c := &b.cfg
	var out []loader.Param
	add := func(name string, shape ...int) {
		out = append(out, loader.Param{Name: name, Shape: shape, DTypes: []tensor.DType{c.DType}})
	}
	pair := func(name string, in, width int) { // stored as [in, out]
		add(name+".weight", in, width)
		add(name+".bias", width)
	}
	norm := func(name string) {
		add(name+".weight", c.HiddenSize)
		add(name+".bias", c.HiddenSize)
	}
	add(b.prefix+"wte.weight", c.VocabSize, c.HiddenSize)
	add(b.prefix+"wpe.weight", c.Positions, c.HiddenSize)
	for i := range c.Layers {
		at := b.layer(i)
		norm(at + "ln_1")
		pair(at+"attn.c_attn", c.HiddenSize, 3*c.HiddenSize)
		pair(at+"attn.c_proj", c.HiddenSize, c.HiddenSize)
		norm(at + "ln_2")
		pair(at+"mlp.c_fc", c.HiddenSize, c.IntermediateSize)
		pair(at+"mlp.c_proj", c.IntermediateSize, c.HiddenSize)
		for _, mask := range []string{"attn.bias", "attn.masked_bias"} {
			out = append(out, loader.Param{Name: at + mask, Ignored: true})
		}
	}
	norm(b.prefix + "ln_f")
	add(headName, c.VocabSize, c.HiddenSize)
	if c.TiedHead {
		out[len(out)-1].TiedTo = b.prefix + "wte.weight"
	}
	return out
}

// Blocks declares layer 0's projection, refused.
func (b *Blueprint) Blocks() []architectures.BlockSpec {
	return []architectures.BlockSpec{b.sum().Spec()}
}

func (b *Blueprint) sum() *run.Sum {
	c, at := &b.cfg, b.layer(0)
	return &run.Sum{
		Path: BlockPath,
		Terms: []run.Term{
			{What: "tokens", Table: b.prefix + "wte.weight", Rows: c.VocabSize},
			{What: "positions", Table: b.prefix + "wpe.weight", Rows: c.Positions},
		},
		Width:    c.HiddenSize,
		Removes:  []string{at + "ln_1.weight", at + "ln_1.bias", at + "attn.c_attn.weight", at + "attn.c_attn.bias"},
		Outputs:  []nn.Output{{Name: "qkv", Width: 3 * c.HiddenSize, DType: c.DType}},
		Declared: b.Params(),
	}
}

// Inputs says what the model takes.
func (b *Blueprint) Inputs() architectures.InputSpec {
	return architectures.InputSpec{
		Vocabulary:   b.cfg.VocabSize,
		MaxPositions: b.cfg.Positions,
		PadToken:     b.cfg.fillToken(),
		Masks:        true,
	}
}

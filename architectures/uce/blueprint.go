package uce

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

// EncoderPath addresses the one block that this family declares.
const EncoderPath = "encoder"

// output is the block's one output.
const output = "tokens"

const (
	modelType = "uce"
	className = "UCEModel"
)

// Checkpoint names outside the layers.
const (
	vectors   = "pe_embedding.weight"
	project   = "encoder.0"
	inputNorm = "encoder.2"
	positions = "pos_encoder.pe"
	lastLayer = "decoder.3"
)

type family struct{}

func (family) Name() string { return modelType }

func (family) Matches(cfg architectures.Config) bool {
	if cfg.ModelType != "" {
		return cfg.ModelType == modelType
	}
	return slices.Contains(cfg.Architectures, className)
}

func (family) New(cfg architectures.Config) (architectures.Blueprint, error) {
	c, err := ParseConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &Blueprint{cfg: *c}, nil
}

// Blueprint is a UCE model without weights. It is immutable and safe for
// concurrent use.
type Blueprint struct{ cfg Config }

// Config returns the settings that the blueprint was made from.
func (b *Blueprint) Config() Config { return b.cfg }

func layerPrefix(i int) string { return fmt.Sprintf("transformer_encoder.layers.%d.", i) }

// decoderWidths are the outputs of the decoder's three blocks.
func (c *Config) decoderWidths() []int { return []int{c.DecoderSize, c.OutputDim, c.OutputDim} }

// params collects declarations.
type params struct {
	list    []loader.Param
	ignored bool
}

func (p *params) add(name string, shape ...int) {
	p.list = append(p.list, loader.Param{Name: name, Shape: shape, DTypes: []tensor.DType{tensor.F32}, Ignored: p.ignored})
}

// linear declares a weight [out, in] and a bias.
func (p *params) linear(at string, out, in int) {
	p.add(at+".weight", out, in)
	p.add(at+".bias", out)
}

func (p *params) norm(at string, width int) {
	p.add(at+".weight", width)
	p.add(at+".bias", width)
}

// Params lists the checkpoint's tensors: vectors, encoder, layers, decoder, and
// then those that are allowed and not read.
func (b *Blueprint) Params() []loader.Param {
	c := &b.cfg
	p := &params{}
	p.add(vectors, c.VocabSize, c.TokenDim)
	p.linear(project, c.HiddenSize, c.TokenDim)
	p.norm(inputNorm, c.HiddenSize)
	p.add(positions, c.Positions, 1, c.HiddenSize)
	for i := range c.Layers {
		at := layerPrefix(i)
		p.add(at+"self_attn.in_proj_weight", 3*c.HiddenSize, c.HiddenSize)
		p.add(at+"self_attn.in_proj_bias", 3*c.HiddenSize)
		p.linear(at+"self_attn.out_proj", c.HiddenSize, c.HiddenSize)
		p.linear(at+"linear1", c.IntermediateSize, c.HiddenSize)
		p.linear(at+"linear2", c.HiddenSize, c.IntermediateSize)
		p.norm(at+"norm1", c.HiddenSize)
		p.norm(at+"norm2", c.HiddenSize)
	}
	in := c.HiddenSize
	for i, out := range c.decoderWidths() {
		at := fmt.Sprintf("decoder.%d.", i)
		p.linear(at+"0", out, in)
		p.norm(at+"1", out)
		in = out
	}
	p.linear(lastLayer, c.OutputDim, in)

	p.ignored = true
	p.linear("gene_embedding_layer.0", c.HiddenSize, c.TokenDim)
	p.norm("gene_embedding_layer.2", c.HiddenSize)
	in = c.OutputDim + c.HiddenSize
	for i, out := range predictor {
		at := fmt.Sprintf("binary_decoder.%d.", i)
		p.linear(at+"0", out, in)
		p.norm(at+"1", out)
		in = out
	}
	p.linear("binary_decoder.3", 1, in)
	return p.list
}

// Blocks declares the token encoder.
func (b *Blueprint) Blocks() []architectures.BlockSpec {
	c := &b.cfg
	return []architectures.BlockSpec{{
		Path:           EncoderPath,
		Contract:       architectures.TokenIndicesOnly,
		NumTokens:      c.VocabSize,
		EmbeddingWidth: c.TokenDim,
		Embedding:      vectors,
		OwnsEmbedding:  true,
		Removes: []string{
			vectors, project + ".weight", project + ".bias", inputNorm + ".weight", inputNorm + ".bias",
		},
		Outputs: c.outputs(),
	}}
}

func (c *Config) outputs() []nn.Output {
	return []nn.Output{{Name: output, Width: c.HiddenSize, DType: tensor.F32}}
}

func (c *Config) slots() run.Slots {
	return run.Slots{{Path: EncoderPath, Tokens: c.VocabSize, Outputs: c.outputs()}}
}

// Inputs says what the model takes.
func (b *Blueprint) Inputs() architectures.InputSpec {
	return architectures.InputSpec{
		Vocabulary:   b.cfg.VocabSize,
		MaxPositions: b.cfg.Positions,
		PadToken:     b.cfg.PadToken,
		Masks:        true,
	}
}

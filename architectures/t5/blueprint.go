package t5

import (
	"fmt"
	"slices"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/batch"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

func init() { architectures.Register(family{}) }

// Paths of the declared blocks.
const (
	EncoderPath = "encoder.block.0"
	DecoderPath = "decoder.block.0"
)

// Output names of the declared blocks.
const (
	outputQ        = "q"
	outputK        = "k"
	outputV        = "v"
	outputResidual = "residual"
)

const (
	embeddingName = "shared.weight"
	headName      = "lm_head.weight"
)

type family struct{}

func (family) Name() string { return modelType }

func (family) Matches(cfg architectures.Config) bool {
	return cfg.ModelType == modelType || cfg.ModelType == "" &&
		(slices.Contains(cfg.Architectures, classSeq2Seq) || slices.Contains(cfg.Architectures, classEncoder))
}

func (family) New(cfg architectures.Config) (architectures.Blueprint, error) {
	c, err := ParseConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &Blueprint{cfg: *c}, nil
}

// Blueprint is a T5 model without weights. It is immutable and safe for
// concurrent use.
type Blueprint struct{ cfg Config }

// Config returns the settings that the blueprint was made from.
func (b *Blueprint) Config() Config {
	c := b.cfg
	c.EndTokens = slices.Clone(c.EndTokens)
	return c
}

// stackSpec is what distinguishes the two stacks.
type stackSpec struct {
	name    string // "encoder" or "decoder"
	layers  int
	decoder bool
}

func (c *Config) stacks() []stackSpec {
	out := []stackSpec{{"encoder", c.EncoderLayers, false}}
	if !c.EncoderOnly {
		out = append(out, stackSpec{"decoder", c.DecoderLayers, true})
	}
	return out
}

func (s stackSpec) path() string { return s.name + ".block.0" }

// layer is the prefix of part n of a block: 0 is self-attention, the last one the
// MLP, and a decoder has cross-attention in between.
func (s stackSpec) layer(block, n int) string {
	return fmt.Sprintf("%s.block.%d.layer.%d.", s.name, block, n)
}

func (s stackSpec) mlp() int {
	if s.decoder {
		return 2
	}
	return 1
}

func (s stackSpec) biasName() string {
	return s.name + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight"
}

// Params lists the checkpoint's tensors: shared embedding, encoder, decoder, head.
// Copies of the embedding in the stacks may be there.
func (b *Blueprint) Params() []loader.Param {
	c := &b.cfg
	var out []loader.Param
	add := func(name string, shape ...int) {
		out = append(out, loader.Param{Name: name, Shape: shape, DTypes: []tensor.DType{c.DType}})
	}
	tied := func(name string) {
		add(name, c.VocabSize, c.HiddenSize)
		out[len(out)-1].TiedTo = embeddingName
	}
	attention := func(at string) {
		for _, name := range []string{"q", "k", "v"} {
			add(at+name+".weight", c.inner(), c.HiddenSize)
		}
		add(at+"o.weight", c.HiddenSize, c.inner())
	}
	add(embeddingName, c.VocabSize, c.HiddenSize)
	for _, s := range c.stacks() {
		tied(s.name + ".embed_tokens.weight")
		add(s.biasName(), c.Buckets, c.Heads)
		for i := range s.layers {
			attention(s.layer(i, 0) + "SelfAttention.")
			add(s.layer(i, 0)+"layer_norm.weight", c.HiddenSize)
			if s.decoder {
				attention(s.layer(i, 1) + "EncDecAttention.")
				add(s.layer(i, 1)+"layer_norm.weight", c.HiddenSize)
			}
			at := s.layer(i, s.mlp())
			for _, name := range c.mlpInputs() {
				add(at+"DenseReluDense."+name+".weight", c.IntermediateSize, c.HiddenSize)
			}
			add(at+"DenseReluDense.wo.weight", c.HiddenSize, c.IntermediateSize)
			add(at+"layer_norm.weight", c.HiddenSize)
		}
		add(s.name+".final_layer_norm.weight", c.HiddenSize)
	}
	if c.EncoderOnly {
		return out
	}
	out = append(out, loader.Param{Name: "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight", Ignored: true})
	if c.TiedHead {
		tied(headName)
	} else {
		add(headName, c.VocabSize, c.HiddenSize)
	}
	return out
}

// mlpInputs names the projections into the MLP.
func (c *Config) mlpInputs() []string {
	if c.Gated {
		return []string{"wi_0", "wi_1"}
	}
	return []string{"wi"}
}

// Blocks declares the first self-attention's projections of each stack.
func (b *Blueprint) Blocks() []architectures.BlockSpec {
	c := &b.cfg
	var out []architectures.BlockSpec
	for _, s := range c.stacks() {
		at := s.layer(0, 0)
		out = append(out, architectures.BlockSpec{
			Path:           s.path(),
			Contract:       architectures.TokenIndicesOnly,
			NumTokens:      c.VocabSize,
			EmbeddingWidth: c.HiddenSize,
			Embedding:      embeddingName,
			OwnsEmbedding:  c.EncoderOnly,
			Removes: []string{at + "layer_norm.weight",
				at + "SelfAttention.q.weight", at + "SelfAttention.k.weight", at + "SelfAttention.v.weight"},
			Outputs: c.outputs(),
		})
	}
	return out
}

func (c *Config) outputs() []nn.Output {
	var out []nn.Output
	for _, name := range []string{outputQ, outputK, outputV} {
		out = append(out, nn.Output{Name: name, Width: c.inner(), DType: c.DType})
	}
	return out
}

func (c *Config) slots() run.Slots {
	var out run.Slots
	for _, s := range c.stacks() {
		residual := nn.Output{Name: outputResidual, Width: c.HiddenSize, DType: c.DType}
		out = append(out, run.Slot{Path: s.path(), Tokens: c.VocabSize, Outputs: append(c.outputs(), residual)})
	}
	return out
}

// Inputs says what the model takes.
func (b *Blueprint) Inputs() architectures.InputSpec {
	spec := architectures.InputSpec{
		Vocabulary: b.cfg.VocabSize,
		PadToken:   max(b.cfg.PadToken, 0),
		Further:    []architectures.FurtherInput{{Name: batch.Mask, Values: 2, Padding: true}},
	}
	if !b.cfg.EncoderOnly {
		spec.Further = append(spec.Further,
			architectures.FurtherInput{Name: decoderIDs, Values: b.cfg.VocabSize, Tokens: true, OwnLength: true},
			architectures.FurtherInput{Name: decoderMask, Values: 2, Padding: true, Like: decoderIDs})
	}
	return spec
}

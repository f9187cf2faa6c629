package esm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

func init() { architectures.Register(family{}) }

// BlockPath addresses the one block that this family declares.
const BlockPath = "esm.encoder.layer.0"

// Output names of the declared block.
const (
	outputQ        = "query"
	outputK        = "key"
	outputV        = "value"
	outputResidual = "residual"
)

const embeddingName = "esm.embeddings.word_embeddings.weight"

type family struct{}

func (family) Name() string { return modelType }

func (family) Matches(cfg architectures.Config) bool {
	return cfg.ModelType == modelType || cfg.ModelType == "" && slices.ContainsFunc(classes, func(class string) bool { return slices.Contains(cfg.Architectures, class) })
}

func (family) New(cfg architectures.Config) (architectures.Blueprint, error) {
	c, err := ParseConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &Blueprint{cfg: *c, weight: ".weight", bias: ".bias"}, nil
}

// Blueprint is an ESM-2 model without weights. It is immutable and safe for
// concurrent use.
type Blueprint struct {
	cfg          Config
	weight, bias string // endings of the layers' norms' parameters
	frequencies  string // the tensor of the rotary frequencies, empty when they are computed
}

// Config returns the settings that the blueprint was made from.
func (b *Blueprint) Config() Config { return b.cfg }

// ForNames follows a checkpoint in how the layers' norms spell their parameters,
// where transformers 5 writes gamma and beta, and in where the rotary frequencies
// are: what a checkpoint holds is read, as the reference does.
func (b *Blueprint) ForNames(have []string) architectures.Blueprint {
	view := *b
	view.weight, view.bias, view.frequencies = ".weight", ".bias", storedFrequencies(have)
	if slices.ContainsFunc(have, func(name string) bool { return strings.HasSuffix(name, "LayerNorm.gamma") }) {
		view.weight, view.bias = ".gamma", ".beta"
	}
	return &view
}

func layerName(i int) string { return fmt.Sprintf("esm.encoder.layer.%d.", i) }

// Params lists the checkpoint's tensors: embedding, rotary frequencies, layers in
// order, final norm and the head over the vocabulary or the classes. Checkpoints
// carry tensors that are not read: the frequencies beside further layers; a
// position table, which rotary models do not use; and the contact head.
func (b *Blueprint) Params() []loader.Param {
	c := &b.cfg
	var out []loader.Param
	add := func(name string, shape ...int) {
		out = append(out, loader.Param{Name: name, Shape: shape, DTypes: []tensor.DType{c.DType}})
	}
	linear := func(name string, in, width int) {
		add(name+".weight", width, in)
		add(name+".bias", width)
	}
	norm := func(name, weight, bias string) {
		add(name+weight, c.HiddenSize)
		add(name+bias, c.HiddenSize)
	}
	ignore := func(name string) { out = append(out, loader.Param{Name: name, Ignored: true}) }

	add(embeddingName, c.VocabSize, c.HiddenSize)
	for _, stored := range []string{"esm.embeddings.position_embeddings.weight", "esm.embeddings.position_ids",
		"esm.contact_head.regression.weight", "esm.contact_head.regression.bias"} {
		ignore(stored)
	}
	out = append(out, b.frequencyParams()...)
	for i := range c.Layers {
		at := layerName(i)
		norm(at+"attention.LayerNorm", b.weight, b.bias)
		for _, name := range []string{"query", "key", "value"} {
			linear(at+"attention.self."+name, c.HiddenSize, c.HiddenSize)
		}
		linear(at+"attention.output.dense", c.HiddenSize, c.HiddenSize)
		norm(at+"LayerNorm", b.weight, b.bias)
		linear(at+"intermediate.dense", c.HiddenSize, c.IntermediateSize)
		linear(at+"output.dense", c.IntermediateSize, c.HiddenSize)
	}
	norm("esm.encoder.emb_layer_norm_after", ".weight", ".bias")
	if c.Labels > 0 {
		linear("classifier.dense", c.HiddenSize, c.HiddenSize)
		linear("classifier.out_proj", c.HiddenSize, c.Labels)
		return out
	}
	linear("lm_head.dense", c.HiddenSize, c.HiddenSize)
	norm("lm_head.layer_norm", ".weight", ".bias")
	add("lm_head.bias", c.VocabSize)
	add("lm_head.decoder.weight", c.VocabSize, c.HiddenSize)
	if c.TiedHead {
		out[len(out)-1].TiedTo = embeddingName
	}
	return out
}

// Blocks declares what layer 0 computes of the embedding alone.
func (b *Blueprint) Blocks() []architectures.BlockSpec {
	c, at := &b.cfg, layerName(0)
	removes := []string{at + "attention.LayerNorm" + b.weight, at + "attention.LayerNorm" + b.bias}
	for _, name := range []string{"query", "key", "value"} {
		removes = append(removes, at+"attention.self."+name+".weight", at+"attention.self."+name+".bias")
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
	var out []nn.Output
	for _, name := range []string{outputQ, outputK, outputV} {
		out = append(out, nn.Output{Name: name, Width: c.HiddenSize, DType: c.DType})
	}
	return out
}

func (c *Config) slots() run.Slots {
	residual := nn.Output{Name: outputResidual, Width: c.HiddenSize, DType: c.DType}
	return run.Slots{{Path: BlockPath, Tokens: c.VocabSize, Outputs: append(c.outputs(), residual)}}
}

// Inputs says what the model takes. With token dropout, examples leave <mask>
// out: a model whose block was replaced refuses it.
func (b *Blueprint) Inputs() architectures.InputSpec {
	c := &b.cfg
	spec := architectures.InputSpec{
		Vocabulary:   c.VocabSize,
		MaxPositions: c.Positions,
		PadToken:     max(c.PadToken, 0),
		Masks:        true,
	}
	if c.TokenDropout {
		for id := range c.VocabSize {
			if id != c.MaskToken {
				spec.IDs = append(spec.IDs, id)
			}
		}
	}
	return spec
}

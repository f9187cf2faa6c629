package gru

import (
	"slices"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

func init() { architectures.Register(family{}) }

// Paths of the declared blocks.
const (
	EncoderPath = "encoder.input"
	DecoderPath = "decoder.input"
)

// output is the one output of either block: the gates' share of the input, in
// the order r, z, n.
const output = "gates"

const (
	modelType = "gru_seq2seq"
	className = "GRUForSeq2Seq"
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

// Blueprint is a model without weights. It is immutable and safe for concurrent
// use.
type Blueprint struct{ cfg Config }

// Config returns the settings that the blueprint was made from.
func (b *Blueprint) Config() Config { return b.cfg }

// stack is one of the two recurrent stacks: its name in the checkpoint, its
// vocabulary and its block.
type stack struct {
	prefix, path string
	vocab        int
}

func (c *Config) stacks() [2]stack {
	return [2]stack{{"enc", EncoderPath, c.SourceVocab}, {"dec", DecoderPath, c.TargetVocab}}
}

// Names of the tensors of a stack, and of the head.
func (s stack) embedding() string { return s.prefix + "_emb" }
func (s stack) wIn() string       { return s.prefix + "_w_ih" }
func (s stack) bIn() string       { return s.prefix + "_b_ih" }
func (s stack) wState() string    { return s.prefix + "_w_hh" }
func (s stack) bState() string    { return s.prefix + "_b_hh" }

const (
	headWeight = "fc_w"
	headBias   = "fc_b"
)

// Params lists the checkpoint's tensors: encoder, decoder, head.
func (b *Blueprint) Params() []loader.Param {
	c := &b.cfg
	var out []loader.Param
	add := func(name string, shape ...int) {
		out = append(out, loader.Param{Name: name, Shape: shape, DTypes: []tensor.DType{tensor.F32}})
	}
	gates := 3 * c.HiddenSize
	for _, s := range c.stacks() {
		add(s.embedding(), s.vocab, c.EmbeddingSize)
		add(s.wIn(), gates, c.EmbeddingSize)
		add(s.wState(), gates, c.HiddenSize)
		add(s.bIn(), gates)
		add(s.bState(), gates)
	}
	add(headWeight, c.TargetVocab, c.HiddenSize)
	add(headBias, c.TargetVocab)
	return out
}

// Blocks declares the two input projections.
func (b *Blueprint) Blocks() []architectures.BlockSpec {
	var out []architectures.BlockSpec
	for _, s := range b.cfg.stacks() {
		out = append(out, architectures.BlockSpec{
			Path:           s.path,
			Contract:       architectures.TokenIndicesOnly,
			NumTokens:      s.vocab,
			EmbeddingWidth: b.cfg.EmbeddingSize,
			Embedding:      s.embedding(),
			OwnsEmbedding:  true,
			Removes:        []string{s.embedding(), s.wIn(), s.bIn()},
			Outputs:        b.cfg.outputs(),
		})
	}
	return out
}

func (c *Config) outputs() []nn.Output {
	return []nn.Output{{Name: output, Width: 3 * c.HiddenSize, DType: tensor.F32}}
}

func (c *Config) slots() run.Slots {
	var out run.Slots
	for _, s := range c.stacks() {
		out = append(out, run.Slot{Path: s.path, Tokens: s.vocab, Outputs: c.outputs()})
	}
	return out
}

// Inputs says what the model takes.
func (b *Blueprint) Inputs() architectures.InputSpec {
	return architectures.InputSpec{
		Vocabulary: b.cfg.SourceVocab,
		Further:    []architectures.FurtherInput{{Name: decoderIDs, Values: b.cfg.TargetVocab, OwnLength: true}},
	}
}

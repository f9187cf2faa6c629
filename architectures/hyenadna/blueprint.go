package hyenadna

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
const BlockPath = "hyena.backbone.layers.0.mixer.in_proj"

// Output names of the declared block.
const (
	outputStreams  = "in_proj"
	outputResidual = "residual"
)

const (
	basePrefix = "hyena."
	embedding  = "backbone.embeddings.word_embeddings.weight"
	headName   = "lm_head.weight"
	scoreName  = "score.weight"
)

type family struct{}

func (family) Name() string { return modelType }

func (family) Matches(cfg architectures.Config) bool {
	if cfg.ModelType != "" {
		return cfg.ModelType == modelType
	}
	return slices.ContainsFunc(classes, func(class string) bool { return slices.Contains(cfg.Architectures, class) })
}

func (family) New(cfg architectures.Config) (architectures.Blueprint, error) {
	c, err := ParseConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &Blueprint{cfg: *c, prefix: basePrefix}, nil
}

// Blueprint is a HyenaDNA model without weights. It is immutable and safe for
// concurrent use.
type Blueprint struct {
	cfg Config
	// prefix stands before all names but the head's.
	prefix string
}

// Config returns the settings that the blueprint was made from.
func (b *Blueprint) Config() Config { return b.cfg }

// ForNames leaves out "hyena." before all names where the checkpoint does, as one of
// a HyenaDNAModel or of the original program does.
func (b *Blueprint) ForNames(names []string) architectures.Blueprint {
	view := *b
	view.prefix = basePrefix
	if slices.Contains(names, embedding) {
		view.prefix = ""
	}
	return &view
}

func (b *Blueprint) layer(i int) string { return fmt.Sprintf("%sbackbone.layers.%d.", b.prefix, i) }

// Names of a layer's parts, behind its prefix.
const (
	inProj    = "mixer.in_proj"
	outProj   = "mixer.out_proj"
	shortConv = "mixer.short_filter"
	skip      = "mixer.filter_fn.bias"
	vectors   = "mixer.filter_fn.pos_emb.z"
	times     = "mixer.filter_fn.pos_emb.t"
	rates     = "mixer.filter_fn.modulation.deltas"
)

// filterPart names the i-th module of the MLP that makes filters: linear maps, with
// sines in between.
func filterPart(i int) string { return fmt.Sprintf("mixer.filter_fn.implicit_filter.%d", i) }

// Params lists the checkpoint's tensors: embedding, layers in order, final norm and
// head. All sines of a layer have one set of frequencies: checkpoints hold it once,
// or once for each sine.
func (b *Blueprint) Params() []loader.Param {
	c := &b.cfg
	var out []loader.Param
	add := func(name string, shape ...int) {
		out = append(out, loader.Param{Name: name, Shape: shape, DTypes: []tensor.DType{tensor.F32}})
	}
	linear := func(name string, in, width int) {
		add(name+".weight", width, in)
		add(name+".bias", width)
	}
	norm := func(name string) {
		add(name+".weight", c.HiddenSize)
		add(name+".bias", c.HiddenSize)
	}
	add(b.prefix+embedding, c.VocabSize, c.HiddenSize)
	for i := range c.Layers {
		at := b.layer(i)
		norm(at + "norm1")
		linear(at+inProj, c.HiddenSize, c.streams())
		add(at+shortConv+".weight", c.streams(), 1, shortTaps)
		add(at+shortConv+".bias", c.streams())
		add(at+skip, c.filters())
		add(at+vectors, 1, c.Positions, c.PositionSize)
		add(at+times, 1, c.Positions, 1)
		in := c.PositionSize
		for j := range c.FilterLayers + 1 {
			linear(at+filterPart(2*j), in, c.FilterSize)
			in = c.FilterSize
			if !c.TrainedFrequencies {
				continue
			}
			add(at+filterPart(2*j+1)+".freq", 1, c.FilterSize)
			if j > 0 {
				out[len(out)-1].TiedTo = at + filterPart(1) + ".freq"
			}
		}
		add(at+filterPart(2*c.FilterLayers+2)+".weight", c.filters(), c.FilterSize)
		add(at+rates, 1, 1, c.filters())
		linear(at+outProj, c.HiddenSize, c.HiddenSize)
		norm(at + "norm2")
		linear(at+"mlp.fc1", c.HiddenSize, c.IntermediateSize)
		linear(at+"mlp.fc2", c.IntermediateSize, c.HiddenSize)
	}
	norm(b.prefix + "backbone.ln_f")
	switch {
	case c.Labels > 0:
		add(scoreName, c.Labels, c.HiddenSize)
	case !c.LM:
		out = append(out, loader.Param{Name: headName, Ignored: true})
	case c.TiedHead:
		add(headName, c.VocabSize, c.HiddenSize)
		out[len(out)-1].TiedTo = b.prefix + embedding
	default:
		add(headName, c.VocabSize, c.HiddenSize)
	}
	return out
}

// Blocks declares what layer 0 computes of the embedding alone.
func (b *Blueprint) Blocks() []architectures.BlockSpec {
	c, at := &b.cfg, b.layer(0)
	return []architectures.BlockSpec{{
		Path:           BlockPath,
		Contract:       architectures.TokenIndicesOnly,
		NumTokens:      c.VocabSize,
		EmbeddingWidth: c.HiddenSize,
		Embedding:      b.prefix + embedding,
		OwnsEmbedding:  !c.TiedHead,
		Removes:        []string{at + "norm1.weight", at + "norm1.bias", at + inProj + ".weight", at + inProj + ".bias"},
		Outputs:        c.outputs(),
	}}
}

func (c *Config) outputs() []nn.Output {
	return []nn.Output{{Name: outputStreams, Width: c.streams(), DType: tensor.F32}}
}

func (c *Config) slots() run.Slots {
	residual := nn.Output{Name: outputResidual, Width: c.HiddenSize, DType: tensor.F32}
	return run.Slots{{Path: BlockPath, Tokens: c.VocabSize, Outputs: append(c.outputs(), residual)}}
}

// Inputs says what the model takes.
func (b *Blueprint) Inputs() architectures.InputSpec {
	return architectures.InputSpec{
		Vocabulary:   b.cfg.VocabSize,
		MaxPositions: b.cfg.Positions,
		PadToken:     max(b.cfg.PadToken, 0),
	}
}

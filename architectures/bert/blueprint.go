package bert

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

// BlockPath addresses the one block that this family declares, and refuses.
const BlockPath = "encoder.layer.0.attention.self"

type family struct{}

func (family) Name() string { return modelType }

func (family) Matches(cfg architectures.Config) bool {
	return cfg.ModelType == modelType || cfg.ModelType == "" &&
		(slices.Contains(cfg.Architectures, classModel) || slices.Contains(cfg.Architectures, classMaskedLM))
}

func (family) New(cfg architectures.Config) (architectures.Blueprint, error) {
	c, err := ParseConfig(cfg)
	if err != nil {
		return nil, err
	}
	b := &Blueprint{cfg: *c, names: names{weight: ".weight", bias: ".bias", pooler: !c.MaskedLM}}
	if c.MaskedLM {
		b.names.prefix = "bert."
	}
	return b, nil
}

// Blueprint is a BERT model without weights. It is immutable and safe for
// concurrent use.
type Blueprint struct {
	cfg   Config
	names names
}

// names is how a checkpoint spells things.
type names struct {
	prefix       string // before all names but the head's
	weight, bias string // endings of the norms' parameters
	pooler       bool
}

// Config returns the settings that the blueprint was made from.
func (b *Blueprint) Config() Config { return b.cfg }

// ForNames follows a checkpoint in three things: whether "bert." stands before
// the names, whether the norms' parameters are called gamma and beta as in the
// first BERT files, and whether there is a pooler.
func (b *Blueprint) ForNames(have []string) architectures.Blueprint {
	view := *b
	has := func(name string) bool { return slices.Contains(have, name) }
	if !b.cfg.MaskedLM {
		view.names.prefix = ""
		if has("bert.embeddings.word_embeddings.weight") {
			view.names.prefix = "bert."
		}
		view.names.pooler = has(view.names.prefix + "pooler.dense.weight")
	}
	view.names.weight, view.names.bias = ".weight", ".bias"
	if slices.ContainsFunc(have, func(name string) bool { return strings.HasSuffix(name, "LayerNorm.gamma") }) {
		view.names.weight, view.names.bias = ".gamma", ".beta"
	}
	return &view
}

// Names of the embeddings, behind the prefix, in the order in which they are
// added up.
const (
	wordRows     = "embeddings.word_embeddings.weight"
	typeRows     = "embeddings.token_type_embeddings.weight"
	positionRows = "embeddings.position_embeddings.weight"
)

func (b *Blueprint) layer(i int) string { return fmt.Sprintf("%sencoder.layer.%d.", b.names.prefix, i) }

// Params lists the checkpoint's tensors: embeddings, layers in order, pooler or
// head. Checkpoints of pretraining carry more heads, which are not read.
func (b *Blueprint) Params() []loader.Param {
	c, n := &b.cfg, b.names
	var out []loader.Param
	add := func(name string, shape ...int) {
		out = append(out, loader.Param{Name: name, Shape: shape, DTypes: []tensor.DType{c.DType}})
	}
	linear := func(name string, in, width int) {
		add(name+".weight", width, in)
		add(name+".bias", width)
	}
	norm := func(name string) {
		add(name+n.weight, c.HiddenSize)
		add(name+n.bias, c.HiddenSize)
	}
	ignore := func(names ...string) {
		for _, name := range names {
			out = append(out, loader.Param{Name: name, Ignored: true})
		}
	}
	add(n.prefix+wordRows, c.VocabSize, c.HiddenSize)
	add(n.prefix+positionRows, c.Positions, c.HiddenSize)
	add(n.prefix+typeRows, c.TokenTypes, c.HiddenSize)
	norm(n.prefix + "embeddings.LayerNorm")
	ignore(n.prefix+"embeddings.position_ids", n.prefix+"embeddings.token_type_ids")
	for i := range c.Layers {
		at := b.layer(i)
		for _, name := range []string{"query", "key", "value"} {
			linear(at+"attention.self."+name, c.HiddenSize, c.HiddenSize)
		}
		linear(at+"attention.output.dense", c.HiddenSize, c.HiddenSize)
		norm(at + "attention.output.LayerNorm")
		linear(at+"intermediate.dense", c.HiddenSize, c.IntermediateSize)
		linear(at+"output.dense", c.IntermediateSize, c.HiddenSize)
		norm(at + "output.LayerNorm")
	}
	if n.pooler {
		linear(n.prefix+"pooler.dense", c.HiddenSize, c.HiddenSize)
	} else {
		ignore(n.prefix+"pooler.dense.weight", n.prefix+"pooler.dense.bias")
	}
	ignore("cls.seq_relationship.weight", "cls.seq_relationship.bias")
	const head = "cls.predictions."
	if !c.MaskedLM {
		ignore(head+"bias", head+"decoder.weight", head+"decoder.bias", head+"transform.dense.weight", head+"transform.dense.bias",
			head+"transform.LayerNorm"+n.weight, head+"transform.LayerNorm"+n.bias)
		return out
	}
	linear(head+"transform.dense", c.HiddenSize, c.HiddenSize)
	norm(head + "transform.LayerNorm")
	add(head+"bias", c.VocabSize)
	add(head+"decoder.weight", c.VocabSize, c.HiddenSize)
	out[len(out)-1].TiedTo = n.prefix + wordRows
	add(head+"decoder.bias", c.VocabSize)
	out[len(out)-1].TiedTo = head + "bias"
	return out
}

// Blocks declares layer 0's projections, refused.
func (b *Blueprint) Blocks() []architectures.BlockSpec {
	return []architectures.BlockSpec{b.sum().Spec()}
}

func (b *Blueprint) sum() *run.Sum {
	c, n, at := &b.cfg, b.names, b.layer(0)
	removes := []string{n.prefix + "embeddings.LayerNorm" + n.weight, n.prefix + "embeddings.LayerNorm" + n.bias}
	var outputs []nn.Output
	for _, name := range []string{"query", "key", "value"} {
		removes = append(removes, at+"attention.self."+name+".weight", at+"attention.self."+name+".bias")
		outputs = append(outputs, nn.Output{Name: name, Width: c.HiddenSize, DType: c.DType})
	}
	outputs = append(outputs, nn.Output{Name: "hidden", Width: c.HiddenSize, DType: c.DType}) // the residual is normalised
	return &run.Sum{
		Path: BlockPath,
		Terms: []run.Term{
			{What: "tokens", Table: n.prefix + wordRows, Rows: c.VocabSize},
			{What: "token types", Table: n.prefix + typeRows, Rows: c.TokenTypes},
			{What: "positions", Table: n.prefix + positionRows, Rows: c.Positions},
		},
		Width: c.HiddenSize, Removes: removes, Outputs: outputs, Declared: b.Params(),
	}
}

// Inputs says what the model takes.
func (b *Blueprint) Inputs() architectures.InputSpec {
	return architectures.InputSpec{
		Vocabulary:   b.cfg.VocabSize,
		MaxPositions: b.cfg.Positions,
		PadToken:     max(b.cfg.PadToken, 0),
		Masks:        true,
		Further:      []architectures.FurtherInput{{Name: "token_type_ids", Values: b.cfg.TokenTypes}},
	}
}

package esm

import (
	"errors"
	"fmt"
	"math"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/batch"
	"github.com/hfcompress/compress/architectures/internal/settings"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// ErrConfig is wrapped by every error about a configuration that is malformed,
// out of bounds, or asks for what this package does not compute.
var ErrConfig = errors.New("config.json does not describe a supported ESM-2 model")

const (
	modelType       = "esm"
	classMaskedLM   = "EsmForMaskedLM"
	classClassifier = "EsmForSequenceClassification"
)

var classes = []string{classMaskedLM, classClassifier}

// Config holds what a config.json says about the computation.
type Config struct {
	// DType is the type of the checkpoint's tensors, in which the model computes.
	DType tensor.DType
	// VocabSize is the number of token ids, HiddenSize the width of the residual
	// stream, IntermediateSize that of the MLP.
	VocabSize, HiddenSize, IntermediateSize int
	Layers, Heads                           int
	// Positions is max_position_embeddings. It bounds nothing: positions rotate.
	Positions   int
	NormEpsilon float32
	// Rope describes the rotary positions; its Dim is the head size.
	Rope nn.Rope
	// TokenDropout says that <mask> rows are zero and the others scaled.
	TokenDropout bool
	// MaskToken is the id of <mask>, -1 when there is none.
	MaskToken int
	// TiedHead says that the head's matrix is the embedding.
	TiedHead bool
	// Labels is the number of classes of a model that classifies sequences, 0 for
	// one with a head over the vocabulary.
	Labels int
	// PadToken is -1 when the configuration has none.
	PadToken int
}

// Bounds on what a configuration may ask for.
const (
	maxVocab        = 1 << 20
	maxHidden       = 1 << 17
	maxIntermediate = 1 << 20
	maxLayers       = 1 << 10
	maxLabels       = 1 << 16
)

// trained is the part of a training sequence that was not masked: 1 − 0.15·0.8,
// rounded as the reference's constant is.
const trained = 1 - 0.15*0.8

// neutral lists settings that would change the computation, with the values at
// which they do not.
var neutral = []settings.Neutral{
	{Key: "emb_layer_norm_before", OK: []string{"false"}, What: "a norm in front of the layers"},
	{Key: "is_decoder", OK: []string{"false"}, What: "a decoder"},
	{Key: "is_folding_model", OK: []string{"false"}, What: "folding"},
	{Key: "esmfold_config", What: "folding"},
	{Key: "hidden_act", OK: []string{`"gelu"`}, What: "another activation"},
}

// ParseConfig checks a config.json for what decides the computation. Settings
// that change it and are not implemented are errors that name them; other
// unknown settings are left alone. Errors wrap [ErrConfig].
func ParseConfig(cfg architectures.Config) (*Config, error) {
	o, err := settings.Parse(ErrConfig, cfg.Raw)
	if err != nil {
		return nil, err
	}
	class, err := o.Identity(cfg, []string{modelType}, classes)
	if err != nil {
		return nil, err
	}
	if err := o.Check(settings.Common, settings.NotSeq2Seq, neutral); err != nil {
		return nil, err
	}
	c := &Config{}
	if c.DType, err = o.DType(tensor.F32, tensor.BF16, tensor.F16); err != nil {
		return nil, err
	}
	c.VocabSize = o.Size("vocab_size", settings.Required, maxVocab)
	c.HiddenSize = o.Size("hidden_size", settings.Required, maxHidden)
	c.Layers = o.Size("num_hidden_layers", settings.Required, maxLayers)
	c.Heads = o.Size("num_attention_heads", settings.Required, maxHidden)
	c.IntermediateSize = o.Size("intermediate_size", settings.Required, maxIntermediate)
	c.Positions = o.Size("max_position_embeddings", 1026, batch.MaxPositions)
	c.NormEpsilon = o.Epsilon("layer_norm_eps", 1e-12)
	c.TokenDropout = o.Flag("token_dropout", false)
	c.TiedHead = o.Flag("tie_word_embeddings", true)
	if class == classClassifier {
		c.TiedHead = false // it has none
		c.Labels = labels(o)
	}
	c.PadToken = o.PadToken(-1, c.VocabSize)
	c.MaskToken = o.Count("mask_token_id", -1, maxVocab)
	positions := o.Text("position_embedding_type", "absolute")
	if o.Err != nil {
		return nil, o.Err
	}
	switch {
	case positions != "rotary":
		return nil, o.Fail("position_embedding_type", "%s is not supported; supported: \"rotary\"", settings.Quote(positions))
	case c.TokenDropout && (c.MaskToken < 0 || c.MaskToken >= c.VocabSize):
		return nil, o.Fail("mask_token_id", "%d: token_dropout needs one within the vocabulary of %d", c.MaskToken, c.VocabSize)
	case c.HiddenSize%c.Heads != 0:
		return nil, o.Fail("num_attention_heads", "%d does not divide the hidden size %d", c.Heads, c.HiddenSize)
	case c.headDim()%2 != 0:
		return nil, o.Fail("num_attention_heads", "heads of %d elements: rotary positions turn pairs", c.headDim())
	}
	c.Rope, err = o.Rope(c.headDim(), c.Positions, settings.RopeDefaults{ThetaKey: "rope_theta", Theta: 10000})
	if err == nil && c.Rope.Scaling != nn.RopeDefault {
		err = o.Fail("rope_parameters", "%s scaling is not supported", settings.Quote(string(c.Rope.Scaling)))
	}
	return c, err
}

// labels is the number of classes: those that id2label names, or num_labels, or
// two, in the order in which the reference looks.
func labels(o *settings.Object) int {
	n := o.Size("num_labels", 2, maxLabels)
	if names := o.Object("id2label").Keys(); len(names) > 0 {
		n = len(names)
	}
	if n > maxLabels {
		o.Err = o.Fail("id2label", "%d labels; at most %d are read", n, maxLabels)
	}
	return n
}

// logitWidth is the number of columns of the logits.
func (c *Config) logitWidth() int {
	if c.Labels > 0 {
		return c.Labels
	}
	return c.VocabSize
}

func (c *Config) headDim() int { return c.HiddenSize / c.Heads }

// queryScale multiplies queries before they rotate.
func (c *Config) queryScale() float32 { return float32(1 / math.Sqrt(float64(c.headDim()))) }

// limits says what a call may hold.
func (c *Config) limits() batch.Limits { return batch.Limits{Vocabulary: c.VocabSize} }

// String describes the model on one line.
func (c *Config) String() string {
	return fmt.Sprintf("esm: %d layers, hidden %d, %d heads, vocabulary %d", c.Layers, c.HiddenSize, c.Heads, c.VocabSize)
}

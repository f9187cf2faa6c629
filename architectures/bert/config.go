package bert

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
var ErrConfig = errors.New("config.json does not describe a supported BERT model")

const (
	modelType     = "bert"
	classModel    = "BertModel"
	classMaskedLM = "BertForMaskedLM"
)

// Config holds what a config.json says about the computation.
type Config struct {
	// DType is the type of the checkpoint's tensors, in which the model computes.
	DType tensor.DType
	// MaskedLM says that the model has a head over the vocabulary.
	MaskedLM bool
	// VocabSize, Positions and TokenTypes are the numbers of rows of the three
	// embeddings, HiddenSize their width, IntermediateSize that of the MLP.
	VocabSize, Positions, TokenTypes, HiddenSize, IntermediateSize int
	Layers, Heads                                                  int
	NormEpsilon                                                    float32
	Activation                                                     nn.Unary
	// PadToken is -1 when the configuration has none.
	PadToken int
}

// Bounds on what a configuration may ask for: the product of the three
// vocabularies and the columns, in bytes, stays within 63 bits.
const (
	maxVocab        = 1 << 21
	maxPositions    = 1 << 16
	maxTokenTypes   = 1 << 4
	maxHidden       = 1 << 14
	maxIntermediate = 1 << 18
	maxLayers       = 1 << 10
)

// neutral lists settings that would change the computation, with the values at
// which they do not.
var neutral = []settings.Neutral{
	{Key: "position_embedding_type", OK: []string{`"absolute"`}, What: "relative positions"},
	{Key: "is_decoder", OK: []string{"false"}, What: "a decoder"},
	{Key: "tie_word_embeddings", OK: []string{"true"}, What: "a head of its own"},
	{Key: "embedding_size", What: "embeddings of another width"},
}

// ParseConfig checks a config.json for what decides the computation. Settings
// that change it and are not implemented are errors that name them; other
// unknown settings are left alone. Errors wrap [ErrConfig].
func ParseConfig(cfg architectures.Config) (*Config, error) {
	o, err := settings.Parse(ErrConfig, cfg.Raw)
	if err != nil {
		return nil, err
	}
	class, err := o.Identity(cfg, []string{modelType}, []string{classModel, classMaskedLM})
	if err != nil {
		return nil, err
	}
	if err := o.Check(settings.Common, settings.NotSeq2Seq, neutral); err != nil {
		return nil, err
	}
	c := &Config{MaskedLM: class == classMaskedLM}
	if c.DType, err = o.DType(tensor.F32, tensor.BF16, tensor.F16); err != nil {
		return nil, err
	}
	c.VocabSize = o.Size("vocab_size", settings.Required, maxVocab)
	c.HiddenSize = o.Size("hidden_size", settings.Required, maxHidden)
	c.Layers = o.Size("num_hidden_layers", settings.Required, maxLayers)
	c.Heads = o.Size("num_attention_heads", settings.Required, maxHidden)
	c.IntermediateSize = o.Size("intermediate_size", settings.Required, maxIntermediate)
	c.Positions = o.Size("max_position_embeddings", 512, maxPositions)
	c.TokenTypes = o.Size("type_vocab_size", 2, maxTokenTypes)
	c.NormEpsilon = o.Epsilon("layer_norm_eps", 1e-12)
	c.Activation = o.Activation("hidden_act", "gelu")
	c.PadToken = o.PadToken(0, c.VocabSize)
	if o.Err != nil {
		return nil, o.Err
	}
	if c.HiddenSize%c.Heads != 0 {
		return nil, o.Fail("num_attention_heads", "%d does not divide the hidden size %d", c.Heads, c.HiddenSize)
	}
	return c, nil
}

func (c *Config) headDim() int { return c.HiddenSize / c.Heads }

func (c *Config) scale() float32 { return float32(1 / math.Sqrt(float64(c.headDim()))) }

// limits says what a call may hold.
func (c *Config) limits() batch.Limits {
	return batch.Limits{Vocabulary: c.VocabSize, Positions: c.Positions, TokenTypes: c.TokenTypes}
}

// String describes the model on one line.
func (c *Config) String() string {
	return fmt.Sprintf("bert: %d layers, hidden %d, %d heads, vocabulary %d, %d positions",
		c.Layers, c.HiddenSize, c.Heads, c.VocabSize, c.Positions)
}

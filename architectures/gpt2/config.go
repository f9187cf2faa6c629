package gpt2

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
var ErrConfig = errors.New("config.json does not describe a supported GPT-2 model")

const (
	modelType = "gpt2"
	class     = "GPT2LMHeadModel"
)

// Config holds what a config.json says about the computation.
type Config struct {
	// DType is the type of the checkpoint's tensors, in which the model computes.
	DType tensor.DType
	// VocabSize is the number of token ids, Positions that of positions, HiddenSize
	// the width of the residual stream, IntermediateSize that of the MLP.
	VocabSize, Positions, HiddenSize, IntermediateSize int
	Layers, Heads                                      int
	NormEpsilon                                        float32
	Activation                                         nn.Unary
	// ScaleScores multiplies scores with 1/√(head size), ScaleByLayer divides them
	// by the layer's number, counted from 1.
	ScaleScores, ScaleByLayer bool
	// WideScores keeps 16-bit scores in float32 up to the softmax.
	WideScores bool
	// TiedHead says that the head is the token embedding.
	TiedHead bool
	// EndTokens ends a generated sequence; PadToken is -1 when there is none.
	EndTokens []int
	PadToken  int
}

// Bounds on what a configuration may ask for: the product of vocabulary,
// positions and columns, in bytes, stays within 63 bits.
const (
	maxVocab        = 1 << 21
	maxPositions    = 1 << 17
	maxHidden       = 1 << 15
	maxIntermediate = 1 << 18
	maxLayers       = 1 << 10
	maxEndTokens    = 1 << 10
)

// ParseConfig checks a config.json for what decides the computation. Settings
// that change it and are not implemented are errors that name them; other
// unknown settings are left alone. Errors wrap [ErrConfig].
func ParseConfig(cfg architectures.Config) (*Config, error) {
	o, err := settings.Parse(ErrConfig, cfg.Raw)
	if err != nil {
		return nil, err
	}
	if _, err := o.Identity(cfg, []string{modelType}, []string{class}); err != nil {
		return nil, err
	}
	if err := o.Check(settings.Common, settings.NotSeq2Seq); err != nil {
		return nil, err
	}
	c := &Config{}
	if c.DType, err = o.DType(tensor.F32, tensor.BF16, tensor.F16); err != nil {
		return nil, err
	}
	c.VocabSize = o.Size("vocab_size", settings.Required, maxVocab)
	c.Positions = o.Size(o.First("n_positions", "max_position_embeddings"), settings.Required, maxPositions)
	c.HiddenSize = o.Size(o.First("n_embd", "hidden_size"), settings.Required, maxHidden)
	c.Layers = o.Size(o.First("n_layer", "num_hidden_layers"), settings.Required, maxLayers)
	heads := o.First("n_head", "num_attention_heads")
	c.Heads = o.Size(heads, settings.Required, maxHidden)
	c.IntermediateSize = o.Size("n_inner", 4*c.HiddenSize, maxIntermediate)
	c.NormEpsilon = o.Epsilon("layer_norm_epsilon", 1e-5)
	c.Activation = o.Activation("activation_function", "gelu_new")
	c.ScaleScores = o.Flag("scale_attn_weights", true)
	c.ScaleByLayer = o.Flag("scale_attn_by_inverse_layer_idx", false)
	c.WideScores = o.Flag("reorder_and_upcast_attn", false)
	c.TiedHead = o.Flag("tie_word_embeddings", true)
	c.EndTokens = o.IDs("eos_token_id", 50256, maxEndTokens)
	c.PadToken = o.PadToken(-1, c.VocabSize)
	if o.Err != nil {
		return nil, o.Err
	}
	if c.HiddenSize%c.Heads != 0 {
		return nil, o.Fail(heads, "%d does not divide the hidden size %d", c.Heads, c.HiddenSize)
	}
	return c, nil
}

// scale is the factor of a layer's scores.
func (c *Config) scale(layer int) float32 {
	s := 1.0
	if c.ScaleScores {
		s = 1 / math.Sqrt(float64(c.HiddenSize/c.Heads))
	}
	if c.ScaleByLayer {
		s /= float64(layer + 1)
	}
	return float32(s)
}

func (c *Config) fillToken() int { return max(c.PadToken, 0) }

// limits says what a call may hold.
func (c *Config) limits() batch.Limits {
	return batch.Limits{Vocabulary: c.VocabSize, Positions: c.Positions}
}

// String describes the model on one line.
func (c *Config) String() string {
	return fmt.Sprintf("gpt2: %d layers, hidden %d, %d heads, vocabulary %d, %d positions",
		c.Layers, c.HiddenSize, c.Heads, c.VocabSize, c.Positions)
}

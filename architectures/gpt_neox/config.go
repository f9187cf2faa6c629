package gpt_neox

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
var ErrConfig = errors.New("config.json does not describe a supported GPT-NeoX model")

const (
	modelType = "gpt_neox"
	class     = "GPTNeoXForCausalLM"
)

// Config holds what a config.json says about the computation.
type Config struct {
	// DType is the type of the checkpoint's tensors, in which the model computes.
	DType tensor.DType
	// VocabSize is the number of token ids, HiddenSize the width of the residual
	// stream, IntermediateSize that of the MLP.
	VocabSize, HiddenSize, IntermediateSize int
	Layers, Heads                           int
	// MaxPositions only matters to scaled rotary positions and to whoever makes
	// examples.
	MaxPositions int
	NormEpsilon  float32
	Activation   nn.Unary
	// Rope describes the rotary positions; its Dim is the part of a head that
	// rotates.
	Rope nn.Rope
	// Parallel says that the MLP reads what attention reads.
	Parallel bool
	// AttentionBias says that attention's linear maps have a bias.
	AttentionBias bool
	// TiedHead says that the head is the embedding.
	TiedHead bool
	// EndTokens ends a generated sequence; PadToken is -1 when there is none.
	EndTokens []int
	PadToken  int
}

// Bounds on what a configuration may ask for.
const (
	maxVocab        = 1 << 24
	maxHidden       = 1 << 17
	maxIntermediate = 1 << 20
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
	c.HiddenSize = o.Size("hidden_size", settings.Required, maxHidden)
	c.IntermediateSize = o.Size("intermediate_size", settings.Required, maxIntermediate)
	c.Layers = o.Size("num_hidden_layers", settings.Required, maxLayers)
	c.Heads = o.Size("num_attention_heads", settings.Required, maxHidden)
	c.MaxPositions = o.Size("max_position_embeddings", 2048, batch.MaxPositions)
	c.NormEpsilon = o.Epsilon("layer_norm_eps", 1e-5)
	c.Activation = o.Activation("hidden_act", "gelu")
	c.Parallel = o.Flag("use_parallel_residual", true)
	c.AttentionBias = o.Flag("attention_bias", true)
	c.TiedHead = o.Flag("tie_word_embeddings", false)
	c.EndTokens = o.IDs("eos_token_id", 2, maxEndTokens)
	c.PadToken = o.PadToken(-1, c.VocabSize)
	if o.Err != nil {
		return nil, o.Err
	}
	if c.HiddenSize%c.Heads != 0 {
		return nil, o.Fail("num_attention_heads", "%d does not divide the hidden size %d", c.Heads, c.HiddenSize)
	}
	c.Rope, err = o.Rope(c.headDim(), c.MaxPositions, settings.RopeDefaults{
		ThetaKey: "rotary_emb_base", Theta: 10000, PartialKey: "rotary_pct", Partial: 0.25,
	})
	return c, err
}

func (c *Config) headDim() int { return c.HiddenSize / c.Heads }

func (c *Config) scale() float32 { return float32(1 / math.Sqrt(float64(c.headDim()))) }

func (c *Config) fillToken() int { return max(c.PadToken, 0) }

// limits says what a call may hold.
func (c *Config) limits() batch.Limits { return batch.Limits{Vocabulary: c.VocabSize} }

// String describes the model on one line.
func (c *Config) String() string {
	return fmt.Sprintf("gpt_neox: %d layers, hidden %d, %d heads, vocabulary %d", c.Layers, c.HiddenSize, c.Heads, c.VocabSize)
}

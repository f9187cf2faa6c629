package progen

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
var ErrConfig = errors.New("config.json does not describe a supported ProGen2 model")

const (
	modelType = "progen"
	class     = "ProGenForCausalLM"
)

// code lists the published classes that this package computes.
var code = []string{"modeling_progen.ProGenForCausalLM"}

// groups is the number of groups in which the fused projection holds queries,
// values and keys: the cores that the models were trained on.
const groups = 8

// Config holds what a config.json says about the computation.
type Config struct {
	// DType is the type of the checkpoint's tensors, in which the model computes.
	DType tensor.DType
	// VocabSize is the number of token ids, Logits that of the head's outputs,
	// HiddenSize the width of the residual stream, IntermediateSize that of the MLP.
	VocabSize, Logits, HiddenSize, IntermediateSize int
	Layers, Heads                                   int
	// MaxPositions is n_positions: what the model was trained for.
	MaxPositions int
	NormEpsilon  float32
	Activation   nn.Unary
	// Rope describes the rotary positions; its Dim is the part of a head that
	// rotates.
	Rope nn.Rope
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
	if _, err := o.IdentityOfCode(cfg, []string{modelType}, []string{class}, code); err != nil {
		return nil, err
	}
	if err := o.Check(settings.Common, settings.NotSeq2Seq); err != nil {
		return nil, err
	}
	c := &Config{}
	if c.DType, err = o.DType(tensor.F32, tensor.BF16, tensor.F16); err != nil {
		return nil, err
	}
	c.VocabSize = o.Size(o.First("vocab_size_emb", "vocab_size"), settings.Required, maxVocab)
	c.Logits = o.Size(o.First("vocab_size_lm_head", "vocab_size"), settings.Required, maxVocab)
	c.HiddenSize = o.Size(o.First("n_embd", "embed_dim", "hidden_size"), settings.Required, maxHidden)
	c.Layers = o.Size(o.First("n_layer", "num_hidden_layers"), settings.Required, maxLayers)
	heads := o.First("n_head", "num_attention_heads")
	c.Heads = o.Size(heads, settings.Required, maxHidden)
	c.MaxPositions = o.Size(o.First("n_positions", "max_position_embeddings"), 2048, batch.MaxPositions)
	c.IntermediateSize = o.Size("n_inner", 4*c.HiddenSize, maxIntermediate)
	c.NormEpsilon = o.Epsilon("layer_norm_epsilon", 1e-5)
	c.Activation = o.Activation("activation_function", "gelu_new")
	c.EndTokens = o.IDs("eos_token_id", 50256, maxEndTokens)
	c.PadToken = o.PadToken(-1, c.VocabSize)
	if o.Err != nil {
		return nil, o.Err
	}
	switch {
	case c.HiddenSize%c.Heads != 0:
		return nil, o.Fail(heads, "%d does not divide the hidden size %d", c.Heads, c.HiddenSize)
	case c.Heads%groups != 0:
		return nil, o.Fail(heads, "%d heads do not divide into the %d groups of the fused projection", c.Heads, groups)
	}
	rotary := o.Size("rotary_dim", c.headDim(), c.headDim())
	if o.Err == nil && rotary%2 != 0 {
		o.Err = o.Fail("rotary_dim", "%d is odd; rotary positions turn pairs", rotary)
	}
	c.Rope = nn.Rope{Theta: 10000, Dim: rotary}
	return c, o.Err
}

func (c *Config) headDim() int { return c.HiddenSize / c.Heads }

func (c *Config) scale() float32 { return float32(1 / math.Sqrt(float64(c.headDim()))) }

func (c *Config) fillToken() int { return max(c.PadToken, 0) }

// limits says what a call may hold.
func (c *Config) limits() batch.Limits {
	return batch.Limits{Vocabulary: c.VocabSize, NoPositions: true}
}

// String describes the model on one line.
func (c *Config) String() string {
	return fmt.Sprintf("progen: %d layers, hidden %d, %d heads, vocabulary %d", c.Layers, c.HiddenSize, c.Heads, c.VocabSize)
}

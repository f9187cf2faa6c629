package t5

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/settings"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// ErrConfig is wrapped by every error about a configuration that is malformed,
// out of bounds, or asks for what this package does not compute.
var ErrConfig = errors.New("config.json does not describe a supported T5 model")

const (
	modelType    = "t5"
	classSeq2Seq = "T5ForConditionalGeneration"
	classEncoder = "T5EncoderModel"
)

// Config holds what a config.json says about the computation.
type Config struct {
	// DType is the type of the checkpoint's tensors, in which the model computes.
	DType tensor.DType
	// EncoderOnly says that there is no decoder.
	EncoderOnly bool
	// VocabSize is the number of token ids, HiddenSize the width of the residual
	// stream, IntermediateSize that of the MLP.
	VocabSize, HiddenSize, IntermediateSize int
	EncoderLayers, DecoderLayers            int
	// Heads have HeadDim elements each; their product need not be HiddenSize.
	Heads, HeadDim int
	// Buckets and MaxDistance shape the relative position bias.
	Buckets, MaxDistance int
	NormEpsilon          float32
	// Activation is the MLP's; Gated multiplies it with a second projection.
	Activation nn.Unary
	Gated      bool
	// TiedHead says that the head is the embedding, ScaledHead that its input is
	// multiplied with 1/√HiddenSize.
	TiedHead, ScaledHead bool
	// StartToken begins what the decoder reads.
	StartToken int
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
	maxHeads        = 1 << 12
	maxProjection   = 1 << 19
	maxBuckets      = 1 << 16
	maxDistance     = 1 << 24
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
	class, err := o.Identity(cfg, []string{modelType}, []string{classSeq2Seq, classEncoder})
	if err != nil {
		return nil, err
	}
	stacks := settings.Neutral{Key: "is_encoder_decoder", OK: []string{"true"}, What: "one stack"}
	if class == classEncoder {
		stacks.OK = append(stacks.OK, "false")
	}
	decoder := settings.Neutral{Key: "is_decoder", OK: []string{"false"}, What: "a decoder alone"}
	if err := o.Check(settings.Common, []settings.Neutral{stacks, decoder}); err != nil {
		return nil, err
	}
	c := &Config{EncoderOnly: class == classEncoder}
	if c.DType, err = o.DType(tensor.F32, tensor.BF16, tensor.F16); err != nil {
		return nil, err
	}
	c.VocabSize = o.Size("vocab_size", settings.Required, maxVocab)
	c.HiddenSize = o.Size(o.First("d_model", "hidden_size"), settings.Required, maxHidden)
	c.HeadDim = o.Size(o.First("d_kv", "head_dim"), settings.Required, maxHeads)
	c.IntermediateSize = o.Size("d_ff", settings.Required, maxIntermediate)
	c.EncoderLayers = o.Size(o.First("num_layers", "num_hidden_layers"), settings.Required, maxLayers)
	c.DecoderLayers = o.Size("num_decoder_layers", c.EncoderLayers, maxLayers)
	heads := o.First("num_heads", "num_attention_heads")
	c.Heads = o.Size(heads, settings.Required, maxHeads)
	c.Buckets = o.Size("relative_attention_num_buckets", 32, maxBuckets)
	c.MaxDistance = o.Size("relative_attention_max_distance", 128, maxDistance)
	c.NormEpsilon = o.Epsilon("layer_norm_epsilon", 1e-6)
	c.TiedHead = o.Flag("tie_word_embeddings", true)
	c.ScaledHead = o.Flag("scale_decoder_outputs", c.TiedHead)
	c.EndTokens = o.IDs("eos_token_id", 1, maxEndTokens)
	c.PadToken = o.PadToken(0, c.VocabSize)
	c.StartToken = o.Count("decoder_start_token_id", max(c.PadToken, 0), c.VocabSize-1)
	mlp := o.Text("feed_forward_proj", "relu")
	if o.Err != nil {
		return nil, o.Err
	}
	switch {
	case c.Heads*c.HeadDim > maxProjection:
		return nil, o.Fail(heads, "%d heads of size %d: more than %d columns", c.Heads, c.HeadDim, maxProjection)
	case c.Buckets%4 != 0:
		return nil, o.Fail("relative_attention_num_buckets", "expected a multiple of 4, found %d", c.Buckets)
	case c.MaxDistance <= c.Buckets/2:
		return nil, o.Fail("relative_attention_max_distance", "expected more than half the %d buckets, found %d", c.Buckets, c.MaxDistance)
	}
	if mlp, c.Gated = strings.CutPrefix(mlp, "gated-"); c.Gated && mlp == "gelu" {
		mlp = "gelu_new" // so the reference reads it
	}
	if c.Activation, err = o.Function("feed_forward_proj", mlp); err != nil {
		return nil, err
	}
	return c, nil
}

// inner is the width of queries, keys and values.
func (c *Config) inner() int { return c.Heads * c.HeadDim }

func (c *Config) headScale() float32 { return float32(1 / math.Sqrt(float64(c.HiddenSize))) }

// String describes the model on one line.
func (c *Config) String() string {
	return fmt.Sprintf("t5: %d + %d layers, hidden %d, %d heads of %d, vocabulary %d",
		c.EncoderLayers, c.DecoderLayers, c.HiddenSize, c.Heads, c.HeadDim, c.VocabSize)
}

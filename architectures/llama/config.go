package llama

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/batch"
	"github.com/hfcompress/compress/architectures/internal/settings"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// ErrConfig is wrapped by every error about a configuration that is malformed,
// out of bounds, or asks for what this package does not compute.
var ErrConfig = errors.New("config.json does not describe a supported Llama model")

// Variant is one of the model types that share this computation.
type Variant string

// The variants, by their model_type.
const (
	// Llama has optional biases everywhere.
	Llama Variant = "llama"
	// Mistral has no biases, and a sliding window in every layer unless the
	// configuration switches it off.
	Mistral Variant = "mistral"
	// Qwen2 has biases on queries, keys and values, and sliding windows in the
	// layers that the configuration names.
	Qwen2 Variant = "qwen2"
	// Qwen3 normalises the heads of queries and keys before they rotate.
	Qwen3 Variant = "qwen3"
)

// variants lists them with the class of the causal language model and the sizes
// that transformers assumes where the configuration is silent.
var variants = []struct {
	name                        Variant
	class                       string
	positions, kvHeads, headDim int
	endToken                    int
}{
	{Llama, "LlamaForCausalLM", 2048, 0, 0, 2},
	{Mistral, "MistralForCausalLM", 131072, 8, 0, 2},
	{Qwen2, "Qwen2ForCausalLM", 32768, 32, 0, -1},
	{Qwen3, "Qwen3ForCausalLM", 32768, 32, 128, -1},
}

// Config holds what a config.json says about the computation.
type Config struct {
	Variant Variant
	// DType is the type of the checkpoint's tensors, in which the model computes.
	DType tensor.DType
	// VocabSize is the number of token ids, HiddenSize the width of the residual
	// stream, IntermediateSize that of the MLP.
	VocabSize, HiddenSize, IntermediateSize int
	// Layers is the number of decoder layers.
	Layers int
	// Heads is the number of query heads, KVHeads of key/value heads, each shared
	// by Heads/KVHeads query heads; HeadDim is the size of both.
	Heads, KVHeads, HeadDim int
	// MaxPositions is max_position_embeddings. Longer sequences are computed, as
	// the reference does; the value only matters to scaled rotary positions and to
	// whoever makes examples.
	MaxPositions int
	// NormEpsilon is added to the mean square in every RMSNorm.
	NormEpsilon float32
	// Activation is the MLP's, applied to the gate.
	Activation nn.Unary
	// Rope describes the rotary positions; its Dim is HeadDim.
	Rope nn.Rope

	// TiedHead says that the head is the embedding.
	TiedHead bool
	// QKVBias, OutputBias and MLPBias say that these linear maps have a bias.
	QKVBias, OutputBias, MLPBias bool
	// HeadNorms says that the heads of queries and keys are normalised.
	HeadNorms bool
	// Window is the number of positions that a layer in Sliding sees, its own
	// included; 0 when there are none. Sliding has one entry per layer, or is nil.
	Window  int
	Sliding []bool

	// EndTokens ends a generated sequence; it may be empty.
	EndTokens []int
	// PadToken is -1 when the configuration has none.
	PadToken int
}

// Bounds on what a configuration may ask for. They lie far above any published
// Llama model and keep every product of two of them, in bytes, within 63 bits.
const (
	maxVocab        = 1 << 24
	maxHidden       = 1 << 17
	maxIntermediate = 1 << 20
	maxLayers       = 1 << 10
	maxHeads        = 1 << 12
	maxHeadDim      = 1 << 12
	maxProjection   = 1 << 19 // heads × head size
	maxPositions    = batch.MaxPositions
	maxEndTokens    = 1 << 10
)

// neutral lists settings that would change the computation, with the values at
// which they do not.
var neutral = []settings.Neutral{
	{Key: "attention_chunk_size", What: "chunked attention"},
	{Key: "pretraining_tp", OK: []string{"0", "1"}, What: "split projections"},
	{Key: "partial_rotary_factor", OK: []string{"1", "1.0"}, What: "partial rotary positions"},
	{Key: "original_max_position_embeddings", What: "a top-level override of rotary scaling"},
	{Key: "rope_interleaved", OK: []string{"false"}, What: "interleaved rotary positions"},
	{Key: "no_rope_layers", OK: []string{"[]"}, What: "layers without positions"},
	{Key: "no_rope_layer_interval", OK: []string{"0"}, What: "layers without positions"},
	{Key: "use_qk_norm", OK: []string{"false"}, What: "query and key norms"},
	{Key: "qk_layernorm", OK: []string{"false"}, What: "query and key norms"},
	{Key: "clip_qkv", What: "clipped projections"},
	{Key: "attn_logit_softcapping", What: "capped scores"},
	{Key: "final_logit_softcapping", What: "capped logits"},
	{Key: "embedding_multiplier", OK: []string{"1", "1.0"}, What: "a scaled embedding"},
	{Key: "residual_multiplier", OK: []string{"1", "1.0"}, What: "a scaled residual"},
	{Key: "attention_multiplier", What: "another attention scale"},
	{Key: "logits_scaling", OK: []string{"1", "1.0"}, What: "scaled logits"},
	{Key: "logit_scale", OK: []string{"1", "1.0"}, What: "scaled logits"},
	{Key: "num_experts", OK: []string{"0"}, What: "experts"},
	{Key: "num_local_experts", OK: []string{"0"}, What: "experts"},
	{Key: "is_causal", OK: []string{"true"}, What: "attention in both directions"},
	{Key: "use_bidirectional_attention", OK: []string{"false"}, What: "attention in both directions"},
}

// perVariant lists settings that the classes of other variants read.
var perVariant = map[Variant][]settings.Neutral{
	Llama: {
		{Key: "sliding_window", What: "sliding-window attention"},
		{Key: "use_sliding_window", OK: []string{"false"}, What: "sliding-window attention"},
	},
	Mistral: {
		{Key: "use_sliding_window", OK: []string{"false"}, What: "a switch for the sliding window"},
		{Key: "attention_bias", OK: []string{"false"}, What: "biases in attention"},
		{Key: "mlp_bias", OK: []string{"false"}, What: "biases in the MLP"},
	},
	Qwen2: {
		{Key: "attention_bias", OK: []string{"true"}, What: "attention without biases"},
		{Key: "mlp_bias", OK: []string{"false"}, What: "biases in the MLP"},
	},
	Qwen3: {
		{Key: "mlp_bias", OK: []string{"false"}, What: "biases in the MLP"},
	},
}

// ParseConfig checks a config.json for what decides the computation. Settings
// that change it and are not implemented are errors that name them; other
// unknown settings are left alone. Errors wrap [ErrConfig].
func ParseConfig(cfg architectures.Config) (*Config, error) {
	o, err := settings.Parse(ErrConfig, cfg.Raw)
	if err != nil {
		return nil, err
	}
	v := variants[max(0, variantOf(cfg))]
	if _, err := o.Identity(cfg, []string{string(v.name)}, []string{v.class}); err != nil {
		return nil, err
	}
	if err := o.Check(settings.Common, settings.NotSeq2Seq, neutral, perVariant[v.name]); err != nil {
		return nil, err
	}

	c := &Config{Variant: v.name, HeadNorms: v.name == Qwen3}
	if c.DType, err = o.DType(tensor.F32, tensor.BF16, tensor.F16); err != nil {
		return nil, err
	}
	c.VocabSize = o.Size("vocab_size", settings.Required, maxVocab)
	c.HiddenSize = o.Size("hidden_size", settings.Required, maxHidden)
	c.IntermediateSize = o.Size("intermediate_size", settings.Required, maxIntermediate)
	c.Layers = o.Size("num_hidden_layers", settings.Required, maxLayers)
	c.Heads = o.Size("num_attention_heads", settings.Required, maxHeads)
	kvHeads := v.kvHeads
	if kvHeads == 0 || o.Null("num_key_value_heads") {
		kvHeads = c.Heads
	}
	c.KVHeads = o.Size("num_key_value_heads", kvHeads, maxHeads)
	c.MaxPositions = o.Size("max_position_embeddings", v.positions, maxPositions)
	c.NormEpsilon = o.Epsilon("rms_norm_eps", 1e-6)
	c.Activation = o.Activation("hidden_act", "silu")
	c.TiedHead = o.Flag("tie_word_embeddings", false)
	bias := o.Flag("attention_bias", v.name == Qwen2)
	c.QKVBias, c.OutputBias = bias, bias && v.name != Qwen2
	c.MLPBias = o.Flag("mlp_bias", false)
	if o.Err != nil {
		return nil, o.Err
	}

	headDim := v.headDim
	if headDim == 0 {
		if o.Raw("head_dim") == nil && c.HiddenSize%c.Heads != 0 {
			return nil, o.Fail("hidden_size", "%d is not a multiple of num_attention_heads %d, and there is no head_dim", c.HiddenSize, c.Heads)
		}
		headDim = max(c.HiddenSize/c.Heads, 1)
	}
	c.HeadDim = o.Size("head_dim", headDim, maxHeadDim)
	if o.Err != nil {
		return nil, o.Err
	}
	switch {
	case c.HeadDim%2 != 0:
		return nil, o.Fail("head_dim", "%d is odd; rotary positions turn pairs", c.HeadDim)
	case c.Heads%c.KVHeads != 0:
		return nil, o.Fail("num_key_value_heads", "%d does not divide num_attention_heads %d", c.KVHeads, c.Heads)
	case c.Heads*c.HeadDim > maxProjection:
		return nil, o.Fail("num_attention_heads", "%d heads of size %d: more than %d columns", c.Heads, c.HeadDim, maxProjection)
	}
	if err := c.parseWindow(o); err != nil {
		return nil, err
	}
	if err := c.parseTokens(o, v.endToken); err != nil {
		return nil, err
	}
	if c.Rope, err = o.Rope(c.HeadDim, c.MaxPositions, settings.RopeDefaults{ThetaKey: "rope_theta", Theta: 10000}); err != nil {
		return nil, err
	}
	return c, nil
}

// variantOf returns the index of the configuration's variant, or -1.
func variantOf(cfg architectures.Config) int {
	for i, v := range variants {
		if cfg.ModelType == string(v.name) || cfg.ModelType == "" && slices.Contains(cfg.Architectures, v.class) {
			return i
		}
	}
	return -1
}

// parseWindow reads which layers see a sliding window. Newer files spell out the
// kind of every layer.
func (c *Config) parseWindow(o *settings.Object) error {
	const full, sliding = "full_attention", "sliding_attention"
	window := 0
	switch {
	case c.Variant == Mistral && !o.Null("sliding_window"),
		c.Variant != Llama && c.Variant != Mistral && o.Flag("use_sliding_window", false) && !o.Null("sliding_window"):
		window = o.Size("sliding_window", 4096, maxPositions)
	}
	first := 0 // the first layer with a window
	if c.Variant != Mistral {
		first = o.Count("max_window_layers", 28, maxLayers)
	}
	types := o.Texts("layer_types", maxLayers)
	if o.Err != nil {
		return o.Err
	}
	if types != nil && len(types) != c.Layers {
		return o.Fail("layer_types", "%d entries for num_hidden_layers %d", len(types), c.Layers)
	}
	slides := make([]bool, c.Layers)
	for i := range slides {
		slides[i] = window > 0 && i >= first
		if types == nil {
			continue
		}
		switch t := types[i]; {
		case t == full && (c.Variant != Mistral || window == 0):
			slides[i] = false
		case t == sliding && window > 0:
			slides[i] = true
		default:
			return o.Fail("layer_types", "layer %d: %s is not supported", i, settings.Quote(t))
		}
	}
	if slices.Contains(slides, true) {
		c.Window, c.Sliding = window, slides
	}
	return nil
}

// parseTokens reads the special ids. End tokens outside the vocabulary can
// never be generated; they are kept, as the reference keeps them.
func (c *Config) parseTokens(o *settings.Object, endToken int) error {
	if endToken < 0 && o.Raw("eos_token_id") == nil {
		c.EndTokens = nil
	} else {
		c.EndTokens = o.IDs("eos_token_id", endToken, maxEndTokens)
	}
	_ = o.IDs("bos_token_id", 1, 1) // nothing reads it; a malformed one is still an error
	c.PadToken = o.PadToken(-1, c.VocabSize)
	return o.Err
}

// fillToken is the id for positions that the mask hides.
func (c *Config) fillToken() int { return max(c.PadToken, 0) }

// window is the number of positions that a layer's queries see, 0 for all.
func (c *Config) window(layer int) int {
	if c.Sliding != nil && c.Sliding[layer] {
		return c.Window
	}
	return 0
}

// limits says what a call may hold.
func (c *Config) limits() batch.Limits { return batch.Limits{Vocabulary: c.VocabSize} }

// scale is the factor of attention scores. The reference computes the power in
// float64 and multiplies float32 scores with it.
func (c *Config) scale() float32 { return float32(1 / math.Sqrt(float64(c.HeadDim))) }

// String describes the model on one line.
func (c *Config) String() string {
	return fmt.Sprintf("%s: %d layers, hidden %d, %d/%d heads of %d, vocabulary %d",
		c.Variant, c.Layers, c.HiddenSize, c.Heads, c.KVHeads, c.HeadDim, c.VocabSize)
}

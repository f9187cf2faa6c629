package llama

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
)

// ErrConfig is wrapped by every error about a configuration that is malformed,
// out of bounds, or asks for what this package does not compute.
var ErrConfig = errors.New("config.json does not describe a supported Llama model")

// Config holds what a config.json says about the computation.
type Config struct {
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
	// AttentionBias and MLPBias say that these linear maps have a bias.
	AttentionBias, MLPBias bool

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
	maxPositions    = 1 << 24 // float32 counts exactly up to here
	maxEndTokens    = 1 << 10
)

// activations maps the reference's names to what the device computes.
var activations = map[string]nn.Unary{
	"silu":              nn.SiLU,
	"swish":             nn.SiLU,
	"gelu":              nn.GELU,
	"gelu_new":          nn.GELUTanh,
	"gelu_pytorch_tanh": nn.GELUTanh,
	"relu":              nn.ReLU,
	"tanh":              nn.Tanh,
	"sigmoid":           nn.Sigmoid,
}

// neutral lists settings that would change the computation, with the values at
// which they do not. null, or leaving them out, is neutral too.
var neutral = []struct {
	key  string
	ok   []string
	what string
}{
	{"quantization_config", nil, "quantised weights"},
	{"compression_config", nil, "quantised weights"},
	{"sliding_window", nil, "sliding-window attention"},
	{"use_sliding_window", []string{"false"}, "sliding-window attention"},
	{"attention_chunk_size", nil, "chunked attention"},
	{"pretraining_tp", []string{"0", "1"}, "split projections"},
	{"partial_rotary_factor", []string{"1", "1.0"}, "partial rotary positions"},
	{"original_max_position_embeddings", nil, "a top-level override of rotary scaling"},
	{"rope_interleaved", []string{"false"}, "interleaved rotary positions"},
	{"no_rope_layers", []string{"[]"}, "layers without positions"},
	{"no_rope_layer_interval", []string{"0"}, "layers without positions"},
	{"use_qk_norm", []string{"false"}, "query and key norms"},
	{"qk_layernorm", []string{"false"}, "query and key norms"},
	{"clip_qkv", nil, "clipped projections"},
	{"attn_logit_softcapping", nil, "capped scores"},
	{"final_logit_softcapping", nil, "capped logits"},
	{"embedding_multiplier", []string{"1", "1.0"}, "a scaled embedding"},
	{"residual_multiplier", []string{"1", "1.0"}, "a scaled residual"},
	{"attention_multiplier", nil, "another attention scale"},
	{"logits_scaling", []string{"1", "1.0"}, "scaled logits"},
	{"logit_scale", []string{"1", "1.0"}, "scaled logits"},
	{"num_experts", []string{"0"}, "experts"},
	{"num_local_experts", []string{"0"}, "experts"},
	{"per_layer_config", nil, "differing layers"},
	{"is_encoder_decoder", []string{"false"}, "an encoder"},
	{"is_causal", []string{"true"}, "attention in both directions"},
	{"use_bidirectional_attention", []string{"false"}, "attention in both directions"},
	{"add_cross_attention", []string{"false"}, "cross-attention"},
	{"cross_attention_hidden_size", nil, "cross-attention"},
	{"pruned_heads", []string{"{}"}, "pruned heads"},
}

// ParseConfig checks a config.json for what decides the computation. Settings
// that change it and are not implemented are errors that name them; other
// unknown settings are left alone. Errors wrap [ErrConfig].
func ParseConfig(cfg architectures.Config) (*Config, error) {
	o, err := parseObject("", cfg.Raw)
	if err != nil {
		return nil, err
	}
	if err := checkIdentity(cfg, o); err != nil {
		return nil, err
	}
	for _, n := range neutral {
		if v := o.raw(n.key); v != nil && !slices.Contains(n.ok, string(v)) {
			return nil, o.fail(n.key, "%s: %s is not supported", snippet(v), n.what)
		}
	}

	c := &Config{}
	c.VocabSize = o.size("vocab_size", required, maxVocab)
	c.HiddenSize = o.size("hidden_size", required, maxHidden)
	c.IntermediateSize = o.size("intermediate_size", required, maxIntermediate)
	c.Layers = o.size("num_hidden_layers", required, maxLayers)
	c.Heads = o.size("num_attention_heads", required, maxHeads)
	c.KVHeads = o.size("num_key_value_heads", c.Heads, maxHeads)
	c.MaxPositions = o.size("max_position_embeddings", 2048, maxPositions)
	c.NormEpsilon = float32(o.number("rms_norm_eps", 1e-6))
	act := o.text("hidden_act", "silu")
	c.TiedHead = o.flag("tie_word_embeddings", false)
	c.AttentionBias = o.flag("attention_bias", false)
	c.MLPBias = o.flag("mlp_bias", false)
	if o.err != nil {
		return nil, o.err
	}

	if o.raw("head_dim") == nil && c.HiddenSize%c.Heads != 0 {
		return nil, o.fail("hidden_size", "%d is not a multiple of num_attention_heads %d, and there is no head_dim", c.HiddenSize, c.Heads)
	}
	c.HeadDim = o.size("head_dim", max(c.HiddenSize/c.Heads, 1), maxHeadDim)
	if o.err != nil {
		return nil, o.err
	}
	switch {
	case c.HeadDim%2 != 0:
		return nil, o.fail("head_dim", "%d is odd; rotary positions turn pairs", c.HeadDim)
	case c.Heads%c.KVHeads != 0:
		return nil, o.fail("num_key_value_heads", "%d does not divide num_attention_heads %d", c.KVHeads, c.Heads)
	case c.Heads*c.HeadDim > maxProjection:
		return nil, o.fail("num_attention_heads", "%d heads of size %d: more than %d columns", c.Heads, c.HeadDim, maxProjection)
	case !(c.NormEpsilon > 0 && c.NormEpsilon < 1): // also catches what float32 rounds to 0
		return nil, o.fail("rms_norm_eps", "expected a number between 0 and 1, found %s", snippet(o.raw("rms_norm_eps")))
	}
	var ok bool
	if c.Activation, ok = activations[act]; !ok {
		return nil, o.fail("hidden_act", "%s is not supported", quote(act))
	}
	if err := c.checkLayerTypes(o); err != nil {
		return nil, err
	}
	if err := c.parseTokens(o); err != nil {
		return nil, err
	}
	if c.Rope, err = parseRope(o, c.HeadDim, c.MaxPositions); err != nil {
		return nil, err
	}
	return c, nil
}

// checkIdentity refuses configurations of other models, of other heads on the
// same model, of models whose computation is code in their repository, and of
// other element types.
func checkIdentity(cfg architectures.Config, o *object) error {
	if cfg.ModelType != "" && cfg.ModelType != "llama" {
		return o.fail("model_type", "expected \"llama\", found %s", quote(cfg.ModelType))
	}
	if len(cfg.Architectures) > 0 && !slices.Contains(cfg.Architectures, "LlamaForCausalLM") {
		return o.fail("architectures", "expected \"LlamaForCausalLM\", found %s", quote(strings.Join(cfg.Architectures, ", ")))
	}
	if cfg.ModelType == "" && len(cfg.Architectures) == 0 {
		return o.fail("model_type", "expected \"llama\", found neither model_type nor architectures")
	}
	auto := o.object("auto_map")
	if o.err != nil {
		return o.err
	}
	for _, key := range auto.keys() {
		if strings.HasPrefix(key, "AutoModel") {
			return o.fail("auto_map", "%s: the model is code in its repository, which is never run", quote(key))
		}
	}
	for _, key := range []string{"dtype", "torch_dtype"} {
		if d := o.text(key, "float32"); o.err != nil {
			return o.err
		} else if strings.TrimPrefix(d, "torch.") != "float32" {
			return o.fail(key, "expected \"float32\", found %s", quote(d))
		}
	}
	return nil
}

// checkLayerTypes accepts the list in which newer files spell out that every
// layer attends to everything.
func (c *Config) checkLayerTypes(o *object) error {
	types := o.texts("layer_types", maxLayers)
	if o.err != nil {
		return o.err
	}
	if types != nil && len(types) != c.Layers {
		return o.fail("layer_types", "%d entries for num_hidden_layers %d", len(types), c.Layers)
	}
	for i, t := range types {
		if t != "full_attention" {
			return o.fail("layer_types", "layer %d: %s is not supported", i, quote(t))
		}
	}
	return nil
}

// parseTokens reads the special ids. End tokens outside the vocabulary can
// never be generated; they are kept, as the reference keeps them.
func (c *Config) parseTokens(o *object) error {
	c.EndTokens = o.ids("eos_token_id", 2, maxEndTokens)
	pad := o.ids("pad_token_id", -1, 1)
	_ = o.ids("bos_token_id", 1, 1) // nothing reads it; a malformed one is still an error
	if o.err != nil {
		return o.err
	}
	c.PadToken = -1
	if len(pad) == 1 && pad[0] >= 0 {
		if pad[0] >= c.VocabSize {
			return o.fail("pad_token_id", "%d is outside the vocabulary of %d", pad[0], c.VocabSize)
		}
		c.PadToken = pad[0]
	}
	return nil
}

// fillToken is the id for positions that the mask hides.
func (c *Config) fillToken() int {
	if c.PadToken >= 0 {
		return c.PadToken
	}
	return 0
}

// scale is the factor of attention scores. The reference computes the power in
// float64 and multiplies float32 scores with it.
func (c *Config) scale() float32 { return float32(1 / math.Sqrt(float64(c.HeadDim))) }

// String describes the model on one line.
func (c *Config) String() string {
	return fmt.Sprintf("llama: %d layers, hidden %d, %d/%d heads of %d, vocabulary %d",
		c.Layers, c.HiddenSize, c.Heads, c.KVHeads, c.HeadDim, c.VocabSize)
}

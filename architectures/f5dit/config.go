package f5dit

import (
	"errors"
	"fmt"
	"math"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/settings"
	"github.com/hfcompress/compress/tensor"
)

// ErrConfig is wrapped by every error about a configuration that is malformed,
// out of bounds, or asks for what this package does not compute.
var ErrConfig = errors.New("config.json does not describe a supported F5-TTS model")

// Config holds what a config.json says about the computation. Names are those of
// the published class.
type Config struct {
	// Dim is the width of Depth layers with Heads heads of HeadDim columns, whose
	// MLPs are FFMult times as wide.
	Dim, Depth, Heads, HeadDim, FFMult int
	// MelDim is the width of a spectrogram's rows, TextDim that of the text's.
	MelDim, TextDim int
	// TextEmbeds is the number of text ids; one more row of the table is the filler.
	TextEmbeds int
	// ConvLayers is the number of ConvNeXtV2 blocks over the text.
	ConvLayers int
	// TextMaskPadding blanks the rows of filler between these blocks.
	TextMaskPadding bool
	// QKNorm says that queries and keys of each head are normalised.
	QKNorm bool
	// RotaryHeads is how many heads are rotated.
	RotaryHeads int
	// MaskAttention hides padded keys from attention.
	MaskAttention bool
	// LongSkip joins what enters the first layer to the result of the last.
	LongSkip bool
}

// Bounds far above any published model; products of two of them, in bytes, fit
// 63 bits.
const (
	maxWidth  = 1 << 17
	maxLayers = 1 << 10
	maxEmbeds = 1 << 24
	maxMult   = 1 << 8
)

// Constants of the published class.
const (
	timeWidth       = 256
	timeScale       = 1000
	epsilon         = 1e-6 // of every norm
	textMult        = 2    // width of a ConvNeXtV2 block's MLP
	textKernel      = 7
	positionKernel  = 31
	positionGroups  = 16
	maxTextRows     = 8192
	textPeriod      = 10000
	responseEpsilon = 1e-6
)

// neutral are settings whose other values the package does not compute.
var neutral = []settings.Neutral{
	{Key: "backbone", OK: []string{`"DiT"`}, What: "another backbone"},
	{Key: "text_embedding_average_upsampling", OK: []string{"false"}, What: "upsampling of the text"},
	{Key: "attn_backend", OK: []string{`"torch"`}, What: "an attention for 16-bit types"},
	{Key: "quantization_config", What: "quantised weights"},
}

// ParseConfig checks a config.json for what decides the computation. Settings
// that change it and are not implemented are errors that name them. Errors wrap
// [ErrConfig].
func ParseConfig(cfg architectures.Config) (*Config, error) {
	o, err := settings.Parse(ErrConfig, cfg.Raw)
	if err != nil {
		return nil, err
	}
	if _, err := o.Identity(cfg, []string{familyName}, []string{className}); err != nil {
		return nil, err
	}
	if _, err := o.DType(tensor.F32); err != nil {
		return nil, err
	}
	if err := o.Check(neutral); err != nil {
		return nil, err
	}
	c := &Config{
		Dim:             o.Size("dim", settings.Required, maxWidth),
		Depth:           o.Size("depth", 8, maxLayers),
		Heads:           o.Size("heads", 8, maxWidth),
		HeadDim:         o.Size("dim_head", 64, maxWidth),
		FFMult:          o.Size("ff_mult", 4, maxMult),
		MelDim:          o.Size("mel_dim", 100, maxWidth),
		TextEmbeds:      o.Size("text_num_embeds", settings.Required, maxEmbeds),
		ConvLayers:      o.Count("conv_layers", 0, maxLayers),
		TextMaskPadding: o.Flag("text_mask_padding", true),
		MaskAttention:   o.Flag("attn_mask_enabled", false),
		LongSkip:        o.Flag("long_skip_connection", false),
	}
	c.TextDim = o.Size("text_dim", c.MelDim, maxWidth)
	c.RotaryHeads = o.Size("pe_attn_head", c.Heads, maxWidth)
	if norm := o.Text("qk_norm", ""); norm == "rms_norm" {
		c.QKNorm = true
	} else if norm != "" && o.Err == nil {
		return nil, o.Fail("qk_norm", "expected null or %q, found %s", "rms_norm", settings.Quote(norm))
	}
	switch {
	case o.Err != nil:
		return nil, o.Err
	case c.Dim%positionGroups != 0:
		return nil, o.Fail("dim", "%d is no multiple of %d, the groups of the convolutions over positions", c.Dim, positionGroups)
	case c.HeadDim%2 != 0:
		return nil, o.Fail("dim_head", "%d is odd, and pairs of columns rotate", c.HeadDim)
	case c.Heads > maxWidth/c.HeadDim:
		return nil, o.Fail("dim_head", "%d heads of %d are wider than %d", c.Heads, c.HeadDim, maxWidth)
	case c.RotaryHeads > c.Heads:
		return nil, o.Fail("pe_attn_head", "%d of %d heads", c.RotaryHeads, c.Heads)
	case c.ConvLayers > 0 && c.TextDim%2 != 0:
		return nil, o.Fail("text_dim", "%d is odd, and the text's positions are pairs of columns", c.TextDim)
	}
	return c, nil
}

// inner is the width of queries, keys and values.
func (c *Config) inner() int { return c.Heads * c.HeadDim }

// mixed is the width of a row that enters: noised, known, and text.
func (c *Config) mixed() int { return 2*c.MelDim + c.TextDim }

// scale is the factor of attention scores.
func (c *Config) scale() float32 { return float32(1 / math.Sqrt(float64(c.HeadDim))) }

// String describes the model on one line.
func (c *Config) String() string {
	return fmt.Sprintf("f5_dit: %d layers, width %d, %d heads, %d text ids with %d convolutions",
		c.Depth, c.Dim, c.Heads, c.TextEmbeds, c.ConvLayers)
}

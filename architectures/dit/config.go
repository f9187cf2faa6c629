package dit

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/settings"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// ErrConfig is wrapped by every error about a configuration that is malformed,
// out of bounds, or asks for what this package does not compute.
var ErrConfig = errors.New("config.json does not describe a supported DiT model")

// Config holds what a config.json says about the computation.
type Config struct {
	// Layers have Heads heads of HeadDim columns.
	Layers, Heads, HeadDim int
	// InChannels and OutChannels are those of the latent image.
	InChannels, OutChannels int
	// SampleSize is the width and height of the latent image, PatchSize that of a
	// patch.
	SampleSize, PatchSize int
	// Classes is the number of classes without the null class.
	Classes int
	// AttentionBias says that queries, keys and values have a bias.
	AttentionBias bool
	Activation    nn.Unary
	// NormEpsilon is that of the norm in front of a layer's MLP.
	NormEpsilon float32
}

// Bounds far above any published model; products of two of them, in bytes, fit
// 63 bits.
const (
	maxWidth    = 1 << 17
	maxLayers   = 1 << 10
	maxChannels = 1 << 12
	maxSize     = 1 << 12
	maxPatch    = 1 << 6
	maxClasses  = 1 << 24
)

// timeWidth is the width of a timestep's sines and cosines in all models.
const timeWidth = 256

// adaptiveEpsilon is that of the norms whose modulation is declared.
const adaptiveEpsilon = 1e-6

// neutral are settings of other models of diffusers.
var neutral = []settings.Neutral{
	{Key: "norm_type", OK: []string{`"ada_norm_zero"`}, What: "another modulation"},
	{Key: "norm_elementwise_affine", OK: []string{"false"}, What: "a norm with weights"},
	{Key: "quantization_config", What: "quantised weights"},
}

// class is the class that a config.json of diffusers names.
func class(cfg architectures.Config) string {
	var named struct {
		Class string `json:"_class_name"`
	}
	if json.Unmarshal(cfg.Raw, &named) != nil {
		return ""
	}
	return named.Class
}

// ParseConfig checks a config.json for what decides the computation. Settings
// that change it and are not implemented are errors that name them. Errors wrap
// [ErrConfig].
func ParseConfig(cfg architectures.Config) (*Config, error) {
	o, err := settings.Parse(ErrConfig, cfg.Raw)
	if err != nil {
		return nil, err
	}
	if name := o.Text("_class_name", ""); name != className && o.Err == nil {
		return nil, o.Fail("_class_name", "expected %q, found %s", className, settings.Quote(name))
	}
	if _, err := o.DType(tensor.F32); err != nil {
		return nil, err
	}
	if err := o.Check(neutral); err != nil {
		return nil, err
	}
	c := &Config{
		Layers:        o.Size("num_layers", 28, maxLayers),
		Heads:         o.Size("num_attention_heads", 16, maxWidth),
		HeadDim:       o.Size("attention_head_dim", 72, maxWidth),
		InChannels:    o.Size("in_channels", 4, maxChannels),
		SampleSize:    o.Size("sample_size", 32, maxSize),
		PatchSize:     o.Size("patch_size", 2, maxPatch),
		Classes:       o.Size("num_embeds_ada_norm", 1000, maxClasses),
		AttentionBias: o.Flag("attention_bias", true),
		NormEpsilon:   o.Epsilon("norm_eps", 1e-5),
	}
	c.OutChannels = o.Size("out_channels", c.InChannels, maxChannels)
	switch name := o.Text("activation_fn", "gelu-approximate"); name {
	case "gelu-approximate":
		c.Activation = nn.GELUTanh
	case "gelu":
		c.Activation = nn.GELU
	default:
		if o.Err == nil {
			return nil, o.Fail("activation_fn", "%s is not supported", settings.Quote(name))
		}
	}
	switch {
	case o.Err != nil:
		return nil, o.Err
	case c.Heads > maxWidth/c.HeadDim:
		return nil, o.Fail("attention_head_dim", "%d heads of %d are wider than %d", c.Heads, c.HeadDim, maxWidth)
	case c.width()%4 != 0:
		return nil, o.Fail("attention_head_dim", "the width %d is no multiple of 4, as the positions need", c.width())
	case c.SampleSize%c.PatchSize != 0:
		return nil, o.Fail("patch_size", "%d does not divide sample_size %d", c.PatchSize, c.SampleSize)
	}
	return c, nil
}

// width is that of a patch's row.
func (c *Config) width() int { return c.Heads * c.HeadDim }

// grid is the number of patches in a row of the image, and patches of all.
func (c *Config) grid() int    { return c.SampleSize / c.PatchSize }
func (c *Config) patches() int { return c.grid() * c.grid() }

// labels is the number of classes with the null class.
func (c *Config) labels() int { return c.Classes + 1 }

// scale is the factor of attention scores.
func (c *Config) scale() float32 { return float32(1 / math.Sqrt(float64(c.HeadDim))) }

// String describes the model on one line.
func (c *Config) String() string {
	return fmt.Sprintf("dit: %d layers, width %d, %d heads, %d patches, %d classes",
		c.Layers, c.width(), c.Heads, c.patches(), c.Classes)
}

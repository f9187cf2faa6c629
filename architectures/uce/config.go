package uce

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
var ErrConfig = errors.New("config.json does not describe a supported UCE model")

// Padding says what attention does with keys that the mask marks.
type Padding string

const (
	// PaddingAdds adds 1 to their scores, as the published code does.
	PaddingAdds Padding = "adds_one"
	// PaddingHidden hides them.
	PaddingHidden Padding = "hidden"
)

// Config holds what a config.json says about the computation.
type Config struct {
	// VocabSize is the number of tokens and TokenDim the width of their vectors.
	VocabSize, TokenDim int
	// HiddenSize is the width of the encoder, IntermediateSize that of its MLPs,
	// DecoderSize that of the decoder's first layer, and OutputDim the embedding's.
	HiddenSize, IntermediateSize, DecoderSize, OutputDim int
	Layers, Heads                                        int
	// Positions is the number of stored positions.
	Positions int
	PadToken  int
	Padding   Padding
}

// Bounds far above any published model; products of two of them, in bytes, fit
// 63 bits.
const (
	maxVocab     = 1 << 26
	maxWidth     = 1 << 17
	maxLayers    = 1 << 10
	maxPositions = 1 << 20
)

const normEpsilon = 1e-5 // PyTorch's default, in every norm

// predictor are the widths of the training objective's layers.
var predictor = []int{2048, 512, 128}

// neutral are settings of other encoders.
var neutral = []settings.Neutral{
	{Key: "hidden_act", OK: []string{`"relu"`}, What: "another activation"},
	{Key: "norm_first", OK: []string{"false"}, What: "norms before the layers"},
	{Key: "layer_norm_eps", OK: []string{"1e-05", "1e-5", "0.00001"}, What: "another epsilon"},
}

// ParseConfig checks a config.json for what decides the computation. Settings
// that change it and are not implemented are errors that name them. Errors wrap
// [ErrConfig].
func ParseConfig(cfg architectures.Config) (*Config, error) {
	o, err := settings.Parse(ErrConfig, cfg.Raw)
	if err != nil {
		return nil, err
	}
	if _, err := o.Identity(cfg, []string{modelType}, []string{className}); err != nil {
		return nil, err
	}
	if _, err := o.DType(tensor.F32); err != nil {
		return nil, err
	}
	if err := o.Check(settings.Common, settings.NotSeq2Seq, neutral); err != nil {
		return nil, err
	}
	c := &Config{
		VocabSize:        o.Size("vocab_size", settings.Required, maxVocab),
		TokenDim:         o.Size("token_dim", settings.Required, maxWidth),
		HiddenSize:       o.Size("hidden_size", settings.Required, maxWidth),
		IntermediateSize: o.Size("intermediate_size", settings.Required, maxWidth),
		DecoderSize:      o.Size("decoder_size", 1024, maxWidth),
		OutputDim:        o.Size("output_dim", settings.Required, maxWidth),
		Layers:           o.Size("num_hidden_layers", settings.Required, maxLayers),
		Heads:            o.Size("num_attention_heads", settings.Required, maxWidth),
		Positions:        o.Size("max_position_embeddings", 1536, maxPositions),
		Padding:          Padding(o.Text("padding", string(PaddingAdds))),
	}
	c.PadToken = max(0, o.PadToken(0, c.VocabSize))
	switch {
	case o.Err != nil:
		return nil, o.Err
	case c.HiddenSize%c.Heads != 0:
		return nil, o.Fail("num_attention_heads", "%d does not divide hidden_size %d", c.Heads, c.HiddenSize)
	case c.Padding != PaddingAdds && c.Padding != PaddingHidden:
		return nil, o.Fail("padding", "expected %q or %q, found %s", PaddingAdds, PaddingHidden, settings.Quote(string(c.Padding)))
	}
	return c, nil
}

// headDim is the size of a head.
func (c *Config) headDim() int { return c.HiddenSize / c.Heads }

// rootWidth is the factor of what enters the encoder.
func (c *Config) rootWidth() float32 { return float32(math.Sqrt(float64(c.HiddenSize))) }

// String describes the model on one line.
func (c *Config) String() string {
	return fmt.Sprintf("uce: %d layers, hidden %d, %d heads, %d tokens of width %d",
		c.Layers, c.HiddenSize, c.Heads, c.VocabSize, c.TokenDim)
}

// scale is the factor of attention scores.
func (c *Config) scale() float32 { return float32(1 / math.Sqrt(float64(c.headDim()))) }

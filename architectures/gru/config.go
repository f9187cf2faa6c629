package gru

import (
	"errors"
	"fmt"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/settings"
	"github.com/hfcompress/compress/tensor"
)

// ErrConfig is wrapped by every error about a configuration that is malformed,
// out of bounds, or asks for what this package does not compute.
var ErrConfig = errors.New("config.json does not describe a supported GRU sequence-to-sequence model")

// Config holds what a config.json says about the computation.
type Config struct {
	// SourceVocab and TargetVocab are the numbers of tokens of the two stacks.
	SourceVocab, TargetVocab int
	// EmbeddingSize is the width of both embeddings and HiddenSize that of both
	// states.
	EmbeddingSize, HiddenSize int
	// StartToken is what the decoder reads first, EndToken what ends a sequence,
	// and PadToken what stands behind the end. All are target tokens.
	StartToken, EndToken, PadToken int
	// MaxNewTokens bounds what the decoder makes.
	MaxNewTokens int
}

// Bounds far above any published model; products of two of them, in bytes, fit
// 63 bits.
const (
	maxVocab     = 1 << 24
	maxWidth     = 1 << 17
	maxNewTokens = 1 << 16
)

// neutral are settings of other recurrent models.
var neutral = []settings.Neutral{
	{Key: "num_layers", OK: []string{"1"}, What: "stacked layers"},
	{Key: "bidirectional", OK: []string{"false"}, What: "reading in both directions"},
	{Key: "attention", OK: []string{"false"}, What: "attention over the encoder's states"},
	{Key: "is_encoder_decoder", OK: []string{"true"}, What: "a single stack"},
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
	if err := o.Check(settings.Common, neutral); err != nil {
		return nil, err
	}
	c := &Config{
		SourceVocab:   o.Size("source_vocab_size", settings.Required, maxVocab),
		TargetVocab:   o.Size("target_vocab_size", settings.Required, maxVocab),
		EmbeddingSize: o.Size("embedding_size", settings.Required, maxWidth),
		HiddenSize:    o.Size("hidden_size", settings.Required, maxWidth),
		MaxNewTokens:  o.Size("max_new_tokens", 20, maxNewTokens),
	}
	for _, token := range []struct {
		key string
		at  *int
	}{
		{"decoder_start_token_id", &c.StartToken},
		{"eos_token_id", &c.EndToken},
		{"pad_token_id", &c.PadToken},
	} {
		ids := o.IDs(token.key, -1, 1)
		if o.Err != nil {
			return nil, o.Err
		}
		if len(ids) != 1 || ids[0] < 0 || ids[0] >= c.TargetVocab {
			return nil, o.Fail(token.key, "expected a token id from 0 to %d, found %s", c.TargetVocab-1, settings.Snippet(o.Raw(token.key)))
		}
		*token.at = ids[0]
	}
	return c, o.Err
}

// String describes the model on one line.
func (c *Config) String() string {
	return fmt.Sprintf("gru_seq2seq: embedding %d, hidden %d, vocabularies %d and %d",
		c.EmbeddingSize, c.HiddenSize, c.SourceVocab, c.TargetVocab)
}

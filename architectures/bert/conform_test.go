package bert_test

import (
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/bert"
	"github.com/hfcompress/compress/architectures/internal/goldens"
)

func TestConformance(t *testing.T) {
	for _, name := range []string{"model", "masked_lm", "bf16"} {
		t.Run(name, func(t *testing.T) {
			goldens.Conform(t, modelDir(name), func(m architectures.Model) architectures.Model {
				return m.(*bert.Model).WithSessionBytes(1)
			})
		})
	}
}

func TestConfigRefusals(t *testing.T) {
	type object = map[string]any
	goldens.Refuses(t, modelDir("model"), "bert", bert.ErrConfig, []goldens.Refusal{
		goldens.Want(object{"num_attention_heads": 5}, "num_attention_heads: 5 does not divide"),
		goldens.Want(object{"position_embedding_type": "relative_key"}, "relative positions is not supported"),
		goldens.Want(object{"is_decoder": true}, "is_decoder"),
		goldens.Want(object{"tie_word_embeddings": false}, "tie_word_embeddings"),
		goldens.Want(object{"type_vocab_size": 100}, "type_vocab_size"),
		goldens.Want(object{"hidden_act": "mish"}, "hidden_act"),
	}...)
}

func FuzzParseConfig(f *testing.F) { goldens.FuzzConfig(f, goldenDir, "bert", bert.ErrConfig) }

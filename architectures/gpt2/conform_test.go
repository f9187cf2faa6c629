package gpt2_test

import (
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/gpt2"
	"github.com/hfcompress/compress/architectures/internal/goldens"
)

func TestConformance(t *testing.T) {
	for _, name := range []string{"plain", "bf16"} {
		t.Run(name, func(t *testing.T) {
			goldens.Conform(t, modelDir(name), func(m architectures.Model) architectures.Model {
				return m.(*gpt2.Model).WithSessionBytes(1)
			})
		})
	}
}

func TestConfigRefusals(t *testing.T) {
	type object = map[string]any
	goldens.Refuses(t, modelDir("plain"), "gpt2", gpt2.ErrConfig, []goldens.Refusal{
		goldens.Want(object{"n_head": 5}, "n_head: 5 does not divide the hidden size 24"),
		goldens.Want(object{"activation_function": "mish"}, "activation_function"),
		goldens.Want(object{"layer_norm_epsilon": 0}, "layer_norm_epsilon"),
		goldens.Want(object{"n_positions": 1 << 20}, "n_positions"),
		goldens.Want(object{"pad_token_id": 19}, "pad_token_id: 19 is outside"),
		goldens.Want(object{"is_encoder_decoder": true}, "is_encoder_decoder"),
	}...)
}

func FuzzParseConfig(f *testing.F) { goldens.FuzzConfig(f, goldenDir, "gpt2", gpt2.ErrConfig) }

package t5_test

import (
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/goldens"
	"github.com/hfcompress/compress/architectures/t5"
)

func TestConformance(t *testing.T) {
	for _, name := range []string{"plain", "byt5", "encoder", "bf16", "f16"} {
		t.Run(name, func(t *testing.T) {
			goldens.Conform(t, modelDir(name), func(m architectures.Model) architectures.Model {
				return m.(*t5.Model).WithSessionBytes(1)
			})
		})
	}
}

func TestConfigRefusals(t *testing.T) {
	type object = map[string]any
	goldens.Refuses(t, modelDir("plain"), "t5", t5.ErrConfig, []goldens.Refusal{
		goldens.Want(object{"num_heads": 1 << 13}, "num_heads"),
		goldens.Want(object{"feed_forward_proj": "gated-mish"}, "feed_forward_proj: \"mish\" is not supported"),
		goldens.Want(object{"feed_forward_proj": "sparse-relu"}, "feed_forward_proj"),
		goldens.Want(object{"relative_attention_num_buckets": 6}, "a multiple of 4"),
		goldens.Want(object{"relative_attention_max_distance": 3}, "more than half the 8 buckets"),
		goldens.Want(object{"is_decoder": true}, "is_decoder"),
		goldens.Want(object{"is_encoder_decoder": false}, "is_encoder_decoder: false"),
		goldens.Want(object{"decoder_start_token_id": 21}, "decoder_start_token_id"),
	}...)
}

func FuzzParseConfig(f *testing.F) { goldens.FuzzConfig(f, goldenDir, "t5", t5.ErrConfig) }

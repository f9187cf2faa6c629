package gpt_neox_test

import (
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/gpt_neox"
	"github.com/hfcompress/compress/architectures/internal/goldens"
)

func TestConformance(t *testing.T) {
	for _, name := range []string{"plain", "serial", "f16"} {
		t.Run(name, func(t *testing.T) {
			goldens.Conform(t, modelDir(name), func(m architectures.Model) architectures.Model {
				return m.(*gpt_neox.Model).WithSessionBytes(1)
			})
		})
	}
}

func TestConfigRefusals(t *testing.T) {
	type object = map[string]any
	goldens.Refuses(t, modelDir("plain"), "gpt_neox", gpt_neox.ErrConfig, []goldens.Refusal{
		goldens.Want(object{"num_attention_heads": 5}, "num_attention_heads: 5 does not divide"),
		goldens.Want(object{"hidden_act": "mish"}, "hidden_act"),
		goldens.Want(object{"rope_parameters": object{"rope_type": "default", "partial_rotary_factor": 0.4}}, "3 of a head's 8 elements rotate"),
		goldens.Want(object{"rope_parameters": object{"rope_type": "ntk", "partial_rotary_factor": 0.5}}, "rope_type"),
		goldens.Want(object{"rotary_pct": 0.5}, "the top-level rotary_pct is 0.5"),
	}...)
}

func FuzzParseConfig(f *testing.F) { goldens.FuzzConfig(f, goldenDir, "gpt_neox", gpt_neox.ErrConfig) }

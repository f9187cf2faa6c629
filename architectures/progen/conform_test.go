package progen_test

import (
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/goldens"
	"github.com/hfcompress/compress/architectures/progen"
)

func TestConformance(t *testing.T) {
	for _, name := range []string{"plain", "f16"} {
		t.Run(name, func(t *testing.T) {
			goldens.Conform(t, modelDir(name), func(m architectures.Model) architectures.Model {
				return m.(*progen.Model).WithSessionBytes(1)
			})
		})
	}
}

func TestConfigRefusals(t *testing.T) {
	type object = map[string]any
	goldens.Refuses(t, modelDir("plain"), "progen", progen.ErrConfig, []goldens.Refusal{
		goldens.Want(object{"n_head": 5}, "n_head: 5 does not divide"),
		goldens.Want(object{"n_head": 4}, "4 heads do not divide into the 8 groups"),
		goldens.Want(object{"rotary_dim": 3}, "rotary_dim: 3 is odd"),
		goldens.Want(object{"rotary_dim": 6}, "rotary_dim"),
		goldens.Want(object{"activation_function": "mish"}, "activation_function"),
	}...)
}

func FuzzParseConfig(f *testing.F) { goldens.FuzzConfig(f, goldenDir, "progen", progen.ErrConfig) }

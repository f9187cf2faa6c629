package esm_test

import (
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/esm"
	"github.com/hfcompress/compress/architectures/internal/goldens"
)

func TestConformance(t *testing.T) {
	for _, name := range []string{"plain", "untied", "classifier", "bf16"} {
		t.Run(name, func(t *testing.T) {
			goldens.Conform(t, modelDir(name), func(m architectures.Model) architectures.Model {
				return m.(*esm.Model).WithSessionBytes(1)
			})
		})
	}
}

func TestConfigRefusals(t *testing.T) {
	type object = map[string]any
	goldens.Refuses(t, modelDir("plain"), "esm", esm.ErrConfig, []goldens.Refusal{
		goldens.Want(object{"num_attention_heads": 5}, "num_attention_heads: 5 does not divide"),
		goldens.Want(object{"num_attention_heads": 8}, "heads of 3 elements"),
		goldens.Want(object{"position_embedding_type": "absolute"}, "position_embedding_type: \"absolute\" is not supported"),
		goldens.Want(object{"position_embedding_type": nil}, "position_embedding_type"),
		goldens.Want(object{"emb_layer_norm_before": true}, "emb_layer_norm_before: true"),
		goldens.Want(object{"mask_token_id": nil}, "mask_token_id: -1: token_dropout needs one"),
		goldens.Want(object{"mask_token_id": 19}, "mask_token_id: 19"),
		goldens.Want(object{"is_folding_model": true}, "folding is not supported"),
		goldens.Want(object{"rope_parameters": object{"rope_type": "linear", "factor": 2}}, "linear"),
	}...)
}

// TestLabels: the number of classes is that of the names, else num_labels, else two.
func TestLabels(t *testing.T) {
	type object = map[string]any
	for _, c := range []struct {
		changes object
		want    int
	}{
		{nil, 3},
		{object{"num_labels": 5}, 3},
		{object{"id2label": nil, "num_labels": 5}, 5},
		{object{"id2label": nil}, 2},
		{object{"architectures": []string{"EsmForMaskedLM"}}, 0},
	} {
		b := goldens.Blueprint(t, modelDir("classifier"), c.changes).(*esm.Blueprint)
		if got := b.Config().Labels; got != c.want {
			t.Errorf("%v: %d labels, want %d", c.changes, got, c.want)
		}
	}
	goldens.Refuses(t, modelDir("classifier"), "esm", esm.ErrConfig,
		goldens.Want(object{"id2label": nil, "num_labels": 0}, "num_labels"),
		goldens.Want(object{"id2label": 3}, "id2label"))
}

func FuzzParseConfig(f *testing.F) { goldens.FuzzConfig(f, goldenDir, "esm", esm.ErrConfig) }

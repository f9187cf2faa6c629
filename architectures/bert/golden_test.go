package bert_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/hfcompress/compress/architectures/bert"
	"github.com/hfcompress/compress/architectures/internal/goldens"
)

// goldenDir holds outputs of transformers: see testdata/gen/README.md.
const goldenDir = "testdata/golden"

func modelDir(name string) string { return filepath.Join(goldenDir, name) }

func TestGoldenForward(t *testing.T) {
	goldens.Forward(t, goldenDir, modelDir, 6, "logits")
	goldens.Forward(t, goldenDir, modelDir, 6, "last_hidden_state")
}

// TestGoldenEmbeddings compares mean pooling with the formula of
// sentence-transformers.
func TestGoldenEmbeddings(t *testing.T) {
	dev := goldens.OpenCPU(t)
	var tally goldens.Tally
	for _, name := range []string{"model", "relu"} {
		golden := goldens.Read(t, filepath.Join(modelDir(name), "golden.safetensors"))
		m := goldens.Build(t, dev, modelDir(name), nil).(*bert.Model)
		for _, normalize := range []bool{false, true} {
			want := golden["pooled.mean"]
			if normalize {
				want = golden["pooled.sentence_embedding"]
			}
			got, err := m.Embed(context.Background(), goldens.Inputs(golden, "pooled"), normalize)
			if err != nil {
				t.Fatal(err)
			}
			tally.Compare(t, name, got, want, nil)
		}
	}
	t.Log(&tally)
}

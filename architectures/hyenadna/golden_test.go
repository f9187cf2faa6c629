package hyenadna_test

import (
	"path/filepath"
	"testing"

	"github.com/hfcompress/compress/architectures/internal/goldens"
)

// goldenDir holds outputs of the published program: see testdata/gen/README.md.
const goldenDir = "testdata/golden"

func modelDir(name string) string { return filepath.Join(goldenDir, name) }

func TestGoldenForward(t *testing.T) {
	goldens.Forward(t, goldenDir, modelDir, 6, "logits")
	goldens.Forward(t, goldenDir, modelDir, 6, "last_hidden_state")
}

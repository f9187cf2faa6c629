package esm_test

import (
	"path/filepath"
	"testing"

	"github.com/hfcompress/compress/architectures/internal/goldens"
)

// goldenDir holds outputs of transformers: see testdata/gen/README.md.
const goldenDir = "testdata/golden"

func modelDir(name string) string { return filepath.Join(goldenDir, name) }

func TestGoldenForward(t *testing.T) { goldens.Forward(t, goldenDir, modelDir, 8, "logits") }

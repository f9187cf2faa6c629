package gpt2_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/gpt2"
	"github.com/hfcompress/compress/architectures/internal/goldens"
	"github.com/hfcompress/compress/architectures/nn"
)

// TestGenerateToTheEnd: a model with 24 positions reads no more; the last token
// that it writes needs none.
func TestGenerateToTheEnd(t *testing.T) {
	dev, err := nn.OpenCPU(nn.CPUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	m := goldens.Build(t, dev, modelDir("plain"), map[string]any{"eos_token_id": nil}).(architectures.Generator)
	out, err := m.Generate(context.Background(), [][]int{{3, 4}}, 23)
	if err != nil || len(out[0]) != 25 {
		t.Errorf("%v, %v; expected 25 ids", out, err)
	}
	_, err = m.Generate(context.Background(), [][]int{{3, 4}, {5}}, 24)
	if want := "24 new tokens behind the 2 of sequence 0: the model has 24 positions, which are full after 23"; !errors.Is(err, gpt2.ErrInput) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, expected %q", err, want)
	}
}

package architectures_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// onTheRoad is the family of the guide under a name of this test's own.
type onTheRoad struct{ bigram }

func (onTheRoad) Name() string { return "bigram_road" }

func (onTheRoad) Matches(cfg architectures.Config) bool { return cfg.ModelType == "bigram_road" }

// TestGuideOnTheRoad: who follows the guide has a family that goes the whole way,
// with the values saved that its block declares.
func TestGuideOnTheRoad(t *testing.T) {
	architectures.Register(onTheRoad{})
	const vocabulary, width = 8, 64
	rng := rand.New(rand.NewPCG(1, 2))
	var entries []loader.Entry
	for _, name := range []string{"embedding.weight", "head.weight"} {
		values := make([]float32, vocabulary*width)
		for i := range values {
			values[i] = float32(rng.NormFloat64())
		}
		x, err := tensor.FromFloat32s(values, vocabulary, width)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, loader.Entry{Name: name, Tensor: x})
	}
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "package")
	if err := loader.WriteFile(filepath.Join(dir, "model.safetensors"), entries, loader.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	config := []byte(`{"model_type": "bigram_road", "vocab_size": 8, "width": 64}`)
	if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o666); err != nil {
		t.Fatal(err)
	}
	result, err := compress.Local(context.Background(), dir, compress.Options{Out: out, Require: compress.RequireBitwise})
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	if want := int64(vocabulary*width - vocabulary*vocabulary); result.Status != finitepass.Compressed || result.Report.Values.Saved() != want {
		t.Fatalf("%s: %d values saved, expected %d", result.Status, result.Report.Values.Saved(), want)
	}
	loaded, err := compress.Load(context.Background(), out, compress.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	in, err := architectures.TokenInputs([]int{0, 7, 3})
	if err != nil {
		t.Fatal(err)
	}
	a, err := result.Model.Forward(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	b, err := loaded.Forward(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Get("logits").Bytes(), b.Get("logits").Bytes()) {
		t.Error("the package computes something else")
	}
}

package compress_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/validation"
)

// TestPhonemeModel takes the trained model of g2p_en through the road: both
// embeddings and both input projections become tables.
func TestPhonemeModel(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors"} {
		write(t, filepath.Join(dir, name), read(t, filepath.Join("architectures/gru/testdata/g2p_en", name)))
	}
	out := filepath.Join(t.TempDir(), "package")
	o := quick(compress.Options{Out: out, Require: compress.RequireBitwise})
	result, err := compress.Local(context.Background(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	values := result.Report.Values
	// 834,890 values before: each embedding, projection and bias goes, and a table
	// of 768 columns comes for 29 and for 74 tokens.
	if result.Status != finitepass.Compressed || values.Before != 834890 || values.Saved() != 182528+159488 {
		t.Fatalf("%s: %d values before, %d saved", result.Status, values.Before, values.Saved())
	}
	t.Logf("%.2f %% of the values saved", 100*float64(values.Saved())/float64(values.Before))

	loaded, err := compress.Load(context.Background(), out, compress.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	for _, e := range validation.Generate(loaded.Inputs(), validation.Options{MaxPositions: 200, MaxSingles: 4}) {
		same(t, e.Name, result.Model, loaded, e.Inputs)
	}
}

// TestCellModel takes a model of the shape of UCE's through the road: vectors of
// 40 columns become a table of 12.
func TestCellModel(t *testing.T) {
	o := quick(compress.Options{Out: filepath.Join(t.TempDir(), "package"), Require: compress.RequireBitwise})
	dir := t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors"} {
		write(t, filepath.Join(dir, name), read(t, filepath.Join("architectures/uce/testdata/adds_one", name)))
	}
	result, err := compress.Local(context.Background(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	// The vectors, the projection, its bias and the norm, less 19 rows of 12.
	if want := int64(19*40 + 40*12 + 3*12 - 19*12); result.Status != finitepass.Compressed || result.Report.Values.Saved() != want {
		t.Fatalf("%s: %d values saved, expected %d", result.Status, result.Report.Values.Saved(), want)
	}
}

// same expects equal bytes of two models.
func same(t *testing.T, name string, a, b architectures.Model, in architectures.Inputs) {
	t.Helper()
	x, err := a.Forward(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	y, err := b.Forward(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	if len(x) != len(y) {
		t.Fatalf("%s: %d outputs and %d", name, len(x), len(y))
	}
	for i, o := range x {
		if o.Name != y[i].Name || !slices.Equal(o.Tensor.Bytes(), y[i].Tensor.Bytes()) {
			t.Errorf("%s: %s differs", name, o.Name)
		}
	}
}

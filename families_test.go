package compress_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/finitepass"
)

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

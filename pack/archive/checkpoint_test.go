package archive_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hfcompress/compress/internal/shapes"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/pack/archive"
	"github.com/hfcompress/compress/tensor"
)

// A checkpoint in an archive is the same as the one that was packed.
func TestLoaderOpensArchives(t *testing.T) {
	model := shapes.Llama{Vocabulary: 50, Hidden: 32, Intermediate: 64, Layers: 2, Heads: 4, MaxPositions: 64, RopeTheta: 1e4, RMSNormEps: 1e-6}
	for name, shard := range map[string]int64{"one file": 0, "shards": 40_000} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := model.Write(filepath.Join(dir, "src"), 1, shard, false); err != nil {
				t.Fatal(err)
			}
			dest := filepath.Join(dir, "x.hfa")
			if _, err := archive.Pack(t.Context(), dest, []string{filepath.Join(dir, "src")}, archive.PackOptions{}); err != nil {
				t.Fatal(err)
			}
			want, err := loader.Open(filepath.Join(dir, "src"), loader.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer want.Close()
			got, err := loader.Open(dest, loader.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer got.Close()
			var params []loader.Param
			for _, name := range want.Names() {
				info, err := want.Info(name)
				if err != nil {
					t.Fatal(err)
				}
				params = append(params, loader.Param{Name: name, Shape: info.Shape, DTypes: []tensor.DType{info.DType}})
			}
			w, err := loader.Strict(got, params, loader.Policy{})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range params {
				a, err := want.Tensor(p.Name)
				if err != nil {
					t.Fatal(err)
				}
				b, err := w.Tensor(p.Name)
				if err != nil {
					t.Fatal(err)
				}
				if !tensor.BitEqual(a, b) {
					t.Errorf("%s differs", p.Name)
				}
			}
			for i, f := range want.Files() {
				if g := got.Files()[i]; g.Name != f.Name || g.Size != f.Size || !bytes.Equal(g.Header.Raw(), f.Header.Raw()) {
					t.Errorf("%s differs from %s", g.Name, f.Name)
				}
			}
			params[0].Name = "missing"
			if _, err := loader.Strict(got, params, loader.Policy{}); !errors.Is(err, loader.ErrMissing) || !errors.Is(err, loader.ErrUnexpected) {
				t.Error(err)
			}
		})
	}
	// A damaged archive is refused as such.
	b := packTree(t, map[string][]byte{"x.safetensors": safetensors(nil, nil)}, archive.Options{})
	b[len(b)-70] ^= 1
	path := filepath.Join(t.TempDir(), "x.hfa")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := loader.Open(path, loader.Options{}); !errors.Is(err, archive.ErrCorrupt) {
		t.Error(err)
	}
}

// A checkpoint in an archive made against a base opens together with it, and
// only so.
func TestOpenCheckpoint(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	const n = 90_000
	old, next := tuned(rng, n, 2e-5, putBF16)
	file := func(w []byte) []byte {
		return safetensors([]part{
			{name: "w", dtype: tensor.BF16, shape: []int{n / 100, 100}, data: w},
			{name: "same", dtype: tensor.BF16, shape: []int{100}, data: old[:200]},
			{name: "b", dtype: tensor.F32, shape: []int{3}, data: f32(rng, 3)},
		}, nil)
	}
	base := open(t, packTree(t, map[string][]byte{"model.safetensors": file(old)}, archive.Options{}), archive.ReadOptions{})
	want := file(next)
	b := packTree(t, map[string][]byte{"model.safetensors": want, "config.json": []byte("{}")}, archive.Options{Base: base})
	r := open(t, b, archive.ReadOptions{Base: base})
	c, err := archive.OpenCheckpoint(r, loader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), want, 0o644); err != nil {
		t.Fatal(err)
	}
	plain, err := loader.Open(dir, loader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if !slices.Equal(c.Names(), plain.Names()) || len(c.Names()) != 3 {
		t.Fatalf("tensors %q, want %q", c.Names(), plain.Names())
	}
	if a, b := c.Files()[0], plain.Files()[0]; a.Size != b.Size || !bytes.Equal(a.Header.Raw(), b.Header.Raw()) {
		t.Error("the headers differ")
	}
	for _, name := range c.Names() {
		got, err := c.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		want, err := plain.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		if !tensor.BitEqual(got, want) {
			t.Errorf("%s differs", name)
		}
	}
	if _, err := archive.OpenCheckpoint(r, loader.Options{File: "other.safetensors"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	// Without the base its tensors are out of reach, by name and with the reason.
	alone, err := archive.OpenCheckpoint(open(t, b, archive.ReadOptions{}), loader.Options{})
	if err == nil {
		defer alone.Close()
		_, err = alone.Tensor("w")
	}
	if !errors.Is(err, archive.ErrBase) {
		t.Errorf("without the base: %v", err)
	}
}

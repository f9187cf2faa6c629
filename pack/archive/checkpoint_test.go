package archive_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
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

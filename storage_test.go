package compress_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
	"github.com/hfcompress/compress/validation"
)

// demoWith writes the demo model with some tensors changed.
func demoWith(t *testing.T, change func(name string, x *tensor.Tensor, all map[string]*tensor.Tensor)) string {
	t.Helper()
	dir := demoDir(t, nil)
	path := filepath.Join(dir, "model.safetensors")
	c, err := loader.Open(path, loader.Options{NoMap: true})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*tensor.Tensor{}
	var entries []loader.Entry
	for _, name := range c.Names() {
		x, err := c.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = x
	}
	for _, name := range c.Names() {
		x, err := tensor.FromBytes(all[name].DType(), all[name].Shape(), slices.Clone(all[name].Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		change(name, x, all)
		entries = append(entries, loader.Entry{Name: name, Tensor: x})
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := loader.WriteFile(path, entries, loader.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestStorage packs a model in which two layers are equal in one tensor and most
// tokens have one embedding row, in every form, and expects the same model back.
func TestStorage(t *testing.T) {
	const (
		first  = "model.layers.1.mlp.up_proj.weight"
		second = "model.layers.2.mlp.up_proj.weight"
		table  = "model.embed_tokens.weight"
	)
	dir := demoWith(t, func(name string, x *tensor.Tensor, all map[string]*tensor.Tensor) {
		switch name {
		case second:
			copy(x.Bytes(), all[first].Bytes())
		case table:
			for i := 4; i < x.Shape()[0]; i++ {
				copy(x.Row(i), x.Row(3))
			}
		}
	})
	const width, rows = 128, 32 // of the embedding
	for name, c := range map[string]struct {
		o      compress.StorageOptions
		shared bool
		form   string
	}{
		"default":    {compress.StorageOptions{}, true, finitepass.EqualRowsKind},
		"as it is":   {compress.StorageOptions{KeepEqual: true}, false, ""},
		"packed":     {compress.StorageOptions{KeepEqual: true, PackTables: true}, false, finitepass.PackedRowsKind},
		"everything": {compress.StorageOptions{PackTables: true}, true, finitepass.EqualRowsKind},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "package")
			result, err := compress.Local(context.Background(), dir, quick(compress.Options{Out: out, Storage: c.o, Require: compress.RequireBitwise}))
			if err != nil {
				t.Fatal(err)
			}
			defer result.Close()
			s := result.Report.Storage
			if (s != nil && len(s.Shared) > 0) != c.shared || (s != nil && len(s.Tables) > 0) != (c.form != "") {
				t.Fatalf("storage: %+v", s)
			}
			saved := int64(0)
			if c.shared {
				if g := s.Shared[0]; len(s.Shared) != 1 || g.Tensor != first || !slices.Equal(g.Names, []string{second}) {
					t.Errorf("shared: %+v", s.Shared)
				}
				saved += s.SharedBytes
			}
			if c.form != "" {
				x := s.Tables[0]
				if x.Tensor != table || x.Form != c.form || x.FullBytes != 4*rows*width || x.StoredBytes >= x.FullBytes {
					t.Errorf("table: %+v", x)
				}
				if c.form == finitepass.EqualRowsKind && (x.DistinctRows != 4 || x.StoredBytes != 4*4*width+rows) {
					t.Errorf("table: %+v", x)
				}
				saved += x.FullBytes - x.StoredBytes
			}
			for _, b := range result.Report.Blocks {
				if b.Account != nil {
					saved += b.Account.BytesSaved
				}
			}
			if got := result.Report.Bytes.Resident.Saved(); got != saved {
				t.Errorf("%d bytes saved in memory; the parts add up to %d", got, saved)
			}

			loaded, err := compress.Load(context.Background(), out, compress.LoadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer loaded.Close()
			for _, e := range validation.Generate(loaded.Inputs(), validation.Options{MaxPositions: 120, MaxSingles: 4}) {
				same(t, e.Name, result.Model, loaded, e.Inputs)
			}
		})
	}
}

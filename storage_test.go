package compress_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
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

// TestReachableIDs keeps 20 of 32 tokens: the tables hold 20 rows, the outputs for
// these tokens are the source's, and the others are refused by name.
func TestReachableIDs(t *testing.T) {
	out := filepath.Join(t.TempDir(), "package")
	o := quick(compress.Options{Out: out, Require: compress.RequireBitwise})
	for id := range 20 {
		o.ReachableIDs = append(o.ReachableIDs, 19-id)
	}
	dir := demoDir(t, nil)
	result, err := compress.Local(context.Background(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	// The whole vocabulary saves 36,992; 12 rows of q, k, v and embedding go besides.
	if want := int64(36992 + 12*4*128); result.Report.Values.Saved() != want {
		t.Errorf("%d values saved, expected %d", result.Report.Values.Saved(), want)
	}
	loaded, err := compress.Load(context.Background(), out, compress.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	examples := validation.Generate(loaded.Inputs(), validation.Options{MaxPositions: 120})
	if len(examples) == 0 {
		t.Fatal("no examples")
	}
	for _, e := range examples {
		for _, id := range e.Inputs.Tensors["input_ids"].Int64s() {
			if id >= 20 {
				t.Fatalf("%s has id %d", e.Name, id)
			}
		}
		same(t, e.Name, result.Model, loaded, e.Inputs)
	}
	in, err := architectures.TokenInputs([]int{3, 25})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := loaded.Forward(context.Background(), in); !errors.Is(err, nn.ErrIndex) || !strings.Contains(err.Error(), "token id 25 is not declared; 20 are, from 0 to 19") {
		t.Errorf("an id that was not declared: %v", err)
	}
	o.ReachableIDs, o.Overwrite = []int{0, 32}, true
	if _, err := compress.Local(context.Background(), dir, o); !errors.Is(err, compress.ErrOption) || !strings.Contains(err.Error(), "reachable token id 32, the model has 32") {
		t.Errorf("an id outside the vocabulary: %v", err)
	}
}

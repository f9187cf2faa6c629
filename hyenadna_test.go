package compress_test

import (
	"context"
	"path/filepath"
	"testing"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/planner"
	"github.com/hfcompress/compress/validation"
)

// planned plans the checkpoint in dir from its headers.
func planned(t *testing.T, dir string) planner.Plan {
	t.Helper()
	c, err := loader.Open(dir, loader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	headers, err := planner.FromLoader(c, read(t, filepath.Join(dir, "config.json")))
	if err != nil {
		t.Fatal(err)
	}
	r, err := planner.Make([]planner.Checkpoint{headers}, planner.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Checkpoints[0]
}

// TestSharedPositions takes genomic models whose layers hold equal position vectors,
// times and rates of decay through the road: block and shared tensors save what the planner says,
// in one model both and in the other the shared tensors alone, and the package
// reloads to the same bits.
func TestSharedPositions(t *testing.T) {
	for name, c := range map[string]struct {
		layers, positions, width, filters int   // width of a position's vector
		table                             int64 // values that the block saves, 0 when it is refused
	}{
		"fixed_frequency": {2, 150, 5, 24, 2*24 + 72*24 + 72 - 12*72},
		"third_order":     {2, 150, 3, 24, 0},
		"tied":            {2, 150, 5, 17, 2*17 + 51*17 + 51 - 16*51},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, file := range []string{"config.json", "model.safetensors"} {
				write(t, filepath.Join(dir, file), read(t, filepath.Join("architectures/hyenadna/testdata/golden", name, file)))
			}
			shared := int64(c.layers-1) * int64(c.positions*(c.width+1)+c.filters)
			var table, equal planner.Pass
			for _, p := range planned(t, dir).Passes {
				switch p.Kind {
				case "shared_tensors":
					equal = p
				default:
					table = p
				}
			}
			if equal.Saved.Values != shared || equal.Saved.Bytes != 4*shared || c.table > 0 && table.Saved.Values != c.table || (table.Verdict == planner.Refused) != (c.table == 0) {
				t.Errorf("planned: table %+v, equal tensors %+v", table, equal)
			}
			for _, keep := range []bool{false, true} {
				out := filepath.Join(t.TempDir(), "package")
				o := quick(compress.Options{Out: out, Require: compress.RequireBitwise, Storage: compress.StorageOptions{KeepEqual: keep}})
				result, err := compress.Local(context.Background(), dir, o)
				if err != nil {
					t.Fatal(err)
				}
				defer result.Close()
				want := c.table
				if !keep {
					want += shared
					if s := result.Report.Storage; s == nil || s.SharedBytes != equal.Saved.Bytes || len(s.Shared) != 3 {
						t.Errorf("storage: %+v; %d bytes planned", s, equal.Saved.Bytes)
					}
				}
				if saved := result.Report.Values.Saved(); saved != want || (result.Status == finitepass.Compressed) != (want > 0) {
					t.Errorf("keep equal %v: %s (%s), %d values saved, want %d", keep, result.Status, result.Report.Reason, saved, want)
				}
				if want == 0 {
					continue
				}
				loaded, err := compress.Load(context.Background(), out, compress.LoadOptions{})
				if err != nil {
					t.Fatal(err)
				}
				defer loaded.Close()
				for _, e := range validation.Generate(loaded.Inputs(), validation.Options{MaxPositions: 300, MaxSingles: 4, MaxLength: 150}) {
					same(t, e.Name, result.Model, loaded, e.Inputs)
				}
			}
		})
	}
}

package compress_test

import (
	"context"
	"path/filepath"
	"testing"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/architectures/f5dit"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/planner"
	"github.com/hfcompress/compress/validation"
)

// Families whose layers convolve go the whole road on a GPU: what is saved is what
// the plan says, less the tables of further row counts, which the planner does not
// know, and the package gives the same bits there.
func TestGPUConvolving(t *testing.T) {
	if testing.Short() {
		t.Skip("takes many seconds where the GPU is software")
	}
	needGPU(t)
	times, err := f5dit.Timesteps(6)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		dir   string
		times []float32
		saved []string // kinds of passes that save
	}{
		"f5_dit":   {"architectures/f5dit/testdata/defaults", times, []string{"timesteps"}},
		"hyenadna": {"architectures/hyenadna/testdata/golden/fixed_frequency", nil, []string{"lookup", "shared_tensors"}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, dir, out := context.Background(), t.TempDir(), filepath.Join(t.TempDir(), "package")
			for _, file := range []string{"config.json", "model.safetensors"} {
				write(t, filepath.Join(dir, file), read(t, filepath.Join(filepath.FromSlash(c.dir), file)))
			}
			result, err := compress.Local(ctx, dir, compress.Options{
				Out: out, Device: "gpu", Require: compress.RequireBitwise, Timesteps: c.times, ProfileMode: finitepass.ProfilesAuto,
				Generate: validation.Options{MaxPositions: 120, MaxSingles: 1, MaxRows: 17, MaxLength: 40},
				NearTies: validation.TieOptions{Calls: 1, Keep: 1},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { result.Close() })
			r := result.Report
			if result.Status != finitepass.Compressed || !r.Gate.Bitwise || !r.Reload.Bitwise || len(r.Blocks) != 1 {
				t.Fatalf("%s: %s", result.Status, r.Reason)
			}
			if got := compress.ProfileText(r.Profiles); got != "1–15, 16+ (auto)" {
				t.Errorf("profiles %s", got)
			}
			plan, err := compress.PlanLocal(dir, compress.Options{}, planner.Options{Timesteps: len(c.times)})
			if err != nil {
				t.Fatal(err)
			}
			want, kinds := int64(0), map[string]bool{}
			for _, p := range plan.Checkpoints[0].Passes {
				want += p.Saved.Values
				kinds[p.Kind] = true
			}
			for _, kind := range c.saved {
				if !kinds[kind] {
					t.Errorf("the plan has no %s: %v", kind, kinds)
				}
			}
			for i, route := range r.Blocks[0].Routes {
				if i > 0 {
					want -= route.NewValues
				}
			}
			if want <= 0 || r.Values.Saved() != want {
				t.Errorf("%d values saved, expected %d", r.Values.Saved(), want)
			}

			loaded, err := compress.Load(ctx, out, compress.LoadOptions{Device: "gpu"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { loaded.Close() })
			if !loaded.Validated {
				t.Error("the package is not validated on the device that made it")
			}
			examples := validation.Generate(loaded.Inputs(), validation.Options{Seed: 9, MaxPositions: 200, MaxSingles: 2, MaxLength: 40})
			for _, e := range examples[:min(4, len(examples))] {
				same(t, e.Name, result.Model, loaded, e.Inputs)
			}
		})
	}
}

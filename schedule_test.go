package compress_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/planner"
	"github.com/hfcompress/compress/tensor"
	"github.com/hfcompress/compress/validation"
)

// diffusionModel is a folder with a small diffusion transformer of random weights.
func diffusionModel(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors"} {
		write(t, filepath.Join(dir, name), read(t, filepath.Join("architectures/dit/testdata/plain", name)))
	}
	return dir
}

// scheduleOptions declare three timesteps, and a class with the null class.
func scheduleOptions(o compress.Options) compress.Options {
	o.Require = compress.RequireBitwise
	o.Timesteps, o.Labels = []float32{0, 20, 999}, []int{0, 5}
	o.Generate = validation.Options{MaxPositions: 4000, MaxRows: 17}
	return o
}

// TestSchedule takes a diffusion model through the road with a declared schedule on
// both devices: all modulations become tables, the values saved are the planner's,
// and the package gives the same bits and refuses what is not declared.
func TestSchedule(t *testing.T) {
	for _, device := range []string{"cpu", "cpu:split-k"} {
		t.Run(device, func(t *testing.T) { testSchedule(t, device) })
	}
}

func testSchedule(t *testing.T, device string) {
	ctx := context.Background()
	dir, out := diffusionModel(t), filepath.Join(t.TempDir(), "package")
	result, err := compress.Local(ctx, dir, scheduleOptions(compress.Options{Out: out, Device: device}))
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	r := result.Report
	if result.Status != finitepass.Compressed || !r.Gate.Bitwise || !r.Reload.Bitwise || len(r.Blocks) != 2 {
		t.Fatalf("%s: %s", result.Status, r.Reason)
	}
	// A block's tables beside the bulk one are those of the row counts whose bits
	// differ; the planner counts a table for each profile.
	plan, err := compress.PlanLocal(dir, compress.Options{}, planner.Options{Timesteps: 3})
	if err != nil {
		t.Fatal(err)
	}
	want := int64(0)
	for _, p := range plan.Checkpoints[0].Passes {
		if p.Kind == "pairs" {
			want += p.Saved.Values
		}
	}
	for _, b := range r.Blocks {
		for i, route := range b.Routes {
			if i > 0 {
				want -= route.NewValues
			}
		}
	}
	if want <= 0 || r.Values.Saved() != want {
		t.Errorf("%d values saved, expected %d", r.Values.Saved(), want)
	}
	if device == "cpu" && want != 4688 {
		t.Errorf("%d values saved by the plan; the shapes give 4,688", want)
	}

	loaded, err := compress.Load(ctx, out, compress.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	spec := loaded.Inputs()
	if spec.Latent == nil || len(spec.Latent.Timesteps) != 3 || len(spec.Latent.LabelIDs) != 2 {
		t.Fatalf("the package's inputs: %+v", spec.Latent)
	}
	examples := validation.Generate(spec, validation.Options{Seed: 9, MaxPositions: 2000})
	if len(examples) < 5 {
		t.Fatalf("%d examples", len(examples))
	}
	for _, e := range examples {
		same(t, e.Name, result.Model, loaded, e.Inputs)
	}
	for name, c := range map[string]struct {
		value int64
		want  string
	}{"timestep": {21, "timestep 21"}, "class_labels": {1, "class 1"}} {
		in := architectures.Inputs{Tensors: map[string]*tensor.Tensor{}}
		for k, v := range examples[0].Inputs.Tensors {
			in.Tensors[k] = v
		}
		if in.Tensors[name], err = tensor.FromInt64s([]int64{c.value}, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := loaded.Forward(ctx, in); !errors.Is(err, nn.ErrIndex) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("undeclared %s: %v", name, err)
		}
	}
	verified, err := compress.Verify(ctx, out, compress.VerifyOptions{AgainstDir: dir})
	if err != nil || !verified.Verified || verified.Against == nil || !verified.Against.Bitwise {
		t.Errorf("against the source: %v", err)
	}
}

// Without a schedule a diffusion model has no finite block.
func TestNoSchedule(t *testing.T) {
	out := filepath.Join(t.TempDir(), "package")
	o := compress.Options{Out: out, Generate: validation.Options{MaxPositions: 400}}
	result, err := compress.Local(context.Background(), diffusionModel(t), o)
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	if result.Status != finitepass.NoReduction || !result.Report.Reload.Bitwise {
		t.Errorf("%s", result.Status)
	}
}

func TestScheduleRefused(t *testing.T) {
	dit, cell := diffusionModel(t), "architectures/uce/testdata/hidden"
	nan := float32(0)
	nan /= nan
	for name, c := range map[string]struct {
		dir  string
		o    compress.Options
		want string
	}{
		"a model of tokens":  {cell, compress.Options{Timesteps: []float32{1}}, `no block of architecture "uce" is a function of them`},
		"labels alone":       {dit, compress.Options{Labels: []int{1}}, "declared together with timesteps"},
		"negative label":     {dit, compress.Options{Timesteps: []float32{1}, Labels: []int{-1}}, "class label -1"},
		"unknown label":      {dit, compress.Options{Timesteps: []float32{1}, Labels: []int{6}}, "class label 6, the model has 0 to 5"},
		"no number":          {dit, compress.Options{Timesteps: []float32{nan}}, "timestep NaN"},
		"ids of such models": {dit, compress.Options{ReachableIDs: []int{1}}, "reachable token id 1, the model has 0"},
	} {
		c.o.File = "model.safetensors"
		_, err := compress.Local(context.Background(), c.dir, c.o)
		if !errors.Is(err, compress.ErrOption) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

package compress_test

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/f5dit"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/planner"
	"github.com/hfcompress/compress/tensor"
	"github.com/hfcompress/compress/validation"
)

// flowModel is a folder with a small F5-TTS model of random weights.
func flowModel(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	for _, file := range []string{"config.json", "model.safetensors"} {
		write(t, filepath.Join(dir, file), read(t, filepath.Join("architectures/f5dit/testdata", name, file)))
	}
	return dir
}

// TestFlow takes F5-TTS models through the road with the times of the published
// sampler on both devices: all modulations become one table, the values saved are
// the planner's, and the package gives the same bits and refuses other times.
func TestFlow(t *testing.T) {
	for _, c := range []struct {
		name, device string
		steps        int
		saved        int64 // 0: that of the plan less the tables of further row counts
	}{
		// 256·32 + 32 + 32² + 32 of the time's MLP, 33·32·14 of modulations, less 14·32
		// for each time.
		{"v1", "cpu", 32, 256*32 + 32 + 32*32 + 32 + 33*32*14 - 32*14*32},
		{"v1", "cpu", 12, 256*32 + 32 + 32*32 + 32 + 33*32*14 - 12*14*32},
		// The names of weights that are no average.
		{"defaults", "cpu", 5, 256*16 + 16 + 16*16 + 16 + 17*16*8 - 5*8*16},
		{"switches", "cpu:split-k", 7, 0},
	} {
		t.Run(c.name+c.device, func(t *testing.T) { testFlow(t, c.name, c.device, c.steps, c.saved) })
	}
}

func testFlow(t *testing.T, name, device string, steps int, saved int64) {
	ctx := context.Background()
	dir, out := flowModel(t, name), filepath.Join(t.TempDir(), "package")
	times, err := f5dit.Timesteps(steps)
	if err != nil {
		t.Fatal(err)
	}
	result, err := compress.Local(ctx, dir, compress.Options{
		Out: out, Device: device, Require: compress.RequireBitwise, Timesteps: times,
		Generate: validation.Options{MaxPositions: 1000, MaxRows: 17, MaxLength: 20},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	r := result.Report
	if result.Status != finitepass.Compressed || !r.Gate.Bitwise || !r.Reload.Bitwise || len(r.Blocks) != 1 {
		t.Fatalf("%s: %s", result.Status, r.Reason)
	}
	options := planner.Options{Timesteps: steps}
	if steps == f5dit.DefaultSteps {
		options.Timesteps = 0 // what is usual for the family
	}
	plan, err := compress.PlanLocal(dir, compress.Options{}, options)
	if err != nil {
		t.Fatal(err)
	}
	p := plan.Checkpoints[0]
	if p.Architecture != "f5_dit" || len(p.Passes) != 1 || p.Passes[0].Kind != "timesteps" {
		t.Fatalf("the plan: %s, %+v", p.Architecture, p.Passes)
	}
	want := p.Passes[0].Saved.Values
	if saved != 0 && want != saved {
		t.Errorf("the plan saves %d values; the shapes give %d", want, saved)
	}
	for i, route := range r.Blocks[0].Routes {
		if i > 0 { // the planner counts a table for each profile, and there are none
			want -= route.NewValues
		}
	}
	if want <= 0 || r.Values.Saved() != want {
		t.Errorf("%d values saved, expected %d", r.Values.Saved(), want)
	}

	loaded, err := compress.Load(ctx, out, compress.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	spec := loaded.Inputs()
	if spec.Flow == nil || len(spec.Flow.Timesteps) != steps {
		t.Fatalf("the package's inputs: %+v", spec.Flow)
	}
	examples := validation.Generate(spec, validation.Options{Seed: 9, MaxPositions: 600})
	if len(examples) < 10 {
		t.Fatalf("%d examples", len(examples))
	}
	for _, e := range examples {
		same(t, e.Name, result.Model, loaded, e.Inputs)
	}
	in := architectures.Inputs{Tensors: maps.Clone(examples[0].Inputs.Tensors)}
	if in.Tensors["time"], err = tensor.FromFloat32s([]float32{0.5}, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := loaded.Forward(ctx, in); !errors.Is(err, nn.ErrIndex) || !strings.Contains(err.Error(), "timestep 0.5") {
		t.Errorf("an undeclared time: %v", err)
	}
	verified, err := compress.Verify(ctx, out, compress.VerifyOptions{AgainstDir: dir})
	if err != nil || !verified.Verified || verified.Against == nil || !verified.Against.Bitwise {
		t.Errorf("against the source: %v", err)
	}
}

// Without times an F5-TTS model has no finite block, and class labels are not its.
func TestNoFlow(t *testing.T) {
	out := filepath.Join(t.TempDir(), "package")
	o := compress.Options{Out: out, Generate: validation.Options{MaxPositions: 200}}
	result, err := compress.Local(context.Background(), flowModel(t, "v1"), o)
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	if result.Status != finitepass.NoReduction || !result.Report.Reload.Bitwise {
		t.Errorf("%s", result.Status)
	}
	o.Timesteps, o.Labels, o.Out = []float32{0}, []int{1}, filepath.Join(t.TempDir(), "package")
	if _, err := compress.Local(context.Background(), flowModel(t, "v1"), o); !errors.Is(err, compress.ErrOption) || !strings.Contains(err.Error(), `no block of architecture "f5_dit" is a function of them`) {
		t.Errorf("class labels: %v", err)
	}
}

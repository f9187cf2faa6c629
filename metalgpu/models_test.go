package metalgpu

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/hfcompress/compress/architectures"
	_ "github.com/hfcompress/compress/architectures/bert"
	_ "github.com/hfcompress/compress/architectures/esm"
	_ "github.com/hfcompress/compress/architectures/gpt2"
	_ "github.com/hfcompress/compress/architectures/gpt_neox"
	_ "github.com/hfcompress/compress/architectures/hyenadna"
	_ "github.com/hfcompress/compress/architectures/llama"
	"github.com/hfcompress/compress/architectures/nn"
	_ "github.com/hfcompress/compress/architectures/progen"
	_ "github.com/hfcompress/compress/architectures/t5"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
	"github.com/hfcompress/compress/validation"
)

// buildModel loads the model in dir onto a device. It says what the model takes and
// how far outputs may be apart, by the types of its weights.
func buildModel(t *testing.T, dev nn.Device, dir string) (architectures.Model, architectures.InputSpec, float64) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := architectures.ParseConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	family, err := architectures.ForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b, err := family.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	weights, err := loader.Open(filepath.Join(dir, "model.safetensors"), loader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { weights.Close() })
	b = architectures.ForNames(b, weights.Names())
	m, err := b.Build(dev, weights, nil)
	if err != nil {
		t.Fatal(err)
	}
	tolerance := 0.0
	for _, name := range weights.Names() {
		info, err := weights.Info(name)
		if err != nil {
			t.Fatal(err)
		}
		if computes(info.DType) {
			tolerance = max(tolerance, units(info.DType))
		}
	}
	return m, b.Inputs(), tolerance
}

// units is the largest accepted difference of outputs of a model in a type, relative to the
// largest absolute value of the tensor: what the CPU device is held to against
// the references.
func units(d tensor.DType) float64 {
	switch d {
	case tensor.BF16:
		return 3.0 / 128
	case tensor.F16:
		return 3.0 / 1024
	}
	return 1e-5
}

// TestModels runs small models of the registered families on the GPU and on the
// CPU. Where a call has 16 rows or more, all linear maps are tiled, and so are
// those of single tokens in no case: outputs are then the same bits, but for
// models with functions that may be a unit off.
func TestModels(t *testing.T) {
	families := map[string]bool{"bert": false, "esm": false, "gpt2": false, "gpt_neox": false, "hyenadna": false, "llama": true, "progen": false, "t5": false}
	eachDevice(t, func(t *testing.T, o Options) {
		d, cpu := openTest(t, o), openCPU(t)
		for name, exact := range families {
			dirs, err := filepath.Glob(filepath.Join("..", "architectures", name, "testdata", "golden", "*", "model.safetensors"))
			if err != nil || len(dirs) == 0 {
				t.Fatalf("no models of %s: %v", name, err)
			}
			switch {
			case testing.Short() && o.API == "go":
				if name != "llama" {
					continue
				}
				dirs = dirs[:1]
			case testing.Short() || o.API == "go":
				dirs = dirs[:1]
			}
			for _, path := range dirs {
				dir := filepath.Dir(path)
				t.Run(name+"/"+filepath.Base(dir), func(t *testing.T) { compareModel(t, d, cpu, dir, exact, o.API == "go") })
			}
		}
	})
}

func compareModel(t *testing.T, d, cpu nn.Device, dir string, exact, brief bool) {
	got, spec, tolerance := buildModel(t, d, dir)
	want, _, _ := buildModel(t, cpu, dir)
	var examples []validation.Example
	for _, e := range validation.Generate(spec, validation.Options{}) {
		if n := positions(e.Inputs); n > 1 && n <= 96 {
			examples = append(examples, e)
		}
	}
	step := max(1, len(examples)/8)
	if brief {
		step = max(1, len(examples)/2)
	}
	tiled, equal, values := 0, 0, 0
	for i := 0; i < len(examples); i += step {
		in := examples[i].Inputs
		a, err := got.Forward(context.Background(), in)
		if err != nil {
			t.Fatalf("%s: %v", examples[i].Name, err)
		}
		b, err := want.Forward(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		if len(a) != len(b) {
			t.Fatalf("%s: %d outputs, want %d", examples[i].Name, len(a), len(b))
		}
		for j, out := range b {
			if a[j].Name != out.Name || !a[j].Tensor.Shape().Equal(out.Tensor.Shape()) || a[j].Tensor.DType() != out.Tensor.DType() {
				t.Fatalf("%s: output %s is %v, want %s, %v", examples[i].Name, a[j].Name, a[j].Tensor, out.Name, out.Tensor)
			}
			if !computes(out.Tensor.DType()) {
				continue
			}
			same := tensor.BitEqual(a[j].Tensor, out.Tensor)
			if values++; same {
				equal++
			}
			if positions(in) >= tiledRows {
				tiled++
				if exact && !same {
					t.Errorf("%s, %d positions: %s has other bits", examples[i].Name, positions(in), out.Name)
				}
			}
			if !same {
				near(t, examples[i].Name+", "+out.Name, a[j].Tensor, out.Tensor, tolerance)
			}
		}
	}
	if tiled == 0 && !brief {
		t.Error("no example has 16 rows")
	}
	t.Logf("%d of %d output tensors have the CPU's bits", equal, values)
}

// positions is the number of rows of a call.
func positions(in architectures.Inputs) int {
	if t := in.Tensors["input_ids"]; t != nil {
		return t.Len()
	}
	return 0
}

func near(t *testing.T, what string, got, want *tensor.Tensor, tolerance float64) {
	t.Helper()
	x, y := patterns(got), patterns(want)
	largest, apart := 0.0, 0.0
	for i := range y {
		a, b := value(want.DType(), x[i]), value(want.DType(), y[i])
		largest, apart = max(largest, math.Abs(b)), max(apart, math.Abs(a-b))
	}
	if !(apart <= tolerance*max(largest, 1e-30)) {
		t.Errorf("%s: %g apart, the largest value is %g", what, apart, largest)
	}
}

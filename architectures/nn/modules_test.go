package nn_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// checkpoint hands out tensors by name.
type checkpoint map[string]*tensor.Tensor

func (c checkpoint) Tensor(name string) (*tensor.Tensor, error) {
	if t, ok := c[name]; ok {
		return t, nil
	}
	return nil, fmt.Errorf("no tensor %q", name)
}

func TestFanout(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	dev := open(t, nn.CPUOptions{})
	weights := checkpoint{
		"e": f32(t, normal(rng, 9*6), 9, 6), "n.w": f32(t, normal(rng, 6), 6), "n.b": f32(t, normal(rng, 6), 6),
		"q.w": f32(t, normal(rng, 4*6), 4, 6), "q.b": f32(t, normal(rng, 4), 4), "r.w": f32(t, normal(rng, 4), 4),
	}
	rows, err := nn.TensorRows(weights["e"])
	if err != nil {
		t.Fatal(err)
	}
	table, err := dev.UploadRows(rows)
	if err != nil {
		t.Fatal(err)
	}
	layer, err := nn.NewLayerNorm(dev, weights.Tensor, "n.w", "n.b", 1e-5)
	if err != nil {
		t.Fatal(err)
	}
	linear, err := nn.NewLinear(dev, weights.Tensor, "q.w", "q.b")
	if err != nil {
		t.Fatal(err)
	}
	rms, err := nn.NewRMSNorm(dev, weights.Tensor, "r.w", 1e-6)
	if err != nil {
		t.Fatal(err)
	}
	f := &nn.Fanout{
		Embedding: table, EmbeddingSource: rows, EmbeddingName: "e",
		Prefix: []nn.RowLocal{layer},
		Branches: []nn.Branch{
			{Name: "q", Layers: []nn.RowLocal{linear, rms, nn.Activation{Function: nn.SiLU}}},
			{Name: "unit", Layers: []nn.RowLocal{nn.RowNormalize{Eps: 1e-12}}},
		},
		Residual: "residual",
	}
	if err := f.Validate(); err != nil {
		t.Fatal(err)
	}
	var params, names []string
	for _, l := range append(slices.Clone(f.Prefix), append(f.Branches[0].Layers, f.Branches[1].Layers...)...) {
		params, names = append(params, l.ParamNames()...), append(names, l.Describe())
	}
	if got := strings.Join(params, " "); got != "n.w n.b q.w q.b r.w" {
		t.Errorf("parameters %s", got)
	}
	if got := strings.Join(names, " "); got != "layernorm linear rmsnorm silu rownormalize" {
		t.Errorf("layers %s", got)
	}
	ids := []int{8, 0, 8}
	s := dev.Begin(context.Background())
	defer s.Close()
	out := f.Forward(s, ids)
	for i, o := range f.Outputs() {
		got := s.ToHost(out[i])
		if got == nil || !got.Shape().Equal(tensor.Shape{len(ids), o.Width}) || got.DType() != o.DType {
			t.Fatalf("%s: %v, want width %d of %v (%v)", o.Name, got, o.Width, o.DType, s.Err())
		}
		if string(got.Row(0)) != string(got.Row(2)) {
			t.Errorf("%s: the same id gave two rows", o.Name)
		}
		if o.Name == "residual" && string(got.Row(1)) != string(weights["e"].Row(0)) {
			t.Error("the residual is not the embedding row")
		}
	}

	wrong := *f
	wrong.Prefix = []nn.RowLocal{linear}
	if err := wrong.Validate(); !errors.Is(err, tensor.ErrShape) || !strings.Contains(err.Error(), "q.w") {
		t.Errorf("width 4 into a linear map of 6: %v", err)
	}
	wrong = *f
	wrong.Branches = []nn.Branch{{Name: "residual"}}
	if err := wrong.Validate(); err == nil {
		t.Error("an output name used twice was accepted")
	}
}

func TestConstructorsCheckTheirTensors(t *testing.T) {
	dev := open(t, nn.CPUOptions{})
	integers, err := tensor.New(tensor.I16, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	weights := checkpoint{"m": f32(t, make([]float32, 6), 2, 3), "v3": f32(t, make([]float32, 3), 3), "v2": f32(t, make([]float32, 2), 2), "integers": integers}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"missing":      {second(nn.NewLinear(dev, weights.Tensor, "absent", "")), "absent"},
		"rank":         {second(nn.NewLinear(dev, weights.Tensor, "v3", "")), "v3 must have rank 2"},
		"bias":         {second(nn.NewLinear(dev, weights.Tensor, "m", "v3")), "v3 [3] does not fit m [2,3]"},
		"dtype":        {second(nn.NewLinear(dev, weights.Tensor, "integers", "")), "I16"},
		"norm rank":    {second(nn.NewRMSNorm(dev, weights.Tensor, "m", 0)), "m must have rank 1"},
		"norm widths":  {second(nn.NewLayerNorm(dev, weights.Tensor, "v2", "v3", 0)), "v3 [3] does not fit v2 [2]"},
		"norm missing": {second(nn.NewLayerNorm(dev, weights.Tensor, "", "absent", 0)), "absent"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, c.err, c.want)
		}
	}
	if _, err := nn.NewLinear(dev, weights.Tensor, "m", "v2"); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestRopeSettings(t *testing.T) {
	good := nn.Rope{Theta: 10000, Dim: 8}
	freq, err := good.InverseFrequencies()
	if err != nil {
		t.Fatal(err)
	}
	if want := []float32{1, 0.1, 0.01, 0.001}; !slices.Equal(freq, want) {
		t.Errorf("frequencies %v, want %v", freq, want)
	}
	for name, change := range map[string]func(r *nn.Rope){
		"odd":     func(r *nn.Rope) { r.Dim = 7 },
		"theta":   func(r *nn.Rope) { r.Theta = 0 },
		"NaN":     func(r *nn.Rope) { r.Theta = math.NaN() },
		"scaling": func(r *nn.Rope) { r.Scaling = "yarn" },
		"factor":  func(r *nn.Rope) { r.Scaling = nn.RopeLinear },
		"llama3":  func(r *nn.Rope) { r.Scaling, r.Factor = nn.RopeLlama3, 8 },
	} {
		r := good
		change(&r)
		if _, err := r.InverseFrequencies(); !errors.Is(err, nn.ErrRope) {
			t.Errorf("%s: %v", name, err)
		}
	}
	linear := good
	linear.Scaling, linear.Factor = nn.RopeLinear, 4
	if freq, err = linear.InverseFrequencies(); err != nil || freq[0] != 0.25 {
		t.Errorf("linear: %v, %v", freq, err)
	}
	cos, sin, err := nn.RotaryTables([]float32{1, 0.5}, []int{0, 3})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "cos", cos, []float64{1, 1, math.Cos(3), math.Cos(1.5)}, 1e-7)
	near(t, "sin", sin, []float64{0, 0, math.Sin(3), math.Sin(1.5)}, 1e-7)
}

func Example() {
	dev, err := nn.OpenCPU(nn.CPUOptions{})
	if err != nil {
		panic(err)
	}
	defer dev.Close()
	weights, err := tensor.FromFloat32s([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		panic(err)
	}
	w, err := dev.Upload(weights, nn.AsMatrix)
	if err != nil {
		panic(err)
	}
	x, err := tensor.FromFloat32s([]float32{1, 0, -1}, 1, 3)
	if err != nil {
		panic(err)
	}
	s := dev.Begin(context.Background())
	y := s.ToHost(s.Map(nn.ReLU, s.Linear(s.FromHost(x), w, nil)))
	if err := s.Close(); err != nil {
		panic(err)
	}
	fmt.Println(dev.Info().Name, y.Float32s())
	// Output: cpu [0 0]
}

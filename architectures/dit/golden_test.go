package dit_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/dit"
	"github.com/hfcompress/compress/architectures/internal/batch"
	"github.com/hfcompress/compress/architectures/internal/goldens"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// The golden files come from testdata/gen/make_dit_goldens.py.
const root = "testdata"

func dir(name string) string { return root + "/" + name }

func TestGolden(t *testing.T) { goldens.Forward(t, root, dir, 2, "sample") }

func TestConfigRefused(t *testing.T) {
	cases := map[string]struct {
		changes map[string]any
		want    string
	}{
		"class":      {map[string]any{"_class_name": "PixArtTransformer2DModel"}, `_class_name: expected "DiTTransformer2DModel"`},
		"modulation": {map[string]any{"norm_type": "ada_norm_single"}, "another modulation is not supported"},
		"norm":       {map[string]any{"norm_elementwise_affine": true}, "a norm with weights is not supported"},
		"activation": {map[string]any{"activation_fn": "geglu"}, `activation_fn: "geglu" is not supported`},
		"patches":    {map[string]any{"patch_size": 4}, "4 does not divide sample_size 6"},
		"width":      {map[string]any{"attention_head_dim": 3}, "the width 6 is no multiple of 4"},
		"huge":       {map[string]any{"attention_head_dim": 1 << 17}, "are wider than"},
		"layers":     {map[string]any{"num_layers": 0}, "num_layers: expected an integer from 1 to 1024"},
		"half":       {map[string]any{"torch_dtype": "float16"}, `expected "float32", found "float16"`},
		"epsilon":    {map[string]any{"norm_eps": 0}, "expected a number between 0 and 1"},
	}
	for name, c := range cases {
		cfg, err := architectures.ParseConfig(goldens.Changed(t, dir("plain"), c.changes))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = dit.ParseConfig(cfg); !errors.Is(err, dit.ErrConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

func FuzzConfig(f *testing.F) {
	for _, name := range goldens.Cases(f, root, 2) {
		text, err := os.ReadFile(dir(name) + "/config.json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"_class_name":"DiTTransformer2DModel"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		cfg, err := architectures.ParseConfig(text)
		if err != nil {
			return
		}
		c, err := dit.ParseConfig(cfg)
		if err != nil {
			if !errors.Is(err, dit.ErrConfig) {
				t.Fatal(err)
			}
			return
		}
		if c.String() == "" {
			t.Error("no description")
		}
	})
}

// run is one call of a golden file.
func run(t *testing.T, name, of string) architectures.Inputs {
	t.Helper()
	return goldens.Inputs(goldens.Read(t, dir(name)+"/golden.safetensors"), of)
}

func TestInputsRefused(t *testing.T) {
	m := goldens.Build(t, goldens.OpenCPU(t), dir("plain"), nil)
	numbers := func(v ...int64) *tensor.Tensor {
		x, err := tensor.FromInt64s(v, len(v))
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	nan, err := tensor.New(tensor.F32, 1)
	if err != nil {
		t.Fatal(err)
	}
	nan.Uint32s()[0] = 0x7fc00000
	small, err := tensor.New(tensor.F32, 1, 3, 4, 6)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		name  string
		value *tensor.Tensor
		want  string
	}{
		"no image":      {"hidden_states", nil, "hidden_states is missing; expected F32[batch,3,6,6]"},
		"size":          {"hidden_states", small, "expected F32[batch,3,6,6]"},
		"no timestep":   {"timestep", nil, "timestep is missing"},
		"timesteps":     {"timestep", numbers(1, 2), "expected F32 or I64[1], one for each image"},
		"not a number":  {"timestep", nan, "timestep of image 0 is NaN"},
		"no class":      {"class_labels", nil, "class_labels is missing"},
		"unknown class": {"class_labels", numbers(6), "is 6; valid are 0 to 5, the null class"},
		"negative":      {"class_labels", numbers(-1), "is -1; valid are"},
		"other input":   {"encoder_hidden_states", numbers(1), "is not an input of this model"},
	}
	for name, c := range cases {
		in := run(t, "plain", "one")
		in.Tensors[c.name] = c.value
		if c.value == nil {
			delete(in.Tensors, c.name)
		}
		if _, err := m.Forward(context.Background(), in); !errors.Is(err, batch.ErrInput) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	in := run(t, "plain", "one")
	in.Flags["output_attentions"] = true
	if _, err := m.Forward(context.Background(), in); !errors.Is(err, batch.ErrInput) {
		t.Errorf("attention weights: %v", err)
	}
}

// pairs is a domain of timesteps and class labels.
func pairs(t *testing.T, steps []float32, labels ...int) *nn.Domain {
	t.Helper()
	first, err := nn.NewTimesteps(nn.Cast{DType: tensor.F32}, steps)
	if err != nil {
		t.Fatal(err)
	}
	second, err := nn.ListedTokens(labels)
	if err != nil {
		t.Fatal(err)
	}
	d, err := nn.NewPairs(first, second)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func scheduled(t *testing.T, name string, d *nn.Domain) architectures.Blueprint {
	t.Helper()
	b, err := goldens.Blueprint(t, dir(name), nil).(architectures.Scheduled).WithTimesteps(d)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestScheduleRefused(t *testing.T) {
	s := goldens.Blueprint(t, dir("plain"), nil).(architectures.Scheduled)
	if s.Blocks() != nil {
		t.Error("blocks without a schedule")
	}
	half, err := nn.NewTimesteps(nn.Cast{DType: tensor.BF16}, []float32{1})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		d    *nn.Domain
		want string
	}{
		"nothing":       {nil, "no timesteps are given"},
		"another cast":  {half, "expected timesteps of type F32"},
		"constant":      {nn.ConstantDomain(), "expected timesteps of type F32"},
		"unknown class": {pairs(t, []float32{1}, 3, 6), "expected class labels from 0 to 5"},
	} {
		if _, err := s.WithTimesteps(c.d); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	all, err := s.WithTimesteps(&pairs(t, []float32{1, 2}, 0).Factors[0])
	if err != nil || all.Blocks()[0].NumTokens != 12 {
		t.Errorf("timesteps with all classes: %v", err)
	}
}

// TestSchedule expects the bits of the model without a schedule for declared pairs,
// and refusals that name all others.
func TestSchedule(t *testing.T) {
	dev := goldens.OpenCPU(t)
	m := goldens.Build(t, dev, dir("plain"), nil)
	b := scheduled(t, "plain", pairs(t, []float32{500, 0, 17, 999}, 5, 0, 1, 2))
	declared, err := b.Build(dev, goldens.Read(t, dir("plain")+"/model.safetensors"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{"one", "batch"} {
		in := run(t, "plain", call)
		want, err := m.Forward(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := declared.Forward(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range got {
			if o.Name != want[i].Name || !slices.Equal(o.Tensor.Bytes(), want[i].Tensor.Bytes()) {
				t.Errorf("%s: %s differs", call, o.Name)
			}
		}
	}
	in := run(t, "plain", "fractional")
	if _, err := declared.Forward(context.Background(), in); !errors.Is(err, batch.ErrInput) || !strings.Contains(err.Error(), "timestep 0.25") {
		t.Errorf("undeclared timestep: %v", err)
	}
	in = run(t, "plain", "one")
	if in.Tensors["class_labels"], err = tensor.FromInt64s([]int64{3}, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := declared.Forward(context.Background(), in); !errors.Is(err, nn.ErrIndex) || !strings.Contains(err.Error(), "class 3") {
		t.Errorf("undeclared class: %v", err)
	}
	if _, err := m.WithBlock(dit.BlockPath(0), nil); err == nil || !strings.Contains(err.Error(), "declares no block") {
		t.Errorf("a block without a schedule: %v", err)
	}
	if _, err := declared.Block("norm_out"); err == nil {
		t.Error("an unknown path")
	}
}

// TestPublishedSizes counts the published model's values from its configuration.
func TestPublishedSizes(t *testing.T) {
	text, err := json.Marshal(map[string]any{"_class_name": "DiTTransformer2DModel", "out_channels": 8})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := architectures.ParseConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	f, err := architectures.ForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b, err := f.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	sizes, whole := map[string]int{}, 0
	for _, p := range b.Params() {
		n, err := p.Shape.Elements()
		if err != nil {
			t.Fatal(err)
		}
		sizes[p.Name] = n
		whole += n
	}
	steps := make([]float32, 50)
	for i := range steps {
		steps[i] = float32(20 * i)
	}
	if b, err = b.(architectures.Scheduled).WithTimesteps(pairs(t, steps, 7, 1000)); err != nil {
		t.Fatal(err)
	}
	removed, tables := 0, 0
	for _, spec := range b.Blocks() {
		for _, name := range spec.Removes {
			removed += sizes[name]
			delete(sizes, name)
		}
		for _, o := range spec.Outputs {
			tables += spec.NumTokens * o.Width
		}
	}
	if tables != 100*195840 {
		t.Errorf("%d values in tables", tables)
	}
	t.Logf("%d of %d values go, %d come", removed, whole, tables)
}

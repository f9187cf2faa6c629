package f5dit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/f5dit"
	"github.com/hfcompress/compress/architectures/internal/batch"
	"github.com/hfcompress/compress/architectures/internal/goldens"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/tensor"
)

// The golden files come from testdata/gen/make_f5dit_goldens.py.
const root = "testdata"

func dir(name string) string { return root + "/" + name }

// flags are those of the runs that are named after them.
func flags(run string) map[string]bool {
	all := map[string]bool{}
	for _, f := range []string{"drop_audio_cond", "drop_text", "cfg_infer"} {
		if strings.HasPrefix(run, f) || run == "drop_both" && f != "cfg_infer" {
			all[f] = true
		}
	}
	return all
}

// inputs are those of a run of a golden file; they ask for hidden states.
func inputs(golden goldens.Tensors, run string) architectures.Inputs {
	in := goldens.Inputs(golden, run)
	for f := range flags(run) {
		in.Flags[f] = true
	}
	return in
}

// TestGolden compares all outputs of all runs with the published code's.
func TestGolden(t *testing.T) {
	dev := goldens.OpenCPU(t)
	var all goldens.Tally
	for _, name := range goldens.Cases(t, root, 4) {
		golden := goldens.Read(t, dir(name)+"/golden.safetensors")
		m := goldens.Build(t, dev, dir(name), nil)
		runs := goldens.Runs(golden, ".flow")
		if len(runs) != 9 {
			t.Fatalf("%s: %d runs", name, len(runs))
		}
		for _, run := range runs {
			t.Run(name+"/"+run, func(t *testing.T) {
				out, err := m.Forward(context.Background(), inputs(golden, run))
				if err != nil {
					t.Fatal(err)
				}
				if out[0].Name != "flow" {
					t.Errorf("first output %s", out[0].Name)
				}
				goldens.ForwardRun(t, &all, golden, name, run, out)
			})
		}
	}
	t.Log(&all)
}

// TestMasks: a mask of ones is none, and the other sequences of a batch change no
// bit of a sequence that is as long as they are.
func TestMasks(t *testing.T) {
	m := goldens.Build(t, goldens.OpenCPU(t), dir("v1"), nil)
	golden := goldens.Read(t, dir("v1")+"/golden.safetensors")
	in := inputs(golden, "batch")
	want := flow(t, m, in)
	ones := make([]int64, 3*11)
	for i := range ones {
		ones[i] = 1
	}
	var err error
	if in.Tensors["mask"], err = tensor.FromInt64s(ones, 3, 11); err != nil {
		t.Fatal(err)
	}
	if got := flow(t, m, in); !tensor.BitEqual(got, want) {
		t.Error("a mask of ones changes the result")
	}
	alone := architectures.Inputs{Tensors: map[string]*tensor.Tensor{}}
	for name, of := range in.Tensors {
		shape := append(tensor.Shape{1}, of.Shape()[1:]...)
		size := len(of.Bytes()) / 3
		if alone.Tensors[name], err = tensor.FromBytes(of.DType(), shape, of.Bytes()[size:2*size]); err != nil {
			t.Fatal(err)
		}
	}
	got := flow(t, m, alone)
	if n := got.Len(); !slices.Equal(got.Float32s(), want.Float32s()[n:2*n]) {
		t.Error("a batch changes its second sequence")
	}
}

func flow(t *testing.T, m architectures.Model, in architectures.Inputs) *tensor.Tensor {
	t.Helper()
	out, err := m.Forward(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out.Get("flow")
}

// TestSchedule holds the times against those captured from the published sampler,
// and the one that a correctly rounded cosine gives against the documentation.
func TestSchedule(t *testing.T) {
	text, err := os.ReadFile(root + "/schedule.json")
	if err != nil {
		t.Fatal(err)
	}
	var bits map[string][]string
	if err := json.Unmarshal(text, &bits); err != nil {
		t.Fatal(err)
	}
	if len(bits) != 11 {
		t.Fatalf("%d schedules", len(bits))
	}
	whole, err := f5dit.Timesteps(f5dit.DefaultSteps)
	if err != nil {
		t.Fatal(err)
	}
	for steps, want := range bits {
		n, err := strconv.Atoi(steps)
		if err != nil {
			t.Fatal(err)
		}
		times, err := f5dit.Timesteps(n)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range times {
			got = append(got, fmt.Sprintf("%08x", math.Float32bits(v)))
			if !slices.Contains(whole, v) {
				t.Errorf("%d steps: %g is none of the 32", n, v)
			}
		}
		if len(got) != n || !slices.Equal(got, want) {
			t.Errorf("%d steps: %v, want %v", n, got, want)
		}
	}
	for i, v := range whole {
		at := float32(i) / 32
		sway := at - (fmath.Cos(float32(math.Pi/2)*at) - 1 + at)
		if want := math.Float32bits(sway); math.Float32bits(v) != want && (i != 4 || want != 0x3c9d6840) {
			t.Errorf("step %d: %08x, with a correctly rounded cosine %08x", i, math.Float32bits(v), want)
		}
	}
	var file []float32
	text, err = os.ReadFile("timesteps.json")
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil || !slices.Equal(file, whole) {
		t.Errorf("timesteps.json: %v, %v", file, err)
	}
	if usual := goldens.Blueprint(t, dir("v1"), nil).(architectures.UsualSchedule).UsualTimesteps(); !slices.Equal(usual, whole) {
		t.Errorf("usual: %v", usual)
	}
	for _, n := range []int{-1, 0, 3, 9, 64} {
		if _, err := f5dit.Timesteps(n); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("no times are known for %d steps", n)) {
			t.Errorf("%d steps: %v", n, err)
		}
	}
}

// TestFrequencies holds the frequencies against those of the published code.
func TestFrequencies(t *testing.T) {
	text, err := os.ReadFile(root + "/frequencies.json")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	for i, f := range f5dit.TimeFrequencies() {
		if got := fmt.Sprintf("%08x", math.Float32bits(f)); len(want) != 128 || got != want[i] {
			t.Errorf("frequency %d is %s, want %s", i, got, want[i])
		}
	}
}

func TestConfigRefused(t *testing.T) {
	cases := map[string]struct {
		changes map[string]any
		want    string
	}{
		"type":        {map[string]any{"model_type": "f5"}, `model_type: expected "f5_dit"`},
		"class":       {map[string]any{"architectures": []string{"UNetT"}}, `architectures: expected "DiT"`},
		"backbone":    {map[string]any{"backbone": "UNetT"}, "another backbone is not supported"},
		"no width":    {map[string]any{"dim": nil}, "dim: is missing"},
		"no text ids": {map[string]any{"text_num_embeds": nil}, "text_num_embeds: is missing"},
		"groups":      {map[string]any{"dim": 40}, "40 is no multiple of 16"},
		"layers":      {map[string]any{"depth": 0}, "depth: expected an integer from 1 to 1024"},
		"factor":      {map[string]any{"ff_mult": 1.5}, "ff_mult: expected an integer"},
		"head":        {map[string]any{"dim_head": 7}, "7 is odd, and pairs of columns rotate"},
		"wide":        {map[string]any{"dim_head": 1 << 17}, "are wider than"},
		"rotary":      {map[string]any{"pe_attn_head": 3}, "pe_attn_head: 3 of 2 heads"},
		"no rotary":   {map[string]any{"pe_attn_head": 0}, "pe_attn_head: expected an integer from 1"},
		"text":        {map[string]any{"text_dim": 7}, "7 is odd, and the text's positions"},
		"norm":        {map[string]any{"qk_norm": "layer_norm"}, `qk_norm: expected null or "rms_norm", found "layer_norm"`},
		"attention":   {map[string]any{"attn_backend": "flash_attn"}, "an attention for 16-bit types is not supported"},
		"upsampling":  {map[string]any{"text_embedding_average_upsampling": true}, "upsampling of the text is not supported"},
		"half":        {map[string]any{"dtype": "float16"}, `expected "float32", found "float16"`},
		"quantised":   {map[string]any{"quantization_config": map[string]any{"bits": 8}}, "quantised weights is not supported"},
	}
	for name, c := range cases {
		cfg, err := architectures.ParseConfig(goldens.Changed(t, dir("v1"), c.changes))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = f5dit.ParseConfig(cfg); !errors.Is(err, f5dit.ErrConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

func FuzzConfig(f *testing.F) {
	for _, name := range goldens.Cases(f, root, 4) {
		text, err := os.ReadFile(dir(name) + "/config.json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"model_type":"f5_dit"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		cfg, err := architectures.ParseConfig(text)
		if err != nil {
			return
		}
		c, err := f5dit.ParseConfig(cfg)
		if err != nil {
			if !errors.Is(err, f5dit.ErrConfig) {
				t.Fatal(err)
			}
			return
		}
		if c.String() == "" {
			t.Error("no description")
		}
	})
}

func numbers(t *testing.T, shape []int, v ...int64) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromInt64s(v, shape...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func floats(t *testing.T, shape []int, v ...float32) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromFloat32s(v, shape...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestInputsRefused(t *testing.T) {
	m := goldens.Build(t, goldens.OpenCPU(t), dir("v1"), nil)
	golden := goldens.Read(t, dir("v1")+"/golden.safetensors")
	long, err := tensor.New(tensor.F32, 1, 8193, 5)
	if err != nil {
		t.Fatal(err)
	}
	nan := float32(math.NaN())
	cases := map[string]struct {
		name  string
		value *tensor.Tensor
		want  string
	}{
		"no rows":       {"x", nil, "x is missing; expected F32[batch,length,5]"},
		"features":      {"x", floats(t, []int{1, 1, 4}, 1, 2, 3, 4), "x: expected F32[batch,length,5], found F32[1,1,4]"},
		"no known rows": {"cond", nil, "cond: expected F32[2,3,5] like x, found none"},
		"known rows":    {"cond", floats(t, []int{1, 1, 5}, 1, 2, 3, 4, 5), "cond: expected F32[2,3,5] like x"},
		"no text":       {"text", nil, "text: expected I64[2,characters], found none"},
		"texts":         {"text", numbers(t, []int{1, 2}, 1, 2), "text: expected I64[2,characters]"},
		"character":     {"text", numbers(t, []int{2, 1}, 1, 11), "id 11 of sequence 1 at position 0; valid are 0 to 10, and -1"},
		"negative":      {"text", numbers(t, []int{2, 1}, -2, 1), "id -2 of sequence 0"},
		"no time":       {"time", nil, "time: expected F32[2] or F32[], found none"},
		"integer time":  {"time", numbers(t, []int{2}, 0, 1), "time: expected F32[2] or F32[]"},
		"times":         {"time", floats(t, []int{3}, 0, 0, 1), "time: expected F32[2] or F32[]"},
		"not a number":  {"time", floats(t, []int{2}, 0, nan), "time of sequence 1 is NaN"},
		"mask":          {"mask", numbers(t, []int{2}, 1, 1), "mask: expected I64[2,3]"},
		"hole":          {"mask", numbers(t, []int{2, 3}, 1, 1, 1, 1, 0, 1), "1 for sequence 1 at row 2; expected ones and then zeros"},
		"other mark":    {"mask", numbers(t, []int{2, 3}, 1, 1, 2, 1, 1, 1), "2 for sequence 0 at row 2"},
		"hidden":        {"mask", numbers(t, []int{2, 3}, 1, 1, 1, 0, 0, 0), "sequence 1 has no visible row"},
		"none whole":    {"mask", numbers(t, []int{2, 3}, 1, 1, 0, 1, 0, 0), "the longest sequence has 2 visible rows of 3"},
		"other input":   {"input_ids", numbers(t, []int{1}, 1), `"input_ids" is not an input of this model`},
	}
	for name, c := range cases {
		in := inputs(golden, "long_text")
		in.Tensors[c.name] = c.value
		if c.value == nil {
			delete(in.Tensors, c.name)
		}
		if _, err := m.Forward(context.Background(), in); !errors.Is(err, batch.ErrInput) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	for flag, want := range map[string]string{
		"cache": `"cache" is not a flag of this model`, "output_attentions": "gives no attention weights", "cfg_infer": "do not go with it",
	} {
		in := inputs(golden, "drop_text")
		in.Flags[flag] = true
		if _, err := m.Forward(context.Background(), in); !errors.Is(err, batch.ErrInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", flag, err)
		}
	}
	in := inputs(golden, "one")
	in.Tensors["x"], in.Tensors["cond"] = long, long
	if _, err := m.Forward(context.Background(), in); !errors.Is(err, batch.ErrInput) || !strings.Contains(err.Error(), "8193 rows; there are positions for 8192") {
		t.Errorf("too long: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := m.Forward(ctx, inputs(golden, "one")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// plain is a device whose sessions do not convolve.
type plain struct{ nn.Device }

type plainSession struct{ nn.Session }

func (p plain) Begin(ctx context.Context) nn.Session { return plainSession{p.Device.Begin(ctx)} }

func TestDeviceRefused(t *testing.T) {
	b := goldens.Blueprint(t, dir("v1"), nil)
	_, err := b.Build(plain{goldens.OpenCPU(t)}, goldens.Read(t, dir("v1")+"/model.safetensors"), nil)
	if !errors.Is(err, nn.ErrNoConvolution) || !strings.HasPrefix(err.Error(), "f5_dit: cpu: this device convolves no sequences") {
		t.Errorf("%v", err)
	}
}

package llama_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/llama"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// goldenDir holds outputs of transformers; its README says how they were made
// and what each run is for.
const goldenDir = "testdata/golden"

// demoDir is the trained model whose golden vectors are in goldenDir/demo.
const demoDir = "../../internal/demomodel/files/main"

// tolerance is the largest accepted difference, relative to the largest absolute
// value of the reference's tensor.
const tolerance = 1e-5

// tensors is a safetensors file as a map; it serves as [architectures.Weights].
// The reader is written for these tests alone, so that they do not depend on the
// loader.
type tensors map[string]*tensor.Tensor

func (w tensors) Tensor(name string) (*tensor.Tensor, error) {
	if t := w[name]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("no tensor %q", name)
}

func readTensors(tb testing.TB, path string) tensors {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(data)
	var header map[string]json.RawMessage
	if err := json.Unmarshal(data[8:8+n], &header); err != nil {
		tb.Fatal(err)
	}
	delete(header, "__metadata__")
	out := tensors{}
	for name, raw := range header {
		var h struct {
			DType   tensor.DType `json:"dtype"`
			Shape   tensor.Shape `json:"shape"`
			Offsets [2]int       `json:"data_offsets"`
		}
		if err := json.Unmarshal(raw, &h); err != nil {
			tb.Fatal(err)
		}
		body := data[8+n:]
		if out[name], err = tensor.FromBytes(h.DType, h.Shape, body[h.Offsets[0]:h.Offsets[1]]); err != nil {
			tb.Fatal(err)
		}
	}
	return out
}

func openCPU(tb testing.TB) nn.Device {
	tb.Helper()
	dev, err := nn.OpenCPU(nn.CPUOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := dev.Close(); err != nil {
			tb.Error(err)
		}
	})
	return dev
}

// modelDir is where the weights and configuration of a golden case lie.
func modelDir(name string) string {
	if name == "demo" {
		return demoDir
	}
	return filepath.Join(goldenDir, name)
}

// build makes the model of a golden case. changes edit its configuration.
func build(tb testing.TB, dev nn.Device, name string, changes map[string]any) *llama.Model {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join(modelDir(name), "config.json"))
	if err != nil {
		tb.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		tb.Fatal(err)
	}
	for k, v := range changes {
		fields[k] = v
	}
	if data, err = json.Marshal(fields); err != nil {
		tb.Fatal(err)
	}
	cfg, err := architectures.ParseConfig(data)
	if err != nil {
		tb.Fatal(err)
	}
	family, err := architectures.ForConfig(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	blueprint, err := family.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	m, err := blueprint.Build(dev, readTensors(tb, filepath.Join(modelDir(name), "model.safetensors")), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return m.(*llama.Model)
}

// inputsOf collects a run's inputs; flags ask for what the run has.
func inputsOf(golden tensors, run string) architectures.Inputs {
	in := architectures.Inputs{Tensors: map[string]*tensor.Tensor{}, Flags: map[string]bool{
		"output_hidden_states": golden[run+".hidden_states.0"] != nil,
		"output_attentions":    golden[run+".attentions.0"] != nil,
	}}
	for _, name := range []string{"input_ids", "attention_mask", "position_ids"} {
		if t := golden[run+"."+name]; t != nil {
			in.Tensors[name] = t
		}
	}
	return in
}

// runs lists the runs of a golden file that have a tensor called suffix.
func runs(golden tensors, suffix string) []string {
	var out []string
	for name := range golden {
		if run, ok := strings.CutSuffix(name, suffix); ok && !strings.Contains(run, ".") {
			out = append(out, run)
		}
	}
	slices.Sort(out)
	return out
}

// cases lists the golden folders.
func cases(tb testing.TB) []string {
	tb.Helper()
	paths, err := filepath.Glob(filepath.Join(goldenDir, "*", "golden.safetensors"))
	if err != nil || len(paths) < 9 {
		tb.Fatalf("golden files: %v, %v", paths, err)
	}
	var out []string
	for _, p := range paths {
		out = append(out, filepath.Base(filepath.Dir(p)))
	}
	return out
}

// difference returns the largest absolute difference between got and want in
// valid rows, relative to the largest absolute value of want there. Tensors are
// [batch, …, length, width], and valid is [batch, length] or nil.
func difference(tb testing.TB, name string, got, want, valid *tensor.Tensor) float64 {
	tb.Helper()
	if got == nil || !got.Shape().Equal(want.Shape()) || got.DType() != want.DType() {
		tb.Fatalf("%s: got %v, want %v", name, got, want)
	}
	shape := want.Shape()
	width, length := shape[len(shape)-1], shape[len(shape)-2]
	perSequence := want.Len() / shape[0] / width
	worst, scale := 0.0, 0.0
	g, w := got.Float32s(), want.Float32s()
	for i := range w {
		row := i / width
		if valid != nil && valid.Int64s()[row/perSequence*length+row%length] == 0 {
			continue
		}
		if d := math.Abs(float64(g[i]) - float64(w[i])); !(d <= worst) { // a NaN counts too
			worst = d
		}
		scale = max(scale, math.Abs(float64(w[i])))
	}
	return worst / scale
}

// sameChoices fails where the most likely id of a valid position differs.
func sameChoices(tb testing.TB, name string, got, want, valid *tensor.Tensor) {
	tb.Helper()
	width := want.Shape()[2]
	for i := 0; i < want.Len(); i += width {
		if valid != nil && valid.Int64s()[i/width] == 0 {
			continue
		}
		g, w := first(got.Float32s()[i:i+width]), first(want.Float32s()[i:i+width])
		if g != w {
			tb.Errorf("%s: row %d chooses %d, want %d", name, i/width, g, w)
		}
	}
}

// first is the index of the largest value.
func first(v []float32) int { return slices.Index(v, slices.Max(v)) }

func TestGoldenForward(t *testing.T) {
	dev := openCPU(t)
	worst, at, compared := 0.0, "", 0
	for _, name := range cases(t) {
		golden := readTensors(t, filepath.Join(goldenDir, name, "golden.safetensors"))
		m := build(t, dev, name, nil)
		for _, run := range runs(golden, ".logits") {
			t.Run(name+"/"+run, func(t *testing.T) {
				out, err := m.Forward(context.Background(), inputsOf(golden, run))
				if err != nil {
					t.Fatal(err)
				}
				want := 1
				if golden[run+".hidden_states.0"] != nil {
					want += m.Config().Layers + 1
				}
				if golden[run+".attentions.0"] != nil {
					want += m.Config().Layers
				}
				if len(out) != want || out[0].Name != "logits" {
					t.Fatalf("%d outputs, want %d", len(out), want)
				}
				valid := golden[run+".valid"]
				for _, o := range out {
					reference := golden[run+"."+o.Name]
					if reference == nil {
						t.Fatalf("the reference has no %s", o.Name)
					}
					d := difference(t, o.Name, o.Tensor, reference, valid)
					if !(d <= tolerance) {
						t.Errorf("%s: difference %.3g", o.Name, d)
					}
					if compared++; !(d <= worst) {
						worst, at = d, name+"/"+run+"/"+o.Name
					}
				}
				sameChoices(t, "logits", out[0].Tensor, golden[run+".logits"], valid)
			})
		}
	}
	t.Logf("%d tensors compared; worst difference %.3g of the output's scale, at %s", compared, worst, at)
}

// columns returns columns from ≤ c < to of an I64 tensor [batch, length].
func columns(tb testing.TB, t *tensor.Tensor, from, to int) *tensor.Tensor {
	tb.Helper()
	if t == nil {
		return nil
	}
	length := t.Shape()[1]
	var values []int64
	for b := range t.Shape()[0] {
		values = append(values, t.Int64s()[b*length+from:b*length+to]...)
	}
	out, err := tensor.FromInt64s(values, t.Shape()[0], to-from)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// piece is the part of in from one column to another.
func piece(tb testing.TB, in architectures.Inputs, from, to int) architectures.Inputs {
	tb.Helper()
	out := architectures.Inputs{Tensors: map[string]*tensor.Tensor{}, Flags: in.Flags}
	for name, t := range in.Tensors {
		out.Tensors[name] = columns(tb, t, from, to)
	}
	return out
}

func TestGoldenDecode(t *testing.T) {
	dev := openCPU(t)
	worst := 0.0
	for _, name := range cases(t) {
		golden := readTensors(t, filepath.Join(goldenDir, name, "golden.safetensors"))
		m := build(t, dev, name, nil)
		for _, run := range runs(golden, ".prefill.logits") {
			t.Run(name+"/"+run, func(t *testing.T) {
				in := inputsOf(golden, run)
				shape := golden[run+".input_ids"].Shape()
				d, err := m.NewDecoder(shape[0], shape[1])
				if err != nil {
					t.Fatal(err)
				}
				prefill := golden[run+".prefill.logits"].Shape()[1]
				step := func(from, to int, reference string) {
					out, err := d.Step(context.Background(), piece(t, in, from, to))
					if err != nil {
						t.Fatal(err)
					}
					valid := columns(t, golden[run+".valid"], from, to)
					diff := difference(t, reference, out[0].Tensor, golden[reference], valid)
					if !(diff <= tolerance) {
						t.Errorf("%s: difference %.3g", reference, diff)
					}
					sameChoices(t, reference, out[0].Tensor, golden[reference], valid)
					worst = max(worst, diff)
				}
				step(0, prefill, run+".prefill.logits")
				for i := prefill; i < shape[1]; i++ {
					step(i, i+1, fmt.Sprintf("%s.step.%d.logits", run, i-prefill))
				}
			})
		}
	}
	t.Logf("worst difference of cached logits: %.3g", worst)
}

func TestGoldenGenerate(t *testing.T) {
	dev := openCPU(t)
	count := 0
	for _, name := range cases(t) {
		golden := readTensors(t, filepath.Join(goldenDir, name, "golden.safetensors"))
		for _, run := range runs(golden, ".output_ids") {
			t.Run(name+"/"+run, func(t *testing.T) {
				// The reference was told its end tokens by argument.
				changes := map[string]any{"eos_token_id": nil}
				if eos := golden[run+".eos_token_id"]; eos != nil {
					changes["eos_token_id"] = eos.Int64s()
				}
				m := build(t, dev, name, changes)
				ids, mask, want := golden[run+".input_ids"], golden[run+".attention_mask"], golden[run+".output_ids"]
				width, total := ids.Shape()[1], want.Shape()[1]
				var prompts, expected [][]int
				for b := range ids.Shape()[0] {
					var prompt []int
					for i := b * width; i < (b+1)*width; i++ {
						if mask.Int64s()[i] == 1 {
							prompt = append(prompt, int(ids.Int64s()[i]))
						}
					}
					prompts = append(prompts, prompt)
					expect := slices.Clone(prompt)
					for _, id := range want.Int64s()[b*total+width : (b+1)*total] {
						expect = append(expect, int(id))
						if slices.Contains(m.Config().EndTokens, int(id)) {
							break // what follows is padding
						}
					}
					expected = append(expected, expect)
				}
				got, err := m.Generate(context.Background(), prompts, 12)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.EqualFunc(got, expected, slices.Equal) {
					t.Errorf("got  %v\nwant %v", got, expected)
				}
				for _, g := range got {
					count += len(g)
				}
			})
		}
	}
	t.Logf("%d ids compared", count)
}

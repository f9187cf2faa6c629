// Package goldens compares models with outputs of their references: the files
// that testdata/gen/make_goldens.py and make_llama_goldens.py write. It is for
// tests alone.
package goldens

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// Tolerance is the largest accepted difference of F32 outputs, relative to the
// largest absolute value of the reference's tensor.
const Tolerance = 1e-5

// Ulps is how many units in the last place of a 16-bit type a value may be off.
const Ulps = 2

// within is the part of a case's values that must keep to it. An F16 number has
// a unit eight times finer than a BF16 number of its size, so that eight times as
// many of them fall to the other side when float32 sums are taken in another
// order; the outputs nearest to zero then show it. The reference is as far from
// itself when it takes its sums in float64: testdata/gen/check_halves.py.
func within(d tensor.DType) float64 {
	if d == tensor.F16 {
		return 0.95
	}
	return 0.999
}

// scaled is the largest accepted difference of a value of a 16-bit type, relative
// to the largest absolute value of the reference's tensor: so many units of the
// type at that size.
const scaled = 2

// Tensors is a safetensors file as a map; it serves as [architectures.Weights].
// The reader is written for tests alone, so that they do not depend on the
// loader.
type Tensors map[string]*tensor.Tensor

// Tensor returns the named tensor.
func (w Tensors) Tensor(name string) (*tensor.Tensor, error) {
	if t := w[name]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("no tensor %q", name)
}

// Read reads a safetensors file.
func Read(tb testing.TB, path string) Tensors {
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
	out := Tensors{}
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

// OpenCPU opens the default CPU device for the duration of a test.
func OpenCPU(tb testing.TB) nn.Device {
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

// Blueprint makes the blueprint of the config.json in dir, with changes put in;
// a nil value deletes.
func Blueprint(tb testing.TB, dir string, changes map[string]any) architectures.Blueprint {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "config.json"))
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
	b, err := family.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// Build builds the model in dir, checking first that the file holds what the
// blueprint declares.
func Build(tb testing.TB, dev nn.Device, dir string, changes map[string]any) architectures.Model {
	tb.Helper()
	weights := Read(tb, filepath.Join(dir, "model.safetensors"))
	left := map[string]bool{}
	for name := range weights {
		left[name] = true
	}
	b := architectures.ForNames(Blueprint(tb, dir, changes), slices.Sorted(maps.Keys(weights)))
	for _, p := range b.Params() {
		t := weights[p.Name]
		switch {
		case t == nil && p.TiedTo == "" && !p.Ignored:
			tb.Fatalf("%s: the file has no %s", dir, p.Name)
		case t != nil && len(p.Shape) > 0 && (!t.Shape().Equal(p.Shape) || !slices.Contains(p.DTypes, t.DType())):
			tb.Fatalf("%s: %s is %v, declared %v of %v", dir, p.Name, t, p.Shape, p.DTypes)
		}
		delete(left, p.Name)
	}
	for name := range left {
		tb.Fatalf("%s: %s is not declared", dir, name)
	}
	m, err := b.Build(dev, weights, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// Cases lists the folders of golden files under root; there must be at least so
// many.
func Cases(tb testing.TB, root string, least int) []string {
	tb.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "*", "golden.safetensors"))
	if err != nil || len(paths) < least {
		tb.Fatalf("golden files: %v, %v", paths, err)
	}
	var out []string
	for _, p := range paths {
		out = append(out, filepath.Base(filepath.Dir(p)))
	}
	return out
}

// Runs lists the runs of a golden file that have a tensor called suffix.
func Runs(golden Tensors, suffix string) []string {
	var out []string
	for name := range golden {
		if run, ok := strings.CutSuffix(name, suffix); ok && !strings.Contains(run, ".") {
			out = append(out, run)
		}
	}
	slices.Sort(out)
	return out
}

// inputNames are the tensors of a run that are inputs.
var inputNames = []string{"input_ids", "attention_mask", "position_ids", "token_type_ids", "decoder_input_ids", "decoder_attention_mask",
	"hidden_states", "timestep", "class_labels", "x", "cond", "text", "time", "mask"}

// Inputs collects a run's inputs; flags ask for everything.
func Inputs(golden Tensors, run string) architectures.Inputs {
	in := architectures.Inputs{Tensors: map[string]*tensor.Tensor{}, Flags: map[string]bool{}}
	for _, name := range inputNames {
		if t := golden[run+"."+name]; t != nil {
			in.Tensors[name] = t
		}
	}
	for name := range golden {
		if rest, ok := strings.CutPrefix(name, run+"."); ok {
			if strings.Contains(rest, "hidden_states.") {
				in.Flags["output_hidden_states"] = true
			}
			if strings.Contains(rest, "attentions.") {
				in.Flags["output_attentions"] = true
			}
		}
	}
	return in
}

// Tally sums up differences.
type Tally struct {
	// of is the type that the model computes in; outputs of 16-bit models may be
	// widened.
	of tensor.DType
	// Tensors is the number of tensors compared.
	Tensors int
	// Worst is the largest difference of an F32 tensor, relative to the largest
	// absolute value of the reference, and At where it is.
	Worst float64
	At    string
	// Values is the number of values of 16-bit types, Off of those that are more
	// than [Ulps] off and Same of those with equal bits.
	Values, Off, Same int
	// WorstUlps is the largest difference of a 16-bit value, and WorstScaled that in
	// units of its tensor's largest value.
	WorstUlps, WorstScaled float64
}

// Compare compares an output with its reference in valid rows. Tensors are
// [batch, …, length, width], and valid is [batch, length] or nil.
func (c *Tally) Compare(tb testing.TB, name string, got, want, valid *tensor.Tensor) {
	tb.Helper()
	if got == nil || !got.Shape().Equal(want.Shape()) || got.DType() != want.DType() {
		tb.Fatalf("%s: got %v, want %v", name, got, want)
	}
	c.Tensors++
	shape := want.Shape()
	width, length := shape[len(shape)-1], shape[len(shape)-2]
	perSequence := want.Len() / shape[0] / width
	worst, half, scale := 0.0, 0.0, 0.0
	g, w := architectures.Floats(got), architectures.Floats(want)
	for i := range w {
		row := i / width
		if valid != nil && valid.Int64s()[row/perSequence*length+row%length] == 0 {
			continue
		}
		d := math.Abs(float64(g[i]) - float64(w[i]))
		scale = max(scale, math.Abs(float64(w[i])))
		if c.of != tensor.F32 && c.of != tensor.Invalid {
			c.halves(g[i], w[i], d, c.of)
			half = max(half, d)
			continue
		}
		if !(d <= worst) { // a NaN counts too
			worst = d
		}
	}
	if half > 0 {
		c.WorstScaled = max(c.WorstScaled, half/unit(scale, c.of))
	}
	if scale > 0 {
		worst /= scale
	}
	if !(worst <= Tolerance) {
		tb.Errorf("%s: difference %.3g", name, worst)
	}
	if !(worst <= c.Worst) {
		c.Worst, c.At = worst, name
	}
}

// unit is the unit in the last place of a value of a 16-bit type.
func unit(v float64, t tensor.DType) float64 {
	_, exp := math.Frexp(v)
	if t == tensor.F16 {
		return math.Ldexp(1, max(exp-11, -24))
	}
	return math.Ldexp(1, max(exp-8, -133)) // BF16 has 8 bits
}

// halves counts a value of a 16-bit type.
func (c *Tally) halves(got, want float32, d float64, t tensor.DType) {
	ulp := unit(float64(want), t)
	c.Values++
	if math.Float32bits(got) == math.Float32bits(want) {
		c.Same++
	}
	if !(d <= Ulps*ulp) {
		c.Off++
	}
	if !(d/ulp <= c.WorstUlps) {
		c.WorstUlps = d / ulp
	}
}

// Check fails when too many values of 16-bit types are off.
func (c *Tally) Check(tb testing.TB, name string) {
	tb.Helper()
	if c.Values > 0 && float64(c.Off) > (1-within(c.of))*float64(c.Values) {
		tb.Errorf("%s: %d of %d values are more than %d units in the last place off, the worst one %.0f",
			name, c.Off, c.Values, Ulps, c.WorstUlps)
	}
	if !(c.WorstScaled <= scaled) {
		tb.Errorf("%s: a 16-bit value is %.1f units of its tensor's largest value off", name, c.WorstScaled)
	}
}

// add adds another tally.
func (c *Tally) add(o Tally) {
	c.Tensors, c.Values, c.Off, c.Same = c.Tensors+o.Tensors, c.Values+o.Values, c.Off+o.Off, c.Same+o.Same
	c.WorstUlps, c.WorstScaled = max(c.WorstUlps, o.WorstUlps), max(c.WorstScaled, o.WorstScaled)
	if !(o.Worst <= c.Worst) {
		c.Worst, c.At = o.Worst, o.At
	}
}

// String sums up.
func (c *Tally) String() string {
	s := fmt.Sprintf("%d tensors compared", c.Tensors)
	if c.At != "" {
		s += fmt.Sprintf("; worst F32 difference %.3g of the output's scale, at %s", c.Worst, c.At)
	}
	if c.Values > 0 {
		s += fmt.Sprintf("; of %d 16-bit values %d have the reference's bits and %d are more than %d units off, the worst one %.0f, of its tensor's scale %.2f",
			c.Values, c.Same, c.Off, Ulps, c.WorstUlps, c.WorstScaled)
	}
	return s
}

// sameChoices fails where the most likely id of a valid position, or class of a
// sequence, differs. In 16-bit types a choice between values a few units apart may.
func sameChoices(tb testing.TB, name string, got, want, valid *tensor.Tensor) {
	tb.Helper()
	if want.DType() != tensor.F32 {
		return
	}
	axes := want.Shape()
	if len(axes) == 2 { // one row per sequence
		valid = nil
	}
	width := axes[len(axes)-1]
	first := func(v []float32) int { return slices.Index(v, slices.Max(v)) }
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

// typeOf is the type that a case computes in.
func typeOf(golden Tensors) tensor.DType {
	for _, t := range golden {
		if d := t.DType(); d == tensor.BF16 || d == tensor.F16 {
			return d
		}
	}
	return tensor.F32
}

// Forward compares all outputs of all runs of all cases, and their order and
// number with the reference's. model says in which folder a case's model lies.
func Forward(t *testing.T, root string, model func(string) string, least int, first string) {
	dev := OpenCPU(t)
	var all Tally
	for _, name := range Cases(t, root, least) {
		golden := Read(t, filepath.Join(root, name, "golden.safetensors"))
		m := Build(t, dev, model(name), nil)
		tally := Tally{of: typeOf(golden)}
		for _, run := range Runs(golden, "."+first) {
			t.Run(name+"/"+run, func(t *testing.T) {
				out, err := m.Forward(context.Background(), Inputs(golden, run))
				if err != nil {
					t.Fatal(err)
				}
				ForwardRun(t, &tally, golden, name, run, out)
				if first == "logits" {
					sameChoices(t, "logits", out[0].Tensor, golden[run+".logits"], golden[run+".valid"])
				}
			})
		}
		tally.Check(t, name)
		all.add(tally)
	}
	t.Log(&all)
}

// ForwardRun compares the outputs of one run: those that the reference has, and
// no others.
func ForwardRun(t *testing.T, tally *Tally, golden Tensors, name, run string, out architectures.Outputs) {
	t.Helper()
	want := 0
	for ref := range golden {
		rest, ok := strings.CutPrefix(ref, run+".")
		if ok && !slices.Contains(inputNames, rest) && rest != "valid" && !strings.HasPrefix(rest, "prefill") && !strings.HasPrefix(rest, "step") {
			want++
		}
	}
	if len(out) != want {
		t.Errorf("%d outputs, want %d", len(out), want)
	}
	for _, o := range out {
		reference := golden[run+"."+o.Name]
		if reference == nil {
			t.Fatalf("the reference has no %s", o.Name)
		}
		valid := golden[run+".valid"]
		if len(o.Tensor.Shape()) == 2 { // one row per sequence
			valid = nil
		}
		tally.Compare(t, name+"/"+run+"/"+o.Name, o.Tensor, reference, valid)
	}
}

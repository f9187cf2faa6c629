// Command compare runs a package on the inputs of a golden file and compares its
// outputs with those in it:
//
//	compare PACKAGE GOLDEN.safetensors
//
// The file holds named runs: <run>.input_ids and further inputs, and outputs by
// the names that the model gives them. Two more are computed here: x.first is the
// first position of x, and sentence_embedding the mean of the last hidden states
// that the mask shows, divided by its length. It fails where an output differs by
// more than 1e-5 of its largest value, an index at all, or two rows of embeddings
// point in directions whose cosine is below 1 − 1e-6.
package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/bert"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

const (
	tolerance = 1e-5
	angle     = 1e-6
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: compare PACKAGE GOLDEN.safetensors")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// inputs are the names in a golden file that are not outputs.
var inputs = []string{"input_ids", "attention_mask", "token_type_ids", "position_ids", "decoder_input_ids"}

// tally sums up the comparison of all runs.
type tally struct {
	runs, rows, outputs  int
	worst, furthest, cos float64
	at                   string
}

func run(ctx context.Context, dir, golden string) error {
	m, err := compress.Load(ctx, dir, compress.LoadOptions{})
	if err != nil {
		return err
	}
	defer m.Close()
	c, err := loader.Open(golden, loader.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	runs := map[string]map[string]*tensor.Tensor{}
	for _, name := range c.Names() {
		run, rest, ok := strings.Cut(name, ".")
		if !ok {
			return fmt.Errorf("%s: %q belongs to no run", golden, name)
		}
		if runs[run] == nil {
			runs[run] = map[string]*tensor.Tensor{}
		}
		if runs[run][rest], err = c.Tensor(name); err != nil {
			return err
		}
	}
	if len(runs) == 0 {
		return fmt.Errorf("%s holds no run", golden)
	}
	t := tally{cos: 1}
	for name, tensors := range runs {
		if err := t.run(ctx, m.Model, tensors); err != nil {
			return fmt.Errorf("run %s: %w", name, err)
		}
	}
	fmt.Printf("%d sequences in %d calls, %d outputs; largest difference %.2g, %.2g of the output's largest value (%s); smallest cosine 1 − %.1g\n",
		t.rows, t.runs, t.outputs, t.furthest, t.worst, t.at, 1-t.cos)
	if !(t.worst <= tolerance) || !(t.cos >= 1-angle) {
		return errors.New("the outputs differ from the reference's")
	}
	return nil
}

// run makes one call and compares what the reference has of it.
func (t *tally) run(ctx context.Context, m architectures.Model, tensors map[string]*tensor.Tensor) error {
	in := architectures.Inputs{Tensors: map[string]*tensor.Tensor{}, Flags: map[string]bool{}}
	for name, x := range tensors {
		switch {
		case slices.Contains(inputs, name):
			in.Tensors[name] = x
		case strings.Contains(name, "hidden_states."):
			in.Flags["output_hidden_states"] = true
		}
	}
	out, err := m.Forward(ctx, in)
	if err != nil {
		return err
	}
	t.runs++
	t.rows += in.Tensors["input_ids"].Shape()[0]
	for name, want := range tensors {
		if slices.Contains(inputs, name) {
			continue
		}
		got, err := output(ctx, m, in, out, name)
		if err != nil {
			return err
		}
		if err := t.compare(name, got, want); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// output finds or computes an output.
func output(ctx context.Context, m architectures.Model, in architectures.Inputs, out architectures.Outputs, name string) (*tensor.Tensor, error) {
	if name == "sentence_embedding" {
		embedder, ok := m.(*bert.Model)
		if !ok {
			return nil, fmt.Errorf("a %T has no sentence embeddings", m)
		}
		return embedder.Embed(ctx, in, true)
	}
	of, first := strings.CutSuffix(name, ".first")
	x := out.Get(of)
	if x == nil {
		return nil, fmt.Errorf("the model has no output %q", of)
	}
	if !first {
		return x, nil
	}
	shape := x.Shape()
	rows, err := tensor.New(x.DType(), shape[0], shape[2])
	if err != nil {
		return nil, err
	}
	for b := range shape[0] {
		copy(rows.Row(b), x.Bytes()[b*shape[1]*shape[2]*x.DType().Size():])
	}
	return rows, nil
}

// compare adds one output to the tally.
func (t *tally) compare(name string, got, want *tensor.Tensor) error {
	if got.DType() != want.DType() || !got.Shape().Equal(want.Shape()) {
		return fmt.Errorf("found %v, expected %v", got, want)
	}
	t.outputs++
	if got.DType() == tensor.I64 {
		if !slices.Equal(got.Int64s(), want.Int64s()) {
			return errors.New("other indices than the reference's")
		}
		return nil
	}
	if got.DType() != tensor.F32 {
		return fmt.Errorf("%s cannot be compared", got.DType())
	}
	g, w := got.Float32s(), want.Float32s()
	furthest, scale := 0.0, 0.0
	for i := range w {
		d := math.Abs(float64(g[i]) - float64(w[i]))
		if !(d <= furthest) { // a NaN stays
			furthest = d
		}
		scale = max(scale, math.Abs(float64(w[i])))
	}
	if !(furthest <= t.furthest) {
		t.furthest = furthest
	}
	if d := furthest / scale; !(d <= t.worst) {
		t.worst, t.at = d, name
	}
	if axes := want.Shape(); len(axes) == 2 {
		for i := 0; i < len(w); i += axes[1] {
			if c := cosine(g[i:i+axes[1]], w[i:i+axes[1]]); !(c >= t.cos) {
				t.cos = c
			}
		}
	}
	return nil
}

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		ab, aa, bb = ab+float64(x*y), aa+float64(x*x), bb+float64(y*y)
	}
	return ab / math.Sqrt(aa*bb)
}

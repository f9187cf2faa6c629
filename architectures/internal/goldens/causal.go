package goldens

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/tensor"
)

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

// Piece is the part of in from one column to another.
func Piece(tb testing.TB, in architectures.Inputs, from, to int) architectures.Inputs {
	tb.Helper()
	out := architectures.Inputs{Tensors: map[string]*tensor.Tensor{}, Flags: in.Flags}
	for name, t := range in.Tensors {
		out.Tensors[name] = columns(tb, t, from, to)
	}
	return out
}

// Causal is a model that continues sequences.
type Causal interface {
	architectures.Model
	architectures.Generator
	NewDecoder(batch, capacity int) (*run.Decoder, error)
}

// Decode compares the logits of cached steps.
func Decode(t *testing.T, root string, model func(string) string, least int) {
	dev := OpenCPU(t)
	var all Tally
	for _, name := range Cases(t, root, least) {
		golden := Read(t, filepath.Join(root, name, "golden.safetensors"))
		m := Build(t, dev, model(name), nil).(Causal)
		tally := Tally{of: typeOf(golden)}
		for _, run := range Runs(golden, ".prefill.logits") {
			t.Run(name+"/"+run, func(t *testing.T) {
				in := Inputs(golden, run)
				shape := golden[run+".input_ids"].Shape()
				d, err := m.NewDecoder(shape[0], shape[1])
				if err != nil {
					t.Fatal(err)
				}
				prefill := golden[run+".prefill.logits"].Shape()[1]
				step := func(from, to int, reference string) {
					out, err := d.Step(context.Background(), Piece(t, in, from, to))
					if err != nil {
						t.Fatal(err)
					}
					valid := columns(t, golden[run+".valid"], from, to)
					tally.Compare(t, name+"/"+reference, out[0].Tensor, golden[reference], valid)
					sameChoices(t, reference, out[0].Tensor, golden[reference], valid)
				}
				step(0, prefill, run+".prefill.logits")
				for i := prefill; i < shape[1]; i++ {
					step(i, i+1, fmt.Sprintf("%s.step.%d.logits", run, i-prefill))
				}
			})
		}
		tally.Check(t, name)
		all.add(tally)
	}
	t.Log(&all)
}

// Generate compares greedily generated ids.
func Generate(t *testing.T, root string, model func(string) string, least int) {
	dev := OpenCPU(t)
	count := 0
	for _, name := range Cases(t, root, least) {
		golden := Read(t, filepath.Join(root, name, "golden.safetensors"))
		for _, run := range Runs(golden, ".output_ids") {
			t.Run(name+"/"+run, func(t *testing.T) {
				// The reference was told its end tokens by argument.
				changes := map[string]any{"eos_token_id": nil}
				var ends []int64
				if eos := golden[run+".eos_token_id"]; eos != nil {
					ends = eos.Int64s()
					changes["eos_token_id"] = ends
				}
				m := Build(t, dev, model(name), changes).(architectures.Generator)
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
						if slices.Contains(ends, id) {
							break // what follows is padding
						}
					}
					expected = append(expected, expect)
				}
				most := total - width
				if !slices.ContainsFunc(expected, func(e []int) bool { return !slices.Contains(ends, int64(e[len(e)-1])) }) {
					most += 4 // it must stop by itself
				}
				got, err := m.Generate(context.Background(), prompts, most)
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

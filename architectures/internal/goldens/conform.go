package goldens

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/batch"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// Everything asks for all outputs.
var Everything = map[string]bool{batch.FlagHidden: true, batch.FlagAttentions: true}

// Conform checks what needs no reference and holds for every text family: blocks
// that are replaced by their own copies, sessions, masks, decoders, errors. dir
// holds a small model of ids 2 and up; small returns a view of a model that starts
// a new session for every part of a layer.
func Conform(t *testing.T, dir string, small func(architectures.Model) architectures.Model) {
	dev := OpenCPU(t)
	m := Build(t, dev, dir, nil)
	in := Input(t, []int{2, 5, 3, 7}, []int{4, 4, 9, 6})
	in.Flags = Everything
	want := Run(t, m, in)
	t.Run("sessions", func(t *testing.T) { SameBits(t, Run(t, small(m), in), want) })
	t.Run("blocks", func(t *testing.T) { conformBlocks(t, dev, dir, m, in, want) })
	if Blueprint(t, dir, nil).Inputs().Masks {
		t.Run("mask", func(t *testing.T) { conformMask(t, m, in, want) })
	}
	t.Run("errors", func(t *testing.T) { conformErrors(t, m) })
	if c, ok := m.(Causal); ok {
		t.Run("decoder", func(t *testing.T) { conformDecoder(t, c, in, want) })
	}
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if out, err := m.Forward(ctx, in); !errors.Is(err, context.Canceled) || out != nil {
			t.Errorf("%v, %v", out, err)
		}
	})
}

// Input makes input_ids.
func Input(tb testing.TB, rows ...[]int) architectures.Inputs {
	tb.Helper()
	ids, err := architectures.IDTensor(rows)
	if err != nil {
		tb.Fatal(err)
	}
	return architectures.Inputs{Tensors: map[string]*tensor.Tensor{batch.IDs: ids}}
}

// Run evaluates a call that must succeed.
func Run(tb testing.TB, m architectures.Model, in architectures.Inputs) architectures.Outputs {
	tb.Helper()
	out, err := m.Forward(context.Background(), in)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// SameBits fails where outputs differ.
func SameBits(tb testing.TB, got, want architectures.Outputs) {
	tb.Helper()
	if len(got) != len(want) {
		tb.Fatalf("%d outputs, want %d", len(got), len(want))
	}
	for i, o := range got {
		if o.Name != want[i].Name || !tensor.BitEqual(o.Tensor, want[i].Tensor) {
			tb.Errorf("%s differs", o.Name)
		}
	}
}

// counting is weights that remember what was asked for.
type counting struct {
	Tensors
	asked map[string]bool
}

func (c *counting) Tensor(name string) (*tensor.Tensor, error) {
	c.asked[name] = true
	return c.Tensors.Tensor(name)
}

// conformBlocks replaces each declared block by a copy of itself, in the model and
// when it is built, where what the block removes must not be asked for.
func conformBlocks(t *testing.T, dev nn.Device, dir string, m architectures.Model, in architectures.Inputs, want architectures.Outputs) {
	weights := Read(t, filepath.Join(dir, "model.safetensors"))
	var names []string
	for name := range weights {
		names = append(names, name)
	}
	b := architectures.ForNames(Blueprint(t, dir, nil), names)
	if _, err := m.Block("nowhere"); !errors.Is(err, run.ErrBlock) {
		t.Errorf("Block of an unknown path: %v", err)
	}
	if _, err := b.Build(dev, weights, map[string]nn.TokenBlock{"nowhere": nil}); !errors.Is(err, run.ErrBlock) {
		t.Errorf("Build with an unknown path: %v", err)
	}
	blocks := map[string]nn.TokenBlock{}
	part := &counting{weights, map[string]bool{}}
	for _, spec := range b.Blocks() {
		source, err := m.Block(spec.Path)
		if err != nil {
			t.Fatal(err)
		}
		if spec.Refusal != "" {
			conformRefused(t, m, spec, source)
			continue
		}
		fanout, ok := source.(*nn.Fanout)
		if !ok {
			t.Fatalf("%s is %T", spec.Path, source)
		}
		if have := source.Outputs(); !slices.Equal(have[:len(have)-1], spec.Outputs) {
			t.Errorf("%s: outputs %v, declared %v", spec.Path, have, spec.Outputs)
		}
		params := map[string]bool{}
		for _, layers := range append([][]nn.RowLocal{fanout.Prefix}, branchLayers(fanout)...) {
			for _, l := range layers {
				for _, name := range l.ParamNames() {
					params[name] = true
				}
			}
		}
		for _, name := range spec.Removes {
			if !params[name] {
				t.Errorf("%s removes %s, which it does not read", spec.Path, name)
			}
			delete(params, name)
		}
		for name := range params {
			t.Errorf("%s reads %s, which it does not remove", spec.Path, name)
		}
		copied := *fanout
		view, err := m.WithBlock(spec.Path, &copied)
		if err != nil {
			t.Fatal(err)
		}
		SameBits(t, Run(t, view, in), want)
		bare := *fanout
		bare.Residual = ""
		if _, err := m.WithBlock(spec.Path, &bare); !errors.Is(err, run.ErrBlock) {
			t.Errorf("%s without its residual: %v", spec.Path, err)
		}
		blocks[spec.Path] = &copied
	}
	rebuilt, err := b.Build(dev, part, blocks)
	if err != nil {
		t.Fatal(err)
	}
	SameBits(t, Run(t, rebuilt, in), want)
	for _, spec := range b.Blocks() {
		for _, name := range spec.Removes {
			if spec.Refusal == "" && part.asked[name] {
				t.Errorf("%s was asked for, although %s is given", name, spec.Path)
			}
		}
	}
}

func branchLayers(f *nn.Fanout) [][]nn.RowLocal {
	var out [][]nn.RowLocal
	for _, b := range f.Branches {
		out = append(out, b.Layers)
	}
	return out
}

// conformRefused evaluates a refused block's source form, whose size is the
// declared one, and expects that nothing can take its place.
func conformRefused(t *testing.T, m architectures.Model, spec architectures.BlockSpec, source nn.TokenBlock) {
	if source.NumTokens() != spec.NumTokens || !slices.Equal(source.Outputs(), spec.Outputs) {
		t.Errorf("%s: %d elements and %v, declared %d and %v", spec.Path, source.NumTokens(), source.Outputs(), spec.NumTokens, spec.Outputs)
	}
	s := m.Device().Begin(context.Background())
	rows := source.Forward(s, []int{0, spec.NumTokens - 1})
	for i, o := range spec.Outputs {
		if got := s.ToHost(rows[i]); got == nil || !got.Shape().Equal(tensor.Shape{2, o.Width}) || got.DType() != o.DType {
			t.Errorf("%s: output %s is %v", spec.Path, o.Name, got)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := m.WithBlock(spec.Path, source); !errors.Is(err, run.ErrBlock) {
		t.Errorf("%s: a block was accepted: %v", spec.Path, err)
	}
}

// conformMask appends hidden positions: nothing that is shown may change by a bit.
func conformMask(t *testing.T, m architectures.Model, in architectures.Inputs, want architectures.Outputs) {
	ids := in.Tensors[batch.IDs]
	length, wider := ids.Shape()[1], ids.Shape()[1]+2
	var rows, mask [][]int
	for b := range ids.Shape()[0] {
		row, seen := make([]int, wider), make([]int, wider)
		for i := range row {
			row[i] = 3 + i
			if i < length {
				row[i], seen[i] = int(ids.Int64s()[b*length+i]), 1
			}
		}
		rows, mask = append(rows, row), append(mask, seen)
	}
	padded := Input(t, rows...)
	hides, err := architectures.IDTensor(mask)
	if err != nil {
		t.Fatal(err)
	}
	padded.Tensors[batch.Mask] = hides
	got := Run(t, m, padded)[0].Tensor
	if len(got.Shape()) == 2 { // one row per sequence
		if !tensor.BitEqual(got, want[0].Tensor) {
			t.Error("hidden positions changed an output")
		}
		return
	}
	if got.Shape()[1] != wider {
		t.Fatalf("%v for %d positions", got, wider)
	}
	size := got.Shape()[2] * got.DType().Size()
	for b := range ids.Shape()[0] {
		g := got.Bytes()[b*wider*size:][:length*size]
		w := want[0].Tensor.Bytes()[b*length*size:][:length*size]
		if !slices.Equal(g, w) {
			t.Errorf("hidden positions changed sequence %d", b)
		}
	}
}

// conformErrors gives the model what it must refuse.
func conformErrors(t *testing.T, m architectures.Model) {
	good := Input(t, []int{2, 3})
	float, err := tensor.New(tensor.F32, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(in *architectures.Inputs){
		"no ids":        func(in *architectures.Inputs) { delete(in.Tensors, batch.IDs) },
		"float ids":     func(in *architectures.Inputs) { in.Tensors[batch.IDs] = float },
		"float mask":    func(in *architectures.Inputs) { in.Tensors[batch.Mask] = float },
		"unknown input": func(in *architectures.Inputs) { in.Tensors["inputs_embeds"] = float },
		"unknown flag":  func(in *architectures.Inputs) { in.Flags = map[string]bool{"use_cache": true} },
		"large id":      func(in *architectures.Inputs) { *in = Input(t, []int{2, 1 << 20}) },
		"negative id":   func(in *architectures.Inputs) { *in = Input(t, []int{-1, 2}) },
	} {
		in := architectures.Inputs{Tensors: map[string]*tensor.Tensor{batch.IDs: good.Tensors[batch.IDs]}}
		change(&in)
		if out, err := m.Forward(context.Background(), in); !errors.Is(err, batch.ErrInput) || out != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// conformDecoder feeds a batch step by step, with a step back: the logits must be
// those of one pass.
func conformDecoder(t *testing.T, m Causal, in architectures.Inputs, want architectures.Outputs) {
	shape := in.Tensors[batch.IDs].Shape()
	d, err := m.NewDecoder(shape[0], shape[1])
	if err != nil {
		t.Fatal(err)
	}
	logits := want[0].Tensor
	size := logits.Shape()[2] * logits.DType().Size()
	for _, cut := range [][2]int{{0, 2}, {2, 3}, {3, 4}, {1, 3}, {3, 4}} {
		d.Truncate(cut[0])
		out, err := d.Step(context.Background(), Piece(t, in, cut[0], cut[1]))
		if err != nil {
			t.Fatal(err)
		}
		n := cut[1] - cut[0]
		for b := range shape[0] {
			g := out[0].Tensor.Bytes()[b*n*size:][:n*size]
			w := logits.Bytes()[(b*shape[1]+cut[0])*size:][:n*size]
			if !slices.Equal(g, w) {
				t.Errorf("positions %d to %d of sequence %d differ from one pass", cut[0], cut[1]-1, b)
			}
		}
	}
	if _, err := d.Step(context.Background(), Piece(t, in, 0, 1)); !errors.Is(err, batch.ErrInput) {
		t.Errorf("a step beyond the capacity: %v", err)
	}
	if d.Len() != shape[1] {
		t.Errorf("a failed step left %d positions", d.Len())
	}
	if _, err := m.Generate(context.Background(), nil, 1); !errors.Is(err, batch.ErrInput) {
		t.Errorf("no prompts: %v", err)
	}
	if _, err := m.Generate(context.Background(), [][]int{{2}, {}}, 1); !errors.Is(err, batch.ErrInput) {
		t.Errorf("an empty prompt: %v", err)
	}
}

package llama_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/llama"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
	"pgregory.net/rapid"
)

// forward runs a model and fails the test on an error.
func forward(tb testing.TB, m architectures.Model, in architectures.Inputs) architectures.Outputs {
	tb.Helper()
	out, err := m.Forward(context.Background(), in)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// sameBits fails where two lists of outputs differ in a name or a bit.
func sameBits(tb testing.TB, what string, got, want architectures.Outputs) {
	tb.Helper()
	if len(got) != len(want) {
		tb.Fatalf("%s: %d outputs, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i].Name != want[i].Name || !tensor.BitEqual(got[i].Tensor, want[i].Tensor) {
			tb.Errorf("%s: %s differs from %s", what, got[i].Name, want[i].Name)
		}
	}
}

// ids makes an I64 tensor of equally long rows.
func ids(tb testing.TB, rows ...[]int) *tensor.Tensor {
	tb.Helper()
	t, err := architectures.IDTensor(rows)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// everything asks for all outputs.
var everything = map[string]bool{"output_hidden_states": true, "output_attentions": true}

func TestWithBlock(t *testing.T) {
	dev := openCPU(t)
	for _, name := range []string{"gqa", "tied", "bias"} {
		m := build(t, dev, name, nil)
		block, err := m.Block(llama.QKVPath)
		if err != nil {
			t.Fatal(err)
		}
		source := block.(*nn.Fanout)
		twin := *source
		in := architectures.Inputs{Tensors: map[string]*tensor.Tensor{"input_ids": ids(t, []int{1, 5, 0, 7}, []int{2, 2, 9, 16})}, Flags: everything}
		want := forward(t, m, in)

		same, err := m.WithBlock(llama.QKVPath, &twin)
		if err != nil {
			t.Fatal(err)
		}
		sameBits(t, name+" with the same block", forward(t, same, in), want)
		if b, _ := same.Block(llama.QKVPath); b != nn.TokenBlock(&twin) {
			t.Errorf("%s: the new block is not in use", name)
		}

		// Another block must be heard, and the model it was put into left alone.
		swapped := *source
		swapped.Branches = []nn.Branch{
			{Name: "q", Layers: source.Branches[0].Layers},
			{Name: "k", Layers: source.Branches[2].Layers},
			{Name: "v", Layers: source.Branches[1].Layers},
		}
		other, err := m.WithBlock(llama.QKVPath, &swapped)
		if err != nil {
			t.Fatal(err)
		}
		if tensor.BitEqual(forward(t, other, in).Get("logits"), want.Get("logits")) {
			t.Errorf("%s: keys and values changed places, and nothing changed", name)
		}
		sameBits(t, name+" afterwards", forward(t, m, in), want)
	}
}

// counting records what a build asks for.
type counting struct {
	tensors
	asked []string
}

func (c *counting) Tensor(name string) (*tensor.Tensor, error) {
	c.asked = append(c.asked, name)
	return c.tensors.Tensor(name)
}

func TestBuildAsksForWhatItReads(t *testing.T) {
	dev := openCPU(t)
	for _, name := range []string{"mha", "tied", "bias"} {
		m := build(t, dev, name, nil)
		b := blueprint(t, name)
		block, err := m.Block(llama.QKVPath)
		if err != nil {
			t.Fatal(err)
		}
		spec := b.Blocks()[0]
		want := map[string]bool{}
		for _, p := range b.Params() {
			if !p.Ignored && p.TiedTo == "" {
				want[p.Name] = true
			}
		}
		weights := readTensors(t, filepath.Join(goldenDir, name, "model.safetensors"))
		whole := &counting{tensors: weights}
		if _, err := b.Build(dev, whole, nil); err != nil {
			t.Fatal(err)
		}
		if got := maps.Collect(asSet(whole.asked)); !maps.Equal(got, want) {
			t.Errorf("%s: asked for %v", name, whole.asked)
		}

		for _, removed := range spec.Removes {
			delete(want, removed)
		}
		if name != "tied" {
			delete(want, spec.Embedding) // the block brings its own
		}
		part := &counting{tensors: weights}
		view, err := b.Build(dev, part, map[string]nn.TokenBlock{llama.QKVPath: block})
		if err != nil {
			t.Fatal(err)
		}
		if got := maps.Collect(asSet(part.asked)); !maps.Equal(got, want) {
			t.Errorf("%s with a block: asked for %v", name, part.asked)
		}
		in, err := architectures.TokenInputs([]int{3, 1, 4, 1, 5})
		if err != nil {
			t.Fatal(err)
		}
		sameBits(t, name, forward(t, view, in), forward(t, m, in))
	}
}

func asSet(names []string) func(func(string, bool) bool) {
	return func(yield func(string, bool) bool) {
		for _, n := range names {
			if !yield(n, true) {
				return
			}
		}
	}
}

func TestBuildRefusals(t *testing.T) {
	dev := openCPU(t)
	b := blueprint(t, "mha")
	good := readTensors(t, filepath.Join(goldenDir, "mha", "model.safetensors"))
	const q = "model.layers.1.self_attn.q_proj.weight"
	half, err := tensor.New(tensor.BF16, 32, 32)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		put  *tensor.Tensor
		is   error
		want string
	}{
		"absent": {nil, nil, q},
		"dtype":  {half, tensor.ErrDType, q + ": unsupported dtype: expected F32, found BF16"},
		"shape":  {good["model.layers.1.mlp.gate_proj.weight"], tensor.ErrShape, q + ": bad shape: expected [32,32], found [48,32]"},
	} {
		w := maps.Clone(good)
		if w[q] = c.put; c.put == nil {
			delete(w, q)
		}
		_, err := b.Build(dev, w, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || (c.is != nil && !errors.Is(err, c.is)) {
			t.Errorf("%s: %v", name, err)
		}
	}

	m := build(t, dev, "mha", nil)
	block, _ := m.Block(llama.QKVPath)
	source := block.(*nn.Fanout)
	noResidual, renamed := *source, *source
	noResidual.Residual = ""
	renamed.Residual = "rest"
	foreign, _ := build(t, dev, "gqa", nil).Block(llama.QKVPath)
	for name, c := range map[string]struct {
		path  string
		block nn.TokenBlock
	}{
		"unknown path": {"model.layers.1.qkv", source},
		"nil":          {llama.QKVPath, nil},
		"no residual":  {llama.QKVPath, &noResidual},
		"other names":  {llama.QKVPath, &renamed},
		"other sizes":  {llama.QKVPath, foreign},
	} {
		if _, err := m.WithBlock(c.path, c.block); !errors.Is(err, llama.ErrBlock) {
			t.Errorf("WithBlock, %s: %v", name, err)
		}
		if _, err := b.Build(dev, good, map[string]nn.TokenBlock{c.path: c.block}); !errors.Is(err, llama.ErrBlock) {
			t.Errorf("Build, %s: %v", name, err)
		}
	}
	if _, err := m.Block("lm_head"); !errors.Is(err, llama.ErrBlock) {
		t.Errorf("Block of an unknown path: %v", err)
	}
}

func TestInputRefusals(t *testing.T) {
	m := build(t, openCPU(t), "mha", nil) // 19 tokens
	good := ids(t, []int{1, 2, 3}, []int{4, 5, 6})
	float, err := tensor.New(tensor.F32, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	empty, err := tensor.New(tensor.I64, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	flat, err := good.Reshape(6)
	if err != nil {
		t.Fatal(err)
	}
	type in = map[string]*tensor.Tensor
	for _, c := range []struct {
		in    in
		flags map[string]bool
		want  string
	}{
		{in{}, nil, "input_ids is missing"},
		{in{"input_ids": float}, nil, "expected I64[batch,length], found F32[2,3]"},
		{in{"input_ids": flat}, nil, "found I64[6]"},
		{in{"input_ids": empty}, nil, "0 tokens"},
		{in{"input_ids": ids(t, []int{1, 19})}, nil, "id 19 of sequence 0 at position 1; valid ids are 0 to 18"},
		{in{"input_ids": ids(t, []int{1, 2}, []int{-1, 2})}, nil, "id -1 of sequence 1 at position 0"},
		{in{"input_ids": good, "attention_mask": flat}, nil, "attention_mask: expected I64[2,3] like input_ids, found I64[6]"},
		{in{"input_ids": good, "attention_mask": float}, nil, "attention_mask"},
		{in{"input_ids": good, "attention_mask": good}, nil, "attention_mask: 2 for sequence 0 at position 1; expected 0 or 1"},
		{in{"input_ids": good, "position_ids": ids(t, []int{0, 1, 2})}, nil, "position_ids: expected I64[2,3]"},
		{in{"input_ids": good, "position_ids": ids(t, []int{0, 1, 2}, []int{0, -1, 2})}, nil, "position_ids: -1 for sequence 1"},
		{in{"input_ids": good, "position_ids": ids(t, []int{0, 1, 2}, []int{0, 1 << 30, 2})}, nil, "position_ids"},
		{in{"input_ids": good, "inputs_embeds": float}, nil, `"inputs_embeds" is not an input`},
		{in{"input_ids": good}, map[string]bool{"use_cache": true}, `"use_cache" is not a flag`},
		{in{"input_ids": ids(t, make([]int, 1<<20+1))}, nil, "1048577 tokens"},
		{in{"input_ids": ids(t, make([]int, 1<<17))}, everything, "output values"},
	} {
		_, err := m.Forward(context.Background(), architectures.Inputs{Tensors: c.in, Flags: c.flags})
		if !errors.Is(err, llama.ErrInput) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// TestBeyondMaxPositions: like the reference, the model computes sequences that
// are longer than it was trained for.
func TestBeyondMaxPositions(t *testing.T) {
	m := build(t, openCPU(t), "mha", nil)
	long := make([]int, m.Config().MaxPositions+3)
	for i := range long {
		long[i] = i % 19
	}
	whole := forward(t, m, architectures.Inputs{Tensors: map[string]*tensor.Tensor{"input_ids": ids(t, long)}}).Get("logits")
	part := forward(t, m, architectures.Inputs{Tensors: map[string]*tensor.Tensor{"input_ids": ids(t, long[:5])}}).Get("logits")
	if !slices.Equal(whole.Uint32s()[:5*19], part.Uint32s()) {
		t.Error("later positions changed earlier ones")
	}
	for i, v := range whole.Float32s() {
		if v != v || math.IsInf(float64(v), 0) {
			t.Fatalf("logit %d is %g", i, v)
		}
	}
}

func TestCancelledForward(t *testing.T) {
	m := build(t, openCPU(t), "mha", nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	in, err := architectures.TokenInputs([]int{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := m.Forward(ctx, in); !errors.Is(err, context.Canceled) || out != nil {
		t.Errorf("Forward: %v, %v", out, err)
	}
	if _, err := m.Generate(ctx, [][]int{{1, 2}}, 4); !errors.Is(err, context.Canceled) {
		t.Errorf("Generate: %v", err)
	}
}

// TestConcurrentForward is for the race detector as much as for the bits.
func TestConcurrentForward(t *testing.T) {
	dev := openCPU(t)
	m := build(t, dev, "gqa", nil)
	golden := readTensors(t, filepath.Join(goldenDir, "gqa", "golden.safetensors"))
	in := inputsOf(golden, "left_pad")
	want := forward(t, m, in)
	wantIDs, err := m.Generate(context.Background(), [][]int{{1, 2, 3}, {4}}, 6)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 4 {
				out, err := m.Forward(context.Background(), in)
				if err != nil {
					t.Error(err)
					return
				}
				sameBits(t, "concurrent", out, want)
			}
			got, err := m.Generate(context.Background(), [][]int{{1, 2, 3}, {4}}, 6)
			if err != nil || !slices.EqualFunc(got, wantIDs, slices.Equal) {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	wg.Wait()
}

// TestMaskIsExact: what the mask hides has no influence on a single bit of what
// it shows, and a mask of ones is no mask.
func TestMaskIsExact(t *testing.T) {
	m := build(t, openCPU(t), "mqa", nil)
	rapid.Check(t, func(t *rapid.T) {
		n, pad := rapid.IntRange(1, 6).Draw(t, "n"), rapid.IntRange(0, 4).Draw(t, "pad")
		token := rapid.IntRange(0, 18)
		row, noise := rapid.SliceOfN(token, n, n).Draw(t, "row"), rapid.SliceOfN(token, pad, pad).Draw(t, "noise")
		left := rapid.Bool().Draw(t, "left")

		input := func(ids, mask, at []int) architectures.Inputs {
			tensors := map[string]*tensor.Tensor{}
			for name, v := range map[string][]int{"input_ids": ids, "attention_mask": mask, "position_ids": at} {
				x, err := architectures.IDTensor([][]int{v})
				if err != nil {
					t.Fatal(err)
				}
				tensors[name] = x
			}
			return architectures.Inputs{Tensors: tensors}
		}
		count := func(n, v int) []int { return slices.Repeat([]int{v}, n) }
		at := make([]int, n)
		for i := range at {
			at[i] = i
		}
		plain := input(row, count(n, 1), at)
		delete(plain.Tensors, "position_ids")
		if rapid.Bool().Draw(t, "no mask") {
			delete(plain.Tensors, "attention_mask")
		}
		padded := input(slices.Concat(row, noise), slices.Concat(count(n, 1), count(pad, 0)), slices.Concat(at, count(pad, 0)))
		start := 0
		if left {
			padded = input(slices.Concat(noise, row), slices.Concat(count(pad, 0), count(n, 1)), slices.Concat(count(pad, 0), at))
			start = pad
		}
		want, err := m.Forward(context.Background(), plain)
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.Forward(context.Background(), padded)
		if err != nil {
			t.Fatal(err)
		}
		const vocabulary = 19
		g := got[0].Tensor.Uint32s()[start*vocabulary : (start+n)*vocabulary]
		if !slices.Equal(g, want[0].Tensor.Uint32s()) {
			t.Fatal("hidden positions changed the logits of the others")
		}
	})
}

// sessions counts the sessions of a device.
type sessions struct {
	nn.Device
	begun int
}

func (d *sessions) Begin(ctx context.Context) nn.Session {
	d.begun++
	return d.Device.Begin(ctx)
}

// TestSessionsDoNotChangeBits: where a pass goes on in a new session to bound
// memory, its results stay what they are.
func TestSessionsDoNotChangeBits(t *testing.T) {
	dev := &sessions{Device: openCPU(t)}
	m := build(t, dev, "mqa", nil) // 3 layers
	in := architectures.Inputs{Tensors: map[string]*tensor.Tensor{"input_ids": ids(t, []int{1, 5, 0, 7}, []int{2, 2, 9, 16})}, Flags: everything}
	run := func(m *llama.Model) (forwarded, stepped architectures.Outputs) {
		d, err := m.NewDecoder(2, 4)
		if err != nil {
			t.Fatal(err)
		}
		if stepped, err = d.Step(context.Background(), in); err != nil {
			t.Fatal(err)
		}
		return forward(t, m, in), stepped
	}
	want, wantStepped := run(m)
	if dev.begun != 2 {
		t.Errorf("%d sessions for two small calls", dev.begun)
	}
	dev.begun = 0
	got, gotStepped := run(m.WithSessionBytes(1))
	if dev.begun != 2*2*m.Config().Layers {
		t.Errorf("%d sessions for two calls that may hold half a layer", dev.begun)
	}
	sameBits(t, "forward", got, want)
	sameBits(t, "step", gotStepped, wantStepped)
	sameBits(t, "forward and step", want, wantStepped)
}

// blueprint makes the blueprint of a golden case.
func blueprint(tb testing.TB, name string) architectures.Blueprint {
	tb.Helper()
	b, err := newBlueprint(filepath.Join(modelDir(name), "config.json"))
	if err != nil {
		tb.Fatal(fmt.Errorf("%s: %w", name, err))
	}
	return b
}

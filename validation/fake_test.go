package validation_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// fake is a small model with everything that can go wrong: an embedding, hidden
// states, a router that picks one of two experts, and logits. Change, when set,
// sees each call's outputs before they are returned.
type fake struct {
	vocabulary, width int
	table             []float32 // [vocabulary, width]
	change            func(call int, out architectures.Outputs) (architectures.Outputs, error)
	calls             *int
	batches           *[][2]int // batch and length of each call, when set
}

type fakeDevice struct {
	nn.Device // the rest is never called
}

func (fakeDevice) Info() nn.Info { return nn.Info{Name: "fake", Fingerprint: "fake-1"} }

func newFake() *fake {
	f := &fake{vocabulary: 11, width: 6, calls: new(int)}
	rng := rand.New(rand.NewPCG(1, 1))
	f.table = make([]float32, f.vocabulary*f.width)
	for i := range f.table {
		f.table[i] = float32(rng.NormFloat64())
	}
	return f
}

// with returns a copy with its own call counter and another change.
func (f *fake) with(change func(call int, out architectures.Outputs) (architectures.Outputs, error)) *fake {
	c := *f
	c.change, c.calls = change, new(int)
	return &c
}

func (f *fake) Block(string) (nn.TokenBlock, error) { return nil, nil }
func (f *fake) WithBlock(string, nn.TokenBlock) (architectures.Model, error) {
	return f, nil
}
func (f *fake) Device() nn.Device { return fakeDevice{} }

func (f *fake) Forward(ctx context.Context, in architectures.Inputs) (architectures.Outputs, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ids := in.Tensors["input_ids"]
	batch, length := ids.Shape()[0], ids.Shape()[1]
	if f.batches != nil {
		*f.batches = append(*f.batches, [2]int{batch, length})
	}
	hidden := make([]float32, 0, batch*length*f.width)
	var experts []int64
	var logits []float32
	for b := range batch {
		sum := make([]float32, f.width) // running mean: later positions depend on earlier ones
		for t := range length {
			id := int(ids.Int64s()[b*length+t])
			e := f.table[id*f.width : (id+1)*f.width]
			for i, v := range e {
				sum[i] = 0.5*sum[i] + v
			}
			hidden = append(hidden, sum...)
			expert := int64(0)
			if sum[0] > sum[1] {
				expert = 1
			}
			experts = append(experts, expert)
			for v := range f.vocabulary {
				var dot float32
				for i, x := range f.table[v*f.width : (v+1)*f.width] {
					dot += x * sum[i]
				}
				logits = append(logits, dot*float32(1+expert))
			}
		}
	}
	l, err := tensor.FromFloat32s(logits, batch, length, f.vocabulary)
	if err != nil {
		return nil, err
	}
	h, err := tensor.FromFloat32s(hidden, batch, length, f.width)
	if err != nil {
		return nil, err
	}
	x, err := tensor.FromInt64s(experts, batch, length)
	if err != nil {
		return nil, err
	}
	out := architectures.Outputs{{Name: "logits", Tensor: l}, {Name: "hidden_states.0", Tensor: h}, {Name: "experts", Tensor: x}}
	*f.calls++
	if f.change != nil {
		return f.change(*f.calls, out)
	}
	return out, nil
}

func inputs(t testing.TB, rows ...[]int) architectures.Inputs {
	t.Helper()
	in, err := architectures.TokenInputs(rows...)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

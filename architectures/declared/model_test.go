package declared

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// hostWeights makes random weights for parameters and counts what is asked for.
type hostWeights struct {
	tensors map[string]*tensor.Tensor
	asked   map[string]int
}

func randomWeights(t testing.TB, b *Blueprint, seed uint64) *hostWeights {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0x6465636c61726564))
	w := &hostWeights{map[string]*tensor.Tensor{}, map[string]int{}}
	for _, p := range b.Params() {
		x, err := tensor.New(tensor.F32, p.Shape...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range x.Float32s() {
			x.Float32s()[i] = float32(rng.NormFloat64())
		}
		w.tensors[p.Name] = x
	}
	return w
}

func (w *hostWeights) Tensor(name string) (*tensor.Tensor, error) {
	w.asked[name]++
	if t := w.tensors[name]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("no tensor %q", name)
}

func buildSmall(t testing.TB) (*Blueprint, *Model, *hostWeights) {
	t.Helper()
	b, err := Parse([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	dev, err := nn.OpenCPU(nn.CPUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	w := randomWeights(t, b, 1)
	m, err := b.Build(dev, w, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b, m.(*Model), w
}

func inputs(t testing.TB, ids, mask [][]int) architectures.Inputs {
	t.Helper()
	in, err := architectures.TokenInputs(ids...)
	if err != nil {
		t.Fatal(err)
	}
	in.Flags = map[string]bool{flagHidden: true, flagAttentions: true}
	if mask != nil {
		if in.Tensors[inputMask], err = architectures.IDTensor(mask); err != nil {
			t.Fatal(err)
		}
	}
	return in
}

func TestForwardOutputs(t *testing.T) {
	_, m, w := buildSmall(t)
	for name, n := range w.asked {
		if n != 1 {
			t.Errorf("%s was read %d times", name, n)
		}
	}
	out, err := m.Forward(context.Background(), inputs(t, [][]int{{1, 2, 3}, {4, 5, 6}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, o := range out {
		have = append(have, o.Name+o.Tensor.Shape().String())
	}
	want := "pooled[2,8] router[2,3,4] hidden[2,3,8] " +
		"hidden_states.tokens.q[2,3,8] hidden_states.tokens.kv[2,3,8] hidden_states.tokens.raw[2,3,8] " +
		"hidden_states.placed[2,3,8] hidden_states.turned[2,3,8] hidden_states.k[2,3,4] hidden_states.v[2,3,4] " +
		"hidden_states.mixed[2,3,8] hidden_states.sum[2,3,8] hidden_states.stack.0[2,3,8] " +
		"hidden_states.last[2,8] hidden_states.mean[2,8] attentions.0[2,2,3,3]"
	if got := strings.Join(have, " "); got != want {
		t.Errorf("outputs\n%s, expected\n%s", got, want)
	}
}

// Padding decides which rows are pooled, by the mask.
func TestPool(t *testing.T) {
	c := &call{batch: 3, length: 3, mask: []bool{true, true, false, false, true, true, false, false, false}}
	x, err := tensor.FromFloat32s([]float32{1, 2, 3, 4, 5, 6, 7, 8, 9}, 9, 1)
	if err != nil {
		t.Fatal(err)
	}
	for how, want := range map[string][]float32{
		poolFirst: {1, 4, 7}, poolLast: {2, 6, 9}, poolMean: {1.5, 5.5, 0},
	} {
		got, err := c.pool(x, how)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Float32s(), want) {
			t.Errorf("%s: %v, expected %v", how, got.Float32s(), want)
		}
	}
	c.mask = nil
	if got, err := c.pool(x, poolMean); err != nil || !slices.Equal(got.Float32s(), []float32{2, 5, 8}) {
		t.Errorf("without a mask: %v, %v", got, err)
	}
}

// A pass that goes on in new sessions gives the same bits.
func TestSessionsDoNotMatter(t *testing.T) {
	_, m, _ := buildSmall(t)
	in := inputs(t, [][]int{{1, 2, 3, 9}, {4, 5, 6, 10}}, [][]int{{1, 1, 1, 1}, {1, 1, 0, 0}})
	want, err := m.Forward(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, bytes := range []float64{0, 1000, 3000} {
		view := *m
		view.sessionBytes = bytes
		got, err := view.Forward(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range got {
			if o.Name != want[i].Name || !tensor.BitEqual(o.Tensor, want[i].Tensor) {
				t.Errorf("sessions of %g bytes: %s differs", bytes, o.Name)
			}
		}
	}
}

// copied is a block in the place of its source that computes the same.
type copied struct{ nn.TokenBlock }

func TestWithBlock(t *testing.T) {
	b, m, w := buildSmall(t)
	source, err := m.Block("tokens")
	if err != nil {
		t.Fatal(err)
	}
	other, err := m.WithBlock("tokens", copied{source})
	if err != nil {
		t.Fatal(err)
	}
	// A build with the block does not read what the block alone reads.
	clear(w.asked)
	third, err := b.Build(m.Device(), w, map[string]nn.TokenBlock{"tokens": copied{source}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{"emb"}, b.Blocks()[0].Removes...) {
		if w.asked[name] != 0 {
			t.Errorf("%s was read", name)
		}
	}
	in := inputs(t, [][]int{{0, 10, 3}}, nil)
	want, err := m.Forward(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []architectures.Model{other, third} {
		got, err := x.Forward(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if !tensor.BitEqual(got[i].Tensor, want[i].Tensor) {
				t.Errorf("%s differs", got[i].Name)
			}
		}
	}
	f := source.(*nn.Fanout)
	short := *f
	short.Residual = ""
	for name, block := range map[string]nn.TokenBlock{"nil": nil, "without the residual": &short} {
		if _, err := m.WithBlock("tokens", block); !errors.Is(err, ErrBlock) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := m.Block("other"); !errors.Is(err, ErrBlock) {
		t.Error(err)
	}
	if _, err := b.Build(m.Device(), w, map[string]nn.TokenBlock{"other": source}); !errors.Is(err, ErrBlock) {
		t.Error(err)
	}
}

func TestInputsRefused(t *testing.T) {
	_, m, _ := buildSmall(t)
	good := inputs(t, [][]int{{1, 2}}, nil)
	change := func(f func(in *architectures.Inputs)) architectures.Inputs {
		in := inputs(t, [][]int{{1, 2}}, nil)
		f(&in)
		return in
	}
	set := func(name string, rows [][]int) architectures.Inputs {
		return change(func(in *architectures.Inputs) {
			x, err := architectures.IDTensor(rows)
			if err != nil {
				t.Fatal(err)
			}
			in.Tensors[name] = x
		})
	}
	if _, err := m.Forward(context.Background(), good); err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]architectures.Inputs{
		"no ids":            {},
		"another input":     set("inputs_embeds", [][]int{{1, 2}}),
		"another flag":      change(func(in *architectures.Inputs) { in.Flags["use_cache"] = true }),
		"id too large":      set(inputIDs, [][]int{{1, 11}}),
		"negative id":       set(inputIDs, [][]int{{1, -1}}),
		"too long":          set(inputIDs, [][]int{make([]int, 17)}),
		"mask of two":       set(inputMask, [][]int{{1, 2}}),
		"mask too short":    set(inputMask, [][]int{{1}}),
		"position too high": set(inputPositions, [][]int{{0, 16}}),
		"float ids": change(func(in *architectures.Inputs) {
			x, err := tensor.New(tensor.F32, 1, 2)
			if err != nil {
				t.Fatal(err)
			}
			in.Tensors[inputIDs] = x
		}),
	} {
		if _, err := m.Forward(context.Background(), in); !errors.Is(err, ErrInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := m.Forward(ctx, good); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestBuildRefusesWeights(t *testing.T) {
	b, m, w := buildSmall(t)
	for name, x := range map[string]*tensor.Tensor{"missing": nil, "shape": mustNew(t, tensor.F32, 8, 7), "dtype": mustNew(t, tensor.F64, 8, 8)} {
		w.tensors["q.w"] = x
		if _, err := b.Build(m.Device(), w, nil); err == nil || !strings.Contains(err.Error(), "q.w") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func mustNew(t testing.TB, d tensor.DType, shape ...int) *tensor.Tensor {
	t.Helper()
	x, err := tensor.New(d, shape...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

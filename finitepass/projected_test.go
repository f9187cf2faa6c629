package finitepass_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/tensor"
)

// rawAndNormalised is a block that projects embedding rows as they are and
// L2-normalised, by one linear map. Row 0 is zero and row 1 tiny, so that the
// floor of the norm counts.
func rawAndNormalised(t testing.TB, dev nn.Device, tokens, width, out int, bias bool) *fixture {
	m := newMaker(t, dev, 15, tensor.F32)
	rows := m.embedding("embed", tokens, width)
	embed := m.f.weights["embed"].Float32s()
	for k := range width {
		embed[k] = 0
		embed[width+k] *= 1e-14
	}
	m.f.spec.Removes = append(m.f.spec.Removes, "embed")
	l := m.linear("w", width, out, bias)
	return m.finish(&nn.Fanout{
		Embedding: m.upload(rows), EmbeddingSource: rows, EmbeddingName: "embed",
		Branches: []nn.Branch{
			{Name: "raw", Layers: []nn.RowLocal{l}},
			{Name: "normalised", Layers: []nn.RowLocal{nn.RowNormalize{Eps: 1e-12}, l}},
		},
	})
}

// FL-7, EC-3: one table and one norm per token serve both branches.
func TestProjected(t *testing.T) {
	for _, bias := range []bool{true, false} {
		dev := openCPU(t, "")
		f := rawAndNormalised(t, dev, 23, 64, 9, bias)
		o := f.optionsFor(t)
		o.RequireBitwise, o.Projected = false, true
		l, r := mustCompile(t, f, o)
		want := int64(23 * (9 + 1))
		if bias {
			want += 9
		}
		if r.Account.After.Values != want || r.Account.After.ResidentBytes != 4*want {
			t.Errorf("%+v, expected %d values", r.Account, want)
		}
		raw, normalised := r.Comparison.Outputs[0], r.Comparison.Outputs[1]
		if !raw.Bitwise || normalised.Bitwise || normalised.MaxAbs > 1e-5 || r.Comparison.Tokens != 23 {
			t.Errorf("%+v", r.Comparison)
		}
		// Zero has the norm's floor: what is left is the bias.
		x, err := forward(t, dev, l, 0)
		if err != nil {
			t.Fatal(err)
		}
		if bias && !tensor.BitEqual(x[0], x[1]) || math.IsNaN(float64(x[1].Float32s()[0])) {
			t.Errorf("%v and %v", x[0].Float32s(), x[1].Float32s())
		}
		equalOn(t, dev, firstOutput{f.source}, firstOutput{l}, 0, 1, 22, 5)
		s := stateOf(l)
		back, err := finitepass.Open(l.Recipe(), s.get, nil, dev)
		if err != nil || back.Digest() != l.Digest() {
			t.Fatalf("%v", err)
		}
		equalOn(t, dev, l, back, 3, 0, 1)
		// Stored norms must be something to divide by.
		for _, v := range []float32{0, -1, float32(math.NaN()), float32(math.Inf(1))} {
			norms := s.tensors["tables.projection.norms"].Clone()
			norms.Float32s()[7] = v
			damaged := stateOf(l)
			damaged.tensors["tables.projection.norms"] = norms
			if _, err := finitepass.Open(l.Recipe(), damaged.get, nil, dev); !errors.Is(err, finitepass.ErrRecipe) {
				t.Errorf("norm %g: %v", v, err)
			}
		}
		// Byte for byte it is not the source, so a bitwise gate refuses it.
		o.RequireBitwise = true
		if _, r := compile(t, f, o); r.Status != finitepass.Refused || !strings.Contains(r.Reason, `"normalised"`) {
			t.Errorf("%s: %s", r.Status, r.Reason)
		}
	}
}

// firstOutput shows the first output of a block alone.
type firstOutput struct{ nn.TokenBlock }

func (b firstOutput) Forward(s nn.Session, ids []int) []nn.Array {
	return b.TokenBlock.Forward(s, ids)[:1]
}

// FL-10, FR-3: no saving; a table that misses the limits; forms that do not fit.
func TestProjectedRefused(t *testing.T) {
	dev := openCPU(t, "")
	f := rawAndNormalised(t, dev, 100, 2, 20, true)
	o := f.optionsFor(t)
	o.RequireBitwise, o.Projected = false, true
	if _, r := compile(t, f, o); r.Status != finitepass.Refused || !strings.Contains(r.Reason, "no storage saving") || r.Account == nil {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
	// Values of a million: rounding alone is more than 1e-5.
	f = rawAndNormalised(t, dev, 23, 64, 9, true)
	for i, v := range f.weights["embed"].Float32s() {
		f.weights["embed"].Float32s()[i] = 1e6 * v
	}
	w := f.weights["w.weight"].Float32s()
	for i, v := range w {
		w[i] = 1e4 * v
	}
	linear, err := nn.NewLinear(dev, f.weights.Tensor, "w.weight", "w.bias")
	if err != nil {
		t.Fatal(err)
	}
	f.source.Branches[0].Layers[0], f.source.Branches[1].Layers[1] = linear, linear
	o = f.optionsFor(t)
	o.RequireBitwise, o.Projected = false, true
	if _, r := compile(t, f, o); r.Status != finitepass.Refused || !strings.Contains(r.Reason, "full-domain comparison") {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
	// Two maps that are not the same one are compiled as two tables.
	f = rawAndNormalised(t, dev, 23, 64, 9, true)
	other, err := nn.NewLinear(dev, f.weights.Tensor, "w.weight", "w.bias")
	if err != nil {
		t.Fatal(err)
	}
	f.source.Branches[1].Layers[1] = other
	o = f.optionsFor(t)
	o.Projected = true
	_, r := mustCompile(t, f, o)
	if r.Account.After.Values != 2*23*9 || !r.Comparison.Bitwise {
		t.Errorf("%+v", r.Account)
	}
	// Profiles make no sense for it.
	f = rawAndNormalised(t, dev, 23, 64, 9, true)
	o = f.optionsFor(t, singleton...)
	o.Projected, o.RequireBitwise = true, false
	if _, r := compile(t, f, o); r.Status != finitepass.Refused || !strings.Contains(r.Reason, "profiles") {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
}

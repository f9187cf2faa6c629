package finitepass_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// widen turns BF16 rows into F32 on the simulated device, since its linear maps
// take F32 alone.
type widen struct{ in int }

func (w widen) Forward(s nn.Session, x nn.Array) nn.Array {
	if s.Err() != nil {
		return x
	}
	in := x.(fakeArray).t
	out, err := tensor.New(tensor.F32, in.Shape()...)
	if err != nil {
		panic(err)
	}
	for i, h := range in.Uint16s() {
		out.Float32s()[i] = math.Float32frombits(uint32(h) << 16)
	}
	return fakeArray{out}
}
func (w widen) OutWidth(in int) (int, error) { return in, nil }
func (w widen) ParamNames() []string         { return nil }
func (w widen) Describe() string             { return "widen" }

// FF-3: an embedding in half precision stays the model's own, and the residual
// keeps its type.
func TestHalfEmbedding(t *testing.T) {
	f := newFixture(t, &fakeDevice{}, base())
	full := f.weights["embed"]
	half, err := tensor.New(tensor.BF16, 7, 24)
	if err != nil {
		t.Fatal(err)
	}
	for i, bits := range full.Uint32s() {
		half.Uint16s()[i] = uint16(bits >> 16)
	}
	f.weights["embed"] = half
	rows, err := nn.TensorRows(half)
	if err != nil {
		t.Fatal(err)
	}
	f.source.Embedding, f.source.EmbeddingSource = rows, rows
	f.source.Prefix = append([]nn.RowLocal{widen{24}}, f.source.Prefix...)
	l, r := mustCompile(t, f, f.options(t))
	if e := l.Recipe().Embedding; e == nil || e.DType != tensor.BF16 || l.Outputs()[3].DType != tensor.BF16 {
		t.Errorf("embedding %+v", e)
	}
	if r.Account.Before.ResidentBytes != 2*7*24+4*(24+3*24*24) {
		t.Errorf("%+v", r.Account.Before)
	}
	equalOn(t, f.dev, f.source, l, 6, 0, 6)
}

// The wide table of a token encoder: the embedding itself goes when nothing else
// reads it.
func TestEmbeddingRemoved(t *testing.T) {
	f := newFixture(t, &fakeDevice{}, shape{tokens: 50, width: 40, branches: []int{10}, noResidual: true, seed: 4})
	f.spec.Removes = append(f.spec.Removes, "embed")
	l, r := mustCompile(t, f, f.options(t))
	if r.Account.After.Values != 50*10 || r.Account.ValuesSaved != 50*40+40+400-500 || l.Recipe().Embedding != nil {
		t.Errorf("%+v", r.Account)
	}
	equalOn(t, f.dev, f.source, l, 49, 0)
	// It opens without an embedding.
	if _, err := finitepass.Open(l.Recipe(), stateOf(l).get, nil, f.dev); err != nil {
		t.Error(err)
	}
	// A tied head keeps it.
	f.params = append(f.params, loader.Param{Name: "head", Shape: tensor.Shape{50, 40}, DTypes: []tensor.DType{tensor.F32}, TiedTo: "embed"})
	f.weights["head"] = f.weights["embed"]
	if _, r := compile(t, f, f.options(t)); r.Status != finitepass.Refused || !strings.Contains(r.Reason, "head") {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
}

// opaque hides the form of a block.
type opaque struct{ nn.TokenBlock }

// FF-7, FF-8: a block of another form is evaluated through its outputs alone;
// what it does not declare is refused.
func TestOpaqueSource(t *testing.T) {
	f := newFixture(t, &fakeDevice{}, shape{tokens: 7, width: 24, branches: []int{24, 24}, noResidual: true})
	l, r, err := finitepass.CompileFanout(t.Context(), f.dev, f.spec, opaque{f.source}, f.options(t))
	if err != nil || l == nil {
		t.Fatalf("%v, %+v", err, r)
	}
	equalOn(t, f.dev, f.source, l, 1, 2, 3)
	f = newFixture(t, &fakeDevice{}, base())
	_, r, err = finitepass.CompileFanout(t.Context(), f.dev, f.spec, opaque{f.source}, f.options(t))
	if err != nil || r.Status != finitepass.Refused || !strings.Contains(r.Reason, "4 outputs, declared 3") {
		t.Errorf("%v, %+v", err, r)
	}
}

// liar returns other results than it declares.
type liar struct {
	nn.TokenBlock
	change func(s nn.Session, out []nn.Array) []nn.Array
}

func (l liar) Forward(s nn.Session, ids []int) []nn.Array {
	return l.change(s, l.TokenBlock.Forward(s, ids))
}

func TestLyingSource(t *testing.T) {
	for name, change := range map[string]func(s nn.Session, out []nn.Array) []nn.Array{
		"an output short": func(_ nn.Session, out []nn.Array) []nn.Array { return out[:1] },
		"narrower":        func(s nn.Session, out []nn.Array) []nn.Array { out[1] = s.Columns(out[1], 0, 3); return out },
	} {
		f := newFixture(t, &fakeDevice{}, shape{tokens: 7, width: 24, branches: []int{24, 24}, noResidual: true})
		_, r, err := finitepass.CompileFanout(t.Context(), f.dev, f.spec, liar{f.source, change}, f.options(t))
		if err != nil || r.Status != finitepass.Refused {
			t.Errorf("%s: %v, %+v", name, err, r)
		}
	}
}

// Compare stands alone, and refuses blocks that cannot be compared.
func TestCompareRefuses(t *testing.T) {
	f := newFixture(t, &fakeDevice{}, base())
	l, _ := mustCompile(t, f, f.options(t, twoProfiles...))
	if p := l.Profiles(); !slices.Equal(p, twoProfiles) {
		t.Errorf("profiles %v", p)
	}
	for name, other := range map[string]shape{
		"tokens":  {tokens: 8, width: 24, branches: []int{24, 24, 24}},
		"outputs": {tokens: 7, width: 24, branches: []int{24, 24, 23}},
	} {
		o := newFixture(t, f.dev, other)
		if _, err := finitepass.Compare(t.Context(), f.dev, o.source, l, f.options(t)); err == nil {
			t.Errorf("%s: compared", name)
		}
	}
	c, err := finitepass.Compare(t.Context(), f.dev, f.source, l, f.options(t, twoProfiles...))
	if err != nil || !c.Bitwise {
		t.Fatalf("%v, %+v", err, c)
	}
	names := []string{"whole", "chunks", "reversed", "repeated", "strided", "single", "identical", "mixed", "covering", "empty"}
	var have []string
	calls := 0
	for _, l := range c.Layouts {
		have = append(have, l.Name)
		calls += l.Calls
	}
	if !slices.Equal(have, names) || calls != c.Calls || c.RowCounts[0] != 0 {
		t.Errorf("layouts %+v of %d calls, rows %v", c.Layouts, c.Calls, c.RowCounts)
	}
}

// Every token is compared at every row count where bits may change, and damage
// to any one row of any route is seen.
func TestCompareSeesEveryRow(t *testing.T) {
	f := newFixture(t, &fakeDevice{kernel: rounding}, shape{tokens: 13, width: 64, branches: []int{64, 40}, seed: 12})
	o := f.options(t, twoProfiles...)
	o.NoXOR, o.RequireBitwise = true, true
	l, r := mustCompile(t, f, o)
	if len(r.Tables) != 3 {
		t.Fatalf("%d tables", len(r.Tables))
	}
	for _, s := range l.Tensors() {
		width := len(s.Tensor.Bytes()) / 13
		for row := range 13 {
			bad, err := l.WithFlippedBit(s.Name, row*width+(row*37)%width, uint(row%8))
			if err != nil {
				t.Fatal(err)
			}
			c, err := finitepass.Compare(t.Context(), f.dev, f.source, bad, o)
			if err != nil {
				t.Fatal(err)
			}
			if c.Accepted || c.Bitwise || !strings.Contains(c.Failure, fmt.Sprintf("token %d", row)) {
				t.Fatalf("%s, token %d: %+v", s.Name, row, c)
			}
		}
	}
}

func ExamplePlanBlock() {
	params := []loader.Param{
		{Name: "model.embed_tokens.weight", Shape: tensor.Shape{84, 512}, DTypes: []tensor.DType{tensor.F32}},
		{Name: "norm", Shape: tensor.Shape{512}, DTypes: []tensor.DType{tensor.F32}},
		{Name: "q", Shape: tensor.Shape{512, 512}, DTypes: []tensor.DType{tensor.F32}},
		{Name: "k", Shape: tensor.Shape{512, 512}, DTypes: []tensor.DType{tensor.F32}},
		{Name: "v", Shape: tensor.Shape{512, 512}, DTypes: []tensor.DType{tensor.F32}},
	}
	inventory, err := finitepass.PlannedInventory(params, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	spec := architectures.BlockSpec{
		Path: "model.layers.0.qkv", Contract: architectures.TokenIndicesOnly,
		NumTokens: 84, EmbeddingWidth: 512, Embedding: "model.embed_tokens.weight",
		Removes: []string{"norm", "q", "k", "v"},
		Outputs: []nn.Output{{Name: "q", Width: 512, DType: tensor.F32}, {Name: "k", Width: 512, DType: tensor.F32}, {Name: "v", Width: 512, DType: tensor.F32}},
	}
	for _, profiles := range []int{0, 1} {
		plan := finitepass.PlanBlock(spec, inventory, profiles)
		fmt.Println(plan.ValuesSaved, "values:", plan.Arithmetic)
	}
	// Output:
	// 657920 values: 84 tokens × (512 + 512 + 512) columns = 129,024 values, 516,096 bytes per table; removes 786,944 values, 3,147,776 bytes; 1 full table: would save 2,631,680 bytes
	// 528896 values: 84 tokens × (512 + 512 + 512) columns = 129,024 values, 516,096 bytes per table; removes 786,944 values, 3,147,776 bytes; 2 full tables: would save 2,115,584 bytes
}

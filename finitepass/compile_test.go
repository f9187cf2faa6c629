package finitepass_test

import (
	"bytes"
	"context"
	"errors"
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

var singleton = []finitepass.Profile{{MaxRows: 1, EvaluationRows: 1}}
var twoProfiles = []finitepass.Profile{{MaxRows: 1, EvaluationRows: 1}, {MaxRows: 15, EvaluationRows: 2}}

func (f *fixture) options(t testing.TB, profiles ...finitepass.Profile) finitepass.Options {
	t.Helper()
	inv, err := finitepass.NewInventory(f.params, f.weights)
	if err != nil {
		t.Fatal(err)
	}
	return finitepass.Options{
		Contract: architectures.TokenIndicesOnly, Inventory: inv, Profiles: profiles,
		ChunkRows: 3, ValidationChunk: 2,
	}
}

func compile(t testing.TB, f *fixture, o finitepass.Options) (*finitepass.Lookup, *finitepass.BlockReport) {
	t.Helper()
	l, r, err := finitepass.CompileFanout(context.Background(), f.dev, f.spec, f.source, o)
	if err != nil {
		t.Fatal(err)
	}
	if (l == nil) != (r.Status == finitepass.Refused) {
		t.Fatalf("lookup %v with status %s", l, r.Status)
	}
	return l, r
}

func mustCompile(t testing.TB, f *fixture, o finitepass.Options) (*finitepass.Lookup, *finitepass.BlockReport) {
	t.Helper()
	l, r := compile(t, f, o)
	if l == nil {
		t.Fatalf("refused: %s", r.Reason)
	}
	return l, r
}

func forward(t testing.TB, dev nn.Device, b nn.TokenBlock, ids ...int) ([]*tensor.Tensor, error) {
	t.Helper()
	s := dev.Begin(context.Background())
	defer s.Close()
	arrays := b.Forward(s, ids)
	out := make([]*tensor.Tensor, len(arrays))
	for i, a := range arrays {
		out[i] = s.ToHost(a)
	}
	return out, s.Err()
}

func equalOn(t testing.TB, dev nn.Device, a, b nn.TokenBlock, ids ...int) {
	t.Helper()
	x, err := forward(t, dev, a, ids...)
	if err != nil {
		t.Fatal(err)
	}
	y, err := forward(t, dev, b, ids...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range x {
		if !tensor.BitEqual(x[i], y[i]) {
			t.Errorf("output %d differs for ids %v", i, ids)
		}
	}
}

// FF-1: accepted; stored values 7·24·3 (the residual is the model's own
// embedding); one table; the residual bitwise; order q, k, v, residual.
func TestFanout(t *testing.T) {
	f := newFixture(t, &fakeDevice{}, base())
	l, r := mustCompile(t, f, f.options(t))
	if r.Status != finitepass.Compiled || !r.Comparison.Bitwise || !r.Describes(l) {
		t.Errorf("report %+v", r)
	}
	if len(r.Tables) != 1 || r.Tables[0].Width != 72 || r.UniqueTables != 3 || r.ConstantTables != 0 {
		t.Errorf("tables %+v", r.Tables)
	}
	removed := int64(24 + 3*24*24)
	embedding := int64(7 * 24)
	want := finitepass.Amount{Values: embedding + removed, LogicalBytes: 4 * (embedding + removed), ResidentBytes: 4 * (embedding + removed)}
	if r.Account.Before != want {
		t.Errorf("before %+v, expected %+v", r.Account.Before, want)
	}
	after := embedding + 7*24*3
	if r.Account.After != (finitepass.Amount{Values: after, LogicalBytes: 4 * after, ResidentBytes: 4 * after}) {
		t.Errorf("after %+v", r.Account.After)
	}
	if r.Account.ValuesSaved != removed-7*24*3 || r.Account.BytesSaved != 4*r.Account.ValuesSaved {
		t.Errorf("saved %+v", r.Account)
	}
	var names []string
	for _, o := range l.Outputs() {
		names = append(names, o.Name)
	}
	if !slices.Equal(names, []string{"q", "k", "v", "residual"}) {
		t.Errorf("outputs %v", names)
	}
	for _, ids := range [][]int{{}, {0}, {6, 6}, {0, 1, 2, 3, 4, 5, 6}, {6, 5, 4, 3, 2, 1, 0, 0, 0, 6, 6, 1, 2}} {
		equalOn(t, f.dev, f.source, l, ids...)
	}
	for _, id := range []int{-1, 7, 1 << 30} {
		if _, err := forward(t, f.dev, l, 0, id); err == nil {
			t.Errorf("id %d accepted", id)
		}
	}
	// The tables share nothing with the source.
	before := l.Tensors()[0].Tensor.Clone()
	for _, w := range f.weights {
		clear(w.Bytes())
	}
	if !tensor.BitEqual(before, l.Tensors()[0].Tensor) {
		t.Error("the lookup changed with the source")
	}
}

// FF-4: a branch whose tensor is the same storage as another's counts once, and
// equal tables are stored once.
func TestEqualBranches(t *testing.T) {
	f := newFixture(t, &fakeDevice{}, shape{tokens: 7, width: 24, branches: []int{24, 24}, seed: 3})
	f.weights["k"] = f.weights["q"]
	f.source.Branches[1].Layers = f.source.Branches[0].Layers
	l, r := mustCompile(t, f, f.options(t))
	if r.Account.Before.ResidentBytes != 4*(7*24+24+24*24) || r.Account.Before.LogicalBytes != 4*(7*24+24+2*24*24) {
		t.Errorf("before %+v", r.Account.Before)
	}
	if r.UniqueTables != 1 || r.Tables[0].Width != 24 {
		t.Errorf("tables %+v", r.Tables)
	}
	x, err := forward(t, f.dev, l, 3)
	if err != nil {
		t.Fatal(err)
	}
	if !tensor.BitEqual(x[0], x[1]) {
		t.Error("q and k differ")
	}
	x[0].Float32s()[0]++
	if tensor.BitEqual(x[0], x[1]) {
		t.Error("outputs share storage")
	}
}

// FF-5: an identity branch is the embedding and a zeroed branch one row.
func TestConstantAndIdentity(t *testing.T) {
	f := newFixture(t, &fakeDevice{}, shape{tokens: 9, width: 32, branches: []int{32, 32}, seed: 4})
	f.source.Prefix = nil
	f.source.Branches[0].Layers = nil
	clear(f.weights["k"].Bytes())
	f.spec.Removes = []string{"q", "k"}
	l, r := mustCompile(t, f, f.options(t))
	if r.UniqueTables != 1 || r.ConstantTables != 1 || len(r.Tables) != 1 || r.Tables[0].Rows != 1 {
		t.Errorf("tables %+v", r.Tables)
	}
	if got := r.Account.After.Values; got != 9*32+32 {
		t.Errorf("%d values stored, the embedding included", got)
	}
	equalOn(t, f.dev, f.source, l, 8, 0, 3)
	if _, err := forward(t, f.dev, l, 9); err == nil {
		t.Error("id 9 accepted")
	}
}

// A block of constants alone still refuses ids outside the domain.
func TestConstantOnlyChecksIDs(t *testing.T) {
	f := newFixture(t, &fakeDevice{}, shape{tokens: 5, width: 16, branches: []int{8}, noResidual: true})
	clear(f.weights["q"].Bytes())
	l, _ := mustCompile(t, f, f.options(t))
	equalOn(t, f.dev, f.source, l, 4, 1)
	for _, id := range []int{5, -1} {
		if _, err := forward(t, f.dev, l, id); err == nil {
			t.Errorf("id %d accepted", id)
		}
	}
}

// FF-6, FB-3, FB-8, FBF-3: another owner of a tensor that would go.
func TestExternalConsumer(t *testing.T) {
	for name, alias := range map[string]func(f *fixture){
		"same storage": func(f *fixture) { f.weights["outside"] = f.weights["q"] },
		"view of rows": func(f *fixture) {
			q := f.weights["q"]
			part, err := tensor.FromBytes(tensor.F32, tensor.Shape{2, 24}, q.Bytes()[96:96+192])
			if err != nil {
				t.Fatal(err)
			}
			f.weights["outside"] = part
		},
		"declared tie": func(f *fixture) {
			f.weights["outside"] = f.weights["q"].Clone()
			f.params[len(f.params)-1].TiedTo = "q"
		},
		"tied the other way": func(f *fixture) {
			f.weights["outside"] = f.weights["q"].Clone()
			for i := range f.params {
				if f.params[i].Name == "q" {
					f.params[i].TiedTo = "outside"
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, &fakeDevice{}, base())
			f.params = append(f.params, loader.Param{Name: "outside", Shape: tensor.Shape{24, 24}, DTypes: []tensor.DType{tensor.F32}})
			alias(f)
			_, r := compile(t, f, f.options(t))
			if r.Status != finitepass.Refused || !strings.Contains(r.Reason, "external") || !strings.Contains(r.Reason, "outside") {
				t.Errorf("%s: %s", r.Status, r.Reason)
			}
		})
	}
}

// FF-10 and friends: a block that is not what was declared.
func TestBlockMismatch(t *testing.T) {
	for name, change := range map[string]func(f *fixture){
		"norm of another width": func(f *fixture) {
			w, _ := f.dev.Upload(f.weights["norm"], nn.AsVector)
			f.source.Prefix = append(f.source.Prefix, rmsNorm{"x", fakeArray{w.(fakeArray).t}})
			short, _ := tensor.New(tensor.F32, 23)
			f.source.Prefix[1] = rmsNorm{"x", fakeArray{short}}
		},
		"more tokens declared":  func(f *fixture) { f.spec.NumTokens = 8 },
		"fewer tokens declared": func(f *fixture) { f.spec.NumTokens = 6 },
		"another embedding":     func(f *fixture) { f.source.EmbeddingName = "other" },
		"another width":         func(f *fixture) { f.spec.EmbeddingWidth = 23 },
		"another output":        func(f *fixture) { f.spec.Outputs[1].Name = "z" },
		"narrower output":       func(f *fixture) { f.spec.Outputs[1].Width = 23 },
		"half output":           func(f *fixture) { f.spec.Outputs[1].DType = tensor.F16 },
		"integer output":        func(f *fixture) { f.spec.Outputs[1].DType = tensor.I32 },
		"missing output":        func(f *fixture) { f.spec.Outputs = f.spec.Outputs[:2] },
		"no outputs":            func(f *fixture) { f.spec.Outputs = nil },
		"output twice":          func(f *fixture) { f.source.Branches[1].Name = "q" },
		"unknown tensor":        func(f *fixture) { f.spec.Removes[0] = "absent" },
		"tensor twice":          func(f *fixture) { f.spec.Removes = append(f.spec.Removes, "q") },
		"residual of removed":   func(f *fixture) { f.spec.Removes = append(f.spec.Removes, "embed") },
		"architecture refuses":  func(f *fixture) { f.spec.Refusal = "rotary before the table" },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, &fakeDevice{}, base())
			change(f)
			if _, r := compile(t, f, f.options(t)); r.Status != finitepass.Refused || r.Reason == "" {
				t.Errorf("%s: %s", r.Status, r.Reason)
			}
		})
	}
}

// FF-11, FL-3: refused by arithmetic, before the source is called.
func TestNoSaving(t *testing.T) {
	dev := &fakeDevice{fail: func() error { return errors.New("called") }}
	f := newFixture(t, dev, shape{tokens: 100, width: 4, branches: []int{16}})
	_, r := compile(t, f, f.options(t))
	if r.Status != finitepass.Refused || !strings.Contains(r.Reason, "no storage saving") || r.Account != nil {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
	// The same block measured: refused by counted bytes.
	f.dev.(*fakeDevice).fail = nil
	o := f.options(t)
	o.IgnorePlan = true
	if _, r = compile(t, f, o); r.Status != finitepass.Refused || !strings.Contains(r.Reason, "no storage saving") || r.Account == nil {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
	// A constant output pays although the plan says no.
	clear(f.weights["q"].Bytes())
	if l, r := compile(t, f, o); l != nil {
		t.Errorf("16 values and a recipe against 68: %+v", r.Account)
	}
	f = newFixture(t, dev, shape{tokens: 300, width: 40, branches: []int{40}})
	clear(f.weights["q"].Bytes())
	o = f.options(t)
	o.IgnorePlan = true
	if l, r := compile(t, f, o); l == nil || r.ConstantTables != 1 {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
}

// FF-17: fewer values in a table that is logically larger is no saving.
func TestLogicalAndResident(t *testing.T) {
	f := newFixture(t, &fakeDevice{}, base())
	// q, k, v and norm share one storage: logically 4 tensors, resident one.
	for _, name := range []string{"k", "v"} {
		f.weights[name] = f.weights["q"]
	}
	inv, err := finitepass.NewInventory(f.params, f.weights)
	if err != nil {
		t.Fatal(err)
	}
	a, err := inv.Of([]string{"q", "k", "v"})
	if err != nil {
		t.Fatal(err)
	}
	if a != (finitepass.Amount{Values: 576, LogicalBytes: 3 * 4 * 576, ResidentBytes: 4 * 576}) {
		t.Errorf("%+v", a)
	}
	// 7·24·3 full values against 600 resident: saves; with 9 tokens it does not.
	f = newFixture(t, &fakeDevice{}, shape{tokens: 9, width: 24, branches: []int{24, 24, 24}, seed: 9})
	for _, name := range []string{"k", "v"} {
		f.weights[name] = f.weights["q"]
	}
	if _, r := compile(t, f, f.options(t)); r.Status != finitepass.Refused {
		t.Errorf("accepted: %+v", r.Account)
	}
}

// FF-12: a table off by rounding passes the limits, and not bit by bit.
func TestTolerances(t *testing.T) {
	dev := &fakeDevice{kernel: func(y []float32, rows, _ int, _ bool) {
		if rows == 1 {
			for i := range y {
				y[i] = math.Nextafter32(y[i], 10)
			}
		}
	}}
	f := newFixture(t, dev, base())
	_, r := mustCompile(t, f, f.options(t))
	if r.Comparison.Bitwise || r.Comparison.Outputs[0].MaxAbs == 0 || r.Comparison.Outputs[0].Worst == "" {
		t.Errorf("%+v", r.Comparison)
	}
	if !r.Comparison.Outputs[3].Bitwise {
		t.Error("the residual differs")
	}
	o := f.options(t)
	o.RequireBitwise = true
	if _, r = compile(t, f, o); r.Status != finitepass.Refused || !strings.Contains(r.Reason, "not bitwise") {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
	o.Profiles = singleton
	mustCompile(t, f, o)
}

// An all-zero result must be met exactly, however small the difference.
func TestZeroReference(t *testing.T) {
	dev := &fakeDevice{kernel: func(y []float32, rows, _ int, _ bool) {
		if rows > 1 && len(y) == 20 {
			y[0] = 1e-24
		}
	}}
	f := newFixture(t, dev, shape{tokens: 7, width: 24, branches: []int{20, 24, 24}, seed: 1})
	clear(f.weights["q"].Bytes())
	_, r := compile(t, f, f.options(t))
	if r.Status != finitepass.Refused || !strings.Contains(r.Reason, "relative L2") {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
}

// FF-14 and option refusals: nothing is done.
func TestOptionErrors(t *testing.T) {
	dev := &fakeDevice{fail: func() error { return errors.New("called") }}
	f := newFixture(t, dev, base())
	for name, c := range map[string]struct {
		change func(o *finitepass.Options)
		want   error
	}{
		"no contract":        {func(o *finitepass.Options) { o.Contract = "" }, finitepass.ErrContract},
		"another contract":   {func(o *finitepass.Options) { o.Contract = "any_inputs" }, finitepass.ErrContract},
		"no inventory":       {func(o *finitepass.Options) { o.Inventory = nil }, finitepass.ErrOptions},
		"negative chunk":     {func(o *finitepass.Options) { o.ChunkRows = -1 }, finitepass.ErrOptions},
		"negative check":     {func(o *finitepass.Options) { o.ValidationChunk = -1 }, finitepass.ErrOptions},
		"negative limit":     {func(o *finitepass.Options) { o.MaxAbs = -1 }, finitepass.ErrOptions},
		"limit not a number": {func(o *finitepass.Options) { o.RelL2 = math.NaN() }, finitepass.ErrOptions},
		"infinite limit":     {func(o *finitepass.Options) { o.RelL2 = math.Inf(1) }, finitepass.ErrOptions},
		"base of no route":   {func(o *finitepass.Options) { o.XORBase = 1 }, finitepass.ErrOptions},
		"profiles":           {func(o *finitepass.Options) { o.Profiles = []finitepass.Profile{{2, 1}, {1, 1}} }, finitepass.ErrProfiles},
	} {
		o := f.options(t)
		c.change(&o)
		if _, _, err := finitepass.CompileFanout(context.Background(), f.dev, f.spec, f.source, o); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDeviceFailureIsAnError(t *testing.T) {
	broken := errors.New("device gave up")
	calls := 0
	dev := &fakeDevice{fail: func() error {
		if calls++; calls > 20 {
			return broken
		}
		return nil
	}}
	f := newFixture(t, dev, base())
	if _, _, err := finitepass.CompileFanout(context.Background(), dev, f.spec, f.source, f.options(t)); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f = newFixture(t, &fakeDevice{}, base())
	if _, _, err := finitepass.CompileFanout(ctx, f.dev, f.spec, f.source, f.options(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestNonFiniteTables(t *testing.T) {
	for _, at := range []int{0, 6} {
		f := newFixture(t, &fakeDevice{}, base())
		f.weights["embed"].Float32s()[at*24] = float32(math.Inf(1))
		if _, r := compile(t, f, f.options(t)); r.Status != finitepass.Refused || !strings.Contains(r.Reason, "not finite") {
			t.Errorf("%s: %s", r.Status, r.Reason)
		}
	}
}

// Damage before the local comparison is caught by it.
func TestFlippedBitIsCaught(t *testing.T) {
	f := newFixture(t, &fakeDevice{}, base())
	o := f.options(t)
	o.RequireBitwise = true
	for _, bit := range []int{0, 8*4*7*72 - 1} {
		o.Hooks.BeforeLocal = func(l *finitepass.Lookup) (*finitepass.Lookup, error) {
			return l.WithFlippedBit(l.Tensors()[0].Name, bit/8, uint(bit%8))
		}
		_, r := compile(t, f, o)
		if r.Status != finitepass.Refused || !strings.Contains(r.Reason, "full-domain") {
			t.Errorf("%s: %s", r.Status, r.Reason)
		}
	}
	o.Hooks.BeforeLocal = nil
	o.Hooks.AfterLocal = func(l *finitepass.Lookup) (*finitepass.Lookup, error) {
		return l.WithFlippedBit(l.Tensors()[0].Name, 0, 0)
	}
	l, r := mustCompile(t, f, o)
	if r.Describes(l) {
		t.Error("the report claims to describe a damaged lookup")
	}
	back, err := l.WithFlippedBit(l.Tensors()[0].Name, 0, 0)
	if err != nil || !r.Describes(back) {
		t.Errorf("the repaired lookup is another one: %v", err)
	}
	for _, bad := range []func() (*finitepass.Lookup, error){
		func() (*finitepass.Lookup, error) { return l.WithFlippedBit("absent", 0, 0) },
		func() (*finitepass.Lookup, error) { return l.WithFlippedBit(l.Tensors()[0].Name, -1, 0) },
		func() (*finitepass.Lookup, error) { return l.WithFlippedBit(l.Tensors()[0].Name, 1<<30, 0) },
		func() (*finitepass.Lookup, error) { return l.WithFlippedBit(l.Tensors()[0].Name, 0, 8) },
	} {
		if _, err := bad(); !errors.Is(err, finitepass.ErrOptions) {
			t.Errorf("%v", err)
		}
	}
}

// The same inputs give the same bytes.
func TestCompileIsReproducible(t *testing.T) {
	var first []byte
	for range 3 {
		f := newFixture(t, &fakeDevice{kernel: rounding}, shape{tokens: 20, width: 64, branches: []int{64, 30}, seed: 2})
		l, _ := mustCompile(t, f, f.options(t, twoProfiles...))
		state := append([]byte(l.Digest()), l.RecipeJSON()...)
		if first == nil {
			first = state
		} else if !bytes.Equal(first, state) {
			t.Fatal("another recipe or other tensors")
		}
	}
}

// Equal is no saving, in either count, and the recipe counts.
func TestAccountSaves(t *testing.T) {
	amount := func(logical, resident int64) finitepass.Amount {
		return finitepass.Amount{LogicalBytes: logical, ResidentBytes: resident}
	}
	for _, c := range []struct {
		before, after finitepass.Amount
		recipe        int64
		want          bool
	}{
		{amount(100, 100), amount(99, 99), 0, true},
		{amount(100, 100), amount(100, 99), 0, false},
		{amount(100, 100), amount(99, 100), 0, false},
		{amount(100, 100), amount(90, 95), 4, true},
		{amount(100, 100), amount(90, 95), 5, false},
		{amount(100, 100), amount(95, 90), 5, false},
		{amount(200, 100), amount(120, 120), 0, false},
	} {
		a := finitepass.Account{Before: c.before, After: c.after, RecipeBytes: c.recipe}
		if a.Saves() != c.want {
			t.Errorf("%+v: %v", a, !c.want)
		}
	}
}

package finitepass_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// UCE at a sixteenth of its vocabulary and widths, so that every part of it is
// one 256th: the encoder saves what it does at full size, 66 % of a model with
// four transformer layers.
func TestWideEncoder(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles 9,091 tokens in all layouts")
	}
	dev := openCPU(t, "")
	const tokens, width, quarter = 145_469 / 16, 5120 / 16, 1280 / 16
	f := wideEncoder(t, dev, madeRows{tokens, width}, quarter)
	for i := range 4 { // what stays: attention, feed-forward, norms
		for name, shape := range map[string]tensor.Shape{
			"in_proj": {3 * quarter, quarter}, "in_bias": {3 * quarter}, "out": {quarter, quarter}, "out_bias": {quarter},
			"linear1": {width, quarter}, "bias1": {width}, "linear2": {quarter, width}, "bias2": {quarter}, "norms": {4, quarter},
		} {
			f.params = append(f.params, loader.Param{
				Name: fmt.Sprintf("layers.%d.%s", i, name), Shape: shape, DTypes: []tensor.DType{tensor.F32},
			})
		}
	}
	inv, err := finitepass.PlannedInventory(f.params, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, r := mustCompile(t, f, finitepass.Options{Contract: architectures.TokenIndicesOnly, Inventory: inv, RequireBitwise: true})
	if !r.Comparison.Bitwise || r.Comparison.Tokens != tokens {
		t.Errorf("%+v", r.Comparison)
	}
	if share := float64(r.Account.BytesSaved) / float64(inv.Total().ResidentBytes); share < 0.66 {
		t.Errorf("saves %.4f of the model", share)
	} else {
		t.Logf("saves %.2f %% of the model", 100*share)
	}
	if l.Recipe().Embedding != nil {
		t.Error("the embedding is still read")
	}
	equalOn(t, dev, f.source, l, tokens-1, 0)
	// The full size, by arithmetic.
	full := []loader.Param{
		{Name: "pe_embedding.weight", Shape: tensor.Shape{145_469, 5120}}, {Name: "encoder.0.weight", Shape: tensor.Shape{1280, 5120}},
		{Name: "encoder.0.bias", Shape: tensor.Shape{1280}}, {Name: "encoder.2.weight", Shape: tensor.Shape{1280}},
		{Name: "encoder.2.bias", Shape: tensor.Shape{1280}},
	}
	spec := architectures.BlockSpec{
		Contract: architectures.TokenIndicesOnly, NumTokens: 145_469, EmbeddingWidth: 5120, Embedding: full[0].Name,
		Outputs: []nn.Output{{Name: "tokens", Width: 1280, DType: tensor.F32}},
	}
	for _, p := range full {
		spec.Removes = append(spec.Removes, p.Name)
	}
	inv, err = finitepass.PlannedInventory(full, func(loader.Param) tensor.DType { return tensor.F32 })
	if err != nil {
		t.Fatal(err)
	}
	if p := finitepass.PlanBlock(spec, inv, 0); p.ValuesSaved != 565_158_400 {
		t.Errorf("%+v", p)
	}
}

// large compiles a domain as Compare treats large ones.
func large(t *testing.T, f *fixture, o finitepass.Options) (*finitepass.Lookup, *finitepass.BlockReport) {
	t.Helper()
	o.FullWork, o.ChunkRows, o.ValidationChunk, o.RequireBitwise = 1, 64, 50, true
	return compile(t, f, o)
}

func rowsOf(r *finitepass.Comparison, name string) int64 {
	for _, l := range r.Layouts {
		if l.Name == name {
			return l.Rows
		}
	}
	return 0
}

// A large domain: every token is compared at every route, and the other layouts
// take a spread of tokens with the first and last among them.
func TestLargeDomain(t *testing.T) {
	dev := openCPU(t, nn.ModeSplitK)
	f := newFixture(t, dev, shape{tokens: 3000, width: 64, branches: []int{24}, noResidual: true})
	f.spec.Removes = append(f.spec.Removes, "embed")
	l, r := large(t, f, f.options(t, twoProfiles...))
	if l == nil || !r.Comparison.Sampled || !r.Comparison.Bitwise || rowsOf(r.Comparison, "domain") != 3*3000 {
		t.Fatalf("%s: %+v", r.Reason, r.Comparison)
	}
	if n := rowsOf(r.Comparison, "single"); n != 93 {
		t.Errorf("%d single calls", n)
	}
	// The same domain with all layouts agrees.
	o := f.options(t, twoProfiles...)
	o.Exhaustive = true
	_, all := large(t, f, o)
	if all.Comparison.Sampled || all.Digest != r.Digest || rowsOf(all.Comparison, "single") != 3000 {
		t.Errorf("%+v", all.Comparison)
	}
	// Without profiles, calls with few rows round otherwise, and the samples show it.
	if _, r := large(t, f, f.options(t)); r.Status != finitepass.Refused || !strings.Contains(r.Reason, "layout") {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
	// Compare alone has no digests and calls the source for every token.
	o = f.options(t, twoProfiles...)
	o.FullWork, o.RequireBitwise = 1, true
	c, err := finitepass.Compare(context.Background(), dev, f.source, l, o)
	if err != nil || !c.Accepted || !c.Sampled || rowsOf(c, "domain") < 3*3000 {
		t.Errorf("%+v, %v", c, err)
	}
}

// One flipped bit anywhere in a large table is found, whichever token and route
// it belongs to.
func TestLargeDomainFindsEveryBit(t *testing.T) {
	dev := openCPU(t, nn.ModeSplitK)
	f := newFixture(t, dev, shape{tokens: 1000, width: 64, branches: []int{8}, noResidual: true, seed: 5})
	f.spec.Removes = append(f.spec.Removes, "embed")
	good, _ := large(t, f, f.options(t, twoProfiles...))
	if good == nil {
		t.Fatal("refused")
	}
	for _, stored := range good.Tensors() {
		n := len(stored.Tensor.Bytes())
		for _, at := range []int{0, n / 3, n - 1} {
			o := f.options(t, twoProfiles...)
			damaged := true
			o.Hooks.BeforeLocal = func(l *finitepass.Lookup) (*finitepass.Lookup, error) {
				bad, err := l.WithFlippedBit(stored.Name, at, 2)
				if errors.Is(err, finitepass.ErrRecipe) { // seen even earlier
					damaged = false
					return l, nil
				}
				return bad, err
			}
			if l, r := large(t, f, o); damaged && (l != nil || !strings.Contains(r.Reason, "layout domain")) {
				t.Errorf("%s, byte %d: %s: %s", stored.Name, at, r.Status, r.Reason)
			}
		}
	}
}

// The report speaks of what was compared: after a change of weights, thresholds
// or payload it is history, and what was measured stays readable.
func TestReportsBecomeHistory(t *testing.T) {
	f := newFixture(t, &fakeDevice{kernel: rounding}, shape{tokens: 5, width: 64, branches: []int{40, 24}, seed: 3})
	o := f.options(t, twoProfiles...)
	o.Weights = f.weights
	l, r := mustCompile(t, f, o)
	if r.SourceDigest == "" {
		t.Fatal("no digest of the source")
	}
	current := func(name string, l *finitepass.Lookup, want string) {
		t.Helper()
		now, err := r.For(l, f.weights)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			if now.Status != finitepass.Compiled || now.History != nil || now.Comparison == nil {
				t.Errorf("%s: %s, %+v", name, now.Status, now.History)
			}
			return
		}
		h := now.History
		if now.Status != finitepass.Historical || now.Comparison != nil || now.Digest != "" || h == nil ||
			h.Status != finitepass.Compiled || h.Comparison != r.Comparison || !strings.Contains(h.Reason, want) {
			t.Errorf("%s: %s, %s, %+v", name, now.Status, now.Reason, h)
		}
	}
	current("nothing changed", l, "")
	back, err := finitepass.Open(l.Recipe(), stateOf(l).get, f.source.Embedding, f.dev)
	if err != nil {
		t.Fatal(err)
	}
	current("opened again", back, "")
	recipe := l.Recipe()
	recipe.Profiles[1].MaxRows = 14
	changed, err := finitepass.Open(recipe, stateOf(l).get, f.source.Embedding, f.dev)
	if err != nil {
		t.Fatal(err)
	}
	current("threshold", changed, "the lookup has the digest")
	flipped, err := l.WithFlippedBit(l.Tensors()[0].Name, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	current("payload", flipped, "the lookup has the digest")
	for _, name := range []string{"q", "norm", "embed"} {
		f.weights[name].Bytes()[0] ^= 1
		current("weight "+name, l, "the source tensors")
		f.weights[name].Bytes()[0] ^= 1
	}
	current("weights restored", l, "")
	// Somebody writes to the tensors of the lookup itself.
	if err := l.Check(); err != nil {
		t.Error(err)
	}
	l.Tensors()[0].Tensor.Bytes()[3] ^= 8
	if err := l.Check(); !errors.Is(err, finitepass.ErrRecipe) {
		t.Errorf("%v", err)
	}
	current("written to", l, "have changed since")
	if r.Status != finitepass.Compiled {
		t.Error("the report itself was changed")
	}
	// A refused block has nothing that could become history.
	refused := finitepass.BlockReport{Status: finitepass.Refused}
	if now, err := refused.For(l, f.weights); err != nil || now.Status != finitepass.Refused {
		t.Errorf("%v, %v", now, err)
	}
	delete(f.weights, "q")
	l.Tensors()[0].Tensor.Bytes()[3] ^= 8
	if _, err := r.For(l, f.weights); err == nil {
		t.Error("a missing tensor")
	}
}

// Tables may lie where the caller says.
func TestAlloc(t *testing.T) {
	f := newFixture(t, &fakeDevice{}, base())
	o := f.options(t)
	var shapes []string
	o.Alloc = func(d tensor.DType, shape ...int) (*tensor.Tensor, error) {
		shapes = append(shapes, fmt.Sprint(d, shape))
		return tensor.New(d, shape...)
	}
	mustCompile(t, f, o)
	if !slices.Contains(shapes, "F32 [7 24]") || !slices.Contains(shapes, "F32 [7 72]") {
		t.Errorf("%v", shapes)
	}
	full := errors.New("disk full")
	o.Alloc = func(tensor.DType, ...int) (*tensor.Tensor, error) { return nil, full }
	if _, _, err := finitepass.CompileFanout(context.Background(), f.dev, f.spec, f.source, o); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
}

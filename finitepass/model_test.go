package finitepass_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
	"github.com/hfcompress/compress/validation"
)

// fakeModel runs each of its blocks on the same ids and returns all outputs, so
// that the whole-model gate sees every bit of every block.
type fakeModel struct {
	dev    nn.Device
	paths  []string
	blocks map[string]nn.TokenBlock
	// mix, when set, may change the outputs knowing which blocks are lookups.
	mix func(rewritten map[string]bool, out architectures.Outputs)
}

func (m *fakeModel) Device() nn.Device { return m.dev }

func (m *fakeModel) Block(path string) (nn.TokenBlock, error) {
	if b, ok := m.blocks[path]; ok {
		return b, nil
	}
	return nil, fmt.Errorf("no block %q", path)
}

func (m *fakeModel) WithBlock(path string, b nn.TokenBlock) (architectures.Model, error) {
	n := *m
	n.blocks = maps.Clone(m.blocks)
	n.blocks[path] = b
	return &n, nil
}

func (m *fakeModel) Forward(ctx context.Context, in architectures.Inputs) (architectures.Outputs, error) {
	t := in.Tensors["input_ids"]
	var ids []int
	for _, id := range t.Int64s() {
		ids = append(ids, int(id))
	}
	s := m.dev.Begin(ctx)
	defer s.Close()
	var out architectures.Outputs
	rewritten := map[string]bool{}
	for _, path := range m.paths {
		b := m.blocks[path]
		_, rewritten[path] = b.(*finitepass.Lookup)
		for i, a := range b.Forward(s, ids) {
			h := s.ToHost(a)
			if s.Err() != nil {
				return nil, s.Err()
			}
			r, err := h.Reshape(t.Shape()[0], t.Shape()[1], h.Shape()[1])
			if err != nil {
				return nil, err
			}
			out = append(out, architectures.Named{Name: path + "." + b.Outputs()[i].Name, Tensor: r})
		}
	}
	if m.mix != nil {
		m.mix(rewritten, out)
	}
	return out, s.Err()
}

type fakeBlueprint struct {
	params []loader.Param
	blocks []architectures.BlockSpec
}

func (b fakeBlueprint) Params() []loader.Param            { return b.params }
func (b fakeBlueprint) Blocks() []architectures.BlockSpec { return b.blocks }
func (b fakeBlueprint) Inputs() architectures.InputSpec {
	return architectures.InputSpec{Vocabulary: 7}
}
func (b fakeBlueprint) Build(nn.Device, architectures.Weights, map[string]nn.TokenBlock) (architectures.Model, error) {
	return nil, errors.New("not needed")
}

// whole is a model of several blocks with what it takes to compile it.
type whole struct {
	model     *fakeModel
	blueprint fakeBlueprint
	weights   weights
}

func newWhole(t testing.TB, dev nn.Device, shapes ...shape) *whole {
	t.Helper()
	w := &whole{model: &fakeModel{dev: dev, blocks: map[string]nn.TokenBlock{}}, weights: weights{}}
	for i, s := range shapes {
		if s.prefix == "" {
			s.prefix = string(rune('a'+i)) + "."
		}
		f := newFixture(t, dev, s)
		w.blueprint.params = append(w.blueprint.params, f.params...)
		w.blueprint.blocks = append(w.blueprint.blocks, f.spec)
		maps.Copy(w.weights, f.weights)
		w.model.paths = append(w.model.paths, f.spec.Path)
		w.model.blocks[f.spec.Path] = f.source
	}
	return w
}

// examples are every token alone and a few longer calls.
func examples(t testing.TB, tokens int) []validation.Example {
	t.Helper()
	var out []validation.Example
	add := func(name string, rows ...[]int) {
		in, err := architectures.TokenInputs(rows...)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, validation.Example{Name: name, Inputs: in})
	}
	all := make([]int, tokens)
	for i := range all {
		all[i] = i
		add(fmt.Sprintf("token %d", i), []int{i})
	}
	add("all", all)
	add("two sequences", all, all)
	add("three ids", []int{1, 0, 1})
	return out
}

func (w *whole) options(t testing.TB) finitepass.ModelOptions {
	return finitepass.ModelOptions{
		Options:  finitepass.Options{Contract: architectures.TokenIndicesOnly},
		Examples: examples(t, 7),
		Probe:    finitepass.ProbeOptions{MaxRows: 40},
	}
}

func compileModel(t testing.TB, w *whole, o finitepass.ModelOptions) *finitepass.Result {
	t.Helper()
	r, err := finitepass.CompileModel(context.Background(), w.blueprint, w.model, w.weights, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(r.Report); err != nil {
		t.Errorf("the report is not JSON: %v", err)
	}
	return r
}

func statuses(r *finitepass.Result) string {
	var s []string
	for _, b := range r.Report.Blocks {
		s = append(s, string(b.Status))
	}
	return string(r.Report.Status) + ": " + strings.Join(s, " ")
}

// FBF-1, FBF-2: two blocks are rewritten; the source stays as it was.
func TestModel(t *testing.T) {
	other := shape{tokens: 7, width: 32, branches: []int{12, 12, 8}, seed: 2}
	w := newWhole(t, &fakeDevice{kernel: rounding}, base(), other)
	o := w.options(t)
	o.Gate.Bitwise = true
	var steps []string
	o.Observer = func(e finitepass.Event) {
		if n := len(steps); n == 0 || steps[n-1] != e.Step {
			steps = append(steps, e.Step)
		}
	}
	r := compileModel(t, w, o)
	if statuses(r) != "compressed: compiled compiled" || !r.Report.Gate.Bitwise || r.Report.FirstGate != nil {
		t.Fatalf("%s; %+v", statuses(r), r.Report)
	}
	if !slices.Equal(r.Report.Rewrites, w.model.paths) || len(r.Lookups) != 2 {
		t.Errorf("rewrites %v", r.Report.Rewrites)
	}
	want := []string{"plan", "probe", "compile", "compare", "compiled", "plan", "probe", "compile", "compare", "compiled", "gate"}
	if !slices.Equal(steps, want) {
		t.Errorf("steps %v", steps)
	}
	for _, b := range r.Report.Blocks {
		if b.Probe == nil || !slices.Equal(b.Profiles, twoProfiles) || !b.Describes(r.Lookups[b.Path]) {
			t.Errorf("block %+v", b)
		}
	}
	for _, path := range w.model.paths {
		if _, ok := w.model.blocks[path].(*nn.Fanout); !ok {
			t.Errorf("the source's block %s was replaced", path)
		}
		if b, _ := r.Model.Block(path); b != nn.TokenBlock(r.Lookups[path]) {
			t.Errorf("the result's block %s is not the lookup", path)
		}
	}
	a := r.Report.Account
	saved := r.Report.Blocks[0].Account.BytesSaved + r.Report.Blocks[1].Account.BytesSaved
	if a.BytesSaved != saved || a.Before.ResidentBytes-a.After.ResidentBytes != saved || !a.Saves() {
		t.Errorf("account %+v", a)
	}
	var before int64
	for _, x := range w.weights {
		before += int64(len(x.Bytes()))
	}
	if a.Before.LogicalBytes != before {
		t.Errorf("%d bytes before, the weights have %d", a.Before.LogicalBytes, before)
	}
}

// FBF-5, FB-5: a block that does not pay stays; the gate runs all the same.
func TestModelNoReduction(t *testing.T) {
	w := newWhole(t, &fakeDevice{}, shape{tokens: 101, width: 3, branches: []int{20}})
	r := compileModel(t, w, w.options(t))
	if statuses(r) != "no_reduction: refused" || r.Model != architectures.Model(w.model) || !r.Report.Gate.Accepted {
		t.Errorf("%s", statuses(r))
	}
	if a := r.Report.Account; a.Before != a.After || a.BytesSaved != 0 {
		t.Errorf("%+v", a)
	}
	w = newWhole(t, &fakeDevice{})
	w.model.paths, w.model.blocks = []string{"x"}, map[string]nn.TokenBlock{"x": newFixture(t, w.model.dev, base()).source}
	if r := compileModel(t, w, w.options(t)); r.Report.Status != finitepass.NoReduction || !strings.Contains(r.Report.Reason, "declares no") {
		t.Errorf("%s: %s", r.Report.Status, r.Report.Reason)
	}
}

// FBF-3: one block is held by an alias, the other goes on.
func TestModelKeepsAliasedBlock(t *testing.T) {
	w := newWhole(t, &fakeDevice{}, base(), base())
	w.weights["b.q"] = w.weights["a.q"]
	r := compileModel(t, w, w.options(t))
	if statuses(r) != "no_reduction: refused refused" {
		t.Errorf("%s", statuses(r))
	}
	for _, b := range r.Report.Blocks {
		if !strings.Contains(b.Reason, "external") {
			t.Errorf("%s", b.Reason)
		}
	}
	w = newWhole(t, &fakeDevice{}, base(), base())
	w.weights["outside"] = w.weights["a.q"]
	w.blueprint.params = append(w.blueprint.params, loader.Param{Name: "outside", Shape: tensor.Shape{24, 24}})
	if r = compileModel(t, w, w.options(t)); statuses(r) != "compressed: refused compiled" {
		t.Errorf("%s", statuses(r))
	}
}

// Two declarations that would both remove a tensor: the second stays.
func TestModelOverlappingRemovals(t *testing.T) {
	w := newWhole(t, &fakeDevice{}, base(), base())
	w.blueprint.blocks[1].Removes = append(w.blueprint.blocks[1].Removes, "a.q")
	r := compileModel(t, w, w.options(t))
	if statuses(r) != "compressed: compiled refused" || !strings.Contains(r.Report.Blocks[1].Reason, "a.block") {
		t.Errorf("%s: %s", statuses(r), r.Report.Blocks[1].Reason)
	}
}

// FB-4, FBF-4 and the drill of the road: a bit flipped after the local
// comparison is caught by the whole model and everything is as before.
func TestModelCatchesLateDamage(t *testing.T) {
	w := newWhole(t, &fakeDevice{}, base())
	o := w.options(t)
	o.Gate.Bitwise = true
	o.Hooks.AfterLocal = func(l *finitepass.Lookup) (*finitepass.Lookup, error) {
		return l.WithFlippedBit(l.Tensors()[0].Name, 4*72, 0) // token 1, q[0], lowest bit
	}
	r := compileModel(t, w, o)
	b := r.Report.Blocks[0]
	if statuses(r) != "rolled_back: rolled_back" || r.Model != architectures.Model(w.model) || len(r.Lookups) != 0 || len(r.Report.Rewrites) != 0 {
		t.Fatalf("%s", statuses(r))
	}
	if !slices.Equal(r.Report.Proposed, []string{"a.block"}) || b.Gate == nil || b.Gate.Example != "token 1" || b.Gate.Output != "a.block.q" || b.Gate.MaxAbs == 0 {
		t.Errorf("%+v", b.Gate)
	}
	if !strings.Contains(b.Reason, "token 1") || !r.Report.Gate.Accepted || r.Report.FirstGate.Accepted {
		t.Errorf("reason %s", b.Reason)
	}
	if a := r.Report.Account; a.Before != a.After {
		t.Errorf("account %+v", a)
	}
}

// A single table passes the local limits and fails a bitwise gate, as on a
// device with several row functions; found profiles pass.
func TestModelSingleTableRollsBack(t *testing.T) {
	w := newWhole(t, &fakeDevice{kernel: rounding}, base())
	o := w.options(t)
	o.Gate.Bitwise = true
	o.Mode = finitepass.ProfilesNone
	r := compileModel(t, w, o)
	if statuses(r) != "rolled_back: rolled_back" || !r.Report.Blocks[0].Comparison.Accepted || !strings.Contains(r.Report.Blocks[0].Reason, "token 0") {
		t.Errorf("%s: %s", statuses(r), r.Report.Blocks[0].Reason)
	}
	o.Mode = finitepass.ProfilesExplicit
	o.Profiles = twoProfiles
	if r = compileModel(t, w, o); statuses(r) != "compressed: compiled" || !r.Report.Gate.Bitwise {
		t.Errorf("%s", statuses(r))
	}
}

// Bisection keeps what passes, names each block that does not, and finds blocks
// that fail only together.
func TestModelBisect(t *testing.T) {
	shapes := []shape{base(), base(), base(), base(), base()}
	for i := range shapes {
		shapes[i].seed = uint64(i)
	}
	shapes[3].branches = []int{24, 24, 24, 24} // the largest saving
	for name, c := range map[string]struct {
		fails func(rewritten map[string]bool) string // the block whose output is wrong
		want  string
	}{
		"one": {func(r map[string]bool) string {
			if r["c.block"] {
				return "c.block"
			}
			return ""
		}, "compressed: compiled compiled rolled_back compiled compiled"},
		"two": {func(r map[string]bool) string {
			if r["a.block"] {
				return "a.block"
			}
			if r["e.block"] {
				return "e.block"
			}
			return ""
		}, "compressed: rolled_back compiled compiled compiled rolled_back"},
		"together": {func(r map[string]bool) string {
			if r["b.block"] && r["d.block"] {
				return "b.block"
			}
			return ""
		}, "compressed: compiled rolled_back compiled compiled compiled"},
		"all": {func(r map[string]bool) string {
			for _, p := range []string{"a.block", "b.block", "c.block", "d.block", "e.block"} {
				if r[p] {
					return p
				}
			}
			return ""
		}, "rolled_back: rolled_back rolled_back rolled_back rolled_back rolled_back"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWhole(t, &fakeDevice{}, shapes...)
			w.model.mix = func(rewritten map[string]bool, out architectures.Outputs) {
				if p := c.fails(rewritten); p != "" {
					out.Get(p + ".q").Float32s()[0] += 0.5
				}
			}
			r := compileModel(t, w, w.options(t))
			if statuses(r) != c.want {
				t.Errorf("%s, expected %s", statuses(r), c.want)
			}
			if !r.Report.Gate.Accepted || r.Report.FirstGate == nil || r.Report.FirstGate.Accepted {
				t.Error("gates are not reported")
			}
			for _, b := range r.Report.Blocks {
				if b.Status == finitepass.RolledBack && (b.Gate == nil || !strings.HasSuffix(b.Gate.Output, ".q")) {
					t.Errorf("%s: %+v", b.Path, b.Gate)
				}
				if _, used := r.Lookups[b.Path]; used != (b.Status == finitepass.Compiled) {
					t.Errorf("%s: status %s, in use %v", b.Path, b.Status, used)
				}
			}
		})
	}
}

// A block whose rows depend on their neighbours stays, with the reason.
func TestModelRefusesByProbe(t *testing.T) {
	dev := &fakeDevice{kernel: func(y []float32, rows, _ int, identical bool) {
		if rows > 1 && !identical {
			y[0] += 0.01
		}
	}}
	w := newWhole(t, dev, base())
	r := compileModel(t, w, w.options(t))
	if statuses(r) != "no_reduction: refused" || !strings.Contains(r.Report.Blocks[0].Reason, finitepass.ErrNeighbours.Error()) || r.Report.Blocks[0].Probe == nil {
		t.Errorf("%s: %s", statuses(r), r.Report.Blocks[0].Reason)
	}
}

// FB-6, FB-7, FBF-8: errors before any work.
func TestModelErrors(t *testing.T) {
	dev := &fakeDevice{fail: func() error { return errors.New("called") }}
	w := newWhole(t, dev, base(), base())
	for name, c := range map[string]struct {
		change func(o *finitepass.ModelOptions)
		want   error
	}{
		"no contract":            {func(o *finitepass.ModelOptions) { o.Contract = "" }, finitepass.ErrContract},
		"raw vectors":            {func(o *finitepass.ModelOptions) { o.Contract = "raw_vectors" }, finitepass.ErrContract},
		"no examples":            {func(o *finitepass.ModelOptions) { o.Examples = nil }, finitepass.ErrOptions},
		"no paths":               {func(o *finitepass.ModelOptions) { o.Paths = []string{} }, finitepass.ErrPath},
		"unknown path":           {func(o *finitepass.ModelOptions) { o.Paths = []string{"c.block"} }, finitepass.ErrPath},
		"path twice":             {func(o *finitepass.ModelOptions) { o.Paths = []string{"a.block", "a.block"} }, finitepass.ErrPath},
		"bad gate":               {func(o *finitepass.ModelOptions) { o.Gate.MaxAbs = -1 }, validation.ErrGate},
		"bad probe":              {func(o *finitepass.ModelOptions) { o.Probe.MaxRows = -1 }, finitepass.ErrOptions},
		"unknown mode":           {func(o *finitepass.ModelOptions) { o.Mode = "automatic" }, finitepass.ErrProfiles},
		"explicit without":       {func(o *finitepass.ModelOptions) { o.Mode = finitepass.ProfilesExplicit }, finitepass.ErrProfiles},
		"auto with profiles":     {func(o *finitepass.ModelOptions) { o.Mode = finitepass.ProfilesAuto; o.Profiles = singleton }, finitepass.ErrProfiles},
		"max_rows 0":             {func(o *finitepass.ModelOptions) { o.Profiles = []finitepass.Profile{{0, 1}} }, finitepass.ErrProfiles},
		"unordered":              {func(o *finitepass.ModelOptions) { o.Profiles = []finitepass.Profile{{2, 1}, {1, 1}} }, finitepass.ErrProfiles},
		"negative option inside": {func(o *finitepass.ModelOptions) { o.ChunkRows = -3 }, finitepass.ErrOptions},
	} {
		o := w.options(t)
		c.change(&o)
		if _, err := finitepass.CompileModel(context.Background(), w.blueprint, w.model, w.weights, o); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	overlap := newWhole(t, dev, base(), base())
	overlap.blueprint.blocks[1].Path = "a.block.inner"
	o := overlap.options(t)
	o.Paths = []string{"a.block", "a.block.inner"}
	if _, err := finitepass.CompileModel(context.Background(), overlap.blueprint, overlap.model, overlap.weights, o); !errors.Is(err, finitepass.ErrPath) {
		t.Errorf("overlap: %v", err)
	}
	delete(w.weights, "a.q")
	if _, err := finitepass.CompileModel(context.Background(), w.blueprint, w.model, w.weights, w.options(t)); err == nil || !strings.Contains(err.Error(), "a.q") {
		t.Errorf("missing weight: %v", err)
	}
}

func TestModelPaths(t *testing.T) {
	w := newWhole(t, &fakeDevice{}, base(), base())
	o := w.options(t)
	o.Paths = []string{"b.block"}
	r := compileModel(t, w, o)
	if !slices.Equal(r.Report.Rewrites, []string{"b.block"}) || len(r.Report.Blocks) != 1 {
		t.Errorf("%v", r.Report.Rewrites)
	}
}

// A failing device and a cancelled context are errors, not refusals.
func TestModelDeviceFailure(t *testing.T) {
	broken := errors.New("device gave up")
	w := newWhole(t, &fakeDevice{fail: func() error { return broken }}, base())
	if _, err := finitepass.CompileModel(context.Background(), w.blueprint, w.model, w.weights, w.options(t)); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

package compress_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
	"github.com/hfcompress/compress/validation"
)

// The router is a small mixture of experts. A finite block scores the experts for
// each token and projects the token's embedding; the two experts with the largest
// scores then work on the projection. It stands for the OmniCell router table:
// its local error is far below every tolerance, and near a tie it takes another
// expert.
const (
	routerVocabulary = 8192
	routerEmbedding  = 256
	routerExperts    = 8
	routerTop        = 2
	routerWidth      = 16
)

func init() { architectures.Register(routerFamily{}) }

type routerFamily struct{}

func (routerFamily) Name() string                          { return "test_router" }
func (routerFamily) Matches(cfg architectures.Config) bool { return cfg.ModelType == "test_router" }

func (routerFamily) New(cfg architectures.Config) (architectures.Blueprint, error) {
	b := &routerBlueprint{}
	return b, json.Unmarshal(cfg.Raw, b)
}

// routerBlueprint says, when Declares is set, that its decisions are those of the
// block, so that every token can be looked at.
type routerBlueprint struct {
	Declares bool `json:"declares"`
}

func (*routerBlueprint) Params() []loader.Param {
	f32 := []tensor.DType{tensor.F32}
	params := []loader.Param{
		{Name: "genes", Shape: tensor.Shape{routerVocabulary, routerEmbedding}, DTypes: f32},
		{Name: "router", Shape: tensor.Shape{routerExperts, routerEmbedding}, DTypes: f32},
		{Name: "project", Shape: tensor.Shape{routerWidth, routerEmbedding}, DTypes: f32},
	}
	for i := range routerExperts {
		params = append(params, loader.Param{Name: fmt.Sprintf("expert.%d", i), Shape: tensor.Shape{routerWidth, routerWidth}, DTypes: f32})
	}
	return params
}

func (*routerBlueprint) Blocks() []architectures.BlockSpec {
	return []architectures.BlockSpec{{
		Path: "router", Contract: architectures.TokenIndicesOnly,
		NumTokens: routerVocabulary, EmbeddingWidth: routerEmbedding, Embedding: "genes", OwnsEmbedding: true,
		Removes: []string{"genes", "router", "project"},
		Outputs: routerOutputs,
	}}
}

var routerOutputs = []nn.Output{{Name: "scores", Width: routerExperts, DType: tensor.F32}, {Name: "gene", Width: routerWidth, DType: tensor.F32}}

func (*routerBlueprint) Inputs() architectures.InputSpec {
	return architectures.InputSpec{Vocabulary: routerVocabulary}
}

func (b *routerBlueprint) Decisions() []architectures.Decision {
	d := architectures.Decision{Output: "scores", Top: routerTop}
	if b.Declares {
		d.Block, d.BlockOutput = "router", "scores"
	}
	return []architectures.Decision{d}
}

func (b *routerBlueprint) Build(dev nn.Device, weights architectures.Weights, blocks map[string]nn.TokenBlock) (architectures.Model, error) {
	m := &routerModel{dev: dev, block: blocks["router"]}
	linear := func(name string) (*nn.Linear, error) { return nn.NewLinear(dev, weights.Tensor, name, "") }
	for i := range routerExperts {
		e, err := linear(fmt.Sprintf("expert.%d", i))
		if err != nil {
			return nil, err
		}
		m.experts = append(m.experts, e)
	}
	if m.block != nil {
		return m, nil
	}
	rows, err := architectures.Rows(weights, "genes")
	if err != nil {
		return nil, err
	}
	table, err := dev.UploadRows(rows)
	if err != nil {
		return nil, err
	}
	f := &nn.Fanout{Embedding: table, EmbeddingSource: rows, EmbeddingName: "genes"}
	for i, name := range []string{"router", "project"} {
		l, err := linear(name)
		if err != nil {
			return nil, err
		}
		f.Branches = append(f.Branches, nn.Branch{Name: routerOutputs[i].Name, Layers: []nn.RowLocal{l}})
	}
	m.block = f
	return m, nil
}

type routerModel struct {
	dev     nn.Device
	block   nn.TokenBlock
	experts []*nn.Linear
}

func (m *routerModel) Device() nn.Device { return m.dev }

func (m *routerModel) Block(path string) (nn.TokenBlock, error) {
	if path != "router" {
		return nil, fmt.Errorf("no block %q", path)
	}
	return m.block, nil
}

func (m *routerModel) WithBlock(path string, block nn.TokenBlock) (architectures.Model, error) {
	if _, err := m.Block(path); err != nil {
		return nil, err
	}
	view := *m
	view.block = block
	return &view, nn.CheckBlock(block, routerVocabulary, nil, routerOutputs)
}

// Forward returns "hidden" [batch, length, width], "scores" [batch, length,
// experts] and, as integers, the "experts" that were taken, best first.
func (m *routerModel) Forward(ctx context.Context, in architectures.Inputs) (architectures.Outputs, error) {
	t := in.Tensors["input_ids"]
	if t == nil || len(in.Tensors) != 1 {
		return nil, errors.New("input_ids alone are expected")
	}
	ids := make([]int, t.Len())
	for i, id := range t.Int64s() {
		ids[i] = int(id)
	}
	s := m.dev.Begin(ctx)
	out := m.block.Forward(s, ids)
	if s.Err() != nil {
		return nil, s.Close()
	}
	scores := s.ToHost(out[0])
	var answers []*tensor.Tensor
	for _, e := range m.experts {
		answers = append(answers, s.ToHost(e.Forward(s, out[1])))
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	hidden, taken := make([]float32, len(ids)*routerWidth), make([]int64, 0, len(ids)*routerTop)
	for i := range ids {
		row := scores.Float32s()[i*routerExperts : (i+1)*routerExperts]
		best := topExperts(row)
		total := 0.0
		for _, e := range best {
			total += math.Exp(float64(row[e] - row[best[0]]))
		}
		for _, e := range best {
			weight := float32(math.Exp(float64(row[e]-row[best[0]])) / total)
			for j := range routerWidth {
				hidden[i*routerWidth+j] += float32(weight * answers[e].Float32s()[i*routerWidth+j])
			}
			taken = append(taken, int64(e))
		}
	}
	batch, length := t.Shape()[0], t.Shape()[1]
	h, err := tensor.FromFloat32s(hidden, batch, length, routerWidth)
	if err != nil {
		return nil, err
	}
	if scores, err = scores.Reshape(batch, length, routerExperts); err != nil {
		return nil, err
	}
	experts, err := tensor.FromInt64s(taken, batch, length, routerTop)
	return architectures.Outputs{{Name: "hidden", Tensor: h}, {Name: "scores", Tensor: scores}, {Name: "experts", Tensor: experts}}, err
}

// topExperts returns the experts with the largest scores, best first.
func topExperts(scores []float32) []int {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	return order[:routerTop]
}

// routerWeights makes random weights in which one gene's second and third expert
// tie as nearly as float32 lets them, so that the order of summation of the device
// for one row takes another expert than the one for many. It returns that gene.
func routerWeights(t testing.TB) (map[string]*tensor.Tensor, int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(6281, 1))
	weights := map[string]*tensor.Tensor{}
	for _, p := range (&routerBlueprint{}).Params() {
		x, err := tensor.New(tensor.F32, p.Shape...)
		if err != nil {
			t.Fatal(err)
		}
		scale := 1.0
		if p.Name != "genes" {
			scale = 1 / math.Sqrt(float64(p.Shape[1]))
		}
		for i := range x.Float32s() {
			x.Float32s()[i] = float32(scale * rng.NormFloat64())
		}
		weights[p.Name] = x
	}
	dev, err := nn.OpenCPU(nn.CPUOptions{Mode: nn.ModeSplitK})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	genes, router := weights["genes"], weights["router"].Float32s()
	for gene := 4321; gene < 4321+64; gene++ {
		row := genes.Float32s()[gene*routerEmbedding : (gene+1)*routerEmbedding]
		before := slices.Clone(row)
		tie(row, router)
		if !slices.Equal(expertsAt(t, dev, weights, gene, 1), expertsAt(t, dev, weights, gene, 16)) {
			return weights, gene
		}
		copy(row, before)
	}
	t.Fatal("no gene flips")
	return nil, 0
}

// tie moves a gene along the difference of two experts' scores until they agree.
func tie(row, router []float32) {
	expert := func(e int) []float32 { return router[e*routerEmbedding : (e+1)*routerEmbedding] }
	for range 8 {
		scores := make([]float32, routerExperts)
		exact := make([]float64, routerExperts)
		for e := range exact {
			for j, v := range expert(e) {
				exact[e] += float64(v) * float64(row[j])
			}
			scores[e] = float32(exact[e])
		}
		order := make([]int, routerExperts)
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int { return cmp.Compare(exact[b], exact[a]) })
		a, b := order[routerTop-1], order[routerTop]
		norm := 0.0
		for j := range row {
			d := float64(expert(a)[j] - expert(b)[j])
			norm += d * d
		}
		step := (exact[a] - exact[b]) / norm
		for j := range row {
			row[j] = float32(float64(row[j]) - step*float64(expert(a)[j]-expert(b)[j]))
		}
	}
}

// expertsAt returns the experts that a gene takes in a call of so many rows.
func expertsAt(t testing.TB, dev nn.Device, weights map[string]*tensor.Tensor, gene, rows int) []int {
	t.Helper()
	one, err := tensor.FromFloat32s(slices.Repeat(weights["genes"].Float32s()[gene*routerEmbedding:(gene+1)*routerEmbedding], rows), rows, routerEmbedding)
	if err != nil {
		t.Fatal(err)
	}
	router, err := dev.Upload(weights["router"], nn.AsMatrix)
	if err != nil {
		t.Fatal(err)
	}
	s := dev.Begin(context.Background())
	out := s.ToHost(s.Linear(s.FromHost(one), router, nil))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	best := topExperts(out.Float32s()[:routerExperts])
	slices.Sort(best)
	return best
}

func routerDir(t testing.TB, declares bool) (dir string, gene int) {
	t.Helper()
	weights, gene := routerWeights(t)
	dir = t.TempDir()
	var entries []loader.Entry
	for _, p := range (&routerBlueprint{}).Params() {
		entries = append(entries, loader.Entry{Name: p.Name, Tensor: weights[p.Name]})
	}
	if err := loader.WriteFile(filepath.Join(dir, "model.safetensors"), entries, loader.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "config.json"), fmt.Appendf(nil, `{"model_type": "test_router", "declares": %v}`, declares))
	return dir, gene
}

// routerOptions takes one table on a device whose rows depend on their number,
// under tolerances, with few generated examples.
func routerOptions() compress.Options {
	return compress.Options{
		Device: "cpu:split-k", ProfileMode: finitepass.ProfilesNone, Require: compress.RequireTolerance,
		Generate: validation.Options{MaxPositions: 900, MaxSingles: 16},
		NearTies: validation.TieOptions{Keep: -1},
	}
}

func runRouter(t testing.TB, dir string, change func(*compress.Options)) *compress.Result {
	t.Helper()
	o := routerOptions()
	change(&o)
	r, err := compress.Local(context.Background(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// A table whose error is far below the tolerances flips an expert for a call of
// one gene near a tie. Without that example the whole-model gate lets it pass;
// the search for near-ties finds the gene, and the table is rolled back, with the
// example and the output named.
func TestNearTieRollsRouterBack(t *testing.T) {
	dir, gene := routerDir(t, false)
	blind := runRouter(t, dir, func(*compress.Options) {})
	if blind.Status != finitepass.Compressed {
		t.Fatalf("without near-ties: %s, %s: the test shows nothing", blind.Status, blind.Report.Blocks[0].Reason)
	}
	local := blind.Report.Blocks[0].Comparison
	if bound := local.Outputs[0].MaxAbs; !local.Accepted || bound == 0 || bound > 5e-6 {
		t.Fatalf("local comparison: accepted %v, largest error %g", local.Accepted, bound)
	}

	file := filepath.Join(t.TempDir(), "ties.json")
	search := func(o *compress.Options) {
		// A quarter of the calls looks at single tokens, 16 × 8 at a time: all of them.
		o.NearTies = validation.TieOptions{Calls: 4 * routerVocabulary / 128, Keep: 4}
		o.NearTiesFile = file
	}
	seen := runRouter(t, dir, search)
	b := seen.Report.Blocks[0]
	if seen.Status != finitepass.RolledBack || b.Status != finitepass.RolledBack {
		t.Fatalf("with near-ties: %s, block %s", seen.Status, b.Status)
	}
	if f := seen.Report.FirstGate.FirstFailure; !strings.HasPrefix(f.Example, "near-tie-scores-") || f.Output != "hidden" || f.MaxAbs < 1e-2 {
		t.Errorf("first failure %+v", f)
	} else if !strings.Contains(b.Reason, f.Example) || !strings.Contains(b.Reason, `"hidden"`) {
		t.Errorf("the reason names neither: %s", b.Reason)
	}
	// The first tie is the gene, and both the choice and the integers changed.
	failed := failedOutputs(seen.Report.FirstGate)
	if d := failed["scores"].Decision; d == nil || d.Changed != 1 || d.Top != routerTop || d.FirstChange.Margin > 2*local.Outputs[0].MaxAbs {
		t.Errorf("decision %+v", d)
	}
	if !strings.Contains(failed["experts"].Reason, "discrete output changed") {
		t.Errorf("experts: %+v", failed["experts"])
	}
	if ids := tieIDs(t, file, 0); !slices.Equal(ids, []int64{int64(gene)}) {
		t.Errorf("the narrowest example has ids %v, expected gene %d", ids, gene)
	}
	// What is returned is the original, and it passed.
	if g := seen.Report.Gate; !g.Accepted || !g.Bitwise || seen.Report.Values.Saved() != 0 {
		t.Errorf("gate on what is returned: accepted %v, bitwise %v", g.Accepted, g.Bitwise)
	}

	// A rerun takes the examples from the file, whatever the search would find.
	before := read(t, file)
	again := runRouter(t, dir, func(o *compress.Options) {
		o.NearTies, o.NearTiesFile = validation.TieOptions{Calls: 1, Keep: 1}, file
	})
	if again.Status != finitepass.RolledBack || string(before) != string(read(t, file)) {
		t.Errorf("rerun with the file: %s", again.Status)
	}
}

// Row-count profiles give each call the bits of its own regime: the same model is
// compressed, near-ties and all.
func TestProfilesKeepRouter(t *testing.T) {
	dir, _ := routerDir(t, true)
	r := runRouter(t, dir, func(o *compress.Options) {
		o.ProfileMode, o.Require, o.NearTies = "", compress.RequireBitwise, validation.TieOptions{Calls: 4}
	})
	if r.Status != finitepass.Compressed || !r.Report.Gate.Bitwise || len(r.Report.Margins) != 0 {
		t.Errorf("%s, bitwise %v, margins %v", r.Status, r.Report.Gate.Bitwise, r.Report.Margins)
	}
}

// An architecture that says which block takes a decision has every token looked
// at, however short the search is.
func TestDomainTies(t *testing.T) {
	dir, gene := routerDir(t, true)
	r := runRouter(t, dir, func(o *compress.Options) { o.NearTies = validation.TieOptions{Calls: 1, Keep: 1} })
	want := fmt.Sprintf("near-tie-scores-token-%d", gene)
	if f := r.Report.FirstGate.FirstFailure; r.Status != finitepass.RolledBack || f.Example != want {
		t.Errorf("%s: %+v, expected %s", r.Status, f, want)
	}
}

// The margins over the domain say what the bound on the table's error leaves
// open, and can be made a condition.
func TestMargins(t *testing.T) {
	dir, gene := routerDir(t, true)
	reported := runRouter(t, dir, func(*compress.Options) {})
	if reported.Status != finitepass.Compressed || len(reported.Report.Margins) != 1 {
		t.Fatalf("%s, margins %+v", reported.Status, reported.Report.Margins)
	}
	m := reported.Report.Margins[0]
	if m.Block != "router" || m.Output != "scores" || m.Top != routerTop || m.Elements != routerVocabulary ||
		m.At != gene || m.Undecided < 1 || m.Bound == 0 || m.Smallest > 2*m.Bound {
		t.Errorf("%+v, the gene is %d", m, gene)
	}
	rejected := runRouter(t, dir, func(o *compress.Options) { o.Margins = compress.MarginsReject })
	b := rejected.Report.Blocks[0]
	if rejected.Status != finitepass.NoReduction || b.Status != finitepass.Refused || !strings.HasPrefix(b.Reason, "margins: ") ||
		!strings.Contains(b.Reason, fmt.Sprintf("element %d ", gene)) {
		t.Errorf("%s, block %s: %s", rejected.Status, b.Status, b.Reason)
	}
	if rejected.Report.Values.Saved() != 0 || !rejected.Report.Gate.Bitwise || !strings.Contains(rejected.Report.Reason, "router") {
		t.Errorf("saved %d: %s", rejected.Report.Values.Saved(), rejected.Report.Reason)
	}
	if _, err := compress.Local(context.Background(), dir, compress.Options{Margins: "maybe"}); !errors.Is(err, compress.ErrOption) {
		t.Errorf("an unknown rule: %v", err)
	}
}

// failedOutputs returns the failed outputs of the first example that failed.
func failedOutputs(r *validation.Report) map[string]validation.OutputResult {
	out := map[string]validation.OutputResult{}
	for _, e := range r.Results {
		if e.Example != r.FirstFailure.Example {
			continue
		}
		for _, o := range e.Failed {
			out[o.Output] = o
		}
	}
	return out
}

func tieIDs(t testing.TB, file string, i int) []int64 {
	t.Helper()
	examples, err := validation.ReadFile(file, validation.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return examples[i].Inputs.Tensors["input_ids"].Int64s()
}

package finitepass_test

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
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// maker declares blocks of the package's own layers over any domain.
type maker struct {
	t  testing.TB
	r  *rand.Rand
	f  *fixture
	dt tensor.DType
}

func newMaker(t testing.TB, dev nn.Device, seed uint64, dt tensor.DType) *maker {
	return &maker{t: t, r: rand.New(rand.NewPCG(seed, 11)), f: &fixture{dev: dev, weights: weights{}}, dt: dt}
}

// param adds a random tensor of the maker's type.
func (m *maker) param(name string, scale float32, dims ...int) *tensor.Tensor {
	m.t.Helper()
	x, err := tensor.New(m.dt, dims...)
	if err != nil {
		m.t.Fatal(err)
	}
	cast := nn.Cast{DType: m.dt}
	for i := range x.Len() {
		v := float32(m.r.NormFloat64()) * scale
		key, err := cast.Key(v)
		if err != nil {
			m.t.Fatal(err)
		}
		if m.dt == tensor.F32 {
			x.Uint32s()[i] = uint32(key)
		} else {
			x.Uint16s()[i] = uint16(key)
		}
	}
	m.f.weights[name] = x
	m.f.params = append(m.f.params, loader.Param{Name: name, Shape: x.Shape(), DTypes: []tensor.DType{m.dt}})
	return x
}

// own adds a tensor that goes with the block.
func (m *maker) own(name string, scale float32, dims ...int) string {
	m.param(name, scale, dims...)
	m.f.spec.Removes = append(m.f.spec.Removes, name)
	return name
}

func (m *maker) linear(name string, in, out int, bias bool) nn.RowLocal {
	m.t.Helper()
	w, b := m.own(name+".weight", 1/float32(in), out, in), ""
	if bias {
		b = m.own(name+".bias", 0.5, out)
	}
	l, err := nn.NewLinear(m.f.dev, m.f.weights.Tensor, w, b)
	if err != nil {
		m.t.Fatal(err)
	}
	return l
}

func (m *maker) layerNorm(name string, width int) nn.RowLocal {
	m.t.Helper()
	n, err := nn.NewLayerNorm(m.f.dev, m.f.weights.Tensor, m.own(name+".weight", 1, width), m.own(name+".bias", 1, width), 1e-5)
	if err != nil {
		m.t.Fatal(err)
	}
	return n
}

func (m *maker) upload(rows nn.RowSource) nn.Table {
	m.t.Helper()
	table, err := m.f.dev.UploadRows(rows)
	if err != nil {
		m.t.Fatal(err)
	}
	return table
}

func (m *maker) embedding(name string, rows, width int) nn.RowSource {
	m.t.Helper()
	src, err := nn.TensorRows(m.param(name, 1, rows, width))
	if err != nil {
		m.t.Fatal(err)
	}
	return src
}

// finish declares the block that source is.
func (m *maker) finish(source *nn.Fanout) *fixture {
	m.t.Helper()
	if err := source.Validate(); err != nil {
		m.t.Fatal(err)
	}
	s := &m.f.spec
	s.Path, s.Domain, s.Contract = "block", source.Over, architectures.ContractOf(source.Over)
	s.NumTokens, s.EmbeddingWidth, s.Embedding = source.NumTokens(), source.Embedding.Width(), source.EmbeddingName
	s.Outputs = source.Outputs()
	if source.Residual != "" {
		s.Outputs = s.Outputs[:len(s.Outputs)-1]
	}
	m.f.source = source
	return m.f
}

func (f *fixture) optionsFor(t testing.TB, profiles ...finitepass.Profile) finitepass.Options {
	o := f.options(t, profiles...)
	o.Contract, o.ChunkRows, o.ValidationChunk, o.RequireBitwise = f.spec.Contract, 0, 0, true
	return o
}

// adaLN is the conditioning of a diffusion transformer: the sinusoidal embedding
// of a timestep, an MLP, and a modulation of 6·width columns for each block and
// of 2·width for the last norm.
func adaLN(t testing.TB, dev nn.Device, dt tensor.DType, domain *nn.Domain, width, blocks int) *fixture {
	t.Helper()
	m := newMaker(t, dev, 42, dt)
	freqs, err := nn.DiffusionFrequencies(width/4, 10000, 1)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := nn.Sinusoid{Freqs: freqs, Scale: 1000, ScaleFirst: true, DType: dt}.Rows(domain.Values())
	if err != nil {
		t.Fatal(err)
	}
	silu := nn.Activation{Function: nn.SiLU}
	f := &nn.Fanout{
		Embedding: m.upload(rows), EmbeddingSource: rows, Over: domain,
		Prefix: []nn.RowLocal{m.linear("time.0", width/4, width, true), silu, m.linear("time.2", width, width, true), silu},
	}
	for i := range blocks {
		name := fmt.Sprintf("blocks.%d.norm", i)
		f.Branches = append(f.Branches, nn.Branch{Name: name, Layers: []nn.RowLocal{m.linear(name, width, 6*width, true)}})
	}
	f.Branches = append(f.Branches, nn.Branch{Name: "norm_out", Layers: []nn.RowLocal{m.linear("norm_out", width, 2*width, true)}})
	return m.finish(f)
}

func declaredSteps(t testing.TB, dt tensor.DType, n int) *nn.Domain {
	t.Helper()
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i) / float32(n)
	}
	d, err := nn.NewTimesteps(nn.Cast{DType: dt}, values)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// An adaLN core with the proportions of F5-TTS at a sixteenth of its width, at
// its default 32 steps, in every type that devices compute in.
func TestTimesteps(t *testing.T) {
	for _, dt := range []tensor.DType{tensor.F32, tensor.BF16, tensor.F16} {
		for _, mode := range []string{"", nn.ModeSplitK} {
			t.Run(dt.String()+mode, func(t *testing.T) {
				dev := openCPU(t, mode)
				blocks := 3
				if dt == tensor.F32 && mode == "" {
					blocks = 22
				}
				f := adaLN(t, dev, dt, declaredSteps(t, dt, 32), 64, blocks)
				_, profiles, err := finitepass.FindProfiles(context.Background(), dev, f.source, finitepass.ProbeOptions{MaxRows: 20, SmallRows: 17, Strict: true})
				if err != nil {
					t.Fatal(err)
				}
				l, r := mustCompile(t, f, f.optionsFor(t, profiles...))
				if !r.Comparison.Bitwise || r.Residual != "" || r.Contract != architectures.DeclaredTimestepsOnly {
					t.Errorf("%+v", r)
				}
				size := int64(dt.Size())
				if r.Account.Before.ResidentBytes != size*int64(16*64+64+64*64+64+blocks*(6*64*64+6*64)+2*64*64+2*64) {
					t.Errorf("%+v", r.Account.Before)
				}
				if len(profiles) == 0 && r.Account.After.ResidentBytes != size*32*int64(blocks*6*64+2*64) {
					t.Errorf("%+v", r.Account.After)
				}
				if !l.Domain().Equal(f.spec.Domain) || l.Recipe().Version != 3 || l.Recipe().Embedding != nil {
					t.Errorf("recipe %s", l.RecipeJSON())
				}
				i, err := l.Domain().TimestepIndex(0.5)
				if err != nil {
					t.Fatal(err)
				}
				equalOn(t, dev, f.source, l, i)
				equalOn(t, dev, f.source, l, i, i, 0)
				if _, err := l.Domain().TimestepIndex(0.51); !errors.Is(err, nn.ErrIndex) {
					t.Errorf("an undeclared step: %v", err)
				}
				if _, err := forward(t, dev, l, 32); err == nil {
					t.Error("step 32 of 32 accepted")
				}
				if err := nn.CheckBlock(l, 32, f.spec.Domain, f.source.Outputs()); err != nil {
					t.Error(err)
				}
				// It opens again, and only with all of the domain.
				back, err := finitepass.Open(l.Recipe(), stateOf(l).get, nil, dev)
				if err != nil || back.Digest() != l.Digest() {
					t.Errorf("%v", err)
				}
			})
		}
	}
}

// What the counted tables of published models say, by arithmetic on full-size
// declarations: no weights are needed.
func TestCountedTimesteps(t *testing.T) {
	f32 := []tensor.DType{tensor.F32}
	declare := func(domain *nn.Domain, dt tensor.DType, params []loader.Param, widths ...int) (architectures.BlockSpec, *finitepass.Inventory) {
		inv, err := finitepass.PlannedInventory(params, func(loader.Param) tensor.DType { return dt })
		if err != nil {
			t.Fatal(err)
		}
		s := architectures.BlockSpec{
			Path: "time", Contract: architectures.ContractOf(domain), Domain: domain,
			NumTokens: domain.Size, EmbeddingWidth: 256,
		}
		for _, p := range params {
			s.Removes = append(s.Removes, p.Name)
		}
		for i, w := range widths {
			s.Outputs = append(s.Outputs, nn.Output{Name: fmt.Sprint(i), Width: w, DType: dt})
		}
		return s, inv
	}
	linear := func(name string, in, out int) []loader.Param {
		return []loader.Param{
			{Name: name + ".weight", Shape: tensor.Shape{out, in}, DTypes: f32},
			{Name: name + ".bias", Shape: tensor.Shape{out}, DTypes: f32},
		}
	}
	mlp := func(hidden int) []loader.Param {
		return append(linear("t.0", 256, hidden), linear("t.2", hidden, hidden)...)
	}
	repeat := func(n, width int) []int {
		return slices.Repeat([]int{width}, n)
	}

	// F5-TTS v1 Base, 32 steps: 550 MB.
	params := mlp(1024)
	for i := range 22 {
		params = append(params, linear(fmt.Sprint("b", i), 1024, 6144)...)
	}
	params = append(params, linear("out", 1024, 2048)...)
	spec, inv := declare(declaredSteps(t, tensor.F32, 32), tensor.F32, params, append(repeat(22, 6144), 2048)...)
	p := finitepass.PlanBlock(spec, inv, 0)
	if p.Removed.Values != 141_959_168 || p.TableValues != 32*137_216 || p.BytesSaved != 550_273_024 || p.Refusal != "" {
		t.Errorf("F5-TTS: %+v", p)
	}

	// Qwen-Image, BF16: 50 steps save 13,430 MB, the universal table 8,116 MB.
	params = mlp(3072)
	for i := range 120 {
		params = append(params, linear(fmt.Sprint("b", i), 3072, 6*3072)...)
	}
	params = append(params, linear("out", 3072, 2*3072)...)
	widths := append(repeat(120, 6*3072), 2*3072)
	spec, inv = declare(declaredSteps(t, tensor.BF16, 50), tensor.BF16, params, widths...)
	if p = finitepass.PlanBlock(spec, inv, 0); p.BytesSaved/1e6 != 13_430 || p.BreakEvenTables != 61 {
		t.Errorf("Qwen-Image, 50 steps: %+v", p)
	}
	spec, inv = declare(nn.UniversalTimesteps(), tensor.BF16, params, widths...)
	if p = finitepass.PlanBlock(spec, inv, 0); p.BytesSaved/1e6 != 8_116 {
		t.Errorf("Qwen-Image, every BF16 timestep: %+v", p)
	}
	if !strings.HasPrefix(p.Arithmetic, "1248 timesteps × (") {
		t.Errorf("arithmetic: %.60s", p.Arithmetic)
	}

	// DiT-XL/2: 50 steps with one class and the null class are 100 pairs: 836 MB.
	classes, err := nn.ListedTokens([]int{207, 1000})
	if err != nil {
		t.Fatal(err)
	}
	pairs, err := nn.NewPairs(declaredSteps(t, tensor.F32, 50), classes)
	if err != nil {
		t.Fatal(err)
	}
	params = append(mlp(1152), loader.Param{Name: "classes", Shape: tensor.Shape{1001, 1152}, DTypes: f32})
	for i := range 28 {
		params = append(params, linear(fmt.Sprint("b", i), 1152, 6*1152)...)
	}
	params = append(params, linear("out", 1152, 2*1152)...)
	spec, inv = declare(pairs, tensor.F32, params, append(repeat(28, 6*1152), 2*1152)...)
	if p = finitepass.PlanBlock(spec, inv, 0); p.Removed.Values != 228_580_992 || p.BytesSaved/1e6 != 835 {
		t.Errorf("DiT-XL/2: %+v", p)
	}
	// Break-even: 1,167 pairs save, 1,168 do not.
	for n, saves := range map[int]bool{1167: true, 1168: false} {
		d, err := nn.AllTokens(n)
		if err != nil {
			t.Fatal(err)
		}
		one, err := nn.NewPairs(nn.ConstantDomain(), d)
		if err != nil {
			t.Fatal(err)
		}
		spec.Domain, spec.NumTokens = one, n
		if p = finitepass.PlanBlock(spec, inv, 0); (p.Refusal == "") != saves {
			t.Errorf("%d pairs: %s", n, p.Arithmetic)
		}
	}
}

// Pairs of a step and a class: the prefix reads the sum of a time MLP and a
// class embedding, which goes with the block.
func TestPairs(t *testing.T) {
	for _, join := range []nn.Join{nn.Sum, nn.Concat} {
		dev := openCPU(t, "")
		m := newMaker(t, dev, 3, tensor.F32)
		domain := declaredSteps(t, tensor.F32, 10)
		freqs, err := nn.DiffusionFrequencies(32, 10000, 0)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := nn.Sinusoid{Freqs: freqs}.Rows(domain.Values())
		if err != nil {
			t.Fatal(err)
		}
		classes := m.embedding("classes", 3, 48)
		m.f.spec.Removes = append(m.f.spec.Removes, "classes")
		number, err := nn.AllTokens(3)
		if err != nil {
			t.Fatal(err)
		}
		pairs, err := nn.NewPairs(domain, number)
		if err != nil {
			t.Fatal(err)
		}
		in := 48
		if join == nn.Concat {
			in = 96
		}
		silu := nn.Activation{Function: nn.SiLU}
		f := m.finish(&nn.Fanout{
			Embedding: m.upload(rows), EmbeddingSource: rows, Over: pairs,
			Pair: &nn.Pair{
				Embedding: m.upload(classes), EmbeddingSource: classes, EmbeddingName: "classes", Join: join,
				FirstLayers: []nn.RowLocal{m.linear("t.0", 32, 48, true), silu, m.linear("t.2", 48, 48, true)},
			},
			Prefix: []nn.RowLocal{silu},
			Branches: []nn.Branch{
				{Name: "a", Layers: []nn.RowLocal{m.linear("a", in, 96, true)}},
				{Name: "b", Layers: []nn.RowLocal{m.linear("b", in, 64, false)}},
			},
		})
		l, r := mustCompile(t, f, f.optionsFor(t))
		if !r.Comparison.Bitwise || r.Comparison.Tokens != 30 || r.Account.After.Values != 30*160 {
			t.Errorf("%+v, %+v", r.Comparison, r.Account)
		}
		at, err := l.Domain().PairIndex(7, 2)
		if err != nil || at != 23 {
			t.Errorf("%d, %v", at, err)
		}
		equalOn(t, dev, f.source, l, at, 0, 29)
	}
}

// A constant input: an adaLN whose noise level is always 0, as in MDLM, becomes
// one row of each modulation.
func TestConstantDomain(t *testing.T) {
	dev := openCPU(t, "")
	m := newMaker(t, dev, 4, tensor.F32)
	zero, err := nn.Sinusoid{Freqs: []float32{1, 0.5, 0.25, 0.125}}.Rows([]float32{0})
	if err != nil {
		t.Fatal(err)
	}
	f := m.finish(&nn.Fanout{
		Embedding: m.upload(zero), EmbeddingSource: zero, Over: nn.ConstantDomain(),
		Prefix:   []nn.RowLocal{m.linear("mlp", 8, 128, true), nn.Activation{Function: nn.SiLU}},
		Branches: []nn.Branch{{Name: "mod", Layers: []nn.RowLocal{m.linear("mod", 128, 96, true)}}},
	})
	o := f.optionsFor(t)
	l, r := mustCompile(t, f, o)
	if r.Account.After.Values != 96 || r.Contract != architectures.ConstantInputOnly {
		t.Errorf("%+v", r.Account)
	}
	equalOn(t, dev, f.source, l, 0, 0, 0)
	// The contract is asked for, and another one will not do.
	o.Contract = architectures.TokenIndicesOnly
	if _, _, err := finitepass.CompileFanout(context.Background(), dev, f.spec, f.source, o); !errors.Is(err, finitepass.ErrContract) {
		t.Errorf("%v", err)
	}
	o.Contracts = []string{architectures.ConstantInputOnly}
	mustCompile(t, f, o)
	// A declaration that names the contract of another domain does not hold.
	f.spec.Contract = architectures.TokenIndicesOnly
	if _, r := compile(t, f, o); r.Status != finitepass.Refused || !strings.Contains(r.Reason, "contract") {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
	f.spec.Contract, f.spec.Domain = architectures.DeclaredTimestepsOnly, declaredSteps(t, tensor.F32, 1)
	o.Contracts = append(o.Contracts, architectures.DeclaredTimestepsOnly)
	if _, r := compile(t, f, o); r.Status != finitepass.Refused || !strings.Contains(r.Reason, "domain") {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
}

// Several element types in one block: half-precision branches beside an F32
// embedding that is also an output. Different types lie in different tables.
func TestSeveralTypes(t *testing.T) {
	dev := openCPU(t, "")
	m := newMaker(t, dev, 5, tensor.F32)
	rows := m.embedding("embed", 9, 64)
	full := m.linear("full", 64, 40, true)
	m.dt = tensor.BF16
	half := m.linear("half", 64, 72, true)
	m.dt = tensor.F16
	other := m.linear("other", 64, 24, false)
	f := m.finish(&nn.Fanout{
		Embedding: m.upload(rows), EmbeddingSource: rows, EmbeddingName: "embed", Residual: "residual",
		Branches: []nn.Branch{
			{Name: "full", Layers: []nn.RowLocal{full}},
			{Name: "half", Layers: []nn.RowLocal{castTo(tensor.BF16), half}},
			{Name: "other", Layers: []nn.RowLocal{castTo(tensor.F16), other}},
			{Name: "same", Layers: []nn.RowLocal{castTo(tensor.BF16), half}},
		},
	})
	l, r := mustCompile(t, f, f.optionsFor(t))
	if r.UniqueTables != 3 || len(r.Tables) != 3 || r.Account.After.ResidentBytes != 9*(4*64+4*40+2*72+2*24) {
		t.Errorf("%+v, %+v", r.Tables, r.Account)
	}
	equalOn(t, dev, f.source, l, 8, 0, 3, 3)
	x, err := forward(t, dev, l, 2)
	if err != nil {
		t.Fatal(err)
	}
	if x[1].DType() != tensor.BF16 || x[2].DType() != tensor.F16 || x[4].DType() != tensor.F32 || !tensor.BitEqual(x[1], x[3]) {
		t.Errorf("%v", x)
	}
	clear(x[1].Bytes())
	if tensor.BitEqual(x[1], x[3]) {
		t.Error("outputs share storage")
	}
}

// castTo rounds to another type.
type castTo tensor.DType

func (c castTo) Forward(s nn.Session, x nn.Array) nn.Array { return s.Cast(x, tensor.DType(c)) }
func (c castTo) OutWidth(in int) (int, error)              { return in, nil }
func (c castTo) OutDType(tensor.DType) tensor.DType        { return tensor.DType(c) }
func (c castTo) ParamNames() []string                      { return nil }
func (c castTo) Describe() string                          { return "cast" }

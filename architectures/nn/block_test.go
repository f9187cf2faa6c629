package nn_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// Counted from the bfloat16 values of 1 to 1,000: 1,275 of them, of which the
// division makes 1,248.
func TestUniversalTimesteps(t *testing.T) {
	d := nn.UniversalTimesteps()
	if d.Size != 1248 || len(d.Keys) != 1248 || d.Kind != nn.Timesteps {
		t.Fatalf("%v", d)
	}
	// Every timestep of a usual schedule is an element, whatever its fraction.
	for i := range 1000 {
		for _, f := range []float32{0, 0.25, 0.999} {
			if v := float32(i+1) + f; v <= 1000 {
				if _, err := d.TimestepIndex(v); err != nil {
					t.Errorf("%g: %v", v, err)
				}
			}
		}
	}
	for _, v := range []float32{0, -1, 2000, float32(math.NaN()), float32(math.Inf(1))} {
		if _, err := d.TimestepIndex(v); !errors.Is(err, nn.ErrIndex) {
			t.Errorf("%g: %v", v, err)
		}
	}
	text, err := d.Keys.MarshalText()
	if err != nil || len(text) > 400 {
		t.Errorf("%d bytes of keys: %v", len(text), err)
	}
}

func TestTimesteps(t *testing.T) {
	d, err := nn.NewTimesteps(nn.Cast{DType: tensor.F32}, []float32{1, 0.5, 0.5, 0, float32(math.Copysign(0, -1))})
	if err != nil {
		t.Fatal(err)
	}
	// −0 and +0 are two elements: their sines differ.
	if want := []float32{0, 0.5, 1, float32(math.Copysign(0, -1))}; !slices.Equal(bits(d.Values()), bits(want)) {
		t.Errorf("%v", d.Values())
	}
	i, err := d.TimestepIndex(0.5)
	if err != nil || i != 1 {
		t.Errorf("%d, %v", i, err)
	}
	_, err = d.TimestepIndex(0.75)
	if !errors.Is(err, nn.ErrIndex) || !strings.Contains(err.Error(), "0.75") || !strings.Contains(err.Error(), "0x3f400000") {
		t.Errorf("%v", err)
	}
	half, err := nn.NewTimesteps(nn.Cast{DType: tensor.F16}, []float32{1, 1.0001, 999.9})
	if err != nil || half.Size != 2 {
		t.Errorf("%v, %v", half, err)
	}
	captured, err := nn.TimestepKeys(nn.Cast{DType: tensor.F16}, []uint64{0x3c00, 0x63d0})
	if err != nil || !captured.Equal(half) {
		t.Errorf("%v, %v: %v", captured, half, err)
	}
}

func bits(v []float32) []uint32 {
	out := make([]uint32, len(v))
	for i, x := range v {
		out[i] = math.Float32bits(x)
	}
	return out
}

func TestDomainsRefused(t *testing.T) {
	steps, err := nn.NewTimesteps(nn.Cast{DType: tensor.BF16}, []float32{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]*nn.Domain{
		"no kind":          {Size: 1},
		"empty":            {Kind: nn.TokenIDs},
		"negative":         {Kind: nn.TokenIDs, Size: -1},
		"huge":             {Kind: nn.TokenIDs, Size: 1 << 40},
		"two constants":    {Kind: nn.Constant, Size: 2},
		"constant keys":    {Kind: nn.Constant, Size: 1, Keys: nn.Keys{1}},
		"tokens with cast": {Kind: nn.TokenIDs, Size: 1, Cast: steps.Cast},
		"no cast":          {Kind: nn.Timesteps, Size: 1, Keys: nn.Keys{1}},
		"no keys":          {Kind: nn.Timesteps, Size: 1, Cast: steps.Cast},
		"fewer keys":       {Kind: nn.Timesteps, Size: 3, Cast: steps.Cast, Keys: steps.Keys},
		"unordered":        {Kind: nn.Timesteps, Size: 2, Cast: steps.Cast, Keys: nn.Keys{2, 1}},
		"wide key":         {Kind: nn.Timesteps, Size: 1, Cast: steps.Cast, Keys: nn.Keys{1 << 16}},
		"infinite":         {Kind: nn.Timesteps, Size: 1, Cast: steps.Cast, Keys: nn.Keys{0x7f80}},
		"integer cast":     {Kind: nn.Timesteps, Size: 1, Cast: &nn.Cast{DType: tensor.I32}, Keys: nn.Keys{1}},
		"negative divisor": {Kind: nn.Timesteps, Size: 1, Cast: &nn.Cast{DType: tensor.F32, Divide: -1}, Keys: nn.Keys{1}},
		"one factor":       {Kind: nn.Pairs, Size: 2, Factors: []nn.Domain{*steps}},
		"wrong product":    {Kind: nn.Pairs, Size: 3, Factors: []nn.Domain{*steps, *steps}},
		"nested pairs":     {Kind: nn.Pairs, Size: 2, Factors: []nn.Domain{*steps, {Kind: nn.Pairs, Size: 1}}},
	} {
		if err := d.Validate(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := nn.ListedTokens([]int{3, -1}); !errors.Is(err, nn.ErrIndex) {
		t.Errorf("%v", err)
	}
	if _, err := nn.ListedTokens(nil); err == nil {
		t.Error("no tokens accepted")
	}
	wide, err := nn.AllTokens(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nn.NewPairs(wide, wide); err == nil {
		t.Error("2⁴⁰ pairs accepted")
	}
}

func TestListedTokens(t *testing.T) {
	d, err := nn.ListedTokens([]int{7, 3, 4, 7, 5})
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := d.Keys.MarshalText(); string(text) != "3-5,7" {
		t.Errorf("keys %s", text)
	}
	if i, err := d.Index(7); i != 3 || err != nil {
		t.Errorf("%d, %v", i, err)
	}
	if _, err := d.Index(6); !errors.Is(err, nn.ErrIndex) || !strings.Contains(err.Error(), "token id 6") {
		t.Errorf("%v", err)
	}
}

func TestDomainJSON(t *testing.T) {
	steps := nn.UniversalTimesteps()
	classes, err := nn.AllTokens(1001)
	if err != nil {
		t.Fatal(err)
	}
	few, err := nn.NewTimesteps(nn.Cast{DType: tensor.F32}, []float32{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	pairs, err := nn.NewPairs(few, classes)
	if err != nil {
		t.Fatal(err)
	}
	if i, err := pairs.PairIndex(2, 7); i != 2*1001+7 || err != nil {
		t.Errorf("%d, %v", i, err)
	}
	if _, err := pairs.PairIndex(3, 0); !errors.Is(err, nn.ErrIndex) {
		t.Errorf("%v", err)
	}
	for _, d := range []*nn.Domain{steps, pairs, classes, nn.ConstantDomain()} {
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		back := &nn.Domain{}
		if err := json.Unmarshal(text, back); err != nil {
			t.Fatal(err)
		}
		if err := back.Validate(); err != nil || !back.Equal(d) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if steps.Equal(few) || steps.Equal(nil) || !(*nn.Domain)(nil).Equal(nil) {
		t.Error("equality")
	}
}

// Whatever text is read as keys is written again as it was.
func FuzzKeys(f *testing.F) {
	for _, s := range []string{"0-1f,3c,40-7f", "", "0", "1-0", "1,2", "0-ffffffffffffffff", "00", "A", "3-5,6", "ffffffffffffffff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var k nn.Keys
		if len(s) > 100 || k.UnmarshalText([]byte(s)) != nil {
			return
		}
		back, err := k.MarshalText()
		if err != nil || string(back) != s {
			t.Fatalf("%q became %q: %v", s, back, err)
		}
	})
}

// The embedding of a timestep agrees with float64 arithmetic, and its bits are
// pinned: they are part of what a table stands for.
func TestSinusoid(t *testing.T) {
	freqs, err := nn.DiffusionFrequencies(8, 10000, 0)
	if err != nil {
		t.Fatal(err)
	}
	values := []float32{0, 0.25, 1}
	for _, s := range []nn.Sinusoid{
		{Freqs: freqs}, {Freqs: freqs, Scale: 1000}, {Freqs: freqs, Scale: 1000, ScaleFirst: true, CosFirst: true},
	} {
		rows, err := s.Rows(values)
		if err != nil {
			t.Fatal(err)
		}
		row := make([]byte, 32)
		for i, v := range values {
			if err := rows.DecodeRow(row, i); err != nil {
				t.Fatal(err)
			}
			x, err := tensor.FromBytes(tensor.F32, tensor.Shape{8}, slices.Clone(row))
			if err != nil {
				t.Fatal(err)
			}
			scale := float64(max(s.Scale, 1))
			for k := range 4 {
				sin, cos := math.Sincos(float64(v) * math.Pow(10000, -float64(k)/4) * scale)
				if s.CosFirst {
					sin, cos = cos, sin
				}
				if math.Abs(float64(x.Float32s()[k])-sin) > 1e-4 || math.Abs(float64(x.Float32s()[4+k])-cos) > 1e-4 {
					t.Errorf("value %g, %d: %v, expected %g and %g", v, k, x.Float32s(), sin, cos)
				}
			}
		}
		if rows.DecodeRow(row, 3) == nil || rows.DecodeRow(row, -1) == nil {
			t.Error("a row outside")
		}
	}
	for name, s := range map[string]nn.Sinusoid{"no frequencies": {}, "integers": {Freqs: freqs, DType: tensor.I32}} {
		if _, err := s.Rows(values); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := nn.DiffusionFrequencies(7, 10000, 0); err == nil {
		t.Error("odd width accepted")
	}
}

func denseRows(t *testing.T, r *rand.Rand, rows, width int) (nn.RowSource, *tensor.Tensor) {
	t.Helper()
	x, err := tensor.New(tensor.F32, rows, width)
	if err != nil {
		t.Fatal(err)
	}
	for i := range x.Float32s() {
		x.Float32s()[i] = float32(r.NormFloat64())
	}
	src, err := nn.TensorRows(x)
	if err != nil {
		t.Fatal(err)
	}
	return src, x
}

// A pair is the join of its two rows, for every pair, in any order of a call.
func TestPairFanout(t *testing.T) {
	dev, err := nn.OpenCPU(nn.CPUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	r := rand.New(rand.NewPCG(1, 2))
	first, a := denseRows(t, r, 3, 4)
	second, b := denseRows(t, r, 5, 4)
	upload := func(src nn.RowSource) nn.Table {
		table, err := dev.UploadRows(src)
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	both, err := nn.ConcatRows(first, second)
	if err != nil {
		t.Fatal(err)
	}
	branch := []nn.Branch{{Name: "y"}}
	sum := &nn.Fanout{
		Embedding: upload(first), EmbeddingSource: first,
		Pair:     &nn.Pair{Embedding: upload(second), EmbeddingSource: second, EmbeddingName: "classes"},
		Branches: branch,
	}
	concat := *sum
	concat.Pair = &nn.Pair{Embedding: upload(second), EmbeddingSource: second, Join: nn.Concat}
	rows := &nn.Fanout{Embedding: upload(both), EmbeddingSource: both, Branches: branch}
	var ids []int
	for i := range 15 {
		ids = append(ids, i*7%15)
	}
	call := func(f *nn.Fanout) *tensor.Tensor {
		t.Helper()
		if err := f.Validate(); err != nil {
			t.Fatal(err)
		}
		s := dev.Begin(context.Background())
		defer s.Close()
		y := s.ToHost(f.Forward(s, ids)[0])
		if s.Err() != nil {
			t.Fatal(s.Err())
		}
		return y
	}
	y := call(sum)
	for k, id := range ids {
		for c := range 4 {
			if want := a.Float32s()[id/5*4+c] + b.Float32s()[id%5*4+c]; y.Float32s()[4*k+c] != want {
				t.Errorf("pair %d: %g, expected %g", id, y.Float32s()[4*k+c], want)
			}
		}
	}
	if !tensor.BitEqual(call(&concat), call(rows)) {
		t.Error("concatenation on the device and of the rows differ")
	}
	s := dev.Begin(context.Background())
	defer s.Close()
	sum.Forward(s, []int{15})
	if !errors.Is(s.Err(), nn.ErrIndex) {
		t.Errorf("pair 15 of 15: %v", s.Err())
	}
	// Declarations that do not hold together.
	bad := *sum
	bad.Residual = "residual"
	for name, f := range map[string]*nn.Fanout{
		"residual of a pair":     &bad,
		"residual of no tensor":  {Embedding: upload(first), Branches: branch, Residual: "r"},
		"domain of another size": {Embedding: upload(first), Branches: branch, Over: nn.ConstantDomain()},
		"sum of other widths": {Embedding: upload(first), Branches: branch,
			Pair: &nn.Pair{Embedding: upload(both)}},
		"unknown join": {Embedding: upload(first), Branches: branch,
			Pair: &nn.Pair{Embedding: upload(second), Join: 7}},
	} {
		if err := f.Validate(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A layer that says so gives its outputs another element type.
type narrow struct{ nn.Activation }

func (narrow) OutDType(tensor.DType) tensor.DType { return tensor.BF16 }

func TestCheckBlock(t *testing.T) {
	dev, err := nn.OpenCPU(nn.CPUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	src, _ := denseRows(t, rand.New(rand.NewPCG(1, 2)), 3, 4)
	table, err := dev.UploadRows(src)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := nn.NewTimesteps(nn.Cast{DType: tensor.F32}, []float32{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	f := &nn.Fanout{Embedding: table, Over: steps, Branches: []nn.Branch{
		{Name: "a"}, {Name: "b", Layers: []nn.RowLocal{narrow{}}},
	}}
	want := []nn.Output{{Name: "a", Width: 4, DType: tensor.F32}, {Name: "b", Width: 4, DType: tensor.BF16}}
	if err := nn.CheckBlock(f, 3, steps, want); err != nil {
		t.Error(err)
	}
	other, err := nn.NewTimesteps(nn.Cast{DType: tensor.F32}, []float32{1, 2, 4})
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"nothing":     nn.CheckBlock(nil, 3, steps, want),
		"size":        nn.CheckBlock(f, 4, steps, want),
		"domain":      nn.CheckBlock(f, 3, other, want),
		"token ids":   nn.CheckBlock(f, 3, nil, want),
		"fewer":       nn.CheckBlock(f, 3, steps, want[:1]),
		"other names": nn.CheckBlock(f, 3, steps, []nn.Output{want[1], want[0]}),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

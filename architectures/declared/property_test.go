package declared_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/declared"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/tensor"
	"github.com/hfcompress/compress/validation"
)

type object = map[string]any

type memory map[string]*tensor.Tensor

func (m memory) Tensor(name string) (*tensor.Tensor, error) {
	if t := m[name]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("no tensor %q", name)
}

func randomTensor(rng *rand.Rand, d tensor.DType, shape tensor.Shape) (*tensor.Tensor, error) {
	x, err := tensor.New(d, shape...)
	if err != nil {
		return nil, err
	}
	for i := range x.Len() {
		v := float32(rng.NormFloat64())
		switch d {
		case tensor.BF16:
			binary.LittleEndian.PutUint16(x.Bytes()[2*i:], fmath.BF16Bits(fmath.RoundBF16(v)))
		case tensor.F16:
			binary.LittleEndian.PutUint16(x.Bytes()[2*i:], fmath.F16Bits(fmath.RoundF16(v)))
		default:
			x.Float32s()[i] = v
		}
	}
	return x, nil
}

// graph draws the layers of a block.
type graph struct {
	t    *rapid.T
	next int
}

func (g *graph) name() string { g.next++; return fmt.Sprintf("w%d", g.next) }

func (g *graph) chain(width *int, most, depth int) []object {
	out := []object{}
	for range rapid.IntRange(0, most).Draw(g.t, "layers") {
		out = append(out, g.layer(width, depth))
	}
	return out
}

func (g *graph) layer(width *int, depth int) object {
	ops := []string{"linear", "layernorm", "rmsnorm", "activation", "normalize", "scale", "columns"}
	if depth > 0 {
		ops = append(ops, "sum", "product")
	}
	l := object{"op": rapid.SampledFrom(ops).Draw(g.t, "op")}
	switch op := l["op"]; op {
	case "linear":
		l["weight"], *width = g.name(), rapid.IntRange(1, 40).Draw(g.t, "out")
		l["out"], l["transposed"] = *width, rapid.Bool().Draw(g.t, "transposed")
		if rapid.Bool().Draw(g.t, "bias") {
			l["bias"] = g.name()
		}
	case "layernorm", "rmsnorm":
		if op == "rmsnorm" || rapid.Bool().Draw(g.t, "affine") {
			l["weight"] = g.name()
		}
	case "activation":
		l["function"] = rapid.SampledFrom([]string{"silu", "gelu", "gelu_tanh", "relu", "tanh", "sigmoid"}).Draw(g.t, "function")
	case "scale":
		l["by"] = rapid.Float64Range(-4, 4).Draw(g.t, "by")
	case "columns":
		start := rapid.IntRange(0, *width-1).Draw(g.t, "start")
		*width = rapid.IntRange(1, *width-start).Draw(g.t, "width")
		l["start"], l["width"] = start, *width
	case "sum", "product":
		inner := *width
		chain := g.chain(&inner, 3, depth-1)
		chain = append(chain, object{"op": "linear", "weight": g.name(), "out": *width})
		l["of"] = [][]object{{}, chain}
	}
	return l
}

// Whatever a file declares, a block that is accepted gives the source's bits on
// its whole domain and takes fewer bytes; every other block is left in place with
// a reason.
func TestRandomGraphs(t *testing.T) {
	devices := []nn.Device{cpu(t, ""), cpu(t, nn.ModeSplitK)}
	accepted, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		g := &graph{t: t}
		vocabulary := rapid.IntRange(1, 40).Draw(t, "vocabulary")
		embedding := rapid.IntRange(1, 64).Draw(t, "embedding")
		width := embedding
		prefix := g.chain(&width, 2, 1)
		var branches, outputs []object
		for i := range rapid.IntRange(1, 3).Draw(t, "branches") {
			w := width
			branches = append(branches, object{"name": fmt.Sprint("b", i), "layers": g.chain(&w, 3, 1)})
			outputs = append(outputs, object{"name": fmt.Sprint("b", i), "from": fmt.Sprint("tokens.b", i)})
		}
		block := object{"path": "tokens", "contract": "token_indices_only", "embedding": object{"tensor": "e", "width": embedding},
			"layers": prefix, "branches": branches}
		if rapid.Bool().Draw(t, "residual") {
			block["residual"] = "raw"
			outputs = append(outputs, object{"name": "raw", "from": "tokens.raw"})
		}
		dtype := rapid.SampledFrom([]string{"F32", "BF16", "F16"}).Draw(t, "dtype")
		text, err := json.Marshal(object{"version": 1, "name": "random", "dtype": dtype, "vocabulary": vocabulary, "blocks": []object{block}, "outputs": outputs})
		if err != nil {
			t.Fatal(err)
		}
		b, err := declared.Parse(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		dev := rapid.SampledFrom(devices).Draw(t, "device")
		weights := memory{}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
		for _, p := range b.Params() {
			if weights[p.Name], err = randomTensor(rng, p.DTypes[0], p.Shape); err != nil {
				t.Fatal(err)
			}
		}
		source, err := b.Build(dev, weights, nil)
		if err != nil {
			t.Fatal(err)
		}
		result, err := finitepass.CompileModel(context.Background(), b, source, weights, finitepass.ModelOptions{
			Options:  finitepass.Options{Contract: architectures.TokenIndicesOnly, RequireBitwise: true},
			Examples: validation.Generate(b.Inputs(), validation.Options{MaxPositions: 200, MaxSingles: 4, Boundaries: []int{1, 15}}),
			Gate:     validation.Gate{Bitwise: true, AllowNonFinite: true, Decisions: []string{}},
		})
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		a := result.Report.Account
		if len(result.Lookups) == 0 {
			refused++
			if a.After.ResidentBytes != a.Before.ResidentBytes || result.Report.Blocks[0].Reason == "" {
				t.Fatalf("refused with %d bytes after %d and reason %q", a.After.ResidentBytes, a.Before.ResidentBytes, result.Report.Blocks[0].Reason)
			}
			return
		}
		accepted++
		if a.After.ResidentBytes >= a.Before.ResidentBytes || a.After.LogicalBytes >= a.Before.LogicalBytes {
			t.Fatalf("accepted with %+v after %+v", a.After, a.Before)
		}
		in, err := source.Block("tokens")
		if err != nil {
			t.Fatal(err)
		}
		for _, rows := range []int{1, 2, 15, 16, 17} {
			sameRows(t, dev, in, result.Lookups["tokens"], vocabulary, rows)
		}
	})
	if accepted == 0 || refused == 0 {
		t.Errorf("%d accepted and %d refused: one side was not tried", accepted, refused)
	}
}

// sameRows calls both blocks with every token at a row count.
func sameRows(t *rapid.T, dev nn.Device, a, b nn.TokenBlock, vocabulary, rows int) {
	for from := 0; from < vocabulary; from += rows {
		ids := make([]int, rows)
		for i := range ids {
			ids[i] = (from + i) % vocabulary
		}
		s := dev.Begin(context.Background())
		x, y := a.Forward(s, ids), b.Forward(s, ids)
		for i := range x {
			p, q := s.ToHost(x[i]), s.ToHost(y[i])
			if s.Err() != nil || !tensor.BitEqual(p, q) {
				t.Fatalf("%d rows from token %d: output %d differs (%v)", rows, from, i, s.Err())
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

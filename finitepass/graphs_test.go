package finitepass_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/tensor"
)

// drawn declares random graphs.
type drawn struct {
	*maker
	rt *rapid.T
	n  int
}

func (d *drawn) int(name string, low, high int) int {
	return rapid.IntRange(low, high).Draw(d.rt, name)
}

// layers draws a chain and returns it with the width and type behind it.
func (d *drawn) layers(most, width int) ([]nn.RowLocal, int) {
	var out []nn.RowLocal
	for range d.int("layers", 0, most) {
		d.n++
		name := fmt.Sprint("l", d.n)
		switch rapid.SampledFrom([]string{"linear", "linear", "layernorm", "rmsnorm", "activation", "scale", "normalise"}).Draw(d.rt, "layer") {
		case "linear":
			next := d.int("width", 1, 40)
			out = append(out, d.linear(name, width, next, rapid.Bool().Draw(d.rt, "bias")))
			width = next
		case "layernorm":
			out = append(out, d.layerNorm(name, width))
		case "rmsnorm":
			n, err := nn.NewRMSNorm(d.f.dev, d.f.weights.Tensor, d.own(name, 1, width), 1e-6)
			if err != nil {
				d.t.Fatal(err)
			}
			out = append(out, n)
		case "activation":
			out = append(out, nn.Activation{Function: rapid.SampledFrom([]nn.Unary{
				nn.SiLU, nn.GELU, nn.GELUTanh, nn.ReLU, nn.Tanh, nn.Sigmoid,
			}).Draw(d.rt, "function")})
		case "scale":
			out = append(out, nn.Scaled{Factor: 0.88})
		case "normalise":
			out = append(out, nn.RowNormalize{Eps: 1e-12})
		}
	}
	return out, width
}

// source draws a fanout over a random domain.
func (d *drawn) source(kind string) *nn.Fanout {
	width := d.int("embedding width", 1, 48)
	f := &nn.Fanout{}
	fail := func(err error) {
		if err != nil {
			d.t.Fatal(err)
		}
	}
	var err error
	stepRows := func(n int) (*nn.Domain, nn.RowSource) {
		domain := declaredSteps(d.t, d.dt, n)
		freqs, err := nn.DiffusionFrequencies(2*((width+1)/2), 10000, 0)
		fail(err)
		rows, err := nn.Sinusoid{Freqs: freqs, Scale: 1000, DType: d.dt}.Rows(domain.Values())
		fail(err)
		return domain, rows
	}
	switch kind {
	case "timesteps":
		f.Over, f.EmbeddingSource = stepRows(d.int("steps", 1, 20))
	case "constant":
		f.Over = nn.ConstantDomain()
		f.EmbeddingSource = d.embedding("embed", 1, width)
		f.EmbeddingName = "embed"
	case "pairs":
		classes := d.int("classes", 1, 4)
		steps, rows := stepRows(d.int("steps", 1, 6))
		f.EmbeddingSource = rows
		second := d.embedding("classes", classes, rows.Width())
		if rapid.Bool().Draw(d.rt, "classes go") {
			d.f.spec.Removes = append(d.f.spec.Removes, "classes")
		}
		all, err := nn.AllTokens(classes)
		fail(err)
		f.Over, err = nn.NewPairs(steps, all)
		fail(err)
		f.Pair = &nn.Pair{Embedding: d.upload(second), EmbeddingSource: second, EmbeddingName: "classes",
			Join: rapid.SampledFrom([]nn.Join{nn.Sum, nn.Concat}).Draw(d.rt, "join")}
		width = rows.Width()
		if f.Pair.Join == nn.Concat {
			width += second.Width()
		}
	default:
		f.EmbeddingSource = d.embedding("embed", d.int("tokens", 1, 30), width)
		f.EmbeddingName = "embed"
		if rapid.Bool().Draw(d.rt, "residual") {
			f.Residual = "residual"
			d.f.spec.OwnsEmbedding = rapid.Bool().Draw(d.rt, "owned")
		} else if rapid.Bool().Draw(d.rt, "embedding goes") {
			d.f.spec.Removes = append(d.f.spec.Removes, "embed")
		}
	}
	if f.Pair == nil {
		width = f.EmbeddingSource.Width()
	}
	f.Embedding = d.upload(f.EmbeddingSource)
	f.Prefix, width = d.layers(3, width)
	for i := range d.int("branches", 1, 3) {
		layers, _ := d.layers(2, width)
		f.Branches = append(f.Branches, nn.Branch{Name: fmt.Sprint("b", i), Layers: layers})
	}
	fail(err)
	return f
}

// For random graphs, types and domains, on both kinds of device: the compiled
// block is the source, to the bit, on the whole domain and at all row counts, or
// the block is refused; an accepted one never has more bytes.
func TestRandomGraphs(t *testing.T) {
	devices := []nn.Device{openCPU(t, ""), openCPU(t, nn.ModeSplitK)}
	for _, kind := range []string{"tokens", "listed", "timesteps", "pairs", "constant"} {
		t.Run(kind, func(t *testing.T) {
			bothSides(t, func(rt *rapid.T) bool {
				dev := rapid.SampledFrom(devices).Draw(rt, "device")
				dt := rapid.SampledFrom([]tensor.DType{tensor.F32, tensor.F32, tensor.BF16, tensor.F16}).Draw(rt, "type")
				d := &drawn{maker: newMaker(t, dev, rapid.Uint64().Draw(rt, "seed"), dt), rt: rt}
				f := d.finish(d.source(kind))
				_, profiles, err := finitepass.FindProfiles(context.Background(), dev, f.source, finitepass.ProbeOptions{MaxRows: 40, SmallRows: 18, Tokens: 30, Strict: true})
				if err != nil {
					rt.Fatal(err)
				}
				o := f.optionsFor(t, profiles...)
				o.IgnorePlan = rapid.Bool().Draw(rt, "ignore plan")
				o.ChunkRows = rapid.IntRange(1, 50).Draw(rt, "chunk")
				if rapid.Bool().Draw(rt, "large") {
					o.FullWork = 1
				}
				ids := make([]int, f.source.NumTokens())
				for i := range ids {
					ids[i] = i
				}
				if kind == "listed" {
					ids = ids[len(ids)/2:]
					o.ReachableIDs, o.Contracts = ids, []string{architectures.ReachableIDsOnly}
				}
				l, report := compile(t, f, o)
				if l == nil {
					if !strings.Contains(report.Reason, "no storage saving") && !strings.Contains(report.Reason, "not finite") &&
						!strings.Contains(report.Reason, "external") {
						rt.Fatalf("refused: %s", report.Reason)
					}
					return false
				}
				a := report.Account
				if !report.Comparison.Bitwise || !a.Saves() {
					rt.Fatalf("%+v, %+v", report.Comparison, a)
				}
				var stored int64
				for _, s := range l.Tensors() {
					stored += int64(len(s.Tensor.Bytes()))
				}
				if stored+int64(len(l.RecipeJSON())) >= a.Before.ResidentBytes {
					rt.Fatalf("%d bytes and a recipe of %d, before %d", stored, len(l.RecipeJSON()), a.Before.ResidentBytes)
				}
				for _, n := range []int{0, 1, 2, 3, 14, 15, 16, 17, 41} {
					call := make([]int, n)
					for i := range call {
						call[i] = ids[(i*7+n)%len(ids)]
					}
					equalOn(t, dev, f.source, l, call...)
				}
				back, err := finitepass.ParseRecipe(l.RecipeJSON())
				if err != nil {
					rt.Fatal(err)
				}
				embedding := f.source.Embedding
				if back.Embedding == nil {
					embedding = nil
				}
				if again, err := finitepass.Open(back, stateOf(l).get, embedding, dev); err != nil || again.Digest() != l.Digest() {
					rt.Fatal(err)
				}
				return true
			})
		})
	}
}

// bothSides checks a property that says of each draw whether it was accepted,
// until both answers have been seen. A side comes up in a tenth of the draws or
// more, so a thousand without one mean that the test has lost it.
func bothSides(t *testing.T, property func(*rapid.T) (accepted bool)) {
	t.Helper()
	accepted, refused := 0, 0
	for accepted == 0 || refused == 0 {
		if accepted+refused >= 1000 {
			t.Fatalf("%d accepted, %d refused: one side is not tested", accepted, refused)
		}
		rapid.Check(t, func(rt *rapid.T) {
			if property(rt) {
				accepted++
			} else {
				refused++
			}
		})
		if t.Failed() {
			return
		}
	}
}

package validation_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
	"github.com/hfcompress/compress/validation"
)

// scores makes a finite block whose output "scores" has the given rows, and whose
// output "other" is of no interest.
func scores(t testing.TB, dev nn.Device, width int, values []float32) *nn.Fanout {
	t.Helper()
	x, err := tensor.FromFloat32s(values, len(values)/width, width)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := nn.TensorRows(x)
	if err != nil {
		t.Fatal(err)
	}
	table, err := dev.UploadRows(rows)
	if err != nil {
		t.Fatal(err)
	}
	return &nn.Fanout{Embedding: table, EmbeddingSource: rows, EmbeddingName: "e",
		Branches: []nn.Branch{{Name: "other", Layers: []nn.RowLocal{nn.Scaled{Factor: 2}}}, {Name: "scores"}}}
}

func openCPU(t testing.TB) nn.Device {
	t.Helper()
	dev, err := nn.OpenCPU(nn.CPUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// margin is the distance from the k-th to the next largest value, by sorting.
func margin(row []float32, k int) float64 {
	sorted := slices.Clone(row)
	slices.SortFunc(sorted, func(a, b float32) int { return cmp.Compare(b, a) })
	return float64(sorted[k-1]) - float64(sorted[k])
}

// Margins and ties are those of the definition, for every width, number of
// choices and row count.
func TestDomainAgreesWithItsDefinition(t *testing.T) {
	dev := openCPU(t)
	rapid.Check(t, func(rt *rapid.T) {
		width := rapid.IntRange(2, 9).Draw(rt, "width")
		n := rapid.IntRange(1, 600).Draw(rt, "elements")
		top := rapid.IntRange(1, width-1).Draw(rt, "top")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 3))
		values := make([]float32, n*width)
		for i := range values {
			values[i] = float32(rng.IntN(50)) / 8 // many exact ties
		}
		block := scores(t, dev, width, values)
		c := validation.Choice{Block: block, Output: "scores", Top: top, Rows: []int{1, 7, 256}}
		bound := rapid.SampledFrom([]float64{0, 0.01, 0.0625, 0.5}).Draw(rt, "bound")
		m, err := validation.DomainMargins(context.Background(), dev, c, bound)
		if err != nil {
			rt.Fatal(err)
		}
		smallest, at, undecided, first := math.Inf(1), 0, 0, -1
		margins := make([]float64, n)
		for i := range n {
			margins[i] = margin(values[i*width:(i+1)*width], top)
			if margins[i] < smallest {
				smallest, at = margins[i], i
			}
			if bound > 0 && margins[i] <= 2*bound {
				if undecided++; first < 0 {
					first = i
				}
			}
		}
		if m.Smallest != smallest || m.At != at || m.Undecided != undecided || m.Elements != n || m.Top != top || (m.First != nil) != (first >= 0) || m.First != nil && *m.First != first {
			rt.Fatalf("%+v, expected smallest %v at %d, %d undecided from %d", m, smallest, at, undecided, first)
		}
		if m.Decided() != (undecided == 0) {
			rt.Fatalf("decided %v", m.Decided())
		}
		if n > 3 { // of some elements
			c := c
			c.IDs = []int{0, 2, n - 1}
			some, err := validation.DomainMargins(context.Background(), dev, c, bound)
			want := min(margins[0], margins[2], margins[n-1])
			if err != nil || some.Elements != 3 || some.Smallest != want || margins[some.At] != want {
				rt.Fatalf("%+v, %v, expected %v", some, err, want)
			}
		}
		keep := rapid.IntRange(1, 20).Draw(rt, "keep")
		ties, err := validation.DomainTies(context.Background(), dev, c, keep)
		if err != nil || len(ties) != min(keep, n) {
			rt.Fatalf("%d ties, %v", len(ties), err)
		}
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(margins[a], margins[b]) })
		for i, tie := range ties {
			if want := fmt.Sprintf("near-tie-scores-token-%d", order[i]); tie.Example.Name != want || tie.Margin != margins[order[i]] {
				rt.Fatalf("tie %d is %s with margin %v, expected %s with %v", i, tie.Example.Name, tie.Margin, want, margins[order[i]])
			}
		}
	})
}

func TestDomainErrors(t *testing.T) {
	dev := openCPU(t)
	block := scores(t, dev, 3, []float32{1, 2, 3, 4, 5, 6})
	sick := scores(t, dev, 3, []float32{1, 2, 3, 4, float32(math.NaN()), 6})
	for name, c := range map[string]validation.Choice{
		"no output":    {Block: block, Output: "logits"},
		"all chosen":   {Block: block, Output: "scores", Top: 3},
		"no rows":      {Block: block, Output: "scores", Rows: []int{0}},
		"not a number": {Block: sick, Output: "scores"},
	} {
		if _, err := validation.DomainMargins(context.Background(), dev, c, 1); !errors.Is(err, validation.ErrMargins) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := validation.DomainTies(context.Background(), dev, validation.Choice{Block: sick, Output: "scores"}, 2); err == nil || !strings.Contains(err.Error(), "element 1") {
		t.Errorf("ties of NaN: %v", err)
	}
	for _, bound := range []float64{-1, math.NaN()} {
		if _, err := validation.DomainMargins(context.Background(), dev, validation.Choice{Block: block, Output: "scores"}, bound); !errors.Is(err, validation.ErrMargins) {
			t.Errorf("bound %v: %v", bound, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := validation.DomainMargins(ctx, dev, validation.Choice{Block: block, Output: "scores"}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// The choice of several is a set: an exchange among the chosen changes nothing,
// one across the border does.
func TestTopDecisions(t *testing.T) {
	row := func(values ...float32) *tensor.Tensor {
		x, err := tensor.FromFloat32s(values, 1, len(values))
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	const e = 1e-7
	gate := func(top int) validation.Gate {
		return validation.Gate{Decisions: []string{"scores"}, Tops: map[string]int{"scores": top}}
	}
	for _, c := range []struct {
		name    string
		a, b    *tensor.Tensor
		top     int
		changed int
		margin  float64
		from    int
		to      int
	}{
		{"within the chosen", row(1, 1+e, 0, -1), row(1+e, 1, 0, -1), 2, 0, 1, 0, 0},
		{"across the border", row(2, 1+2*e, 1, 0), row(2, 1, 1+2*e, 0), 2, 1, float64(float32(1+2*e)) - 1, 1, 2},
		{"the same for the first alone", row(2, 1+2*e, 1, 0), row(2, 1, 1+2*e, 0), 1, 0, 2 - float64(float32(1+2*e)), 0, 0},
		{"a tie goes to the lower index", row(3, 1, 1, 1), row(3, 1, 1, 1), 2, 0, 0, 0, 0},
		{"out of a tie", row(3, 1, 1, 1), row(3, 1, 1, 1+2*e), 2, 1, 0, 1, 3},
		{"everything is chosen", row(2, 1), row(1, 2), 5, 0, 0, 0, 0},
	} {
		g := gate(c.top)
		g.MaxAbs, g.RelL2 = 10, 10
		r := validation.Compare("scores", c.a, c.b, g)
		d := r.Decision
		if d == nil || d.Changed != c.changed || d.MinMargin != c.margin || r.Accepted != (c.changed == 0) {
			t.Errorf("%s: %+v, %+v", c.name, r, d)
			continue
		}
		if c.changed > 0 && (d.FirstChange.Source != c.from || d.FirstChange.Candidate != c.to) {
			t.Errorf("%s: %+v", c.name, d.FirstChange)
		}
	}
	for name, g := range map[string]validation.Gate{
		"none chosen":        gate(0),
		"not among the rest": {Tops: map[string]int{"scores": 2}},
	} {
		if _, err := g.Effective(); !errors.Is(err, validation.ErrGate) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A decision at any position counts, not only the last.
func TestNearTiesLookAtEveryPosition(t *testing.T) {
	model := newFake()
	found, err := validation.NearTies(t.Context(), model, specOf(model), validation.TieOptions{Calls: 30, Keep: 1, Top: 3})
	if err != nil {
		t.Fatal(err)
	}
	gate := validation.Gate{Tops: map[string]int{"logits": 3}}
	report, err := validation.Run(t.Context(), model, model, []validation.Example{found[0].Example}, gate, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := *report.Results[0].MinMargin; got != found[0].Margin {
		t.Errorf("the gate measures %v, the search %v", got, found[0].Margin)
	}
}

func specOf(f *fake) architectures.InputSpec {
	return architectures.InputSpec{Vocabulary: f.vocabulary}
}

package validation

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/tensor"
)

// TieOptions bound the search of [NearTies]. The zero value is useful.
type TieOptions struct {
	// Seed selects the random sequences.
	Seed uint64
	// Output is the decision output, "" for "logits". Its first axis is the
	// sequence, its last one the choice; a third one between them is the position.
	Output string
	// Top is how many of the largest elements are chosen, 0 for 1.
	Top int
	// Calls bounds the batched calls of the search, 0 for 64, and Batch the
	// sequences in one, 0 for 16. One more call per kept example measures it alone.
	Calls, Batch int
	// Length is the longest sequence tried, 0 for 8.
	Length int
	// Keep is how many examples to return, 0 for 8.
	Keep int
}

// Tie is an example with a narrow decision: Margin is the smallest distance
// between a chosen element and one that is not, over all positions, when the
// example runs alone.
type Tie struct {
	Example Example
	Margin  float64
}

// NearTies searches for inputs at which the model decides most narrowly, since
// these show a drift first. It tries single tokens, all of them where the calls
// suffice, and random sequences, then changes one token at a time of the
// narrowest. The search is
// deterministic and bounded; it finds small margins, not the smallest. The
// result is sorted by margin. Keep the examples with [WriteFile], so that a rerun
// uses the same.
func NearTies(ctx context.Context, model architectures.Model, spec architectures.InputSpec, o TieOptions) ([]Tie, error) {
	if spec.Size() < 1 {
		return nil, fmt.Errorf("%w: an empty vocabulary", ErrNothing)
	}
	set := func(v *int, value int) {
		if *v <= 0 {
			*v = value
		}
	}
	set(&o.Calls, 64)
	set(&o.Batch, 16)
	set(&o.Length, 8)
	set(&o.Keep, 8)
	set(&o.Top, 1)
	if spec.MaxPositions > 0 {
		o.Length = min(o.Length, spec.MaxPositions)
	}
	if o.Output == "" {
		o.Output = "logits"
	}
	s := tieSearch{ctx: ctx, model: model, o: o, spec: spec,
		rng: rand.New(rand.NewPCG(o.Seed, 0x7469655f73656172)), seen: map[string]bool{}}
	return s.run()
}

type tieSearch struct {
	ctx   context.Context
	model architectures.Model
	o     TieOptions
	spec  architectures.InputSpec
	rng   *rand.Rand
	calls int
	best  []candidateTie // at most Keep, by margin
	seen  map[string]bool
}

type candidateTie struct {
	ids    []int
	margin float64
}

func (s *tieSearch) run() ([]Tie, error) {
	// A quarter of the calls on single tokens, a quarter on random sequences, the
	// rest on improving what was found.
	quarter := max(1, s.o.Calls/4)
	// Calls of single tokens have as many rows as those of sequences may have.
	batch := s.o.Batch * s.o.Length
	tokens := sample(s.spec.Size(), quarter*batch)
	for len(tokens) > 0 && s.calls < s.o.Calls {
		var rows [][]int
		n := min(batch, len(tokens))
		for _, token := range tokens[:n] {
			rows = append(rows, []int{s.spec.ID(token)})
		}
		tokens = tokens[n:]
		if err := s.try(rows); err != nil {
			return nil, err
		}
	}
	for range quarter {
		if s.calls >= s.o.Calls {
			break
		}
		length := 1 + s.rng.IntN(s.o.Length)
		var rows [][]int
		for range s.o.Batch {
			row := make([]int, length)
			for i := range row {
				row[i] = s.id()
			}
			rows = append(rows, row)
		}
		if err := s.try(rows); err != nil {
			return nil, err
		}
	}
	for s.calls < s.o.Calls && len(s.best) > 0 {
		parent := s.best[s.rng.IntN(len(s.best))].ids
		var rows [][]int
		for range s.o.Batch {
			row := slices.Clone(parent)
			row[s.rng.IntN(len(row))] = s.id()
			rows = append(rows, row)
		}
		if err := s.try(rows); err != nil {
			return nil, err
		}
	}
	return s.measured()
}

// id returns a random token id.
func (s *tieSearch) id() int { return s.spec.ID(s.rng.IntN(s.spec.Size())) }

// try runs one batch of equally long sequences and keeps the narrowest.
func (s *tieSearch) try(rows [][]int) error {
	margins, err := s.margins(rows)
	if err != nil {
		return err
	}
	s.calls++
	for i, ids := range rows {
		key := fmt.Sprint(ids)
		if s.seen[key] {
			continue
		}
		s.seen[key] = true
		s.best = append(s.best, candidateTie{ids, margins[i]})
	}
	slices.SortStableFunc(s.best, func(a, b candidateTie) int { return cmp.Compare(a.margin, b.margin) })
	s.best = s.best[:min(len(s.best), s.o.Keep)]
	return nil
}

// measured runs each kept sequence alone, as the example will.
func (s *tieSearch) measured() ([]Tie, error) {
	var ties []Tie
	for _, c := range s.best {
		margins, err := s.margins([][]int{c.ids})
		if err != nil {
			return nil, err
		}
		inputs, err := architectures.TokenInputs(c.ids)
		if err != nil {
			return nil, err
		}
		inputs.Flags = map[string]bool{flagHiddenStates: true, flagAttentions: true}
		ties = append(ties, Tie{Example{Inputs: inputs}, margins[0]})
	}
	slices.SortStableFunc(ties, func(a, b Tie) int { return cmp.Compare(a.Margin, b.Margin) })
	for i := range ties {
		ties[i].Example.Name = tieName(s.o.Output, i)
	}
	return ties, nil
}

// tieName names the examples of a search by the output, unless it is the usual.
func tieName(output string, i int) string {
	if output == "logits" {
		return fmt.Sprintf("near-tie-%d", i+1)
	}
	return fmt.Sprintf("near-tie-%s-%d", output, i+1)
}

// margins returns the smallest margin of each sequence.
func (s *tieSearch) margins(rows [][]int) ([]float64, error) {
	inputs, err := architectures.TokenInputs(rows...)
	if err != nil {
		return nil, err
	}
	if err := s.ctx.Err(); err != nil {
		return nil, err
	}
	outputs, err := s.model.Forward(s.ctx, inputs)
	if err != nil {
		return nil, fmt.Errorf("near-tie search: %w", err)
	}
	t := outputs.Get(s.o.Output)
	if t == nil {
		return nil, fmt.Errorf("near-tie search: the model has no output %q", s.o.Output)
	}
	shape := t.Shape()
	if !hasValues(t.DType()) || len(shape) < 2 || len(shape) > 3 || shape[0] != len(rows) || t.Len() == 0 || shape[len(shape)-1] <= s.o.Top {
		return nil, fmt.Errorf("%w: near-tie search: output %q is %v, want values of shape [%d, positions, choices] or [%d, choices], of more than %d choices",
			tensor.ErrShape, s.o.Output, t, len(rows), len(rows), s.o.Top)
	}
	each := t.Len() / len(rows)
	c := newChooser(shape[len(shape)-1], s.o.Top)
	margins := make([]float64, len(rows))
	for i := range rows {
		margins[i] = math.Inf(1)
		for at := i * each; at < (i+1)*each; at += len(c.values) {
			readFloats(c.values, t, at)
			if !finite(c.values) {
				return nil, fmt.Errorf("near-tie search: output %q is NaN or infinite for ids %v", s.o.Output, rows[i])
			}
			margins[i] = min(margins[i], c.choose())
		}
	}
	return margins, nil
}

func finite(values []float64) bool {
	for _, v := range values {
		if v-v != 0 {
			return false
		}
	}
	return true
}

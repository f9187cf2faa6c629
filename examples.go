package compress

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/validation"
)

// makeExamples collects the inputs of the whole-model comparison: generated ones,
// those at which the model decides narrowly, and the caller's.
func (r *road) makeExamples(ctx context.Context) error {
	spec := r.plan.Inputs()
	if n := len(r.o.ReachableIDs); n > 0 {
		if last := r.o.ReachableIDs[n-1]; last >= spec.Vocabulary {
			return fmt.Errorf("%w: reachable token id %d, the model has %d", ErrOption, last, spec.Vocabulary)
		}
		spec.IDs = r.o.ReachableIDs
	}
	options := r.o.Generate
	for _, p := range r.o.Profiles {
		options.Boundaries = append(options.Boundaries, p.MaxRows)
	}
	for _, g := range r.device.Info().Regimes {
		if g.MaxRows > 0 {
			options.Boundaries = append(options.Boundaries, g.MaxRows)
		}
	}
	r.examples = validation.Generate(spec, options)
	var err error
	if r.decisions, err = r.findDecisions(ctx); err != nil {
		return err
	}
	r.gate = r.gateFor(r.gate)
	if r.o.NearTies.Keep >= 0 {
		ties, err := r.nearTies(ctx, spec)
		if err != nil {
			return err
		}
		r.examples = append(r.examples, ties...)
	}
	r.examples = append(r.examples, r.o.Examples...)
	if r.o.ValidationFile != "" {
		own, err := validation.ReadFile(r.o.ValidationFile, validation.Limits{Spec: spec})
		if err != nil {
			return err
		}
		r.examples = append(r.examples, own...)
	}
	return nil
}

// findDecisions asks the architecture what the model decides. One that does not
// say decides by its logits, if it has any.
func (r *road) findDecisions(ctx context.Context) ([]architectures.Decision, error) {
	if d, ok := r.plan.(architectures.Decider); ok {
		return d.Decisions(), nil
	}
	if len(r.examples) == 0 {
		return nil, nil
	}
	first := r.examples[0]
	out, err := r.source.Forward(ctx, first.Inputs)
	if err != nil {
		return nil, fmt.Errorf("example %q: %w", first.Name, err)
	}
	t := out.Get("logits")
	if t == nil || !t.DType().IsFloat() || len(t.Shape()) < 2 || t.Shape()[len(t.Shape())-1] < 2 {
		return nil, nil
	}
	return []architectures.Decision{{Output: "logits", Top: 1}}, nil
}

// gateFor returns a gate that demands the model's decisions.
func (r *road) gateFor(g validation.Gate) validation.Gate {
	g.Decisions, g.Tops = []string{}, nil
	g.Digests = true // the package records what the model computes
	for _, d := range r.decisions {
		g.Decisions = append(g.Decisions, d.Output)
		if d.Top > 1 {
			if g.Tops == nil {
				g.Tops = map[string]int{}
			}
			g.Tops[d.Output] = d.Top
		}
	}
	return g
}

// nearTies returns inputs at which the model decides narrowly. A file that keeps
// those of an earlier run is used as it is; else they are searched for, and kept
// if a file is named.
func (r *road) nearTies(ctx context.Context, spec architectures.InputSpec) ([]validation.Example, error) {
	if r.o.NearTiesFile != "" {
		kept, err := validation.ReadFile(r.o.NearTiesFile, validation.Limits{Spec: spec})
		if !errors.Is(err, fs.ErrNotExist) {
			return kept, err
		}
	}
	var found []validation.Example
	for _, d := range r.decisions {
		ties, err := r.searchTies(ctx, spec, d)
		if err != nil {
			return nil, err
		}
		for _, t := range ties {
			found = append(found, t.Example)
		}
	}
	if r.o.NearTiesFile == "" || len(found) == 0 {
		return found, nil
	}
	return found, validation.WriteFile(r.o.NearTiesFile, found)
}

// searchTies looks at every token where a declared block takes the decision, and
// searches by whole calls besides.
func (r *road) searchTies(ctx context.Context, spec architectures.InputSpec, d architectures.Decision) ([]validation.Tie, error) {
	o := r.o.NearTies
	o.Output, o.Top = d.Output, d.Top
	ties, err := validation.NearTies(ctx, r.source, spec, o)
	if err != nil || d.Block == "" {
		return ties, err
	}
	block, err := r.source.Block(d.Block)
	if err != nil {
		return nil, err
	}
	if nn.DomainOf(block) != nil {
		return ties, nil
	}
	keep := o.Keep
	if keep == 0 {
		keep = defaultTies
	}
	all, err := validation.DomainTies(ctx, r.device, validation.Choice{Block: block, Output: d.BlockOutput, Top: d.Top, IDs: spec.IDs}, keep)
	return append(ties, all...), err
}

// defaultTies is how many elements of a domain become examples unless the options
// say.
const defaultTies = 8

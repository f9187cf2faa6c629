package compress

import (
	"fmt"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/pack"
)

// checkSchedule refuses timesteps and labels that no model can have.
func (o Options) checkSchedule() error {
	for _, t := range o.Timesteps {
		if t-t != 0 {
			return fmt.Errorf("%w: timestep %g", ErrOption, t)
		}
	}
	for _, l := range o.Labels {
		if l < 0 {
			return fmt.Errorf("%w: class label %d", ErrOption, l)
		}
	}
	if len(o.Labels) > 0 && len(o.Timesteps) == 0 {
		return fmt.Errorf("%w: class labels are declared together with timesteps, and there are none", ErrOption)
	}
	return nil
}

// schedule gives the plan the declared timesteps and labels.
func (o Options) schedule(arch string, plan architectures.Blueprint) (architectures.Blueprint, error) {
	if len(o.Timesteps) == 0 {
		return plan, nil
	}
	s, ok := plan.(architectures.Scheduled)
	if !ok {
		return nil, fmt.Errorf("%w: timesteps are declared, and no block of architecture %q is a function of them", ErrOption, arch)
	}
	d, err := nn.NewTimesteps(s.TimestepCast(), o.Timesteps)
	if err != nil {
		return nil, fmt.Errorf("%w: timesteps: %w", ErrOption, err)
	}
	if len(o.Labels) > 0 {
		labelled, ok := s.(architectures.Labelled)
		if !ok {
			return nil, fmt.Errorf("%w: class labels are declared, and no block of architecture %q is a function of them", ErrOption, arch)
		}
		labels, err := nn.ListedTokens(o.Labels)
		if err != nil {
			return nil, fmt.Errorf("%w: class labels: %w", ErrOption, err)
		}
		if last := labels.Keys[labels.Size-1]; last >= uint64(labelled.Labels()) {
			return nil, fmt.Errorf("%w: class label %d, the model has 0 to %d", ErrOption, last, labelled.Labels()-1)
		}
		if d, err = nn.NewPairs(d, labels); err != nil {
			return nil, fmt.Errorf("%w: timesteps and class labels: %w", ErrOption, err)
		}
	}
	return s.WithTimesteps(d)
}

// packagedSchedule gives the plan the schedule of a package, which lies in the
// recipes of its rewritten blocks. Without such a block the model is the source,
// which takes all timesteps.
func packagedSchedule(p *pack.Package, plan architectures.Blueprint) (architectures.Blueprint, error) {
	s, ok := plan.(architectures.Scheduled)
	if !ok {
		return plan, nil
	}
	for _, b := range p.Manifest().Blocks {
		recipe, err := finitepass.ParseRecipe(b.Recipe)
		if err != nil {
			return nil, fmt.Errorf("block %q: %w", b.Path, err)
		}
		if d := recipe.Domain; d != nil && (d.Kind == nn.Timesteps || d.Kind == nn.Pairs) {
			if plan, err = s.WithTimesteps(d); err != nil {
				return nil, fmt.Errorf("block %q: %w", b.Path, err)
			}
			return plan, nil // the other blocks have to fit it
		}
	}
	return plan, nil
}

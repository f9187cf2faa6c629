package planner

import (
	"fmt"
	"math"
	"slices"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/declared"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// usualTimesteps is what is assumed of a registered family when nothing is said,
// unless it knows better.
const usualTimesteps = 50

// fromBlueprint reports whether the pass is one of a blueprint's blocks, which
// take the place of those declared here. A blueprint knows no list of ids, and
// no second domain for a block.
func (d *pass) fromBlueprint() bool {
	switch d.kind {
	case kindLookup, kindWide, kindTimesteps, kindPairs, kindConstant:
		return d.listed == 0 && (d.rows == nil || d.kind == kindPairs)
	}
	return false
}

// registered plans the blocks of a registered architecture, and reports whether
// there is one that fits the file. The numbers are those of the compiler's own
// plan.
func registered(m *model, p *Plan, o Options) bool {
	if m.parsed.Raw == nil {
		return false
	}
	family, err := architectures.ForConfig(m.parsed)
	if err != nil {
		return false // unknown, or several: what is declared here has to do
	}
	passes, err := registeredPasses(m, family, o)
	if err != nil {
		p.Notes = append(p.Notes, fmt.Sprintf("architecture %s is registered and does not fit this file: %v", family.Name(), err))
		return false
	}
	p.Architecture = family.Name()
	p.Passes = append(p.Passes, passes...)
	return true
}

// given plans the blocks of the blueprint of the options.
func given(m *model, p *Plan, o Options) error {
	b := o.Blueprint
	if d, ok := b.(*declared.Blueprint); ok {
		var tensors []loader.TensorInfo
		for _, t := range m.tensors {
			d, err := tensor.ParseDType(t.DType)
			if err != nil {
				d = tensor.Invalid
			}
			tensors = append(tensors, loader.TensorInfo{Name: t.Name, DType: d, DTypeName: t.DType, Shape: t.Shape, End: t.Bytes})
		}
		bound, err := d.Bind(tensors)
		if err != nil {
			return err
		}
		b = bound
	}
	passes, err := blueprintPasses(m, b, o)
	if err != nil {
		return err
	}
	p.Architecture, p.Passes = declared.Architecture, append(p.Passes, passes...)
	return nil
}

func registeredPasses(m *model, family architectures.Family, o Options) ([]Pass, error) {
	b, err := family.New(m.parsed)
	if err != nil {
		return nil, err
	}
	return blueprintPasses(m, b, o)
}

func blueprintPasses(m *model, b architectures.Blueprint, o Options) ([]Pass, error) {
	if s, ok := b.(architectures.Scheduled); ok {
		steps := o.Timesteps
		if steps == 0 {
			steps = usualTimesteps
			if u, ok := s.(architectures.UsualSchedule); ok {
				steps = len(u.UsualTimesteps())
			}
		}
		d, err := someTimesteps(s.TimestepCast(), steps)
		if err != nil {
			return nil, err
		}
		if l, ok := s.(architectures.Labelled); ok {
			if d, err = twoLabels(d, l.Labels()); err != nil {
				return nil, err
			}
		}
		if b, err = s.WithTimesteps(d); err != nil {
			return nil, err
		}
	}
	b = architectures.ForNames(b, m.names())
	params := b.Params()
	if err := m.holds(params); err != nil {
		return nil, err
	}
	inventory, err := finitepass.PlannedInventory(params, func(p loader.Param) tensor.DType {
		if at, ok := m.index[p.Name]; ok {
			if d, err := tensor.ParseDType(m.tensors[at].DType); err == nil {
				return d
			}
		}
		if len(p.DTypes) > 0 {
			return p.DTypes[0]
		}
		return tensor.F32
	})
	if err != nil {
		return nil, err
	}
	var out []Pass
	for _, spec := range b.Blocks() {
		out = append(out, m.fromPlan(spec, finitepass.PlanBlock(spec, inventory, o.Profiles)))
	}
	return out, nil
}

// someTimesteps returns a domain of n timesteps. Which ones does not matter for
// counting.
func someTimesteps(cast nn.Cast, n int) (*nn.Domain, error) {
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = uint64(i)
	}
	d, err := nn.TimestepKeys(cast, keys)
	if err != nil {
		return nil, fmt.Errorf("%d timesteps: %w", n, err)
	}
	return d, nil
}

// twoLabels returns the pairs of a schedule with two class labels, as guidance
// needs them for one class.
func twoLabels(steps *nn.Domain, labels int) (*nn.Domain, error) {
	two, err := nn.ListedTokens([]int{0, labels - 1})
	if err != nil {
		return nil, err
	}
	return nn.NewPairs(steps, two)
}

func (m *model) names() []string {
	names := make([]string, len(m.tensors))
	for i, t := range m.tensors {
		names[i] = t.Name
	}
	return names
}

// holds compares names, shapes and types with those that a model declares.
func (m *model) holds(params []loader.Param) error {
	known := map[string]bool{}
	tied := map[string]bool{}
	for _, p := range params {
		known[p.Name] = true
		if p.TiedTo != "" {
			tied[p.Name], tied[p.TiedTo] = true, true
		}
	}
	for _, p := range params {
		at, ok := m.index[p.Name]
		if !ok {
			if p.Ignored || tied[p.Name] {
				continue
			}
			return fmt.Errorf("tensor %q is missing", p.Name)
		}
		t := &m.tensors[at]
		if p.Shape != nil && !t.Shape.Equal(p.Shape) {
			return fmt.Errorf("tensor %q has shape %v, expected %v", p.Name, t.Shape, p.Shape)
		}
		if d, err := tensor.ParseDType(t.DType); len(p.DTypes) > 0 && (err != nil || !slices.Contains(p.DTypes, d)) {
			return fmt.Errorf("tensor %q is %s, expected %v", p.Name, t.DType, p.DTypes)
		}
	}
	for _, t := range m.tensors {
		if !known[t.Name] {
			return fmt.Errorf("tensor %q is unexpected", t.Name)
		}
	}
	return nil
}

// fromPlan turns the compiler's plan of a block into a pass.
func (m *model) fromPlan(spec architectures.BlockSpec, plan finitepass.Plan) Pass {
	k, unit := kindLookup, "ids"
	if spec.Domain == nil && slices.Contains(spec.Removes, spec.Embedding) {
		k = kindWide
	}
	if spec.Domain != nil {
		switch spec.Domain.Kind {
		case nn.Timesteps:
			k, unit = kindTimesteps, "timesteps"
		case nn.Pairs:
			k, unit = kindPairs, "pairs"
		case nn.Constant:
			k, unit = kindConstant, ""
		}
	}
	p := Pass{
		Kind: string(k), Title: titles[k], Block: spec.Path, Contract: spec.Contract, Changes: []Change{},
		Rows: int64(spec.NumTokens), Tables: int64(plan.Tables), Arithmetic: plan.Arithmetic,
		Before: Amount{plan.Removed.Values, plan.Removed.ResidentBytes},
		After:  Amount{plan.TableValues, plan.TableBytes}.times(int64(plan.Tables)),
		Saved:  Amount{plan.ValuesSaved, plan.BytesSaved},
	}
	for _, o := range spec.Outputs {
		p.Columns += int64(o.Width)
	}
	for _, name := range spec.Removes {
		if at, ok := m.index[name]; ok {
			p.touched = append(p.touched, at)
			p.Changes = append(p.Changes, Change{name, 1, m.amount(at)})
		}
	}
	slices.Sort(p.touched)
	if m.total.Bytes > 0 {
		p.Share = float64(p.Saved.Bytes) / float64(m.total.Bytes)
	}
	if p.Columns > 0 && plan.TableValues >= p.Columns {
		rows := plan.TableValues / p.Columns
		p.Rows = rows
		if slices.Contains(spec.Removes, spec.Embedding) {
			unit = "tables"
		}
		if plan.TableBytes/rows < math.MaxInt64/p.Tables {
			p.BreakEven = breakEven(unit, p.Before.Bytes, plan.TableBytes/rows, rows, p.Tables, 1)
		}
	}
	if plan.Refusal != "" {
		return p.refuse("%s", plan.Refusal)
	}
	p.weigh()
	return p
}

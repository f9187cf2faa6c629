package finitepass

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/validation"
)

// ProfileMode says where profiles come from.
type ProfileMode string

// The profile modes. The zero value means [ProfilesExplicit] when Options.Profiles
// is not empty, else [ProfilesAuto].
const (
	ProfilesAuto     ProfileMode = "auto"
	ProfilesNone     ProfileMode = "none"
	ProfilesExplicit ProfileMode = "explicit"
)

// ModelOptions adjust [CompileModel]. Only Contract and Examples are required.
type ModelOptions struct {
	// Options holds what applies to every block. Profiles are used in mode explicit
	// alone. Inventory is made from the weights when it is nil.
	Options
	// Mode says where profiles come from.
	Mode ProfileMode
	// Probe adjusts the search of mode auto. It is strict on devices that say that
	// they are ([nn.Info]).
	Probe ProbeOptions
	// Paths selects blocks; nil takes all that the blueprint declares.
	Paths []string
	// Examples and Gate are the whole model's test.
	Examples []validation.Example
	Gate     validation.Gate
	// Observer, when not nil, is told of every step, on the calling goroutine.
	Observer func(Event)
}

// Event is one step of [CompileModel].
type Event struct {
	// Step is "plan", "probe", "compile", "compare", "gate" or "bisect" while work
	// goes on, and "compiled", "refused" or "rolled_back" once a block is decided.
	Step string
	// Path is the block; empty for the whole model.
	Path string
	// Detail is a sentence for people; often empty.
	Detail string
	// Done and Total count the work within the step; Total is 0 when unknown.
	Done, Total int64
}

// Result is what [CompileModel] returns.
type Result struct {
	// Model is the model to use: a new view with the accepted blocks, or the source
	// itself when there is none.
	Model architectures.Model
	// Lookups holds the blocks in use by path.
	Lookups map[string]*Lookup
	Report  Report
}

// CompileModel rewrites the declared blocks of model and tests the whole. Blocks
// that cannot be rewritten stay in place, with the reason in the report. All
// others are then used together and the model has to pass gate on examples; when
// it does not, everything is rolled back and the blocks are put in again by
// halves, largest saving first, until a set is left that passes and to which no
// other block can be added. Each block left out is reported with the example
// that failed.
//
// model is never changed. weights are those that it was built from. An error
// means that no verdict was reached: see [CompileFanout] and [validation.Run].
func CompileModel(ctx context.Context, blueprint architectures.Blueprint, model architectures.Model, weights architectures.Weights, o ModelOptions) (*Result, error) {
	m, err := newModelCompiler(ctx, blueprint, model, weights, o)
	if err != nil {
		return nil, err
	}
	for _, spec := range m.specs {
		if err := m.block(spec); err != nil {
			return nil, err
		}
	}
	if err := m.gateAll(); err != nil {
		return nil, err
	}
	return m.result()
}

type modelCompiler struct {
	ctx    context.Context
	source architectures.Model
	o      ModelOptions
	specs  []architectures.BlockSpec
	report Report
	// lookups holds the blocks that passed locally, and used the paths in use.
	lookups map[string]*Lookup
	used    []string
	model   architectures.Model
	// taken maps a tensor that a block removes to that block.
	taken map[string]string
}

func newModelCompiler(ctx context.Context, blueprint architectures.Blueprint, model architectures.Model, weights architectures.Weights, o ModelOptions) (*modelCompiler, error) {
	var err error
	if o.Mode == "" {
		o.Mode = ProfilesAuto
		if len(o.Profiles) > 0 {
			o.Mode = ProfilesExplicit
		}
	}
	switch o.Mode {
	case ProfilesAuto, ProfilesNone:
		if len(o.Profiles) > 0 {
			return nil, fmt.Errorf("%w: profiles are given and the mode is %q", ErrProfiles, o.Mode)
		}
	case ProfilesExplicit:
		if len(o.Profiles) == 0 {
			return nil, fmt.Errorf("%w: mode %q without profiles", ErrProfiles, o.Mode)
		}
	default:
		return nil, fmt.Errorf("%w: unknown mode %q", ErrProfiles, o.Mode)
	}
	if o.Options, err = o.Options.withDefaults(); err != nil {
		return nil, err
	}
	if _, err := o.Probe.withDefaults(); err != nil {
		return nil, err
	}
	if _, err := o.Gate.Effective(); err != nil {
		return nil, err
	}
	if len(o.Examples) == 0 {
		return nil, fmt.Errorf("%w: no examples for the whole model", ErrOptions)
	}
	m := &modelCompiler{
		ctx: ctx, source: model, model: model, o: o,
		lookups: map[string]*Lookup{}, taken: map[string]string{},
	}
	m.o.Weights = weights
	m.o.Probe.Strict = m.o.Probe.Strict || model.Device().Info().Strict
	m.report.Blocks, m.report.Rewrites, m.report.Proposed = []BlockReport{}, []string{}, []string{}
	if m.specs, err = selectBlocks(blueprint.Blocks(), o.Paths); err != nil {
		return nil, err
	}
	if m.o.Inventory == nil {
		if m.o.Inventory, err = NewInventory(blueprint.Params(), weights); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// selectBlocks picks the declared blocks at paths, in declaration order.
func selectBlocks(blocks []architectures.BlockSpec, paths []string) ([]architectures.BlockSpec, error) {
	var known []string
	for _, b := range blocks {
		known = append(known, b.Path)
	}
	if paths == nil {
		return blocks, nil
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%w: the list is empty; leave it out to take all blocks", ErrPath)
	}
	for i, p := range paths {
		if !slices.Contains(known, p) {
			return nil, fmt.Errorf("%w: no block %q; declared: %s", ErrPath, p, strings.Join(known, ", "))
		}
		for _, q := range paths[:i] {
			if p == q {
				return nil, fmt.Errorf("%w: %q is given twice", ErrPath, p)
			}
			if within(p, q) || within(q, p) {
				return nil, fmt.Errorf("%w: %q and %q overlap", ErrPath, q, p)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(blocks), func(b architectures.BlockSpec) bool {
		return !slices.Contains(paths, b.Path)
	}), nil
}

// within reports whether path a lies inside path b; everything lies inside the
// empty path, the model itself.
func within(a, b string) bool { return b == "" || strings.HasPrefix(a, b+".") }

func (m *modelCompiler) observe(e Event) {
	if m.o.Observer != nil {
		m.o.Observer(e)
	}
}

// block compiles one block and enters its report.
func (m *modelCompiler) block(spec architectures.BlockSpec) error {
	dev := m.source.Device()
	o := m.o.Options
	o.Progress = func(step string, done, total int64) {
		m.observe(Event{Step: step, Path: spec.Path, Done: done, Total: total})
		if m.o.Options.Progress != nil {
			m.o.Options.Progress(step, done, total)
		}
	}
	if source, err := m.source.Block(spec.Path); err == nil {
		spec = o.effective(spec, source)
	}
	report := newBlockReport(dev, spec, o)
	m.observe(Event{Step: "plan", Path: spec.Path, Detail: report.Plan.Arithmetic})
	lookup, err := m.compile(dev, spec, o, &report)
	if err != nil {
		return err
	}
	if lookup != nil {
		m.lookups[spec.Path] = lookup
		m.report.Proposed = append(m.report.Proposed, spec.Path)
		for _, name := range spec.Removes {
			m.taken[name] = spec.Path
		}
	}
	m.observe(Event{Step: string(report.Status), Path: spec.Path, Detail: report.Reason})
	m.report.Blocks = append(m.report.Blocks, *report)
	return nil
}

func (m *modelCompiler) compile(dev nn.Device, spec architectures.BlockSpec, o Options, report **BlockReport) (*Lookup, error) {
	r := *report
	if reason := m.overlap(spec); reason != "" {
		r.refuse(reason)
		return nil, nil
	}
	if err := o.checkSpec(spec); err != nil {
		r.refuse(err.Error())
		return nil, nil
	}
	source, err := m.source.Block(spec.Path)
	if err != nil {
		return nil, fmt.Errorf("block %q: %w", spec.Path, err)
	}
	if o.planRefuses(r.Plan, source) {
		r.refuse(r.Plan.Refusal)
		return nil, nil
	}
	var probe *ProbeReport
	if m.o.Mode == ProfilesAuto {
		m.observe(Event{Step: "probe", Path: spec.Path})
		if _, err := openSource(spec, source); err != nil {
			r.refuse(err.Error())
			return nil, nil
		}
		probe, o.Profiles, err = FindProfiles(m.ctx, dev, source, m.o.Probe)
		if err != nil {
			if !isRefusal(err) && !errors.Is(err, ErrProfiles) {
				return nil, fmt.Errorf("block %q: %w", spec.Path, err)
			}
			r.Probe = probe
			r.refuse(err.Error())
			return nil, nil
		}
	}
	lookup, compiled, err := CompileFanout(m.ctx, dev, spec, source, o)
	if err != nil {
		return nil, err
	}
	compiled.Probe = probe
	*report = compiled
	return lookup, nil
}

// overlap says why a block cannot be rewritten beside those that were accepted
// before it.
func (m *modelCompiler) overlap(spec architectures.BlockSpec) string {
	for path := range m.lookups {
		if within(spec.Path, path) || within(path, spec.Path) {
			return fmt.Sprintf("overlaps the block %q, which is rewritten already", path)
		}
	}
	for _, name := range append([]string{spec.Embedding}, spec.Removes...) {
		if path, ok := m.taken[name]; ok && name != "" {
			return fmt.Sprintf("tensor %q is removed with the block %q", name, path)
		}
	}
	return ""
}

// with returns the source with the given blocks replaced.
func (m *modelCompiler) with(paths []string) (architectures.Model, error) {
	model := m.source
	for _, p := range paths {
		var err error
		if model, err = model.WithBlock(p, m.lookups[p]); err != nil {
			return nil, fmt.Errorf("block %q: %w", p, err)
		}
	}
	return model, nil
}

// judge runs the whole model's gate with the given blocks.
func (m *modelCompiler) judge(step string, paths []string, gate validation.Gate) (*validation.Report, architectures.Model, error) {
	candidate, err := m.with(paths)
	if err != nil {
		return nil, nil, err
	}
	m.observe(Event{Step: step, Detail: strings.Join(paths, ", "), Total: int64(len(m.o.Examples))})
	verdict, err := validation.Run(m.ctx, m.source, candidate, m.o.Examples, gate,
		func(_ validation.ExampleResult, done, total int) {
			m.observe(Event{Step: step, Done: int64(done), Total: int64(total)})
		})
	if err != nil {
		return nil, nil, fmt.Errorf("whole-model gate: %w", err)
	}
	return verdict, candidate, nil
}

// gateAll tests all proposed blocks together and bisects when they fail.
func (m *modelCompiler) gateAll() error {
	verdict, candidate, err := m.judge("gate", m.report.Proposed, m.o.Gate)
	if err != nil {
		return err
	}
	if verdict.Accepted {
		m.used, m.model, m.report.Gate = slices.Clone(m.report.Proposed), candidate, verdict
		return nil
	}
	m.report.FirstGate = verdict
	if len(m.report.Proposed) == 0 {
		// The source disagrees with itself under this gate, as with a NaN in an output.
		m.report.Gate = verdict
		return nil
	}
	order := slices.Clone(m.report.Proposed)
	slices.SortStableFunc(order, func(a, b string) int {
		return int(max(-1, min(1, m.blockReport(b).Account.BytesSaved-m.blockReport(a).Account.BytesSaved)))
	})
	kept, err := m.bisect(nil, order, verdict)
	if err != nil {
		return err
	}
	// Back to the order of declaration, and the full verdict on what is left.
	for _, p := range m.report.Proposed {
		if slices.Contains(kept, p) {
			m.used = append(m.used, p)
		}
	}
	if m.report.Gate, m.model, err = m.judge("gate", m.used, m.o.Gate); err != nil {
		return err
	}
	if !m.report.Gate.Accepted && len(m.used) > 0 {
		return fmt.Errorf("%w: the blocks %s passed the whole-model gate and then failed it", ErrUnstable, strings.Join(m.used, ", "))
	}
	return nil
}

// bisect returns kept with as many of paths as pass, given that kept passes and
// that kept with all of paths failed with the given verdict.
func (m *modelCompiler) bisect(kept, paths []string, failed *validation.Report) ([]string, error) {
	if len(paths) == 1 {
		m.rollBack(paths[0], kept, failed)
		return kept, nil
	}
	for _, half := range [][]string{paths[:len(paths)/2], paths[len(paths)/2:]} {
		gate := m.o.Gate
		gate.StopEarly = true
		all := append(slices.Clone(kept), half...)
		verdict, _, err := m.judge("bisect", all, gate)
		if err != nil {
			return nil, err
		}
		if verdict.Accepted {
			kept = all
			continue
		}
		if kept, err = m.bisect(kept, half, verdict); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

func (m *modelCompiler) rollBack(path string, kept []string, failed *validation.Report) {
	r := m.blockReport(path)
	r.Status, r.Gate = RolledBack, failed.FirstFailure
	r.Reason = "whole-model gate failed"
	if f := failed.FirstFailure; f != nil {
		r.Reason = fmt.Sprintf("whole-model gate: example %q, output %q: %s", f.Example, f.Output, f.Reason)
	}
	if len(kept) > 0 {
		r.Reason += "; beside " + strings.Join(kept, ", ")
	}
	m.observe(Event{Step: string(RolledBack), Path: path, Detail: r.Reason})
}

func (m *modelCompiler) blockReport(path string) *BlockReport {
	for i := range m.report.Blocks {
		if m.report.Blocks[i].Path == path {
			return &m.report.Blocks[i]
		}
	}
	return nil
}

// result counts the whole model and settles the status.
func (m *modelCompiler) result() (*Result, error) {
	res := &Result{Model: m.model, Lookups: map[string]*Lookup{}}
	total := m.o.Inventory.Total()
	after, full, recipes := total, total, int64(0)
	for _, path := range m.used {
		a := m.blockReport(path).Account
		after = after.Minus(a.Before).Plus(a.After)
		full = full.Minus(a.Before).Plus(a.AfterFull)
		recipes += a.RecipeBytes
		res.Lookups[path] = m.lookups[path]
		m.report.Rewrites = append(m.report.Rewrites, path)
	}
	m.report.Account = account(total, after, full, recipes)
	switch {
	case len(m.used) > 0: // each of them saves, and no two remove the same tensor
		m.report.Status = Compressed
	case len(m.report.Proposed) > 0:
		m.report.Status = RolledBack
		m.report.Reason = "no proposed block passed the whole-model gate"
	default:
		m.report.Status = NoReduction
		m.report.Reason = "no block could be rewritten with a saving"
		if len(m.specs) == 0 {
			m.report.Reason = "the architecture declares no finite block"
		}
	}
	res.Report = m.report
	return res, nil
}

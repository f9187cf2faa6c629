package finitepass

import (
	"context"
	"fmt"
	"slices"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/internal/thousands"
)

// CompileFanout evaluates every token of source on dev at every profile and
// returns the lookup that takes its place, with a report. spec is the block's
// declaration, which source must match.
//
// A block that must not or need not be rewritten gives a nil lookup and a report
// with status [Refused] and the reason. An error means that the work could not
// be done: a missing contract ([ErrContract]), a bad option, a cancelled context
// or a failing device. Neither changes source.
func CompileFanout(ctx context.Context, dev nn.Device, spec architectures.BlockSpec, source nn.TokenBlock, o Options) (*Lookup, *BlockReport, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	if o.Inventory == nil {
		return nil, nil, fmt.Errorf("%w: no inventory", ErrOptions)
	}
	if err := o.checkSpec(spec); err != nil && !isRefusal(err) {
		return nil, nil, err
	}
	spec = o.effective(spec, source)
	report := newBlockReport(dev, spec, o)
	lookup, err := compile(ctx, dev, spec, source, o, report)
	if err != nil {
		if !isRefusal(err) {
			return nil, nil, fmt.Errorf("block %q: %w", spec.Path, err)
		}
		report.refuse(err.Error())
	}
	if report.Status == Refused {
		return nil, report, nil
	}
	return lookup, report, nil
}

func newBlockReport(dev nn.Device, spec architectures.BlockSpec, o Options) *BlockReport {
	return &BlockReport{
		Path: spec.Path, Contract: contractFor(spec), NumTokens: spec.NumTokens, Domain: spec.Domain,
		Outputs: spec.Outputs, Embedding: spec.Embedding, Removes: spec.Removes,
		Profiles: append([]Profile{}, o.Profiles...),
		Plan:     PlanBlock(spec, o.Inventory, len(o.Profiles)),
		Device:   dev.Info().Fingerprint,
	}
}

func (r *BlockReport) refuse(reason string) { r.Status, r.Reason = Refused, reason }

func compile(ctx context.Context, dev nn.Device, spec architectures.BlockSpec, source nn.TokenBlock, o Options, report *BlockReport) (*Lookup, error) {
	if err := o.checkSpec(spec); err != nil {
		return nil, err
	}
	if p := report.Plan; o.planRefuses(p, source) {
		report.refuse(p.Refusal)
		return nil, nil
	}
	src, err := openSource(spec, source)
	if err != nil {
		return nil, err
	}
	if src.fanout != nil {
		report.Residual = src.fanout.Residual
	}
	built, seen, err := makeTables(ctx, dev, src, o, report)
	if err != nil {
		return nil, err
	}
	if !report.Account.Saves() {
		a := report.Account
		report.refuse(fmt.Sprintf("no storage saving: tables and recipe take %s logical and %s resident bytes, the tensors that they replace %s and %s",
			thousands.Group(a.After.LogicalBytes+a.RecipeBytes-src.stays.LogicalBytes), thousands.Group(a.After.ResidentBytes+a.RecipeBytes-src.stays.ResidentBytes),
			thousands.Group(a.Before.LogicalBytes-src.stays.LogicalBytes), thousands.Group(a.Before.ResidentBytes-src.stays.ResidentBytes)))
		return nil, nil
	}
	lookup, err := Open(built.recipe, built.get, src.embedding(), dev)
	if err != nil {
		return nil, err
	}
	if hook := o.Hooks.BeforeLocal; hook != nil {
		if lookup, err = hook(lookup); err != nil {
			return nil, err
		}
	}
	if report.Comparison, err = compare(ctx, dev, source, lookup, o, seen); err != nil {
		return nil, err
	}
	report.Digest = lookup.Digest()
	if o.Weights != nil {
		if report.SourceDigest, err = SourceDigest(o.Weights, report.sourceTensors()); err != nil {
			return nil, err
		}
	}
	if !report.Comparison.Accepted {
		report.refuse("full-domain comparison: " + report.Comparison.Failure)
		return nil, nil
	}
	report.Status = Compiled
	if hook := o.Hooks.AfterLocal; hook != nil {
		return hook(lookup)
	}
	return lookup, nil
}

// makeTables evaluates the source and stores what it gave.
func makeTables(ctx context.Context, dev nn.Device, src *sourceBlock, o Options, report *BlockReport) (*built, *evidence, error) {
	if p, ok := o.projects(src.block); ok {
		if len(o.Profiles) > 0 {
			return nil, nil, fmt.Errorf("%w: a projected lookup has no profiles", ErrBlock)
		}
		b, err := buildProjected(ctx, dev, src, p, o, report)
		return b, nil, err
	}
	routes, seen, err := evaluate(ctx, dev, src, o)
	if err != nil {
		return nil, nil, err
	}
	b, err := build(src, routes, o, report)
	return b, seen, err
}

// sourceBlock is a block with its declaration.
type sourceBlock struct {
	spec     architectures.BlockSpec
	block    nn.TokenBlock
	fanout   *nn.Fanout // nil for blocks of another form, which have no residual
	branches []nn.Output
	outputs  []nn.Output
	stays    Amount // the embedding, when it is not removed
	// elements is the size of the domain, and ids[i] what the source is called with
	// for element i; nil for i itself.
	elements int
	ids      []int
}

// id returns what the source is called with for element i.
func (s *sourceBlock) id(i int) int {
	if s.ids == nil {
		return i
	}
	return s.ids[i]
}

// elementsOf returns the size of a declared domain.
func elementsOf(spec architectures.BlockSpec) int {
	if spec.Domain != nil {
		return spec.Domain.Size
	}
	return spec.NumTokens
}

func contractFor(spec architectures.BlockSpec) string {
	if listed(spec.Domain) {
		return architectures.ReachableIDsOnly
	}
	return architectures.ContractOf(spec.Domain)
}

// effective applies o.ReachableIDs to a declaration: the listed ids become the
// domain, and an embedding that only the block reads goes with the rest, its rows
// being an output like the others.
func (o Options) effective(spec architectures.BlockSpec, source nn.TokenBlock) architectures.BlockSpec {
	if len(o.ReachableIDs) == 0 || spec.Domain != nil {
		return spec
	}
	domain, err := nn.ListedTokens(o.ReachableIDs)
	if err != nil { // withDefaults checked it
		panic(err)
	}
	spec.Domain = domain
	f, ok := source.(*nn.Fanout)
	if !ok || !spec.OwnsEmbedding || slices.Contains(spec.Removes, spec.Embedding) {
		return spec
	}
	spec.Removes = append(slices.Clone(spec.Removes), spec.Embedding)
	if f.Residual != "" {
		spec.Outputs = append(slices.Clone(spec.Outputs), nn.Output{
			Name: f.Residual, Width: f.Embedding.Width(), DType: f.Embedding.DType(),
		})
	}
	return spec
}

// openSource checks that the block that runs is the one that was declared.
func openSource(spec architectures.BlockSpec, block nn.TokenBlock) (*sourceBlock, error) {
	s := &sourceBlock{spec: spec, block: block, elements: elementsOf(spec)}
	if listed(spec.Domain) {
		if last := spec.Domain.Keys[s.elements-1]; last >= uint64(spec.NumTokens) {
			return nil, fmt.Errorf("%w: token id %d of %d", ErrBlock, last, spec.NumTokens)
		}
		s.ids = make([]int, s.elements)
		for i, k := range spec.Domain.Keys {
			s.ids[i] = int(k)
		}
	} else if have := nn.DomainOf(block); !have.Equal(spec.Domain) {
		return nil, fmt.Errorf("%w: the domain is %v, declared %v", ErrBlock, have, spec.Domain)
	}
	if f, ok := block.(*nn.Fanout); ok {
		if err := f.Validate(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBlock, err)
		}
		if f.EmbeddingName != spec.Embedding {
			return nil, fmt.Errorf("%w: the embedding is %q, declared %q", ErrBlock, f.EmbeddingName, spec.Embedding)
		}
		if f.Embedding.Width() != spec.EmbeddingWidth {
			return nil, fmt.Errorf("%w: the embedding has width %d, declared %d", ErrBlock, f.Embedding.Width(), spec.EmbeddingWidth)
		}
		s.fanout = f
		if s.removesEmbedding() && f.Residual != "" && !s.tablesResidual() {
			return nil, fmt.Errorf("%w: the embedding %q is declared as removed, and the residual %q reads it", ErrBlock, spec.Embedding, f.Residual)
		}
	}
	if block.NumTokens() != spec.NumTokens {
		return nil, fmt.Errorf("%w: %d tokens, declared %d", ErrBlock, block.NumTokens(), spec.NumTokens)
	}
	s.outputs = block.Outputs()
	s.branches = s.outputs
	if s.liveResidual() {
		s.branches = s.outputs[:len(s.outputs)-1]
	}
	if len(s.branches) != len(spec.Outputs) {
		return nil, fmt.Errorf("%w: %d outputs, declared %d", ErrBlock, len(s.branches), len(spec.Outputs))
	}
	for i, o := range s.branches {
		if o != spec.Outputs[i] {
			return nil, fmt.Errorf("%w: output %d is %q %v of width %d, declared %q %v of width %d", ErrBlock, i,
				o.Name, o.DType, o.Width, spec.Outputs[i].Name, spec.Outputs[i].DType, spec.Outputs[i].Width)
		}
	}
	return s, nil
}

// embedding returns the model's table where the lookup may read it.
func (s *sourceBlock) embedding() nn.Table {
	if s.fanout == nil || s.fanout.EmbeddingName == "" || s.fanout.Pair != nil || s.removesEmbedding() {
		return nil
	}
	return s.fanout.Embedding
}

func (s *sourceBlock) removesEmbedding() bool {
	return s.spec.Embedding != "" && slices.Contains(s.spec.Removes, s.spec.Embedding)
}

// tablesResidual reports whether the residual's rows are a table like the
// others.
func (s *sourceBlock) tablesResidual() bool {
	n := len(s.spec.Outputs)
	return n > 0 && s.spec.Outputs[n-1].Name == s.fanout.Residual
}

// liveResidual reports whether the residual is read from the model's own
// embedding.
func (s *sourceBlock) liveResidual() bool {
	return s.fanout != nil && s.fanout.Residual != "" && !s.tablesResidual()
}

package finitepass

import (
	"context"
	"fmt"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
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
		Path: spec.Path, Contract: o.Contract, NumTokens: spec.NumTokens,
		Outputs: spec.Outputs, Embedding: spec.Embedding, Removes: spec.Removes,
		Profiles: append([]Profile{}, o.Profiles...),
		Plan:     PlanBlock(spec, o.Inventory, len(o.Profiles)),
		Device:   dev.Info().Fingerprint,
	}
}

func (r *BlockReport) refuse(reason string) { r.Status, r.Reason = Refused, reason }

func compile(ctx context.Context, dev nn.Device, spec architectures.BlockSpec, source nn.TokenBlock, o Options, report *BlockReport) (*Lookup, error) {
	if p := report.Plan; p.Refusal != "" && !(o.IgnorePlan && p.sizeOnly) {
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
	routes, err := evaluate(ctx, dev, src, o)
	if err != nil {
		return nil, err
	}
	built, err := build(src, routes, o, report)
	if err != nil {
		return nil, err
	}
	if !report.Account.Saves() {
		a := report.Account
		report.refuse(fmt.Sprintf("no storage saving: tables and recipe take %s logical and %s resident bytes, the tensors that they replace %s and %s",
			digits(a.After.LogicalBytes+a.RecipeBytes-src.stays.LogicalBytes), digits(a.After.ResidentBytes+a.RecipeBytes-src.stays.ResidentBytes),
			digits(a.Before.LogicalBytes-src.stays.LogicalBytes), digits(a.Before.ResidentBytes-src.stays.ResidentBytes)))
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
	if report.Comparison, err = Compare(ctx, dev, source, lookup, o); err != nil {
		return nil, err
	}
	report.Digest = lookup.Digest()
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

// sourceBlock is a block with its declaration.
type sourceBlock struct {
	spec     architectures.BlockSpec
	block    nn.TokenBlock
	fanout   *nn.Fanout // nil for blocks of another form, which have no residual
	branches []nn.Output
	outputs  []nn.Output
	stays    Amount // the embedding, when it is not removed
}

// openSource checks that the block that runs is the one that was declared.
func openSource(spec architectures.BlockSpec, block nn.TokenBlock) (*sourceBlock, error) {
	s := &sourceBlock{spec: spec, block: block}
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
		for _, name := range spec.Removes {
			if name == spec.Embedding && f.Residual != "" {
				return nil, fmt.Errorf("%w: the embedding %q is declared as removed, and the residual %q reads it", ErrBlock, name, f.Residual)
			}
		}
		s.fanout = f
	}
	if block.NumTokens() != spec.NumTokens {
		return nil, fmt.Errorf("%w: %d tokens, declared %d", ErrBlock, block.NumTokens(), spec.NumTokens)
	}
	s.outputs = block.Outputs()
	s.branches = s.outputs
	if s.fanout != nil && s.fanout.Residual != "" {
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
	if s.fanout == nil || s.removesEmbedding() {
		return nil
	}
	return s.fanout.Embedding
}

func (s *sourceBlock) removesEmbedding() bool {
	for _, name := range s.spec.Removes {
		if name == s.spec.Embedding {
			return true
		}
	}
	return false
}

// evaluate returns the tables of every route, bulk first: one tensor
// [tokens, width] per branch.
func evaluate(ctx context.Context, dev nn.Device, src *sourceBlock, o Options) ([][]*tensor.Tensor, error) {
	e := newEvaluator(ctx, dev, src.block)
	defer e.close() //nolint:errcheck // a failure of the last session has been returned by call
	total := int64(src.spec.NumTokens) * int64(1+len(o.Profiles))
	done := int64(0)
	step := func(n int) {
		if done += int64(n); o.Progress != nil {
			o.Progress("compile", done, total)
		}
	}
	bulk, err := evaluateBulk(e, src, o, step)
	if err != nil {
		return nil, fmt.Errorf("bulk table: %w", err)
	}
	routes := [][]*tensor.Tensor{bulk}
	for i, p := range o.Profiles {
		t, err := evaluateProfile(e, src, p, step)
		if err != nil {
			return nil, fmt.Errorf("profile %d (max_rows %d, evaluation_rows %d): %w", i, p.MaxRows, p.EvaluationRows, err)
		}
		routes = append(routes, t)
	}
	return routes, e.close()
}

func emptyTables(src *sourceBlock) ([]*tensor.Tensor, error) {
	out := make([]*tensor.Tensor, len(src.branches))
	for i, b := range src.branches {
		var err error
		if out[i], err = tensor.New(b.DType, src.spec.NumTokens, b.Width); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// evaluateBulk calls the block with chunks of different tokens. All calls have
// the same row count, which the bulk route serves: the last chunk is filled up
// with tokens from the start again.
func evaluateBulk(e *evaluator, src *sourceBlock, o Options, step func(int)) ([]*tensor.Tensor, error) {
	tables, err := emptyTables(src)
	if err != nil {
		return nil, err
	}
	v := src.spec.NumTokens
	rows := bulkChunk(v, o)
	ids := make([]int, rows)
	for from := 0; from < v; from += rows {
		for i := range ids {
			ids[i] = (from + i) % v
		}
		results, err := e.call(ids)
		if err != nil {
			return nil, err
		}
		n := min(rows, v-from)
		for i, t := range tables {
			if at := notFinite(results[i]); at >= 0 {
				return nil, fmt.Errorf("%w: output %q, token %d", ErrNonFinite, src.branches[i].Name, ids[at/src.branches[i].Width])
			}
			width := len(t.Bytes()) / v
			copy(t.Bytes()[from*width:], results[i].Bytes()[:n*width])
		}
		step(n)
	}
	return tables, nil
}

// bulkChunk is the row count of the calls that make the bulk table.
func bulkChunk(tokens int, o Options) int {
	return max(min(o.ChunkRows, tokens), bulkRows(o.Profiles))
}

// evaluateProfile calls the block once per token with identical rows, and
// refuses tokens whose positions disagree.
func evaluateProfile(e *evaluator, src *sourceBlock, p Profile, step func(int)) ([]*tensor.Tensor, error) {
	tables, err := emptyTables(src)
	if err != nil {
		return nil, err
	}
	for id := range src.spec.NumTokens {
		results, err := e.call(identical(id, p.EvaluationRows))
		if err != nil {
			return nil, err
		}
		for i, t := range tables {
			if at := sameRows(results[i]); at >= 0 {
				return nil, fmt.Errorf("%w: output %q, token %d, position %d differs from position 0", ErrPositions, src.branches[i].Name, id, at)
			}
			if notFinite(results[i]) >= 0 {
				return nil, fmt.Errorf("%w: output %q, token %d", ErrNonFinite, src.branches[i].Name, id)
			}
			copy(t.Row(id), results[i].Row(0))
		}
		step(1)
	}
	return tables, nil
}

package finitepass

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
	"github.com/hfcompress/compress/validation"
)

// zeroFloor is the floor of relative L2 for one call of a block: a result that
// is all zero has to be met exactly.
const zeroFloor = 1e-30

// Compare calls source and candidate with every element of the domain in many
// layouts and compares all outputs. Blocks take flat indices, so a layout is a
// row count and an order:
//
//	whole        all elements in one call (up to 65,536, and about 64 MiB)
//	chunks       runs of ValidationChunk elements, in order
//	reversed     the same backwards
//	repeated     every run twice in one call
//	strided      runs of a permutation
//	single       every element alone
//	identical    an element many times, at every boundary row count
//	mixed        different elements from several offsets, both ways, at the same
//	covering     every element at every boundary row count
//	empty        no elements
//
// Boundary row counts are 1, 2, those around every profile's MaxRows and the
// device's published regimes, and every EvaluationRows.
//
// Large domains, whose evaluation takes more than Options.FullWork or leaves more
// than about 64 MiB, are compared otherwise, unless Options.Exhaustive is set:
//
//	domain       every element at every route, once
//
// and the other layouts with a spread of elements, the first and last among
// them. There [CompileFanout] compares the lookup with what the source gave when
// the tables were made: digests taken before the rows were stored.
//
// Values outside the limits are counted in the result; an error is something
// else: a failing device, a cancelled context or outputs that are not the
// declared ones.
func Compare(ctx context.Context, dev nn.Device, source, candidate nn.TokenBlock, o Options) (*Comparison, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return compare(ctx, dev, source, candidate, o, nil)
}

func compare(ctx context.Context, dev nn.Device, source, candidate nn.TokenBlock, o Options, seen *evidence) (*Comparison, error) {
	if source.NumTokens() != candidate.NumTokens() {
		return nil, fmt.Errorf("%w: %d tokens in the source, %d in the candidate", ErrBlock, source.NumTokens(), candidate.NumTokens())
	}
	if a, b := source.Outputs(), candidate.Outputs(); !slices.Equal(a, b) {
		return nil, fmt.Errorf("%w: the source has outputs %v, the candidate %v", ErrBlock, a, b)
	}
	c := &comparer{
		o: o, tokens: source.NumTokens(),
		source: newEvaluator(ctx, dev, source), candidate: newEvaluator(ctx, dev, candidate),
		gate:   validation.Gate{MaxAbs: o.MaxAbs, RelL2: o.RelL2, Decisions: []string{}},
		counts: map[int]bool{},
	}
	if d := nn.DomainOf(candidate); listed(d) {
		c.tokens, c.keys = d.Size, d.Keys
	}
	c.out = &Comparison{
		Accepted: true, Bitwise: true, Tokens: c.tokens,
		MaxAbs: o.MaxAbs, RelL2: o.RelL2, RequireBitwise: o.RequireBitwise,
	}
	defer c.source.close()    //nolint:errcheck // closed below on success
	defer c.candidate.close() //nolint:errcheck
	for _, spec := range source.Outputs() {
		c.out.Outputs = append(c.out.Outputs, OutputComparison{Name: spec.Name, Bitwise: true})
	}
	sizes := boundaryRows(o.Profiles, dev.Info().Regimes)
	if !o.Exhaustive && isLarge(c.source, c.tokens, o) {
		c.out.Sampled = true
		if err := c.domain(seen); err != nil {
			return nil, err
		}
		c.planSamples(sizes)
	} else {
		c.planAll(sizes)
	}
	for _, l := range c.layouts {
		if err := c.run(l); err != nil {
			return nil, err
		}
	}
	if err := c.source.close(); err != nil {
		return nil, err
	}
	if err := c.candidate.close(); err != nil {
		return nil, err
	}
	for n := range c.counts {
		c.out.RowCounts = append(c.out.RowCounts, n)
	}
	slices.Sort(c.out.RowCounts)
	return c.out, nil
}

type comparer struct {
	o                 Options
	tokens            int
	keys              nn.Keys // of a listed domain, else nil
	source, candidate *evaluator
	gate              validation.Gate
	layouts           []layout
	out               *Comparison
	counts            map[int]bool
	total             int64
}

// id returns what both blocks are called with for an element.
func (c *comparer) id(element int) int {
	if c.keys == nil {
		return element
	}
	return int(c.keys[element])
}

func (c *comparer) run(l layout) error {
	for k := range l.calls {
		ids := l.elements(k)
		for i, e := range ids {
			ids[i] = c.id(e)
		}
		want, err := c.source.call(ids)
		if err != nil {
			return fmt.Errorf("source, layout %s: %w", l.name, err)
		}
		got, err := c.candidate.call(ids)
		if err != nil {
			return fmt.Errorf("candidate, layout %s: %w", l.name, err)
		}
		c.record(l.name, 1, int64(len(ids)))
		c.counts[len(ids)] = true
		for i := range want {
			c.output(&c.out.Outputs[i], l.name, ids, want[i], got[i])
		}
		if c.o.Progress != nil {
			c.o.Progress("compare", int64(c.out.Calls), c.total)
		}
	}
	return nil
}

// output enters one result of one call.
func (c *comparer) output(worst *OutputComparison, name string, ids []int, want, got *tensor.Tensor) {
	if bytes.Equal(want.Bytes(), got.Bytes()) {
		return // tables hold finite values only, so these are
	}
	first := -1
	for i := range ids {
		if !bytes.Equal(want.Row(i), got.Row(i)) {
			worst.DifferentRows++
			if first < 0 {
				first = i
			}
		}
	}
	worst.Bitwise, c.out.Bitwise = false, false
	where := fmt.Sprintf("layout %s with %d row%s, first at token %d", name, len(ids), plural(len(ids)), ids[first])
	r := validation.Compare(worst.Name, want, got, c.gate)
	if r.RelL2 > 0 && allZero(want) {
		r.RelL2 = min(r.MaxAbs/zeroFloor, math.MaxFloat64)
	}
	if r.MaxAbs > worst.MaxAbs {
		worst.MaxAbs, worst.Worst = r.MaxAbs, where
	}
	worst.RelL2 = max(worst.RelL2, r.RelL2)
	reason := ""
	switch {
	case r.Reason != "":
		reason = r.Reason
	case r.RelL2 > c.o.RelL2:
		reason = fmt.Sprintf("relative L2 %.3g exceeds %.3g", r.RelL2, c.o.RelL2)
	case c.o.RequireBitwise:
		reason = fmt.Sprintf("not bitwise equal (max abs %.3g)", r.MaxAbs)
	default:
		return
	}
	c.out.Accepted = false
	if c.out.Failure == "" {
		c.out.Failure = fmt.Sprintf("output %q, %s: %s", worst.Name, where, reason)
	}
}

// allZero reports whether every value is +0 or −0.
func allZero(t *tensor.Tensor) bool {
	size := t.DType().Size()
	b := t.Bytes()
	for i := range t.Len() {
		sign := uint64(1) << (8*size - 1)
		if word(b, i, size)&^sign != 0 {
			return false
		}
	}
	return true
}

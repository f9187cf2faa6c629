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

// wholeRows and wholeBytes bound the domains that are also called in one piece.
const (
	wholeRows  = 1 << 16
	wholeBytes = 64 << 20
)

// publishedRows bounds the published boundaries that are called although no
// profile ends there.
const publishedRows = 4096

// zeroFloor is the floor of relative L2 for one call of a block: a result that
// is all zero has to be met exactly.
const zeroFloor = 1e-30

// Compare calls source and candidate with every token in many layouts and
// compares all outputs. Blocks take flat ids, so a layout is a row count and an
// order:
//
//	whole        all tokens in one call (up to 65,536, and about 64 MiB)
//	chunks       runs of ValidationChunk tokens, in order
//	reversed     the same backwards
//	repeated     every run twice in one call
//	strided      runs of a permutation
//	single       every token alone
//	identical    a token many times, at every boundary row count
//	mixed        different tokens from several offsets, both ways, at the same
//	covering     every token at every boundary row count
//	empty        no tokens
//
// Boundary row counts are 1, 2, those around every profile's MaxRows and the
// device's published regimes, and every EvaluationRows. Values outside the
// limits are counted in the result; an error is something else: a failing
// device, a cancelled context or outputs that are not the declared ones.
func Compare(ctx context.Context, dev nn.Device, source, candidate nn.TokenBlock, o Options) (*Comparison, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if source.NumTokens() != candidate.NumTokens() {
		return nil, fmt.Errorf("%w: %d tokens in the source, %d in the candidate", ErrBlock, source.NumTokens(), candidate.NumTokens())
	}
	if a, b := source.Outputs(), candidate.Outputs(); !slices.Equal(a, b) {
		return nil, fmt.Errorf("%w: the source has outputs %v, the candidate %v", ErrBlock, a, b)
	}
	c := &comparer{
		o: o, tokens: source.NumTokens(),
		source: newEvaluator(ctx, dev, source), candidate: newEvaluator(ctx, dev, candidate),
		gate: validation.Gate{MaxAbs: o.MaxAbs, RelL2: o.RelL2, Decisions: []string{}},
		out: &Comparison{
			Accepted: true, Bitwise: true, Tokens: source.NumTokens(),
			MaxAbs: o.MaxAbs, RelL2: o.RelL2, RequireBitwise: o.RequireBitwise,
		},
		counts: map[int]bool{},
	}
	defer c.source.close()    //nolint:errcheck // closed below on success
	defer c.candidate.close() //nolint:errcheck
	for _, spec := range source.Outputs() {
		c.out.Outputs = append(c.out.Outputs, OutputComparison{Name: spec.Name, Bitwise: true})
	}
	c.plan(boundaryRows(o.Profiles, dev.Info().Regimes))
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
	source, candidate *evaluator
	gate              validation.Gate
	layouts           []layout
	out               *Comparison
	counts            map[int]bool
	total             int64
}

// layout makes its calls one by one, so that none but the current is held.
type layout struct {
	name  string
	calls int
	ids   func(call int) []int
}

// boundaryRows lists the row counts at which a change of bits is expected.
func boundaryRows(profiles []Profile, regimes []nn.Regime) []int {
	sizes := []int{1, 2}
	for _, p := range profiles {
		sizes = append(sizes, p.MaxRows-1, p.MaxRows, p.MaxRows+1, p.EvaluationRows)
	}
	for _, r := range regimes {
		for _, n := range []int{r.MinRows - 1, r.MinRows, r.MaxRows, r.MaxRows + 1} {
			if n <= publishedRows {
				sizes = append(sizes, n)
			}
		}
	}
	sizes = slices.DeleteFunc(sizes, func(n int) bool { return n < 1 })
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

func (c *comparer) add(name string, calls int, ids func(call int) []int) {
	if calls > 0 {
		c.layouts = append(c.layouts, layout{name, calls, ids})
		c.total += int64(calls)
	}
}

func (c *comparer) plan(sizes []int) {
	v, chunk := c.tokens, min(c.o.ValidationChunk, max(1, c.tokens))
	chunks := (v + chunk - 1) / chunk
	// run lists tokens from..from+n of an order.
	run := func(from, n int, order func(int) int) []int {
		ids := make([]int, 0, n)
		for i := from; i < min(from+n, v); i++ {
			ids = append(ids, order(i))
		}
		return ids
	}
	forward := func(i int) int { return i }
	backward := func(i int) int { return v - 1 - i }
	permuted := stride(v)
	if v <= wholeRows && v*c.source.rowCost <= wholeBytes {
		c.add("whole", 1, func(int) []int { return run(0, v, forward) })
	}
	c.add("chunks", chunks, func(k int) []int { return run(k*chunk, chunk, forward) })
	c.add("reversed", chunks, func(k int) []int { return run(k*chunk, chunk, backward) })
	c.add("repeated", chunks, func(k int) []int {
		ids := run(k*chunk, chunk, forward)
		return append(ids, ids...)
	})
	c.add("strided", chunks, func(k int) []int { return run(k*chunk, chunk, permuted) })
	c.add("single", v, func(k int) []int { return []int{k} })
	for _, n := range sizes {
		if n == 1 {
			continue // single
		}
		tokens := min(v, max(1, c.o.IdenticalRows/len(sizes)/n))
		c.add("identical", tokens, func(k int) []int { return identical(k*v/tokens, n) })
	}
	for _, n := range sizes {
		for _, offset := range []int{0, v / 2, v - 1} {
			mixed := func(back bool) []int {
				ids := make([]int, n)
				for k := range ids {
					at := k
					if back {
						at = n - 1 - k
					}
					ids[at] = (3*k + offset) % v
				}
				return ids
			}
			c.add("mixed", 2, func(k int) []int { return mixed(k == 1) })
		}
	}
	for _, n := range sizes {
		if n > 1 {
			c.add("covering", (v+n-1)/n, func(k int) []int {
				ids := make([]int, n)
				for i := range ids {
					ids[i] = permuted((k*n + i) % v)
				}
				return ids
			})
		}
	}
	c.add("empty", 1, func(int) []int { return nil })
}

// stride returns the permutation i → i·s mod v with s near the golden ratio of v
// and without a common factor, so that neighbours come from far apart.
func stride(v int) func(int) int {
	s := max(1, int(float64(v)*0.6180339887))
	for gcd(s, v) != 1 {
		s++
	}
	return func(i int) int { return int(int64(i) * int64(s) % int64(v)) }
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func (c *comparer) run(l layout) error {
	last := len(c.out.Layouts) - 1
	if last < 0 || c.out.Layouts[last].Name != l.name {
		c.out.Layouts = append(c.out.Layouts, LayoutReport{Name: l.name})
		last++
	}
	for k := range l.calls {
		ids := l.ids(k)
		want, err := c.source.call(ids)
		if err != nil {
			return fmt.Errorf("source, layout %s: %w", l.name, err)
		}
		got, err := c.candidate.call(ids)
		if err != nil {
			return fmt.Errorf("candidate, layout %s: %w", l.name, err)
		}
		c.out.Layouts[last].Calls++
		c.out.Calls++
		c.out.Rows += int64(len(ids))
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

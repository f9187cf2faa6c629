package finitepass

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/hfcompress/compress/architectures/nn"
)

const (
	// wholeRows and wholeBytes bound the domains that are also called in one piece.
	wholeRows  = 1 << 16
	wholeBytes = 64 << 20
	// publishedRows bounds the published boundaries that are called although no
	// profile ends there.
	publishedRows = 4096
	// sampleRows bounds the elements of a layout that is sampled, and sampleShare
	// says which part of a large domain that is.
	sampleRows  = 4096
	sampleShare = 32
	leastSample = 64
	mostSingles = 256
)

// layout makes its calls one at a time, so that none but the current is held.
type layout struct {
	name     string
	calls    int
	elements func(call int) []int
}

// isLarge reports whether a domain is compared as Compare says for large ones.
func isLarge(source *evaluator, tokens int, o Options) bool {
	return int64(tokens)*int64(source.rowCost) > wholeBytes || int64(tokens)*work(source.block) > o.FullWork
}

// work is the number of multiply-adds of one row, as far as they are known.
func work(block nn.TokenBlock) int64 {
	f, ok := block.(*nn.Fanout)
	if !ok {
		return 1
	}
	total := int64(1)
	through := func(width int, layers []nn.RowLocal) int {
		for _, l := range layers {
			next, err := l.OutWidth(width)
			if err != nil { // Validate reports it
				return width
			}
			if l.Describe() == "linear" {
				total += int64(width) * int64(next)
			}
			width = next
		}
		return width
	}
	width := f.Embedding.Width()
	if p := f.Pair; p != nil {
		width = through(width, p.FirstLayers)
		second := through(p.Embedding.Width(), p.Layers)
		if p.Join == nn.Concat {
			width += second
		}
	}
	width = through(width, f.Prefix)
	for _, b := range f.Branches {
		through(width, b.Layers)
	}
	return total
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

func (c *comparer) add(name string, calls int, elements func(call int) []int) {
	if calls > 0 {
		c.layouts = append(c.layouts, layout{name, calls, elements})
		c.total += int64(calls)
	}
}

// planAll takes every element in every layout.
func (c *comparer) planAll(sizes []int) {
	v := c.tokens
	if v <= wholeRows && v*c.source.rowCost <= wholeBytes {
		c.add("whole", 1, func(int) []int { return spread(v, v, 0) })
	}
	chunk := min(c.o.ValidationChunk, max(1, v))
	c.add("chunks", (v+chunk-1)/chunk, func(k int) []int { return from(k*chunk, chunk, v, func(i int) int { return i }) })
	c.plan(sizes, v, v, v)
}

// planSamples takes a spread of elements in every layout.
func (c *comparer) planSamples(sizes []int) {
	n := min(c.tokens, sampleRows, max(leastSample, c.tokens/sampleShare))
	c.plan(sizes, n, (n+1)/2, min(n, mostSingles))
}

// plan adds the layouts that both kinds of comparison have, with n elements of
// the domain; those with two calls or rows for one element with fewer.
func (c *comparer) plan(sizes []int, n, doubled, singles int) {
	v, chunk := c.tokens, min(c.o.ValidationChunk, max(1, n))
	chunks := func(n int) int { return (n + chunk - 1) / chunk }
	at := func(n int) func(int) int { return func(i int) int { return spreadAt(i, n, v) } }
	c.add("reversed", chunks(n), func(k int) []int {
		return from(k*chunk, chunk, n, func(i int) int { return at(n)(n - 1 - i) })
	})
	c.add("repeated", chunks(doubled), func(k int) []int {
		run := from(k*chunk, chunk, doubled, at(doubled))
		return append(run, run...)
	})
	permuted := stride(n)
	c.add("strided", chunks(n), func(k int) []int {
		return from(k*chunk, chunk, n, func(i int) int { return at(n)(permuted(i)) })
	})
	c.add("single", singles, func(k int) []int { return []int{at(singles)(k)} })
	for _, rows := range sizes {
		if rows == 1 {
			continue // single
		}
		tokens := min(n, max(1, c.o.IdenticalRows/len(sizes)/rows))
		if c.out.Sampled {
			tokens = min(tokens, max(1, n/rows))
		}
		c.add("identical", tokens, func(k int) []int { return identical(k*v/tokens, rows) })
	}
	for _, rows := range sizes {
		for _, offset := range []int{0, v / 2, v - 1} {
			mixed := func(back bool) []int {
				ids := make([]int, rows)
				for k := range ids {
					at := k
					if back {
						at = rows - 1 - k
					}
					ids[at] = (3*k + offset) % v
				}
				return ids
			}
			c.add("mixed", 2, func(k int) []int { return mixed(k == 1) })
		}
	}
	for _, rows := range sizes {
		if rows > 1 {
			c.add("covering", (n+rows-1)/rows, func(k int) []int {
				ids := make([]int, rows)
				for i := range ids {
					ids[i] = at(n)(permuted((k*rows + i) % n))
				}
				return ids
			})
		}
	}
	c.add("empty", 1, func(int) []int { return nil })
}

// spreadAt returns the i-th of n elements spread over v, the first and the last
// among them.
func spreadAt(i, n, v int) int {
	if n < 2 {
		return 0
	}
	return int(int64(i) * int64(v-1) / int64(n-1))
}

// spread lists n spread elements of v, from the given one on.
func spread(n, v, first int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = spreadAt(first+i, n, v)
	}
	return ids
}

// from lists the elements first to first+count of n, in an order.
func from(first, count, n int, order func(int) int) []int {
	ids := make([]int, 0, 2*count) // the layout repeated doubles them
	for i := first; i < min(first+count, n); i++ {
		ids = append(ids, order(i))
	}
	return ids
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

// domain compares every element once at every route. What the source gave is
// known by its digest where seen is given; otherwise, and where the digests
// differ, the source is called again.
func (c *comparer) domain(seen *evidence) error {
	for route := range 1 + len(c.o.Profiles) {
		rows := max(c.o.ChunkRows, bulkRows(c.o.Profiles))
		if route > 0 {
			rows = c.o.Profiles[route-1].MaxRows
		}
		if seen != nil {
			equal, err := c.domainDigests(seen, route, rows)
			if err != nil {
				return err
			}
			if equal {
				continue
			}
		}
		// The calls at the end are filled up, so that the route serves them too.
		calls := (c.tokens + rows - 1) / rows
		if err := c.run(layout{"domain", calls, func(k int) []int {
			ids := make([]int, rows)
			for i := range ids {
				ids[i] = (k*rows + i) % c.tokens
			}
			return ids
		}}); err != nil {
			return err
		}
	}
	return nil
}

// domainDigests reports whether the candidate's rows of one route are those that
// the source gave.
func (c *comparer) domainDigests(seen *evidence, route, rows int) (bool, error) {
	want := seen.hashes[route]
	have := make([]hashState, len(want))
	for i := range have {
		have[i] = sha256.New()
	}
	calls := 0
	for first := 0; first < c.tokens; first += rows {
		ids := make([]int, rows)
		for i := range ids {
			ids[i] = c.id((first + i) % c.tokens)
		}
		got, err := c.candidate.call(ids)
		if err != nil {
			return false, fmt.Errorf("candidate, layout domain: %w", err)
		}
		n := min(rows, c.tokens-first)
		for i := range have {
			have[i].Write(got[i].Bytes()[:n*len(got[i].Bytes())/rows])
		}
		calls++
		if c.o.Progress != nil {
			c.o.Progress("compare", int64(min(c.tokens, first+rows)), int64(c.tokens))
		}
	}
	for i := range have {
		if string(have[i].Sum(nil)) != string(want[i].Sum(nil)) {
			return false, nil
		}
	}
	c.record("domain", calls, int64(c.tokens))
	c.counts[rows] = true
	return true, nil
}

// record enters calls of a layout.
func (c *comparer) record(name string, calls int, rows int64) {
	last := len(c.out.Layouts) - 1
	if last < 0 || c.out.Layouts[last].Name != name {
		c.out.Layouts = append(c.out.Layouts, LayoutReport{Name: name})
		last++
	}
	c.out.Layouts[last].Calls += calls
	c.out.Layouts[last].Rows += rows
	c.out.Calls += calls
	c.out.Rows += rows
}

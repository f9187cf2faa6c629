package finitepass

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/hfcompress/compress/architectures/nn"
)

// ProbeOptions adjust [FindProfiles].
type ProbeOptions struct {
	// MaxRows is the largest row count that is called, 1,024 if 0. Above it the
	// last interval is assumed to go on, and the report says so. Published
	// boundaries are called beyond it too, up to 65,536 rows.
	MaxRows int
	// SmallRows is the count up to which every row count is called, 33 if 0.
	SmallRows int
	// Tokens is how many evenly spread tokens are evaluated. 0 means 16, or 64 when
	// an output has 16 bits, since rounding then hides most changes of bits.
	Tokens int
	// Strict makes a device whose published regimes disagree with what was found
	// an error that wraps [ErrRegimes], instead of a note in the report.
	Strict bool
}

const (
	defaultProbeRows   = 1024
	defaultSmallRows   = 33
	defaultProbeTokens = 16
	narrowProbeTokens  = 64
	maxProbeRows       = 1 << 16
)

func (o ProbeOptions) withDefaults() (ProbeOptions, error) {
	for _, c := range []struct {
		name     string
		value    *int
		standard int
	}{{"MaxRows", &o.MaxRows, defaultProbeRows}, {"SmallRows", &o.SmallRows, defaultSmallRows}, {"Tokens", &o.Tokens, defaultProbeTokens}} {
		if *c.value < 0 || *c.value > maxProbeRows {
			return o, fmt.Errorf("%w: Probe.%s is %d, expected 1 to %d", ErrOptions, c.name, *c.value, maxProbeRows)
		}
		if *c.value == 0 {
			*c.value = c.standard
		}
	}
	o.SmallRows = min(o.SmallRows, o.MaxRows)
	return o, nil
}

// ProbeReport tells what [FindProfiles] called and found.
type ProbeReport struct {
	// RowCounts lists the row counts that were called, in order.
	RowCounts []int `json:"row_counts"`
	// Calls and Rows count the evaluations.
	Calls int   `json:"calls"`
	Rows  int64 `json:"rows"`
	// Tokens lists the ids that were evaluated.
	Tokens []int `json:"tokens"`
	// Intervals lists the ranges of row counts with equal bits, in order. The last
	// one has no upper bound; what lies above VerifiedRows was not called.
	Intervals    []Interval `json:"intervals"`
	VerifiedRows int        `json:"verified_rows"`
	// Proposed is the shortest profile list that keeps the intervals apart.
	Proposed []Profile `json:"proposed"`
	// Published repeats the device's own regimes, and Disagreements says where they
	// are not what was found. A published boundary across which this block's bits
	// happen to be equal is not a disagreement.
	Published     []nn.Regime `json:"published,omitempty"`
	Disagreements []string    `json:"disagreements,omitempty"`
}

// Interval is a range of row counts, both ends included; MaxRows is 0 for the
// last.
type Interval struct {
	MinRows int `json:"min_rows"`
	MaxRows int `json:"max_rows,omitempty"`
	// Signature identifies the bits of the evaluated tokens.
	Signature string `json:"signature"`
}

// FindProfiles measures at which row counts the bits of a row change, and
// proposes the shortest list of profiles that follows the changes.
//
// It calls block with every row count up to SmallRows, then with powers of two
// and their neighbours and around published boundaries; where two neighbouring
// counts differ, it halves the gap until the boundary is exact. A change that
// begins and ends between two counts that were called is not seen here; the
// comparison of a compiled block calls further counts.
//
// At each count, rows of one call must agree when they are identical
// ([ErrPositions]) and must not depend on the other rows ([ErrNeighbours]), and
// a call that is repeated must give the same bits ([ErrUnstable]): no table
// could stand in for such a block. With an error other than [ErrOptions] the
// report holds what was found until then.
func FindProfiles(ctx context.Context, dev nn.Device, block nn.TokenBlock, o ProbeOptions) (*ProbeReport, []Profile, error) {
	if o.Tokens == 0 && slices.ContainsFunc(block.Outputs(), func(out nn.Output) bool { return out.DType.Size() == 2 }) {
		o.Tokens = narrowProbeTokens
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	p := &prober{
		e: newEvaluator(ctx, dev, block), o: o,
		signatures: map[int][sha256.Size]byte{},
		report:     &ProbeReport{Published: dev.Info().Regimes},
	}
	v := block.NumTokens()
	for n, i := min(o.Tokens, v), 0; i < n; i++ {
		p.tokens = append(p.tokens, i*v/n)
	}
	p.report.Tokens = p.tokens
	err = p.search()
	if closeErr := p.e.close(); err == nil {
		err = closeErr
	}
	p.summarise()
	if err != nil {
		return p.report, nil, err
	}
	if len(p.report.Proposed) > MaxProfiles {
		return p.report, nil, fmt.Errorf("%w: the bits change at %d row counts, the limit is %d profiles", ErrProfiles, len(p.report.Proposed), MaxProfiles)
	}
	if len(p.report.Disagreements) > 0 && o.Strict {
		return p.report, nil, fmt.Errorf("%w: %s", ErrRegimes, p.report.Disagreements[0])
	}
	return p.report, p.report.Proposed, nil
}

type prober struct {
	e          *evaluator
	o          ProbeOptions
	tokens     []int
	signatures map[int][sha256.Size]byte
	report     *ProbeReport
}

func (p *prober) search() error {
	counts := p.counts()
	for i, n := range counts {
		if err := p.measure(n); err != nil {
			return err
		}
		if i > 0 {
			if err := p.refine(counts[i-1], n); err != nil {
				return err
			}
		}
	}
	return p.repeat(counts)
}

// counts lists the row counts to start from, in order.
func (p *prober) counts() []int {
	var counts []int
	for n := 1; n <= p.o.SmallRows; n++ {
		counts = append(counts, n)
	}
	for n := 2; n <= p.o.MaxRows; n *= 2 {
		counts = append(counts, n-1, n, n+1)
	}
	counts = append(counts, p.o.MaxRows)
	counts = slices.DeleteFunc(counts, func(n int) bool { return n < 1 || n > p.o.MaxRows })
	for _, r := range p.report.Published {
		for _, n := range []int{r.MinRows - 1, r.MinRows} {
			if n >= 1 && n <= maxProbeRows {
				counts = append(counts, n)
			}
		}
	}
	slices.Sort(counts)
	return slices.Compact(counts)
}

// refine finds every boundary between two measured counts that differ.
func (p *prober) refine(low, high int) error {
	if p.signatures[low] == p.signatures[high] || high-low < 2 {
		return nil
	}
	mid := low + (high-low)/2
	if err := p.measure(mid); err != nil {
		return err
	}
	if err := p.refine(low, mid); err != nil {
		return err
	}
	return p.refine(mid, high)
}

// measure evaluates all probe tokens in calls of n rows.
func (p *prober) measure(n int) error {
	rows := make([][]byte, len(p.tokens)) // the outputs of each token, one after the other
	known := func(i int) bool { return rows[i] != nil }
	// Identical rows first: position alone must not matter. One token is enough
	// for the long calls; the mixed ones have every token at many positions.
	each := len(p.tokens)
	if n > p.o.SmallRows {
		each = 1
	}
	for i := range each {
		at := (i + n) % len(p.tokens)
		results, err := p.e.call(identical(p.tokens[at], n))
		if err != nil {
			return err
		}
		for k, t := range results {
			if row := sameRows(t); row >= 0 {
				return fmt.Errorf("%w: output %q, token %d in a call of %d rows: position %d differs from position 0",
					ErrPositions, p.e.outputs[k].Name, p.tokens[at], n, row)
			}
			rows[at] = append(rows[at], t.Row(0)...)
		}
	}
	// Then mixed rows: neighbours must not matter. Calls shorter than the token
	// list take turns, so that every token is seen.
	for from := 0; from < len(p.tokens); from += n {
		ids, which := make([]int, n), make([]int, n)
		for k := range ids {
			which[k] = (from + k) % len(p.tokens)
			if k >= len(p.tokens) { // another order for every further round
				which[k] = (k*7 + k/len(p.tokens)) % len(p.tokens)
			}
			ids[k] = p.tokens[which[k]]
		}
		results, err := p.e.call(ids)
		if err != nil {
			return err
		}
		for k, at := range which {
			var row []byte
			for _, t := range results {
				row = append(row, t.Row(k)...)
			}
			if !known(at) {
				rows[at] = row
			} else if string(row) != string(rows[at]) {
				return fmt.Errorf("%w: token %d in a call of %d rows, position %d of a mixed call", ErrNeighbours, ids[k], n, k)
			}
		}
	}
	h := sha256.New()
	for _, r := range rows {
		h.Write(r)
	}
	p.signatures[n] = [sha256.Size]byte(h.Sum(nil))
	return nil
}

// repeat measures the first and the last count again.
func (p *prober) repeat(counts []int) error {
	for _, n := range []int{counts[0], counts[len(counts)-1]} {
		before := p.signatures[n]
		if err := p.measure(n); err != nil {
			return err
		}
		if p.signatures[n] != before {
			return fmt.Errorf("%w: calls of %d rows", ErrUnstable, n)
		}
	}
	return nil
}

// summarise turns signatures into intervals and profiles.
func (p *prober) summarise() {
	r := p.report
	r.Calls, r.Rows = p.e.calls, p.e.rows
	for n := range p.signatures {
		r.RowCounts = append(r.RowCounts, n)
	}
	slices.Sort(r.RowCounts)
	r.Proposed = []Profile{}
	for i, n := range r.RowCounts {
		r.VerifiedRows = n
		if i > 0 && p.signatures[n] == p.signatures[r.RowCounts[i-1]] {
			continue
		}
		sum := p.signatures[n]
		if last := len(r.Intervals) - 1; last >= 0 {
			r.Intervals[last].MaxRows = n - 1
			r.Proposed = append(r.Proposed, Profile{n - 1, r.Intervals[last].MinRows})
			p.checkBoundary(n)
		}
		r.Intervals = append(r.Intervals, Interval{MinRows: n, Signature: hex.EncodeToString(sum[:8])})
	}
	p.checkPublished()
}

// checkBoundary compares a found boundary with what the device publishes.
func (p *prober) checkBoundary(n int) {
	for _, r := range p.report.Published {
		if r.MinRows < n && (r.MaxRows == 0 || n <= r.MaxRows) {
			p.report.Disagreements = append(p.report.Disagreements,
				fmt.Sprintf("bits change from %d to %d rows, within the published regime %q", n-1, n, r.Name))
		}
	}
}

// checkPublished requires the published intervals to cover 1 and up in order.
func (p *prober) checkPublished() {
	next := 1
	for i, r := range p.report.Published {
		last := i == len(p.report.Published)-1
		if r.MinRows != next || last != (r.MaxRows == 0) || !last && r.MaxRows < r.MinRows {
			p.report.Disagreements = append(p.report.Disagreements,
				fmt.Sprintf("published regime %q covers %d to %d rows, expected to begin at %d", r.Name, r.MinRows, r.MaxRows, next))
			return
		}
		next = r.MaxRows + 1
	}
}

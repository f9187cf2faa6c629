package validation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// ErrMargins is wrapped by errors about a decision that cannot be looked at over
// its domain.
var ErrMargins = errors.New("no margins over the domain")

// Choice is a decision that a finite block takes for every element of its
// domain, such as a router's for every token: the Top largest elements of a row
// of Output.
type Choice struct {
	Block  nn.TokenBlock
	Output string
	Top    int // 0 for 1
	// IDs, when not empty, are the only elements to look at: a block may refuse the
	// others.
	IDs []int
	// Rows are the row counts of the calls that look at the domain, since a block
	// may compute in another way at another; nil for 256 alone.
	Rows []int
}

// Margins is what looking at a decision over the whole domain of a block gave.
// Another block whose scores lie within Bound of this one's chooses the same
// wherever the margin is more than twice Bound: each of the two scores that would
// have to trade places moves by Bound at most.
type Margins struct {
	// Block and Output name the decision, and Top is how many are chosen.
	Block  string `json:"block"`
	Output string `json:"output"`
	Top    int    `json:"top"`
	// Elements is how many elements were looked at: the whole domain, or those that
	// may occur.
	Elements int `json:"elements"`
	// Smallest is the smallest margin, at the element At.
	Smallest float64 `json:"smallest"`
	At       int     `json:"at"`
	// Bound is the largest difference between the scores of the two blocks, and
	// Undecided counts the elements whose margin is not more than twice that, at any
	// row count; 0 when the bound is, since equal scores choose equally.
	Bound     float64 `json:"bound"`
	Undecided int     `json:"undecided"`
	// First is the first undecided element, when there is one.
	First *int `json:"first_undecided,omitempty"`
}

// Decided reports whether no choice can have changed.
func (m *Margins) Decided() bool { return m.Undecided == 0 }

// String says so in a sentence.
func (m *Margins) String() string {
	if m.Decided() {
		return fmt.Sprintf("all %d choices of the top %d of %s are decided: the smallest margin is %.3g, the scores move by %.3g at most",
			m.Elements, m.Top, m.Output, m.Smallest, m.Bound)
	}
	return fmt.Sprintf("%d of %d choices of the top %d of %s are undecided: the scores move by up to %.3g, and the margin of element %d is %.3g",
		m.Undecided, m.Elements, m.Top, m.Output, m.Bound, m.At, m.Smallest)
}

// DomainMargins evaluates a block for every element of its domain and holds each
// margin against bound, the largest difference to the scores of another block.
func DomainMargins(ctx context.Context, dev nn.Device, c Choice, bound float64) (*Margins, error) {
	if !(bound >= 0) {
		return nil, fmt.Errorf("%w: bound %v", ErrMargins, bound)
	}
	ids := c.ids()
	m := &Margins{Output: c.Output, Top: max(1, c.Top), Elements: len(ids), Bound: bound}
	margins := make(map[int]float64, len(ids))
	err := c.scan(ctx, dev, func(id int, margin float64) {
		if have, seen := margins[id]; !seen || margin < have {
			margins[id] = margin
		}
	})
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		margin := margins[id]
		if i == 0 || margin < m.Smallest {
			m.Smallest, m.At = margin, id
		}
		if bound > 0 && !(margin > 2*bound) {
			if m.Undecided++; m.First == nil {
				m.First = &id
			}
		}
	}
	return m, nil
}

// DomainTies returns the keep elements of a block's domain of token ids whose
// decision is narrowest, as examples of one token each: what [NearTies] finds by
// searching, found by looking everywhere. The result is sorted by margin.
func DomainTies(ctx context.Context, dev nn.Device, c Choice, keep int) ([]Tie, error) {
	if d := nn.DomainOf(c.Block); d != nil {
		return nil, fmt.Errorf("%w: examples are made of token ids, the block is over %v", ErrMargins, d)
	}
	type narrow struct {
		id     int
		margin float64
	}
	var best []narrow
	c.Rows = nil // each element once
	err := c.scan(ctx, dev, func(id int, margin float64) {
		if len(best) == keep && margin >= best[keep-1].margin {
			return
		}
		at, _ := slices.BinarySearchFunc(best, margin, func(n narrow, m float64) int {
			if n.margin <= m { // among equal margins the first stay first
				return -1
			}
			return cmp.Compare(n.margin, m)
		})
		best = slices.Insert(best, at, narrow{id, margin})
		best = best[:min(len(best), keep)]
	})
	if err != nil || keep < 1 {
		return nil, err
	}
	var ties []Tie
	for _, b := range best {
		inputs, err := architectures.TokenInputs([]int{b.id})
		if err != nil {
			return nil, err
		}
		inputs.Flags = map[string]bool{flagHiddenStates: true, flagAttentions: true}
		ties = append(ties, Tie{Example{Name: fmt.Sprintf("near-tie-%s-token-%d", c.Output, b.id), Inputs: inputs}, b.margin})
	}
	return ties, nil
}

// ids lists the elements to look at.
func (c Choice) ids() []int {
	if len(c.IDs) > 0 {
		return c.IDs
	}
	all := make([]int, c.Block.NumTokens())
	for i := range all {
		all[i] = i
	}
	return all
}

// scanRows is the row count of the calls that scan a domain.
const scanRows = 256

// scan calls f with the margin of every element.
func (c Choice) scan(ctx context.Context, dev nn.Device, f func(id int, margin float64)) error {
	at := slices.IndexFunc(c.Block.Outputs(), func(o nn.Output) bool { return o.Name == c.Output })
	if at < 0 {
		return fmt.Errorf("%w: the block has no output %q", ErrMargins, c.Output)
	}
	o := c.Block.Outputs()[at]
	top := max(1, c.Top)
	if !hasValues(o.DType) || o.Width <= top {
		return fmt.Errorf("%w: output %q has %d scores of type %v, the top %d are chosen", ErrMargins, c.Output, o.Width, o.DType, top)
	}
	row := newChooser(o.Width, top)
	counts := c.Rows
	if counts == nil {
		counts = []int{scanRows}
	}
	for _, rows := range counts {
		if rows < 1 {
			return fmt.Errorf("%w: calls of %d rows", ErrMargins, rows)
		}
		if err := c.scanAt(ctx, dev, rows, at, row, f); err != nil {
			return err
		}
	}
	return nil
}

// scanAt scans by calls of so many rows, the last one filled up from the start.
func (c Choice) scanAt(ctx context.Context, dev nn.Device, rows, at int, row *chooser, f func(id int, margin float64)) error {
	all := c.ids()
	n := len(all)
	ids := make([]int, rows)
	for from := 0; from < n; from += rows {
		for i := range ids {
			ids[i] = all[(from+i)%n]
		}
		t, err := c.call(ctx, dev, ids, at)
		if err != nil {
			return err
		}
		for i, id := range ids[:min(rows, n-from)] {
			readFloats(row.values, t, i*len(row.values))
			if !finite(row.values) {
				return fmt.Errorf("%w: output %q is NaN or infinite for element %d", ErrMargins, c.Output, id)
			}
			f(id, row.choose())
		}
	}
	return nil
}

func (c Choice) call(ctx context.Context, dev nn.Device, ids []int, at int) (*tensor.Tensor, error) {
	s := dev.Begin(ctx)
	out := c.Block.Forward(s, ids)
	if s.Err() != nil {
		return nil, s.Close()
	}
	t := s.ToHost(out[at])
	return t, s.Close()
}

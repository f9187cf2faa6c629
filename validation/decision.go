package validation

import (
	"math"
	"slices"

	"github.com/hfcompress/compress/tensor"
)

// Decision is what an output's largest elements along the last axis say. A tie
// goes to the lower index, on both sides.
type Decision struct {
	// Rows counts the decisions in the output, and Top how many elements each
	// chooses.
	Rows int `json:"rows"`
	Top  int `json:"top,omitempty"`
	// MinMargin is the smallest distance between the source's smallest chosen and
	// largest other element, and At the index of that decision without the last
	// axis. There is no margin, and At is empty, when all elements are chosen.
	MinMargin float64 `json:"min_margin"`
	At        []int   `json:"at,omitempty"`
	// Changed counts the decisions that differ, and FirstChange is the first.
	Changed     int     `json:"changed"`
	FirstChange *Change `json:"first_change,omitempty"`
}

// Change is a decision that differs. Source and Candidate are the first element
// that one of them chooses and the other does not.
type Change struct {
	Index     []int   `json:"index"`
	Source    int     `json:"source"`
	Candidate int     `json:"candidate"`
	Margin    float64 `json:"margin"`
}

// decide compares the decisions of two finite outputs of one shape, of top
// elements each. It returns nil when there are none to take.
func decide(a, b *tensor.Tensor, top int) *Decision {
	shape := a.Shape()
	if len(shape) == 0 || a.Len() == 0 {
		return nil
	}
	width := shape[len(shape)-1]
	outer := shape[:len(shape)-1]
	rows := a.Len() / width
	d := &Decision{Rows: rows}
	if top > 1 {
		d.Top = top
	}
	x, y := newChooser(width, top), newChooser(width, top)
	smallest := -1
	for row := range rows {
		readFloats(x.values, a, row*width)
		readFloats(y.values, b, row*width)
		margin := x.choose()
		y.choose()
		if x.top < width && (smallest < 0 || margin < d.MinMargin) {
			smallest, d.MinMargin = row, margin
		}
		if slices.Equal(x.chosen, y.chosen) {
			continue
		}
		if d.Changed == 0 {
			d.FirstChange = &Change{Index: unravel(row, outer), Source: firstMissing(x.chosen, y.chosen), Candidate: firstMissing(y.chosen, x.chosen), Margin: margin}
		}
		d.Changed++
	}
	if smallest >= 0 {
		d.At = unravel(smallest, outer)
	}
	return d
}

// firstMissing returns the first of a that is not in b.
func firstMissing(a, b []int) int {
	return a[slices.IndexFunc(a, func(i int) bool { return !slices.Contains(b, i) })]
}

// chooser finds the largest of a row of values.
type chooser struct {
	values []float64
	top    int
	// chosen are the positions of the largest, in increasing order; of equal values
	// the first are taken.
	chosen []int
}

func newChooser(width, top int) *chooser {
	top = min(top, width)
	return &chooser{values: make([]float64, width), top: top, chosen: make([]int, 0, top)}
}

// choose sets chosen and returns the distance from the smallest of them to the
// largest other value; 0 when there is no other.
func (c *chooser) choose() (margin float64) {
	c.chosen = c.chosen[:0]
	next := math.Inf(-1) // the largest value that is not chosen
	for i, v := range c.values {
		if len(c.chosen) < c.top {
			c.chosen = append(c.chosen, i)
			continue
		}
		// Among equal values the last one gives way.
		least := 0
		for k, at := range c.chosen {
			if c.values[at] <= c.values[c.chosen[least]] {
				least = k
			}
		}
		if at := c.chosen[least]; v > c.values[at] {
			next = max(next, c.values[at])
			c.chosen = append(append(c.chosen[:least], c.chosen[least+1:]...), i)
		} else {
			next = max(next, v)
		}
	}
	if c.top == len(c.values) {
		return 0
	}
	smallest := math.Inf(1)
	for _, at := range c.chosen {
		smallest = min(smallest, c.values[at])
	}
	return min(smallest-next, math.MaxFloat64)
}

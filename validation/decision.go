package validation

import (
	"math"

	"github.com/hfcompress/compress/tensor"
)

// Decision is what an output's largest elements along the last axis say. A tie
// goes to the lower index, on both sides.
type Decision struct {
	// Rows counts the decisions in the output.
	Rows int `json:"rows"`
	// MinMargin is the smallest distance between the source's largest and second
	// largest element, and At the index of that decision without the last axis.
	// There is no margin, and At is empty, when the last axis has one element.
	MinMargin float64 `json:"min_margin"`
	At        []int   `json:"at,omitempty"`
	// Changed counts the decisions that differ, and FirstChange is the first.
	Changed     int     `json:"changed"`
	FirstChange *Change `json:"first_change,omitempty"`
}

// Change is a decision that differs.
type Change struct {
	Index     []int   `json:"index"`
	Source    int     `json:"source"`
	Candidate int     `json:"candidate"`
	Margin    float64 `json:"margin"`
}

// decide compares the decisions of two finite outputs of one shape. It returns
// nil when there are none to take.
func decide(a, b *tensor.Tensor) *Decision {
	shape := a.Shape()
	if len(shape) == 0 || a.Len() == 0 {
		return nil
	}
	width := shape[len(shape)-1]
	outer := shape[:len(shape)-1]
	rows := a.Len() / width
	d := &Decision{Rows: rows}
	x, y := make([]float64, width), make([]float64, width)
	smallest := -1
	for row := range rows {
		readFloats(x, a, row*width)
		readFloats(y, b, row*width)
		top, margin := argmax(x)
		other, _ := argmax(y)
		if width > 1 && (smallest < 0 || margin < d.MinMargin) {
			smallest, d.MinMargin = row, margin
		}
		if top != other {
			if d.Changed == 0 {
				d.FirstChange = &Change{Index: unravel(row, outer), Source: top, Candidate: other, Margin: margin}
			}
			d.Changed++
		}
	}
	if smallest >= 0 {
		d.At = unravel(smallest, outer)
	}
	return d
}

// argmax returns the position of the largest value, the first of equal ones, and
// its distance to the second largest; 0 for a single value.
func argmax(values []float64) (at int, margin float64) {
	second := math.Inf(-1)
	for i, v := range values[1:] {
		switch {
		case v > values[at]:
			second, at = values[at], i+1
		case v > second:
			second = v
		}
	}
	if len(values) == 1 {
		return 0, 0
	}
	return at, min(values[at]-second, math.MaxFloat64)
}

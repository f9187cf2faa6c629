package validation

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/tensor"
)

// relativeFloor keeps relative L2 defined for outputs that are all zero.
const relativeFloor = 1e-12

// ErrNothing says that there was no output or no example to compare, which is
// never taken for agreement.
var ErrNothing = errors.New("nothing to compare")

// OutputResult is what comparing one output gave. Numbers are always finite:
// where a NaN or an infinity makes a figure meaningless, it is 0 and Reason says
// why the output was refused.
type OutputResult struct {
	Output   string       `json:"output"`
	DType    tensor.DType `json:"dtype,omitzero"`
	Shape    tensor.Shape `json:"shape"`
	Accepted bool         `json:"accepted"`
	// Exact and Bitwise are findings; only a gate that asks for them demands them.
	Exact   bool    `json:"exact"`
	Bitwise bool    `json:"bitwise"`
	MaxAbs  float64 `json:"max_abs"`
	RelL2   float64 `json:"relative_l2"`
	// Reason says why the output was not accepted.
	Reason string `json:"reason,omitempty"`
	// First is the first element whose bits differ.
	First *Difference `json:"first_difference,omitempty"`
	// Decision is set for outputs that the gate names as decisions.
	Decision *Decision `json:"decision,omitempty"`
}

// Difference is one element of two tensors, each as its value and its bits.
type Difference struct {
	Index     []int  `json:"index"`
	Source    string `json:"source"`
	Candidate string `json:"candidate"`
}

// Compare judges one output of a candidate under a gate. The tensors may differ
// in anything. An invalid gate refuses every output.
func Compare(name string, source, candidate *tensor.Tensor, gate Gate) OutputResult {
	gate, err := gate.Effective()
	if err != nil {
		return OutputResult{Output: name, Reason: err.Error()}
	}
	return compare(name, source, candidate, gate)
}

func compare(name string, a, b *tensor.Tensor, gate Gate) OutputResult {
	if a == nil || b == nil {
		return OutputResult{Output: name, Reason: "no tensor"}
	}
	r := OutputResult{Output: name, DType: a.DType(), Shape: a.Shape()}
	if a.DType() != b.DType() || !a.Shape().Equal(b.Shape()) {
		r.Reason = fmt.Sprintf("structure changed: source is %v, candidate is %v", a, b)
		return r
	}
	r.Bitwise = bytes.Equal(a.Bytes(), b.Bytes())
	if !r.Bitwise {
		r.First = firstDifference(a, b)
	}
	switch {
	case hasValues(a.DType()):
		r.measure(a, b, gate)
	case a.DType() == tensor.C64:
		r.Reason = "complex outputs cannot be compared: take real views"
	case r.Bitwise:
		r.Exact = true
	case a.DType().IsFloat():
		r.Reason = fmt.Sprintf("%v values are only compared by bits, and these differ", a.DType())
	default:
		r.Reason = "discrete output changed"
	}
	if r.Reason == "" && gate.Bitwise && !r.Bitwise {
		r.Reason = "not bitwise equal"
	}
	if r.Reason == "" && gate.Exact && !r.Exact {
		r.Reason = "not exactly equal"
	}
	if r.Reason != "" && r.First != nil {
		r.Reason += fmt.Sprintf("; first at %v: source %s, candidate %s", r.First.Index, r.First.Source, r.First.Candidate)
	}
	r.Accepted = r.Reason == ""
	return r
}

// measure fills in the figures of real floating outputs.
func (r *OutputResult) measure(a, b *tensor.Tensor, gate Gate) {
	n := a.Len()
	var x, y [blockElements]float64
	var diff2, ref2 float64
	exact, finite := true, true
	// Squares of values near the top of the float64 range overflow; a power of two
	// takes them down without changing the quotient.
	scale := 1.0
	if a.DType() == tensor.F64 {
		scale = scaleFor(a, b)
	}
	for from := 0; from < n; from += blockElements {
		to := min(from+blockElements, n)
		xs, ys := x[:to-from], y[:to-from]
		readFloats(xs, a, from)
		readFloats(ys, b, from)
		for i, u := range xs {
			v := ys[i]
			if u-u != 0 || v-v != 0 { // NaN or infinity
				finite = false
				continue
			}
			if u != v {
				exact = false
				d := math.Abs(u - v)
				r.MaxAbs = max(r.MaxAbs, min(d, math.MaxFloat64))
				d = math.Abs(u*scale - v*scale)
				diff2 += d * d
			}
			u *= scale
			ref2 += u * u
		}
	}
	if !finite {
		r.Exact = r.Bitwise
		if !r.Bitwise || !gate.AllowNonFinite {
			r.MaxAbs, r.Exact = 0, false
			r.Reason = "NaN or infinity in the source or the candidate"
		}
		return
	}
	r.Exact = exact
	r.RelL2 = min(math.Sqrt(diff2)/max(math.Sqrt(ref2), relativeFloor*scale), math.MaxFloat64)
	if r.MaxAbs > gate.MaxAbs {
		r.Reason = fmt.Sprintf("max abs %.3g exceeds %.3g", r.MaxAbs, gate.MaxAbs)
	} else if r.RelL2 > gate.RelL2 {
		r.Reason = fmt.Sprintf("relative L2 %.3g exceeds %.3g", r.RelL2, gate.RelL2)
	}
	if gate.decides(r.Output) {
		r.Decision = decide(a, b, gate.top(r.Output))
		if r.Decision != nil && r.Decision.Changed > 0 {
			c := r.Decision.FirstChange
			r.Reason = fmt.Sprintf("decision changed from %d to %d at %v, source margin %.3g (max abs %.3g)",
				c.Source, c.Candidate, c.Index, c.Margin, r.MaxAbs)
		}
	}
}

func scaleFor(a, b *tensor.Tensor) float64 {
	var block [blockElements]float64
	for _, t := range []*tensor.Tensor{a, b} {
		for from, n := 0, t.Len(); from < n; from += blockElements {
			xs := block[:min(blockElements, n-from)]
			readFloats(xs, t, from)
			for _, v := range xs {
				if math.Abs(v) > 0x1p+400 {
					return 0x1p-600
				}
			}
		}
	}
	return 1
}

func firstDifference(a, b *tensor.Tensor) *Difference {
	size := a.DType().Size()
	x, y := a.Bytes(), b.Bytes()
	at := 0
	for x[at] == y[at] {
		at++
	}
	if size == 0 { // narrower than a byte: name the byte's first element
		return &Difference{Index: unravel(at*8/a.DType().Bits(), a.Shape()),
			Source: fmt.Sprintf("byte %#02x", x[at]), Candidate: fmt.Sprintf("byte %#02x", y[at])}
	}
	i := at / size
	return &Difference{Index: unravel(i, a.Shape()), Source: wordText(a, i), Candidate: wordText(b, i)}
}

// unravel turns a row-major element number into an index.
func unravel(i int, shape tensor.Shape) []int {
	index := make([]int, len(shape))
	for axis := len(shape) - 1; axis >= 0; axis-- {
		index[axis] = i % shape[axis]
		i /= shape[axis]
	}
	return index
}

// Comparison is what comparing all outputs of one call gave.
type Comparison struct {
	Accepted bool `json:"accepted"`
	Exact    bool `json:"exact"`
	Bitwise  bool `json:"bitwise"`
	// Reason is set when the outputs do not even have the same structure; the
	// outputs are then not compared.
	Reason  string         `json:"reason,omitempty"`
	Outputs []OutputResult `json:"outputs"`
}

// CompareOutputs judges all outputs of one call: first their structure, then
// each output with [Compare]. It fails when the gate is invalid or when there is
// no output at all.
func CompareOutputs(source, candidate architectures.Outputs, gate Gate) (Comparison, error) {
	gate, err := gate.Effective()
	if err != nil {
		return Comparison{}, err
	}
	if len(source) == 0 {
		return Comparison{}, fmt.Errorf("%w: the source has no outputs", ErrNothing)
	}
	if reason := structure(source, candidate); reason != "" {
		return Comparison{Reason: "structure changed: " + reason}, nil
	}
	c := Comparison{Accepted: true, Exact: true, Bitwise: true}
	for i, s := range source {
		r := compare(s.Name, s.Tensor, candidate[i].Tensor, gate)
		c.Accepted = c.Accepted && r.Accepted
		c.Exact = c.Exact && r.Exact
		c.Bitwise = c.Bitwise && r.Bitwise
		c.Outputs = append(c.Outputs, r)
	}
	return c, nil
}

// structure describes the first difference in names, order, element types or
// shapes; empty for none.
func structure(a, b architectures.Outputs) string {
	seen := map[string]bool{}
	for i, s := range a {
		switch {
		case s.Tensor == nil:
			return fmt.Sprintf("source output %q has no tensor", s.Name)
		case seen[s.Name]:
			return fmt.Sprintf("source output %q appears twice", s.Name)
		case i >= len(b):
			return fmt.Sprintf("output %q is missing, source has %d outputs, candidate %d", s.Name, len(a), len(b))
		case b[i].Name != s.Name:
			return fmt.Sprintf("output %d is %q in the source, %q in the candidate", i, s.Name, b[i].Name)
		case b[i].Tensor == nil:
			return fmt.Sprintf("candidate output %q has no tensor", s.Name)
		case b[i].Tensor.DType() != s.Tensor.DType() || !b[i].Tensor.Shape().Equal(s.Tensor.Shape()):
			return fmt.Sprintf("output %q: source is %v, candidate is %v", s.Name, s.Tensor, b[i].Tensor)
		}
		seen[s.Name] = true
	}
	if len(b) > len(a) {
		return fmt.Sprintf("output %q is new, source has %d outputs, candidate %d", b[len(a)].Name, len(a), len(b))
	}
	return ""
}

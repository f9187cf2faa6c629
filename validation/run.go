package validation

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/hfcompress/compress/architectures"
)

// ErrNotRepeatable says that the source gave different bytes for the same
// inputs, so that no candidate can be judged by it.
var ErrNotRepeatable = errors.New("the source does not repeat itself")

// Observer is told about each example once it has been compared: done of total.
// It is called from the goroutine that called [Run].
type Observer func(result ExampleResult, done, total int)

// Run compares candidate with source on every example. For each one the source
// runs twice and must give the same bytes, else the error wraps
// [ErrNotRepeatable]; then the candidate runs once. Only figures are kept, so
// memory is bounded by the outputs of one example. A failure of the source, or a
// cancelled context, is an error; a failure of the candidate rejects it.
// observer may be nil.
func Run(ctx context.Context, source, candidate architectures.Model, examples []Example, gate Gate, observer Observer) (*Report, error) {
	gate, err := gate.Effective()
	if err != nil {
		return nil, err
	}
	if len(examples) == 0 {
		return nil, fmt.Errorf("%w: no examples", ErrNothing)
	}
	report := &Report{
		Accepted: true, Exact: true, Bitwise: true,
		Gate: gate, Examples: len(examples),
		Subject: Subject{
			Examples:        Digest(examples),
			SourceDevice:    source.Device().Info().Fingerprint,
			CandidateDevice: candidate.Device().Info().Fingerprint,
		},
	}
	report.Digest = report.Subject.Digest()
	for i, example := range examples {
		comparison, digests, err := runOne(ctx, source, candidate, example, gate)
		if err != nil {
			return nil, fmt.Errorf("example %q: %w", example.Name, err)
		}
		result := report.add(example.Name, comparison, digests)
		if observer != nil {
			observer(result, i+1, len(examples))
		}
		if gate.StopEarly && !result.Accepted {
			break
		}
	}
	return report, nil
}

func runOne(ctx context.Context, source, candidate architectures.Model, example Example, gate Gate) (Comparison, map[string]string, error) {
	if err := ctx.Err(); err != nil {
		return Comparison{}, nil, err
	}
	first, err := source.Forward(ctx, example.Inputs)
	if err != nil {
		return Comparison{}, nil, fmt.Errorf("source: %w", err)
	}
	// A model that reuses its buffers must not overwrite what it is judged by.
	reference := snapshot(first)
	again, err := source.Forward(ctx, example.Inputs)
	if err != nil {
		return Comparison{}, nil, fmt.Errorf("source, second call: %w", err)
	}
	if err := repeats(reference, again); err != nil {
		return Comparison{}, nil, err
	}
	got, err := candidate.Forward(ctx, example.Inputs)
	if err != nil {
		if ctx.Err() != nil {
			return Comparison{}, nil, ctx.Err()
		}
		return Comparison{Reason: "candidate: " + err.Error()}, nil, nil
	}
	c, err := CompareOutputs(reference, got, gate)
	if err != nil || c.Reason != "" || !gate.Digests {
		return c, nil, err
	}
	return c, OutputDigests(got), nil
}

// snapshot copies outputs to storage of their own.
func snapshot(outputs architectures.Outputs) architectures.Outputs {
	out := make(architectures.Outputs, len(outputs))
	for i, o := range outputs {
		out[i].Name = o.Name
		if o.Tensor != nil {
			out[i].Tensor = o.Tensor.Clone()
		}
	}
	return out
}

func repeats(first, again architectures.Outputs) error {
	if reason := structure(first, again); reason != "" {
		return fmt.Errorf("%w: %s", ErrNotRepeatable, reason)
	}
	for i, o := range first {
		if !bytes.Equal(o.Tensor.Bytes(), again[i].Tensor.Bytes()) {
			d := firstDifference(o.Tensor, again[i].Tensor)
			return fmt.Errorf("%w: output %q at %v: first %s, then %s", ErrNotRepeatable, o.Name, d.Index, d.Source, d.Candidate)
		}
	}
	return nil
}

// add enters one example's comparison and returns its summary.
func (r *Report) add(example string, c Comparison, digests map[string]string) ExampleResult {
	result := ExampleResult{
		Example: example, Reason: c.Reason, Digests: digests,
		Accepted: c.Accepted, Exact: c.Exact, Bitwise: c.Bitwise,
		Outputs: len(c.Outputs),
	}
	for _, o := range c.Outputs {
		n, err := o.Shape.Elements()
		if err != nil { // it is a tensor's shape
			panic(err)
		}
		r.Outputs++
		r.Elements += int64(n)
		result.MaxAbs = max(result.MaxAbs, o.MaxAbs)
		result.RelL2 = max(result.RelL2, o.RelL2)
		raise(&r.WorstMaxAbs, o.MaxAbs, example, o.Output)
		raise(&r.WorstRelL2, o.RelL2, example, o.Output)
		if d := o.Decision; d != nil && d.At != nil {
			if result.MinMargin == nil || d.MinMargin < *result.MinMargin {
				margin := d.MinMargin
				result.MinMargin = &margin
			}
			if r.SmallestMargin == nil || d.MinMargin < r.SmallestMargin.Value {
				r.SmallestMargin = &Extreme{d.MinMargin, example, o.Output, d.At}
			}
		}
		if !o.Accepted {
			result.Failed = append(result.Failed, o)
		}
	}
	if !result.Accepted && r.FirstFailure == nil {
		r.FirstFailure = &Failure{Example: example, Reason: c.Reason, MaxAbs: result.MaxAbs, RelL2: result.RelL2}
		if len(result.Failed) > 0 {
			f := result.Failed[0]
			r.FirstFailure = &Failure{example, f.Output, f.Reason, f.MaxAbs, f.RelL2}
		}
	}
	r.Compared++
	r.Accepted = r.Accepted && result.Accepted
	r.Exact = r.Exact && result.Exact
	r.Bitwise = r.Bitwise && result.Bitwise
	r.Results = append(r.Results, result)
	return result
}

// raise keeps the first of the largest values above 0.
func raise(worst **Extreme, value float64, example, output string) {
	if value > 0 && (*worst == nil || value > (*worst).Value) {
		*worst = &Extreme{Value: value, Example: example, Output: output}
	}
}

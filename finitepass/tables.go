package finitepass

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// evaluate returns the tables of every route, bulk first: one tensor
// [elements, width] per branch. It also returns what the source gave, as it came
// from the device.
func evaluate(ctx context.Context, dev nn.Device, src *sourceBlock, o Options) ([][]*tensor.Tensor, *evidence, error) {
	e := newEvaluator(ctx, dev, src.block)
	defer e.close() //nolint:errcheck // a failure of the last session has been returned by call
	total := int64(src.elements) * int64(1+len(o.Profiles))
	done := int64(0)
	step := func(n int) {
		if done += int64(n); o.Progress != nil {
			o.Progress("compile", done, total)
		}
	}
	var seen *evidence
	if !o.Exhaustive && isLarge(e, src.elements, o) {
		seen = newEvidence(src, o)
	}
	bulk, err := evaluateBulk(e, src, o, seen, step)
	if err != nil {
		return nil, nil, fmt.Errorf("bulk table: %w", err)
	}
	routes := [][]*tensor.Tensor{bulk}
	for i, p := range o.Profiles {
		t, err := evaluateProfile(e, src, i, o, seen, step)
		if err != nil {
			return nil, nil, fmt.Errorf("profile %d (max_rows %d, evaluation_rows %d): %w", i, p.MaxRows, p.EvaluationRows, err)
		}
		routes = append(routes, t)
	}
	return routes, seen, e.close()
}

func emptyTables(src *sourceBlock, o Options) ([]*tensor.Tensor, error) {
	out := make([]*tensor.Tensor, len(src.branches))
	for i, b := range src.branches {
		var err error
		if out[i], err = o.Alloc(b.DType, src.elements, b.Width); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// evaluateBulk calls the block with chunks of different elements. All calls have
// the same row count, which the bulk route serves: the last chunk is filled up
// with elements from the start again.
func evaluateBulk(e *evaluator, src *sourceBlock, o Options, seen *evidence, step func(int)) ([]*tensor.Tensor, error) {
	tables, err := emptyTables(src, o)
	if err != nil {
		return nil, err
	}
	v := src.elements
	rows := bulkChunk(v, o)
	ids := make([]int, rows)
	for from := 0; from < v; from += rows {
		for i := range ids {
			ids[i] = src.id((from + i) % v)
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
			part := results[i].Bytes()[:n*width]
			copy(t.Bytes()[from*width:], part)
			seen.add(0, i, part)
		}
		step(n)
	}
	return tables, nil
}

// bulkChunk is the row count of the calls that make the bulk table.
func bulkChunk(elements int, o Options) int {
	return max(min(o.ChunkRows, elements), bulkRows(o.Profiles))
}

// evaluateProfile calls the block once per element with identical rows, and
// refuses elements whose positions disagree.
func evaluateProfile(e *evaluator, src *sourceBlock, profile int, o Options, seen *evidence, step func(int)) ([]*tensor.Tensor, error) {
	tables, err := emptyTables(src, o)
	if err != nil {
		return nil, err
	}
	for at := range src.elements {
		id := src.id(at)
		results, err := e.call(identical(id, o.Profiles[profile].EvaluationRows))
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
			copy(t.Row(at), results[i].Row(0))
			seen.add(profile+1, i, results[i].Row(0))
		}
		step(1)
	}
	return tables, nil
}

// evidence identifies the rows that the source gave for every element at every
// route: one digest per route and output, taken as the rows came from the device
// and before they were stored, in the order of the elements.
type evidence struct {
	hashes [][]hashState
}

type hashState interface {
	Write(p []byte) (int, error)
	Sum(b []byte) []byte
}

func newEvidence(src *sourceBlock, o Options) *evidence {
	s := &evidence{}
	for range 1 + len(o.Profiles) {
		outputs := make([]hashState, len(src.branches))
		for i := range outputs {
			outputs[i] = sha256.New()
		}
		s.hashes = append(s.hashes, outputs)
	}
	return s
}

// add enters the next rows; a nil evidence keeps nothing.
func (s *evidence) add(route, output int, rows []byte) {
	if s != nil {
		s.hashes[route][output].Write(rows)
	}
}

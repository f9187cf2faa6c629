package finitepass

import (
	"fmt"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// WithRows returns weights that hold the given tensors as rows, in a form such as
// [EqualRows] or [PackedRows]. Families gather from these rows directly; whoever
// asks for the tensor gets it decoded whole, newly each time.
func WithRows(weights architectures.Weights, rows map[string]nn.RowSource) architectures.RowWeights {
	return rowWeights{weights, rows}
}

type rowWeights struct {
	architectures.Weights
	rows map[string]nn.RowSource
}

func (w rowWeights) Rows(name string) (nn.RowSource, error) {
	if r, ok := w.rows[name]; ok {
		return r, nil
	}
	if below, ok := w.Weights.(architectures.RowWeights); ok {
		return below.Rows(name)
	}
	return nil, nil
}

func (w rowWeights) Tensor(name string) (*tensor.Tensor, error) {
	r, ok := w.rows[name]
	if !ok {
		return w.Weights.Tensor(name)
	}
	t, err := tensor.New(r.DType(), r.NumRows(), r.Width())
	if err != nil {
		return nil, fmt.Errorf("tensor %s: %w", name, err)
	}
	for i := range r.NumRows() {
		if err := r.DecodeRow(t.Row(i), i); err != nil {
			return nil, fmt.Errorf("tensor %s: %w", name, err)
		}
	}
	return t, nil
}

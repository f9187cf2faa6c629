package finitepass

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/pack/xortable"
	"github.com/hfcompress/compress/tensor"
)

// indexedRows is a table whose equal rows are stored once.
type indexedRows struct {
	distinct nn.RowSource
	index    *tensor.Tensor
}

// newIndexedRows checks that every index names a stored row.
func newIndexedRows(distinct nn.RowSource, index *tensor.Tensor) (nn.RowSource, error) {
	r := indexedRows{distinct, index}
	for i := range index.Len() {
		if at := r.at(i); at >= uint64(distinct.NumRows()) {
			return nil, fmt.Errorf("row %d is row %d of %d", i, at, distinct.NumRows())
		}
	}
	return r, nil
}

func (r indexedRows) NumRows() int        { return r.index.Len() }
func (r indexedRows) Width() int          { return r.distinct.Width() }
func (r indexedRows) DType() tensor.DType { return r.distinct.DType() }
func (r indexedRows) at(i int) uint64 {
	if r.index.DType() == tensor.U8 {
		return uint64(r.index.Bytes()[i])
	}
	return word(r.index.Bytes(), i, r.index.DType().Size())
}

func (r indexedRows) DecodeRow(dst []byte, i int) error {
	if i < 0 || i >= r.NumRows() {
		return fmt.Errorf("row %d of a table with %d rows", i, r.NumRows())
	}
	return r.distinct.DecodeRow(dst, int(r.at(i)))
}

// projectedRows computes z/r + b for each row, each operation rounded to
// float32; norms or bias may be nil.
type projectedRows struct {
	z, norms, bias *tensor.Tensor
}

// newProjectedRows checks that every norm can be divided by.
func newProjectedRows(z, norms, bias *tensor.Tensor) (nn.RowSource, error) {
	if norms != nil {
		for i, r := range norms.Float32s() {
			if !(r > 0) || math.IsInf(float64(r), 0) {
				return nil, fmt.Errorf("norm %d is %g", i, r)
			}
		}
	}
	return projectedRows{z, norms, bias}, nil
}

func (r projectedRows) NumRows() int        { return r.z.Shape()[0] }
func (r projectedRows) Width() int          { return r.z.Shape()[1] }
func (r projectedRows) DType() tensor.DType { return tensor.F32 }

func (r projectedRows) DecodeRow(dst []byte, i int) error {
	if i < 0 || i >= r.NumRows() {
		return fmt.Errorf("row %d of a table with %d rows", i, r.NumRows())
	}
	w := r.Width()
	norm := float32(1)
	if r.norms != nil {
		norm = r.norms.Float32s()[i]
	}
	for k, z := range r.z.Float32s()[i*w : (i+1)*w] {
		if r.norms != nil {
			z /= norm
		}
		if r.bias != nil {
			z += r.bias.Float32s()[k]
		}
		binary.LittleEndian.PutUint32(dst[4*k:], math.Float32bits(z))
	}
	return nil
}

// openedTables turns stored tensors into rows.
type openedTables struct {
	want  func(name string, d tensor.DType, shape ...int) (*tensor.Tensor, error)
	sets  map[string]*xortable.Set
	plain map[string]*tensor.Tensor
	parts map[string]*tensor.Tensor // norms and biases, which projections share
	rows  map[string]nn.RowSource
}

func (o *openedTables) open(r TableRecipe) error {
	if o.rows == nil {
		o.rows = map[string]nn.RowSource{}
	}
	if r.Set != nil {
		o.rows[r.Name] = o.sets[r.Set.Name].Route(r.Set.Route)
		return nil
	}
	stored := r.Rows
	if r.Index != nil {
		stored = r.Index.Distinct
	}
	t, err := o.want(tableTensor(r.Name), r.DType, stored, r.Width)
	if err != nil {
		return err
	}
	rows, err := nn.TensorRows(t)
	if err != nil {
		return fmt.Errorf("%w: table %q: %w", ErrRecipe, r.Name, err)
	}
	if r.Index != nil {
		index, err := o.want(indexTensor(r.Name), r.Index.DType, r.Rows)
		if err != nil {
			return err
		}
		if rows, err = newIndexedRows(rows, index); err != nil {
			return fmt.Errorf("%w: table %q: %w", ErrRecipe, r.Name, err)
		}
	}
	o.plain[r.Name], o.rows[r.Name] = t, rows
	return nil
}

func (o *openedTables) project(r TableRecipe) (nn.RowSource, error) {
	part := func(used bool, name string, n int) (*tensor.Tensor, error) {
		if !used {
			return nil, nil
		}
		if t := o.parts[name]; t != nil {
			return t, nil
		}
		t, err := o.want(name, tensor.F32, n)
		o.parts[name] = t
		return t, err
	}
	norms, err := part(r.Projection.Normalised, normsTensor(r.Projection.Of), r.Rows)
	if err != nil {
		return nil, err
	}
	bias, err := part(r.Projection.Bias, biasTensor(r.Projection.Of), r.Width)
	if err != nil {
		return nil, err
	}
	rows, err := newProjectedRows(o.plain[r.Projection.Of], norms, bias)
	if err != nil {
		return nil, fmt.Errorf("%w: table %q: %w", ErrRecipe, r.Name, err)
	}
	return rows, nil
}

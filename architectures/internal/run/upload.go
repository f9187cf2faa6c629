package run

import (
	"fmt"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// Uploader moves declared weights to a device one tensor at a time. The first
// failure sticks in Err, and what is returned after it must not be used.
type Uploader struct {
	Err error

	dev     nn.Device
	weights architectures.Weights
	params  map[string]loader.Param
}

// NewUploader returns an uploader of the parameters that a blueprint declares.
func NewUploader(dev nn.Device, weights architectures.Weights, params []loader.Param) *Uploader {
	u := &Uploader{dev: dev, weights: weights, params: map[string]loader.Param{}}
	for _, p := range params {
		u.params[p.Name] = p
	}
	return u
}

// Tensor fetches a declared tensor and checks it again: weights may come from
// anyone. It does not touch Err.
func (u *Uploader) Tensor(name string) (*tensor.Tensor, error) {
	t, err := u.weights.Tensor(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("tensor %s: %w", name, err)
	case t == nil:
		return nil, fmt.Errorf("tensor %s: not given", name)
	}
	return t, u.check(name, t.DType(), t.Shape())
}

func (u *Uploader) check(name string, d tensor.DType, shape tensor.Shape) error {
	p := u.params[name]
	switch {
	case len(p.DTypes) == 0:
		return fmt.Errorf("tensor %s: not declared", name)
	case d != p.DTypes[0]:
		return fmt.Errorf("tensor %s: %w: expected %v, found %v", name, tensor.ErrDType, p.DTypes[0], d)
	case !shape.Equal(p.Shape):
		return fmt.Errorf("tensor %s: %w: expected %v, found %v", name, tensor.ErrShape, p.Shape, shape)
	}
	return nil
}

// RMSNorm uploads the norm whose weight is at+".weight".
func (u *Uploader) RMSNorm(at string, eps float32) (n *nn.RMSNorm) {
	if u.Err == nil {
		n, u.Err = nn.NewRMSNorm(u.dev, u.Tensor, at+".weight", eps)
	}
	return n
}

// HeadNorm uploads the norm whose weight is at+".weight" and normalises each of
// so many heads.
func (u *Uploader) HeadNorm(at string, eps float32, heads int) *nn.RMSNorm {
	n := u.RMSNorm(at, eps)
	if u.Err == nil {
		n.Groups = heads
	}
	return n
}

// LayerNorm uploads the norm at+".weight" with at+".bias".
func (u *Uploader) LayerNorm(at string, eps float32) *nn.LayerNorm {
	return u.LayerNormNamed(at+".weight", at+".bias", eps)
}

// LayerNormNamed uploads a norm under other names.
func (u *Uploader) LayerNormNamed(weight, bias string, eps float32) (n *nn.LayerNorm) {
	if u.Err == nil {
		n, u.Err = nn.NewLayerNorm(u.dev, u.Tensor, weight, bias, eps)
	}
	return n
}

// Matrix uploads a linear map; bias is empty when it has none.
func (u *Uploader) Matrix(weight, bias string) (l *nn.Linear) {
	if u.Err == nil {
		l, u.Err = nn.NewLinear(u.dev, u.Tensor, weight, bias)
	}
	return l
}

// Linear uploads the linear map at+".weight", with at+".bias" if it has one.
func (u *Uploader) Linear(at string, bias bool) *nn.Linear {
	if bias {
		return u.Matrix(at+".weight", at+".bias")
	}
	return u.Matrix(at+".weight", "")
}

// Transposed uploads the linear map at+".weight", stored as [in, out], with
// at+".bias".
func (u *Uploader) Transposed(at string) (l *nn.Linear) {
	if u.Err == nil {
		l, u.Err = nn.NewLinearTransposed(u.dev, u.Tensor, at+".weight", at+".bias")
	}
	return l
}

// Table uploads a table that rows are gathered from.
func (u *Uploader) Table(name string) (nn.RowSource, nn.Table) {
	if u.Err != nil {
		return nil, nil
	}
	rows, err := architectures.Rows(u.weights, name)
	if err != nil {
		u.Err = fmt.Errorf("tensor %s: %w", name, err)
		return nil, nil
	}
	if u.Err = u.check(name, rows.DType(), tensor.Shape{rows.NumRows(), rows.Width()}); u.Err != nil {
		return nil, nil
	}
	table, err := u.dev.UploadRows(rows)
	if err != nil {
		u.Err = fmt.Errorf("tensor %s: %w", name, err)
	}
	return rows, table
}

// Fanout completes the source form of a block over the rows of a table: the
// shared prefix, branches, and the residual's name, empty for none.
func (u *Uploader) Fanout(path, embedding string, prefix []nn.RowLocal, branches []nn.Branch, residual string) *nn.Fanout {
	rows, table := u.Table(embedding)
	if u.Err != nil {
		return nil
	}
	f := &nn.Fanout{
		Embedding: table, EmbeddingSource: rows, EmbeddingName: embedding,
		Prefix: prefix, Branches: branches, Residual: residual,
	}
	if err := f.Validate(); err != nil {
		u.Err = fmt.Errorf("%w: %s: %w", ErrBlock, path, err)
	}
	return f
}

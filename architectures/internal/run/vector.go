package run

import (
	"fmt"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// Vector is a row-local map that combines every row with one vector, as an
// operation of its own: references that do so in a 16-bit type have rounded what
// was before.
type Vector struct {
	row  nn.Table
	name string
	op   func(s nn.Session, x, y nn.Array) nn.Array
	kind string
}

// Sum uploads a vector that is added to every row.
func (u *Uploader) Sum(name string) *Vector {
	return u.vector(name, "bias", nn.Session.Add)
}

// Product uploads a vector that every row is multiplied with.
func (u *Uploader) Product(name string) *Vector {
	return u.vector(name, "weight", nn.Session.Mul)
}

func (u *Uploader) vector(name, kind string, op func(s nn.Session, x, y nn.Array) nn.Array) *Vector {
	v := &Vector{name: name, op: op, kind: kind}
	if u.Err != nil {
		return v
	}
	t, err := u.Tensor(name)
	if err == nil {
		t, err = t.Reshape(1, t.Len())
	}
	var rows nn.RowSource
	if err == nil {
		rows, err = nn.TensorRows(t)
	}
	if err == nil {
		v.row, err = u.dev.UploadRows(rows)
	}
	if err != nil {
		u.Err = fmt.Errorf("tensor %s: %w", name, err)
	}
	return v
}

// Forward combines each row of x with the vector.
func (v *Vector) Forward(s nn.Session, x nn.Array) nn.Array {
	return v.op(s, x, s.Gather(v.row, make([]int, x.Shape()[0])))
}

// OutWidth returns the vector's width, which in must be.
func (v *Vector) OutWidth(in int) (int, error) {
	if in != v.row.Width() {
		return 0, fmt.Errorf("%w: %s %s of %d values does not take width %d", tensor.ErrShape, v.kind, v.name, v.row.Width(), in)
	}
	return in, nil
}

// OutDType returns in.
func (v *Vector) OutDType(in tensor.DType) tensor.DType { return in }

// ParamNames lists the vector.
func (v *Vector) ParamNames() []string { return []string{v.name} }

// Describe returns "bias" or "weight".
func (v *Vector) Describe() string { return v.kind }

package llama

import (
	"fmt"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

type linear struct {
	w, b  nn.Array
	names []string
}

func (l *linear) Forward(s nn.Session, x nn.Array) nn.Array { return s.Linear(x, l.w, l.b) }
func (l *linear) OutWidth(in int) (int, error) {
	if in != l.w.Shape()[1] {
		return 0, fmt.Errorf("%w: width %d, weight %v", tensor.ErrShape, in, l.w.Shape())
	}
	return l.w.Shape()[0], nil
}
func (l *linear) ParamNames() []string { return l.names }
func (l *linear) Describe() string     { return "linear" }

type rmsNorm struct {
	w    nn.Array
	eps  float32
	name string
}

func (n *rmsNorm) Forward(s nn.Session, x nn.Array) nn.Array { return s.RMSNorm(x, n.w, n.eps) }
func (n *rmsNorm) OutWidth(in int) (int, error) {
	if in != n.w.Shape()[0] {
		return 0, fmt.Errorf("%w: width %d, weight %v", tensor.ErrShape, in, n.w.Shape())
	}
	return in, nil
}
func (n *rmsNorm) ParamNames() []string { return []string{n.name} }
func (n *rmsNorm) Describe() string     { return "rmsnorm" }

func (u *uploader) norm(at string) nn.RowLocal {
	name := at + ".weight"
	return &rmsNorm{u.upload(name, nn.AsVector), u.eps, name}
}

// matrix makes a linear map; bias may be empty.
func (u *uploader) matrix(weight, bias string) nn.RowLocal {
	l := &linear{w: u.upload(weight, nn.AsMatrix), names: []string{weight}}
	if bias != "" {
		l.b = u.upload(bias, nn.AsVector)
		l.names = append(l.names, bias)
	}
	return l
}

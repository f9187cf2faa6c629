package t5

import (
	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// In F16 models the reference keeps the matrix behind the MLP in F32, as large
// models overflow there. What comes of it is F32, and so is the residual stream
// from the first MLP on; norms bring it back to F16.

// norm is an RMS norm of the residual stream in the type that it has there.
type norm struct {
	*nn.RMSNorm
	// Of an F32 stream in an F16 model: ones in F32, and the weight by which the
	// rounded quotient is multiplied.
	ones   nn.Array
	weight *run.Vector
}

// norm uploads a norm; wide says that the stream may be F32.
func (c *Config) norm(u *run.Uploader, dev nn.Device, at string, wide bool) *norm {
	n := &norm{RMSNorm: u.RMSNorm(at, c.NormEpsilon)}
	if !wide || c.DType != tensor.F16 || u.Err != nil {
		return n
	}
	ones, err := tensor.New(tensor.F32, c.HiddenSize)
	if err == nil {
		for i := range ones.Float32s() {
			ones.Float32s()[i] = 1
		}
		n.ones, err = dev.Upload(ones, nn.AsVector)
	}
	if u.Err = err; err == nil {
		n.weight = u.Product(at + ".weight")
	}
	return n
}

// Forward normalises the rows of h.
func (n *norm) Forward(s nn.Session, h nn.Array) nn.Array {
	d := n.Weight.DType()
	if h.DType() == d || n.weight == nil {
		return n.RMSNorm.Forward(s, h)
	}
	return n.weight.Forward(s, s.Cast(s.RMSNorm(h, n.ones, n.Eps), d))
}

// down uploads the matrix behind the MLP.
func (c *Config) down(u *run.Uploader, dev nn.Device, at string) *nn.Linear {
	if c.DType != tensor.F16 || u.Err != nil {
		return u.Linear(at, false)
	}
	var l *nn.Linear
	l, u.Err = nn.NewLinear(dev, func(name string) (*tensor.Tensor, error) {
		t, err := u.Tensor(name)
		if err != nil {
			return nil, err
		}
		return tensor.FromFloat32s(architectures.Floats(t), t.Shape()...)
	}, at+".weight", "")
	return l
}

// project applies the matrix behind the MLP.
func project(s nn.Session, l *nn.Linear, x nn.Array) nn.Array {
	if d := l.Weight.DType(); d != x.DType() {
		x = s.Cast(x, d)
	}
	return l.Forward(s, x)
}

// add adds to the residual stream; of two types the wider one is that of the sum.
func add(s nn.Session, h, x nn.Array) nn.Array {
	if h.DType() != x.DType() {
		h, x = s.Cast(h, tensor.F32), s.Cast(x, tensor.F32)
	}
	return s.Add(h, x)
}

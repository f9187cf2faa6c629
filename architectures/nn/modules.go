package nn

import (
	"fmt"

	"github.com/hfcompress/compress/tensor"
)

// TensorFunc returns a checkpoint tensor by name; a checkpoint's Tensor method
// is one.
type TensorFunc func(name string) (*tensor.Tensor, error)

// Linear is the row-local map x·wᵀ + b.
type Linear struct {
	// Weight has shape [out, in], uploaded [AsMatrix]; Bias [out] or is nil.
	Weight, Bias Array
	// WeightName and BiasName are the tensors in the checkpoint; BiasName is empty
	// when there is no bias.
	WeightName, BiasName string
}

// NewLinear uploads the weight of a linear map and, unless biasName is empty,
// its bias.
func NewLinear(dev Device, get TensorFunc, weightName, biasName string) (*Linear, error) {
	return newLinear(dev, get, weightName, biasName, AsMatrix)
}

// NewLinearTransposed is [NewLinear] for a weight that is stored as [in, out].
func NewLinearTransposed(dev Device, get TensorFunc, weightName, biasName string) (*Linear, error) {
	return newLinear(dev, get, weightName, biasName, AsTransposed)
}

func newLinear(dev Device, get TensorFunc, weightName, biasName string, use Use) (*Linear, error) {
	w, err := upload(dev, get, weightName, use, 2)
	if err != nil {
		return nil, err
	}
	l := &Linear{Weight: w, WeightName: weightName, BiasName: biasName}
	if biasName != "" {
		if l.Bias, err = upload(dev, get, biasName, AsVector, 1); err != nil {
			return nil, err
		}
		if l.Bias.Shape()[0] != w.Shape()[0] {
			return nil, fmt.Errorf("%w: %s %v does not fit %s %v", tensor.ErrShape, biasName, l.Bias.Shape(), weightName, w.Shape())
		}
	}
	return l, nil
}

// Forward returns [rows, out] for x [rows, in].
func (l *Linear) Forward(s Session, x Array) Array { return s.Linear(x, l.Weight, l.Bias) }

// OutWidth returns the number of outputs.
func (l *Linear) OutWidth(in int) (int, error) {
	shape := l.Weight.Shape()
	if in != shape[1] {
		return 0, fmt.Errorf("%w: linear %s %v does not take width %d", tensor.ErrShape, l.WeightName, shape, in)
	}
	return shape[0], nil
}

// ParamNames lists the weight and, if there is one, the bias.
func (l *Linear) ParamNames() []string { return names(l.WeightName, l.BiasName) }

// Describe returns "linear".
func (l *Linear) Describe() string { return "linear" }

// RMSNorm is the row-local norm w · x/√(mean(x²)+Eps).
type RMSNorm struct {
	Weight     Array // [width]
	WeightName string
	Eps        float32
	// Groups is the number of groups of a row that are normalised by themselves,
	// such as heads. 0 and 1 mean the whole row.
	Groups int
}

// NewRMSNorm uploads the weight of an RMS norm.
func NewRMSNorm(dev Device, get TensorFunc, weightName string, eps float32) (*RMSNorm, error) {
	w, err := upload(dev, get, weightName, AsVector, 1)
	if err != nil {
		return nil, err
	}
	return &RMSNorm{Weight: w, WeightName: weightName, Eps: eps}, nil
}

// Forward normalises the rows of x.
func (n *RMSNorm) Forward(s Session, x Array) Array { return s.RMSNorm(x, n.Weight, n.Eps) }

// OutWidth returns in when it is the weight's width, as often as there are
// groups.
func (n *RMSNorm) OutWidth(in int) (int, error) {
	groups := max(n.Groups, 1)
	if in%groups != 0 {
		return 0, fmt.Errorf("%w: rmsnorm %s of %d groups does not take width %d", tensor.ErrShape, n.WeightName, groups, in)
	}
	_, err := sameWidth("rmsnorm", n.WeightName, n.Weight, in/groups)
	return in, err
}

// ParamNames lists the weight.
func (n *RMSNorm) ParamNames() []string { return names(n.WeightName) }

// Describe returns "rmsnorm".
func (n *RMSNorm) Describe() string { return "rmsnorm" }

// LayerNorm is the row-local norm (x−mean)/√(var+Eps)·w + b.
type LayerNorm struct {
	Weight, Bias         Array // [width] each, or nil
	WeightName, BiasName string
	Eps                  float32
}

// NewLayerNorm uploads the weight and bias of a layer norm; an empty name stands
// for one that the norm does not have.
func NewLayerNorm(dev Device, get TensorFunc, weightName, biasName string, eps float32) (*LayerNorm, error) {
	n := &LayerNorm{WeightName: weightName, BiasName: biasName, Eps: eps}
	var err error
	if weightName != "" {
		if n.Weight, err = upload(dev, get, weightName, AsVector, 1); err != nil {
			return nil, err
		}
	}
	if biasName != "" {
		if n.Bias, err = upload(dev, get, biasName, AsVector, 1); err != nil {
			return nil, err
		}
	}
	if n.Weight != nil && n.Bias != nil && !n.Weight.Shape().Equal(n.Bias.Shape()) {
		return nil, fmt.Errorf("%w: %s %v does not fit %s %v", tensor.ErrShape, biasName, n.Bias.Shape(), weightName, n.Weight.Shape())
	}
	return n, nil
}

// Forward normalises the rows of x.
func (n *LayerNorm) Forward(s Session, x Array) Array {
	return s.LayerNorm(x, n.Weight, n.Bias, n.Eps)
}

// OutWidth returns in when weight and bias have that width.
func (n *LayerNorm) OutWidth(in int) (int, error) {
	if _, err := sameWidth("layernorm", n.WeightName, n.Weight, in); err != nil {
		return 0, err
	}
	return sameWidth("layernorm", n.BiasName, n.Bias, in)
}

// ParamNames lists weight and bias as far as they exist.
func (n *LayerNorm) ParamNames() []string { return names(n.WeightName, n.BiasName) }

// Describe returns "layernorm".
func (n *LayerNorm) Describe() string { return "layernorm" }

// Activation applies an elementwise function.
type Activation struct{ Function Unary }

// Forward applies the function to every element.
func (a Activation) Forward(s Session, x Array) Array { return s.Map(a.Function, x) }

// OutWidth returns in.
func (a Activation) OutWidth(in int) (int, error) { return anyWidth(in) }

// ParamNames returns nothing.
func (a Activation) ParamNames() []string { return nil }

// Describe returns the function's name.
func (a Activation) Describe() string { return a.Function.String() }

// RowNormalize divides each row by max(‖row‖₂, Eps).
type RowNormalize struct{ Eps float32 }

// Forward normalises the rows of x.
func (n RowNormalize) Forward(s Session, x Array) Array { return s.RowNormalize(x, n.Eps) }

// OutWidth returns in.
func (n RowNormalize) OutWidth(in int) (int, error) { return anyWidth(in) }

// ParamNames returns nothing.
func (n RowNormalize) ParamNames() []string { return nil }

// Describe returns "rownormalize".
func (n RowNormalize) Describe() string { return "rownormalize" }

// Apply evaluates row-local layers one after the other.
func Apply(s Session, layers []RowLocal, x Array) Array {
	for _, l := range layers {
		x = l.Forward(s, x)
	}
	return x
}

// Scaled multiplies every element by Factor.
type Scaled struct{ Factor float32 }

// Forward multiplies x.
func (l Scaled) Forward(s Session, x Array) Array { return s.Scale(x, l.Factor) }

// OutWidth returns in.
func (l Scaled) OutWidth(in int) (int, error) { return anyWidth(in) }

// ParamNames returns nothing.
func (l Scaled) ParamNames() []string { return nil }

// Describe returns "scale".
func (l Scaled) Describe() string { return "scale" }

// Every layer of this file keeps the type of its input.

// OutDType returns in.
func (*Linear) OutDType(in tensor.DType) tensor.DType { return in }

// OutDType returns in.
func (*RMSNorm) OutDType(in tensor.DType) tensor.DType { return in }

// OutDType returns in.
func (*LayerNorm) OutDType(in tensor.DType) tensor.DType { return in }

// OutDType returns in.
func (Activation) OutDType(in tensor.DType) tensor.DType { return in }

// OutDType returns in.
func (RowNormalize) OutDType(in tensor.DType) tensor.DType { return in }

// OutDType returns in.
func (Scaled) OutDType(in tensor.DType) tensor.DType { return in }

var (
	_ RowLocal = Scaled{}
	_ RowLocal = (*Linear)(nil)
	_ RowLocal = (*RMSNorm)(nil)
	_ RowLocal = (*LayerNorm)(nil)
	_ RowLocal = Activation{}
	_ RowLocal = RowNormalize{}

	_ Typed = (*Linear)(nil)
	_ Typed = (*RMSNorm)(nil)
	_ Typed = (*LayerNorm)(nil)
	_ Typed = Activation{}
	_ Typed = RowNormalize{}
	_ Typed = Scaled{}
)

var unaryNames = [...]string{
	SiLU: "silu", GELU: "gelu", GELUTanh: "gelu_tanh", ReLU: "relu", Tanh: "tanh", Sigmoid: "sigmoid",
	GELUStepwise: "gelu_stepwise", GELUTanhStepwise: "gelu_tanh_stepwise", Mish: "mish",
}

// String returns the function's name, such as "silu".
func (u Unary) String() string {
	if int(u) < len(unaryNames) {
		return unaryNames[u]
	}
	return fmt.Sprintf("Unary(%d)", uint8(u))
}

func upload(dev Device, get TensorFunc, name string, use Use, rank int) (Array, error) {
	t, err := get(name)
	if err != nil {
		return nil, err
	}
	if len(t.Shape()) != rank {
		return nil, fmt.Errorf("%w: %s must have rank %d, is %v", tensor.ErrShape, name, rank, t)
	}
	a, err := dev.Upload(t, use)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return a, nil
}

func sameWidth(kind, name string, w Array, in int) (int, error) {
	if w != nil && w.Shape()[0] != in {
		return 0, fmt.Errorf("%w: %s %s %v does not take width %d", tensor.ErrShape, kind, name, w.Shape(), in)
	}
	return anyWidth(in)
}

func anyWidth(in int) (int, error) {
	if in < 0 {
		return 0, fmt.Errorf("%w: width %d", tensor.ErrShape, in)
	}
	return in, nil
}

// names drops the empty ones.
func names(all ...string) []string {
	var out []string
	for _, n := range all {
		if n != "" {
			out = append(out, n)
		}
	}
	return out
}

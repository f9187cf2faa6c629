package nn

import (
	"context"
	"errors"
	"fmt"

	"github.com/hfcompress/compress/tensor"
)

// ErrNoConvolution says that a device's sessions are no [Convolver].
var ErrNoConvolution = errors.New("this device convolves no sequences: its sessions do not implement nn.Convolver")

// Convolver is implemented by sessions that convolve sequences. A device whose
// sessions do not can run all models but those with such layers; see [CanConvolve].
type Convolver interface {
	// Convolve returns, for each row t of each sequence of x [Batch·T, in],
	//
	//	bias + Σ_j Σ_c w[j, c] · x[t − Left + j·Dilation, c]
	//
	// with zeros for rows outside the sequence: [Batch·T, out]. Products are summed
	// by tap j, then channel c, from +0, whatever the number of rows, and the bias is
	// added after the whole sum.
	Convolve(x Array, in Convolution) Array
}

// Convolution gathers the operands of [Convolver.Convolve] besides the sequences.
// Exactly one of Groups and Taps holds the weights.
type Convolution struct {
	// Batch is the number of sequences, which have one length.
	Batch int
	// Kernel is the number of taps, Dilation the distance between neighbours of them
	// (0 means 1), and Left how many rows before its own a row's first tap lies.
	Kernel, Dilation, Left int
	// Groups are the weights of groups of channels that mix among themselves: one
	// matrix [out/groups, Kernel·in/groups] for each group, uploaded [AsMatrix], whose
	// column j·in/groups + c is channel c of the group at tap j. All have one shape.
	Groups []Array
	// Taps are the weights of a depthwise convolution, uploaded [AsVector]: element
	// j·width + c is that of channel c at tap j.
	Taps Array
	// Bias is [out], or nil.
	Bias Array
}

// CanConvolve returns an error that wraps [ErrNoConvolution] when dev's sessions
// do not convolve.
func CanConvolve(dev Device) error {
	s := dev.Begin(context.Background())
	_, ok := s.(Convolver)
	if err := s.Close(); err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%s: %w", dev.Info().Name, ErrNoConvolution)
	}
	return nil
}

// Conv1D is a convolution along sequences as PyTorch's Conv1d with stride 1. It
// mixes rows, so it is not [RowLocal].
type Conv1D struct {
	convolution          Convolution
	WeightName, BiasName string
}

// NewConv1D uploads a weight [out, in/groups, kernel] with an odd kernel and, unless
// biasName is empty, its bias. Zeros on both sides keep the length.
func NewConv1D(dev Device, get TensorFunc, weightName, biasName string, groups int) (*Conv1D, error) {
	if err := CanConvolve(dev); err != nil {
		return nil, err
	}
	w, err := get(weightName)
	if err != nil {
		return nil, err
	}
	shape := w.Shape()
	if len(shape) != 3 || groups < 1 || shape[0] < 1 || shape[1] < 1 || shape[0]%groups != 0 || shape[2]%2 == 0 {
		return nil, fmt.Errorf("%w: %s must be [out, in/groups, odd kernel] with %d groups, is %v", tensor.ErrShape, weightName, groups, w)
	}
	c := &Conv1D{WeightName: weightName, BiasName: biasName}
	c.convolution = Convolution{Kernel: shape[2], Left: shape[2] / 2}
	if shape[1] == 1 && groups == shape[0] {
		c.convolution.Taps, err = uploadTaps(dev, w)
	} else {
		c.convolution.Groups, err = uploadGroups(dev, w, groups)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", weightName, err)
	}
	if biasName != "" {
		if c.convolution.Bias, err = upload(dev, get, biasName, AsVector, 1); err != nil {
			return nil, err
		}
		if n := c.convolution.Bias.Shape()[0]; n != shape[0] {
			return nil, fmt.Errorf("%w: %s [%d] does not fit %s %v", tensor.ErrShape, biasName, n, weightName, shape)
		}
	}
	return c, nil
}

// uploadTaps uploads a depthwise weight [width, 1, kernel] tap by tap.
func uploadTaps(dev Device, w *tensor.Tensor) (Array, error) {
	width, kernel := w.Shape()[0], w.Shape()[2]
	t, err := tensor.New(w.DType(), kernel*width)
	if err != nil {
		return nil, err
	}
	size := w.DType().Size()
	for c := range width {
		for j := range kernel {
			copy(t.Bytes()[(j*width+c)*size:][:size], w.Bytes()[(c*kernel+j)*size:])
		}
	}
	return dev.Upload(t, AsVector)
}

// uploadGroups uploads a weight [out, in/groups, kernel] as a matrix for each group.
func uploadGroups(dev Device, w *tensor.Tensor, groups int) ([]Array, error) {
	out, in, kernel := w.Shape()[0]/groups, w.Shape()[1], w.Shape()[2]
	size := w.DType().Size()
	arrays := make([]Array, groups)
	for g := range groups {
		t, err := tensor.New(w.DType(), out, kernel*in)
		if err != nil {
			return nil, err
		}
		for o := range out {
			from := w.Bytes()[(g*out+o)*in*kernel*size:]
			for c := range in {
				for j := range kernel {
					copy(t.Bytes()[((o*kernel+j)*in+c)*size:][:size], from[(c*kernel+j)*size:])
				}
			}
		}
		if arrays[g], err = dev.Upload(t, AsMatrix); err != nil {
			return nil, err
		}
	}
	return arrays, nil
}

// Forward convolves x [batch·length, in], sequence by sequence. It fails alone
// when the session does not convolve; the session's own failures stay in it.
func (c *Conv1D) Forward(s Session, x Array, batch int) (Array, error) {
	v, ok := s.(Convolver)
	if !ok {
		return nil, ErrNoConvolution
	}
	in := c.convolution
	in.Batch = batch
	return v.Convolve(x, in), s.Err()
}

// ParamNames lists the weight and, if there is one, the bias.
func (c *Conv1D) ParamNames() []string { return names(c.WeightName, c.BiasName) }

package nn

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/tensor"
)

// TensorRows presents a tensor of shape [rows, width] as a [RowSource].
func TensorRows(t *tensor.Tensor) (RowSource, error) {
	if len(t.Shape()) != 2 || t.DType().Size() == 0 {
		return nil, fmt.Errorf("%w: a row table needs two axes and whole-byte elements, have %v", tensor.ErrShape, t)
	}
	return tensorRows{t}, nil
}

type tensorRows struct{ t *tensor.Tensor }

func (r tensorRows) NumRows() int        { return r.t.Shape()[0] }
func (r tensorRows) Width() int          { return r.t.Shape()[1] }
func (r tensorRows) DType() tensor.DType { return r.t.DType() }

func (r tensorRows) DecodeRow(dst []byte, i int) error {
	if i < 0 || i >= r.NumRows() {
		return fmt.Errorf("row %d of a table with %d rows", i, r.NumRows())
	}
	copy(dst, r.t.Row(i))
	return nil
}

// Sinusoid describes the embedding of a number by sines and cosines (Vaswani et
// al., 2017, as diffusion models use it for timesteps). With angle
// aᵢ = value·Freqs[i]·Scale, a row is all sines, then all cosines.
type Sinusoid struct {
	// Freqs holds half as many frequencies as a row has elements.
	Freqs []float32
	// Scale multiplies; 1 if 0. It multiplies the product, or the value before the
	// frequency with ScaleFirst. Each product is rounded to float32.
	Scale      float32
	ScaleFirst bool
	// CosFirst puts the cosines first.
	CosFirst bool
	// DType is the type that elements are rounded to: F32 if it is not set, or
	// BF16 or F16.
	DType tensor.DType
}

// DiffusionFrequencies returns the frequencies of a row of the given width:
// exp(−ln(maxPeriod)·i/(width/2 − shift)), each operation rounded to float32.
func DiffusionFrequencies(width int, maxPeriod float64, shift float32) ([]float32, error) {
	half := width / 2
	if width < 2 || width%2 != 0 || !(maxPeriod > 1) || maxPeriod > math.MaxFloat32 || !(float32(half)-shift > 0) {
		return nil, fmt.Errorf("%w: sinusoid of width %d, period %g, shift %g", tensor.ErrShape, width, maxPeriod, shift)
	}
	log := -float32(math.Log(maxPeriod))
	freqs := make([]float32, half)
	for i := range freqs {
		freqs[i] = fmath.Exp(float32(log*float32(i)) / (float32(half) - shift))
	}
	return freqs, nil
}

// Rows returns the embeddings of values as rows that are computed when they are
// read, so that they occupy nothing.
func (s Sinusoid) Rows(values []float32) (RowSource, error) {
	if s.DType == tensor.Invalid {
		s.DType = tensor.F32
	}
	if s.Scale == 0 {
		s.Scale = 1
	}
	switch s.DType {
	case tensor.F32, tensor.BF16, tensor.F16:
	default:
		return nil, fmt.Errorf("sinusoid: %w %v", tensor.ErrDType, s.DType)
	}
	if len(s.Freqs) == 0 {
		return nil, fmt.Errorf("sinusoid: %w: no frequencies", tensor.ErrShape)
	}
	return sinusoidRows{s, values}, nil
}

// Tensor returns the embeddings of values, [len(values), 2·len(Freqs)].
func (s Sinusoid) Tensor(values []float32) (*tensor.Tensor, error) {
	rows, err := s.Rows(values)
	if err != nil {
		return nil, err
	}
	t, err := tensor.New(rows.DType(), rows.NumRows(), rows.Width())
	if err != nil {
		return nil, err
	}
	for i := range values {
		if err := rows.DecodeRow(t.Row(i), i); err != nil {
			return nil, err
		}
	}
	return t, nil
}

type sinusoidRows struct {
	Sinusoid
	values []float32
}

func (r sinusoidRows) NumRows() int        { return len(r.values) }
func (r sinusoidRows) Width() int          { return 2 * len(r.Freqs) }
func (r sinusoidRows) DType() tensor.DType { return r.Sinusoid.DType }

func (r sinusoidRows) DecodeRow(dst []byte, i int) error {
	if i < 0 || i >= len(r.values) {
		return fmt.Errorf("row %d of a table with %d rows", i, len(r.values))
	}
	half := len(r.Freqs)
	for k, f := range r.Freqs {
		var angle float32
		if r.ScaleFirst {
			angle = float32(float32(r.Scale*r.values[i]) * f)
		} else {
			angle = float32(r.Scale * float32(r.values[i]*f))
		}
		sin, cos := fmath.SinCos(angle)
		if r.CosFirst {
			sin, cos = cos, sin
		}
		r.put(dst, k, sin)
		r.put(dst, half+k, cos)
	}
	return nil
}

func (r sinusoidRows) put(dst []byte, at int, v float32) {
	if r.Sinusoid.DType == tensor.F32 {
		binary.LittleEndian.PutUint32(dst[4*at:], math.Float32bits(v))
		return
	}
	binary.LittleEndian.PutUint16(dst[2*at:], uint16(castBits(r.Sinusoid.DType, v)))
}

// ConcatRows presents every pair of a row of a and a row of b as one row: row
// i·J + j is a's row i with b's row j behind it, where J is b's row count. The
// rows are put together when they are read. Both must have one element type.
func ConcatRows(a, b RowSource) (RowSource, error) {
	if a.DType() != b.DType() {
		return nil, fmt.Errorf("concatenated rows: %w: %v and %v", tensor.ErrDType, a.DType(), b.DType())
	}
	if _, err := (tensor.Shape{a.NumRows(), b.NumRows(), a.Width() + b.Width()}).Bytes(a.DType()); err != nil {
		return nil, fmt.Errorf("concatenated rows: %w", err)
	}
	return concatRows{a, b}, nil
}

type concatRows struct{ a, b RowSource }

func (r concatRows) NumRows() int        { return r.a.NumRows() * r.b.NumRows() }
func (r concatRows) Width() int          { return r.a.Width() + r.b.Width() }
func (r concatRows) DType() tensor.DType { return r.a.DType() }

func (r concatRows) DecodeRow(dst []byte, i int) error {
	if i < 0 || i >= r.NumRows() {
		return fmt.Errorf("row %d of a table with %d rows", i, r.NumRows())
	}
	n := r.a.Width() * r.a.DType().Size()
	if err := r.a.DecodeRow(dst[:n], i/r.b.NumRows()); err != nil {
		return err
	}
	return r.b.DecodeRow(dst[n:], i%r.b.NumRows())
}

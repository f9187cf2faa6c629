package esm

import (
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/tensor"
)

// rounding rounds values to a type; F32 has them all.
func rounding(d tensor.DType) func([]float32) {
	switch d {
	case tensor.BF16:
		return fmath.RoundBF16s
	case tensor.F16:
		return fmath.RoundF16s
	}
	return func([]float32) {}
}

// rotary returns cosines and sines, F32 in each type, since the reference turns
// in F32. In a 16-bit model they are rounded to its type, and so are the
// frequencies: the reference keeps them as a tensor of the checkpoint.
func (c *Config) rotary(positions []int) (cos, sin *tensor.Tensor, err error) {
	freq, err := c.Rope.InverseFrequencies()
	if err != nil {
		return nil, nil, err
	}
	round := rounding(c.DType)
	round(freq)
	if cos, sin, err = nn.RotaryTables(freq, positions); err != nil {
		return nil, nil, err
	}
	round(cos.Float32s())
	round(sin.Float32s())
	return cos, sin, nil
}

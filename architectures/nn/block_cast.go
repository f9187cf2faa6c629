package nn

import (
	"fmt"
	"math"

	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/tensor"
)

// Cast says how a model turns the number that it is given into the one that it
// computes with: rounded to DType, to nearest and ties to even, then divided by
// Divide, if it is not 0, and rounded again. The division is of float32 values
// and rounded to float32 first, as the reference does it on the processor.
type Cast struct {
	// DType is F32, BF16 or F16.
	DType  tensor.DType `json:"dtype"`
	Divide float32      `json:"divide,omitempty"`
}

// Validate refuses other types and a divisor that is not positive and finite.
func (c Cast) Validate() error {
	switch c.DType {
	case tensor.F32, tensor.BF16, tensor.F16:
	default:
		return fmt.Errorf("cast: %w %v, expected F32, BF16 or F16", tensor.ErrDType, c.DType)
	}
	if !(c.Divide >= 0) || math.IsInf(float64(c.Divide), 0) {
		return fmt.Errorf("cast: divisor %g", c.Divide)
	}
	return nil
}

// Key returns the bit pattern that value becomes. A value that is not finite, or
// no longer is after the cast, is an error that wraps [ErrIndex].
func (c Cast) Key(value float32) (uint64, error) {
	key := castBits(c.DType, value)
	if c.Divide != 0 {
		key = castBits(c.DType, c.Value(key)/c.Divide)
	}
	if v := c.Value(key); v-v != 0 {
		return 0, fmt.Errorf("%w: %g is %g as %v", ErrIndex, value, v, c.DType)
	}
	return key, nil
}

// Value returns the number that a key stands for.
func (c Cast) Value(key uint64) float32 {
	switch c.DType {
	case tensor.BF16:
		return fmath.BF16(uint16(key))
	case tensor.F16:
		return fmath.F16(uint16(key))
	}
	return math.Float32frombits(uint32(key))
}

// keyBits is the width of keys.
func (c Cast) keyBits() int { return 8 * c.DType.Size() }

// castBits rounds v to d, which is F32, BF16 or F16, and returns the pattern.
func castBits(d tensor.DType, v float32) uint64 {
	switch d {
	case tensor.BF16:
		return uint64(fmath.BF16Bits(fmath.RoundBF16(v)))
	case tensor.F16:
		return uint64(fmath.F16Bits(fmath.RoundF16(v)))
	}
	return uint64(math.Float32bits(v))
}

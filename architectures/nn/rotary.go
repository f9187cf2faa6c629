package nn

import (
	"errors"
	"fmt"
	"math"

	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/tensor"
)

// RopeScaling says how rotary frequencies are changed for long sequences.
type RopeScaling string

// The scalings, by the names that configurations use.
const (
	// RopeDefault changes nothing. The empty scaling means the same.
	RopeDefault RopeScaling = "default"
	// RopeLinear divides every frequency by Factor.
	RopeLinear RopeScaling = "linear"
	// RopeLlama3 divides low frequencies by Factor, keeps high ones, and goes from
	// one to the other smoothly in between (Llama 3.1).
	RopeLlama3 RopeScaling = "llama3"
)

// ErrRope is wrapped by every error about rotary settings.
var ErrRope = errors.New("rotary embedding")

// Rope describes rotary position embeddings (Su et al., 2021).
type Rope struct {
	// Theta is the base of the frequencies, such as 10000.
	Theta float64
	// Dim is the number of elements of a head that rotate; it is even.
	Dim     int
	Scaling RopeScaling
	// Factor is used by the linear and llama3 scalings.
	Factor float64
	// LowFreqFactor, HighFreqFactor and OriginalPositions are used by llama3: the
	// wavelengths OriginalPositions/HighFreqFactor and
	// OriginalPositions/LowFreqFactor bound the transition.
	LowFreqFactor, HighFreqFactor float64
	OriginalPositions             int
}

// InverseFrequencies returns the angle per position of each of the Dim/2 pairs:
// 1/Theta^(2i/Dim), then scaled. Each operation is rounded to float32, where the
// reference rounds; the power is computed in float64 and rounded once.
func (r Rope) InverseFrequencies() ([]float32, error) {
	switch {
	case r.Dim < 0 || r.Dim%2 != 0:
		return nil, fmt.Errorf("%w: %d elements cannot rotate in pairs", ErrRope, r.Dim)
	case !(r.Theta > 0) || float32(r.Theta) == 0 || r.Theta > math.MaxFloat32:
		return nil, fmt.Errorf("%w: theta %g is not a positive float32", ErrRope, r.Theta)
	}
	freq := make([]float32, r.Dim/2)
	for i := range freq {
		freq[i] = 1 / fmath.Pow(float32(r.Theta), float32(2*i)/float32(r.Dim))
	}
	switch r.Scaling {
	case "", RopeDefault:
		return freq, nil
	case RopeLinear, RopeLlama3:
	default:
		return nil, fmt.Errorf("%w: unknown scaling %q", ErrRope, r.Scaling)
	}
	if !(r.Factor > 0) || r.Factor > math.MaxFloat32 {
		return nil, fmt.Errorf("%w: %s scaling by factor %g", ErrRope, r.Scaling, r.Factor)
	}
	if r.Scaling == RopeLinear {
		for i := range freq {
			freq[i] /= float32(r.Factor)
		}
		return freq, nil
	}
	if !(r.LowFreqFactor > 0 && r.HighFreqFactor > r.LowFreqFactor) || math.IsInf(r.HighFreqFactor, 0) || r.OriginalPositions < 1 {
		return nil, fmt.Errorf("%w: llama3 scaling with frequency factors %g to %g and %d positions",
			ErrRope, r.LowFreqFactor, r.HighFreqFactor, r.OriginalPositions)
	}
	r.scaleLlama3(freq)
	return freq, nil
}

func (r Rope) scaleLlama3(freq []float32) {
	positions := float64(r.OriginalPositions)
	short, long := float32(positions/r.HighFreqFactor), float32(positions/r.LowFreqFactor)
	for i, f := range freq {
		// The reference divides a number by a tensor as reciprocal, then product.
		wave := float32(1/f) * float32(2*math.Pi)
		switch {
		case wave < short:
		case wave > long:
			freq[i] = f / float32(r.Factor)
		default:
			turns := float32(float32(1/wave) * float32(positions))
			smooth := (turns - float32(r.LowFreqFactor)) / float32(r.HighFreqFactor-r.LowFreqFactor)
			slow := float32((1-smooth)*f) / float32(r.Factor)
			freq[i] = slow + float32(smooth*f)
		}
	}
}

// RotaryTables returns the cosines and sines that [Session.Rotary] takes, F32
// [len(positions), len(freq)] each: of the float32 product of a row's position
// and each frequency.
func RotaryTables(freq []float32, positions []int) (cos, sin *tensor.Tensor, err error) {
	shape := []int{len(positions), len(freq)}
	if cos, err = tensor.New(tensor.F32, shape...); err != nil {
		return nil, nil, err
	}
	if sin, err = tensor.New(tensor.F32, shape...); err != nil {
		return nil, nil, err
	}
	c, s := cos.Float32s(), sin.Float32s()
	for row, p := range positions {
		for i, f := range freq {
			j := row*len(freq) + i
			s[j], c[j] = fmath.SinCos(float32(p) * f)
		}
	}
	return cos, sin, nil
}

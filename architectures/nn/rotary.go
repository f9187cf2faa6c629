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
	// RopeDynamic raises the base for calls that go beyond Positions, and the more
	// the longer they are.
	RopeDynamic RopeScaling = "dynamic"
	// RopeLlama3 divides low frequencies by Factor, keeps high ones, and goes from
	// one to the other smoothly in between (Llama 3.1).
	RopeLlama3 RopeScaling = "llama3"
	// RopeYarn does so linearly between two pairs, and multiplies the tables (Peng
	// et al., 2023).
	RopeYarn RopeScaling = "yarn"
	// RopeLong divides each frequency by its own factor, one of two lists by the
	// length of the call, and multiplies the tables (Ding et al., 2024).
	RopeLong RopeScaling = "longrope"
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
	// Factor is used by all scalings but the default.
	Factor float64
	// Positions is used by dynamic: the length up to which nothing changes.
	Positions int
	// OriginalPositions is the length that the model was first trained for. In
	// llama3 the wavelengths OriginalPositions/HighFreqFactor and
	// OriginalPositions/LowFreqFactor bound the transition; longrope changes lists
	// beyond it.
	OriginalPositions             int
	LowFreqFactor, HighFreqFactor float64
	// BetaFast and BetaSlow are used by yarn: the pairs that turn so many times over
	// OriginalPositions bound the transition. Fractions says that these bounds are
	// not rounded to whole pairs.
	BetaFast, BetaSlow float64
	Fractions          bool
	// ShortFactors and LongFactors are used by longrope, one for each pair.
	ShortFactors, LongFactors []float64
	// Multiplier is used by yarn and longrope: what the tables are multiplied with.
	Multiplier float64
}

// InverseFrequencies returns the angle per position of each of the Dim/2 pairs
// in a call of at most as many positions as the model was trained for: see
// [Rope.FrequenciesFor].
func (r Rope) InverseFrequencies() ([]float32, error) { return r.FrequenciesFor(0) }

// FrequenciesFor returns the angle per position of each of the Dim/2 pairs in a
// call whose largest position is length − 1: 1/Theta^(2i/Dim), then scaled. Each
// operation is rounded to float32, where the reference rounds; the power is
// computed in float64 and rounded once. Only dynamic and longrope depend on
// length.
func (r Rope) FrequenciesFor(length int) ([]float32, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	theta := float32(r.Theta)
	if r.Scaling == RopeDynamic && length > r.Positions {
		theta = r.dynamicTheta(length)
	}
	freq := make([]float32, r.Dim/2)
	for i := range freq {
		power := fmath.Pow(theta, float32(2*i)/float32(r.Dim))
		freq[i] = 1 / power
		switch r.Scaling {
		case RopeLinear:
			freq[i] /= float32(r.Factor)
		case RopeYarn: // the ramp is applied below
			freq[i] = 1 / float32(float32(r.Factor)*power)
		case RopeLong:
			factors := r.ShortFactors
			if length > r.OriginalPositions {
				factors = r.LongFactors
			}
			freq[i] = 1 / float32(float32(factors[i])*power)
		}
	}
	switch r.Scaling {
	case RopeLlama3:
		r.scaleLlama3(freq)
	case RopeYarn:
		r.rampYarn(freq)
	}
	return freq, nil
}

// check refuses settings that have no meaning.
func (r Rope) check() error {
	switch {
	case r.Dim < 0 || r.Dim%2 != 0:
		return fmt.Errorf("%w: %d elements cannot rotate in pairs", ErrRope, r.Dim)
	case !(r.Theta > 0) || float32(r.Theta) == 0 || r.Theta > math.MaxFloat32:
		return fmt.Errorf("%w: theta %g is not a positive float32", ErrRope, r.Theta)
	}
	switch r.Scaling {
	case "", RopeDefault:
		return nil
	case RopeLinear, RopeDynamic, RopeLlama3, RopeYarn, RopeLong:
	default:
		return fmt.Errorf("%w: unknown scaling %q", ErrRope, r.Scaling)
	}
	if r.Scaling != RopeLong && (!(r.Factor > 0) || r.Factor > math.MaxFloat32) {
		return fmt.Errorf("%w: %s scaling by factor %g", ErrRope, r.Scaling, r.Factor)
	}
	if (r.Scaling == RopeYarn || r.Scaling == RopeLong) && (!(r.Multiplier > 0) || r.Multiplier > math.MaxFloat32 || r.OriginalPositions < 1) {
		return fmt.Errorf("%w: %s scaling with multiplier %g and %d positions", ErrRope, r.Scaling, r.Multiplier, r.OriginalPositions)
	}
	switch r.Scaling {
	case RopeDynamic:
		if r.Positions < 1 || r.Dim == 2 {
			return fmt.Errorf("%w: dynamic scaling of %d elements beyond %d positions", ErrRope, r.Dim, r.Positions)
		}
	case RopeLlama3:
		if !(r.LowFreqFactor > 0 && r.HighFreqFactor > r.LowFreqFactor) || math.IsInf(r.HighFreqFactor, 0) || r.OriginalPositions < 1 {
			return fmt.Errorf("%w: llama3 scaling with frequency factors %g to %g and %d positions",
				ErrRope, r.LowFreqFactor, r.HighFreqFactor, r.OriginalPositions)
		}
	case RopeYarn:
		if !(r.BetaSlow > 0 && r.BetaFast >= r.BetaSlow) || math.IsInf(r.BetaFast, 0) || r.Theta == 1 {
			return fmt.Errorf("%w: yarn scaling between %g and %g turns, theta %g", ErrRope, r.BetaFast, r.BetaSlow, r.Theta)
		}
	case RopeLong:
		if len(r.ShortFactors) != r.Dim/2 || len(r.LongFactors) != r.Dim/2 {
			return fmt.Errorf("%w: longrope scaling with %d and %d factors for %d pairs", ErrRope, len(r.ShortFactors), len(r.LongFactors), r.Dim/2)
		}
	}
	return nil
}

// dynamicTheta is the base for a call of more positions than r.Positions. The
// reference computes it from an integer tensor, so in float32.
func (r Rope) dynamicTheta(length int) float32 {
	grown := float32(float32(r.Factor)*float32(length))/float32(r.Positions) - float32(r.Factor-1)
	return float32(r.Theta) * fmath.Pow(grown, float32(float64(r.Dim)/float64(r.Dim-2)))
}

// rampYarn mixes the interpolated frequencies in freq with the plain ones.
func (r Rope) rampYarn(freq []float32) {
	// The pair that turns so many times over the original positions.
	pair := func(turns float64) float64 {
		return float64(r.Dim) * fmath.Log(float64(r.OriginalPositions)/(turns*2*math.Pi)) / (2 * fmath.Log(r.Theta))
	}
	low, high := pair(r.BetaFast), pair(r.BetaSlow)
	if !r.Fractions {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, float64(r.Dim-1))
	if low == high {
		high += 0.001 // as in the reference: no division by zero
	}
	for i := range freq {
		ramp := (float32(i) - float32(low)) / float32(high-low)
		keep := 1 - min(max(ramp, 0), 1)
		plain := 1 / fmath.Pow(float32(r.Theta), float32(2*i)/float32(r.Dim))
		freq[i] = float32(freq[i]*(1-keep)) + float32(plain*keep)
	}
}

// Tables returns the cosines and sines that [Session.Rotary] takes for the given
// positions of one call, F32 [len(positions), Dim/2] each: see [RotaryTables].
// Where the scaling has a multiplier, they are multiplied with it.
func (r Rope) Tables(positions []int) (cos, sin *tensor.Tensor, err error) {
	length := 0
	for _, p := range positions {
		length = max(length, p+1)
	}
	freq, err := r.FrequenciesFor(length)
	if err != nil {
		return nil, nil, err
	}
	cos, sin, err = RotaryTables(freq, positions)
	if err == nil && (r.Scaling == RopeYarn || r.Scaling == RopeLong) {
		for _, table := range []*tensor.Tensor{cos, sin} {
			for i, v := range table.Float32s() {
				table.Float32s()[i] = v * float32(r.Multiplier)
			}
		}
	}
	return cos, sin, err
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

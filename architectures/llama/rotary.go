package llama

import (
	"math"
	"strings"

	"github.com/hfcompress/compress/tensor"
)

// RopeType says how rotary frequencies are scaled for long sequences.
type RopeType string

// The supported scalings.
const (
	// RopeDefault leaves the frequencies as they are.
	RopeDefault RopeType = "default"
	// RopeLinear divides every frequency by Factor.
	RopeLinear RopeType = "linear"
	// RopeLlama3 divides low frequencies by Factor, keeps high ones, and blends in
	// between (Llama 3.1).
	RopeLlama3 RopeType = "llama3"
)

// Rope describes rotary position embeddings (Su et al., 2021).
type Rope struct {
	Type  RopeType
	Theta float64
	// Factor is used by linear and llama3 scaling.
	Factor float64
	// LowFreqFactor, HighFreqFactor and OriginalMax are used by llama3 scaling.
	LowFreqFactor, HighFreqFactor float64
	OriginalMax                   int
}

// ropeRefused lists keys inside the rotary parameters that change the computation
// in ways that are not implemented.
var ropeRefused = []string{"mrope_section", "mrope_interleaved", "short_factor", "long_factor"}

// parseRope reads the rotary settings from where transformers puts them: since
// version 5 all in rope_parameters, before that rope_theta and rope_scaling.
func parseRope(o *object, positions int) (Rope, error) {
	scaling := "rope_parameters"
	if o.raw("rope_scaling") != nil {
		if o.raw("rope_parameters") != nil {
			return Rope{}, o.fail("rope_scaling", "found together with rope_parameters; one of them must go")
		}
		scaling = "rope_scaling"
	}
	p := o.object(scaling)
	if o.err != nil {
		return Rope{}, o.err
	}
	for _, key := range p.keys() {
		if v := p.raw(key); v != nil && v[0] == '{' {
			return Rope{}, p.fail(key, "rotary positions that differ by layer are not supported")
		}
	}
	for _, key := range ropeRefused {
		if p.raw(key) != nil {
			return Rope{}, p.fail(key, "is not supported")
		}
	}

	r := Rope{Type: RopeType(p.text("rope_type", p.text("type", string(RopeDefault))))}
	outer := o.number("rope_theta", 10000)
	r.Theta = p.number("rope_theta", outer)
	partial := p.number("partial_rotary_factor", 1)
	if o.err != nil {
		return Rope{}, o.err
	}
	if p.err != nil {
		return Rope{}, p.err
	}
	switch {
	case o.raw("rope_theta") != nil && r.Theta != outer:
		return Rope{}, p.fail("rope_theta", "%g, but the top-level rope_theta is %g", r.Theta, outer)
	case !(r.Theta >= 1 && r.Theta <= 1e12):
		return Rope{}, p.fail("rope_theta", "expected a number from 1 to 1e12, found %g", r.Theta)
	case partial != 1:
		return Rope{}, p.fail("partial_rotary_factor", "%g: partial rotary positions is not supported", partial)
	}

	switch r.Type {
	case RopeDefault:
		return r, nil
	case RopeLinear, RopeLlama3:
		r.Factor = p.number("factor", math.NaN())
		if r.Type == RopeLlama3 {
			r.LowFreqFactor = p.number("low_freq_factor", math.NaN())
			r.HighFreqFactor = p.number("high_freq_factor", math.NaN())
			r.OriginalMax = p.size("original_max_position_embeddings", positions, maxPositions)
		}
	default:
		return Rope{}, p.fail("rope_type", "%s is not supported; supported: %s", quote(string(r.Type)),
			strings.Join([]string{string(RopeDefault), string(RopeLinear), string(RopeLlama3)}, ", "))
	}
	switch {
	case p.err != nil:
		return Rope{}, p.err
	case !(r.Factor >= 1 && r.Factor <= 1e6):
		return Rope{}, p.fail("factor", "expected a number from 1 to 1e6, found %s", snippet(p.raw("factor")))
	case r.Type == RopeLinear:
		return r, nil
	case !(r.LowFreqFactor > 0 && r.LowFreqFactor <= 1e6):
		return Rope{}, p.fail("low_freq_factor", "expected a number from 0 to 1e6, found %s", snippet(p.raw("low_freq_factor")))
	case !(r.HighFreqFactor > r.LowFreqFactor && r.HighFreqFactor <= 1e6):
		return Rope{}, p.fail("high_freq_factor", "expected a number from low_freq_factor to 1e6, found %s", snippet(p.raw("high_freq_factor")))
	}
	return r, nil
}

// inverseFrequencies returns the angle per position of each pair of a head's
// elements, [headDim/2], with a float32 rounding after each operation, as the
// reference has.
func (r Rope) inverseFrequencies(headDim int) []float32 {
	out := make([]float32, headDim/2)
	for i := range out {
		exponent := float32(2*i) / float32(headDim)
		out[i] = 1 / float32(math.Pow(float64(float32(r.Theta)), float64(exponent)))
	}
	factor := float32(r.Factor)
	switch r.Type {
	case RopeLinear:
		for i := range out {
			out[i] /= factor
		}
	case RopeLlama3:
		low, high, context := r.LowFreqFactor, r.HighFreqFactor, float64(r.OriginalMax)
		for i, f := range out {
			wave := float32(2*math.Pi) / f
			switch {
			case wave < float32(context/high):
			case wave > float32(context/low):
				out[i] = f / factor
			default:
				smooth := float32(float32(context)/wave-float32(low)) / float32(high-low)
				slow := float32((1-smooth)*f) / factor
				out[i] = slow + float32(smooth*f)
			}
		}
	}
	return out
}

// rotary returns the cosines and sines of positions, [len(positions),
// headDim/2] each.
func (m *Model) rotary(positions []int) (cos, sin *tensor.Tensor) {
	half := len(m.freq)
	c, s := make([]float32, len(positions)*half), make([]float32, len(positions)*half)
	for row, p := range positions {
		for i, f := range m.freq {
			angle := float32(p) * f
			c[row*half+i] = float32(math.Cos(float64(angle)))
			s[row*half+i] = float32(math.Sin(float64(angle)))
		}
	}
	// The lengths are right by construction.
	cos, _ = tensor.FromFloat32s(c, len(positions), half)
	sin, _ = tensor.FromFloat32s(s, len(positions), half)
	return cos, sin
}

package llama

import (
	"math"
	"strings"

	"github.com/hfcompress/compress/architectures/nn"
)

// ropeRefused lists keys inside the rotary parameters that change the computation
// in ways that are not implemented.
var ropeRefused = []string{"mrope_section", "mrope_interleaved", "short_factor", "long_factor"}

// parseRope reads the rotary settings from where transformers puts them: since
// version 5 all in rope_parameters, before that rope_theta and rope_scaling.
func parseRope(o *object, headDim, positions int) (nn.Rope, error) {
	scaling := "rope_parameters"
	if o.raw("rope_scaling") != nil {
		if o.raw("rope_parameters") != nil {
			return nn.Rope{}, o.fail("rope_scaling", "found together with rope_parameters; one of them must go")
		}
		scaling = "rope_scaling"
	}
	p := o.object(scaling)
	if o.err != nil {
		return nn.Rope{}, o.err
	}
	for _, key := range p.keys() {
		if v := p.raw(key); v != nil && v[0] == '{' {
			return nn.Rope{}, p.fail(key, "rotary positions that differ by layer are not supported")
		}
	}
	for _, key := range ropeRefused {
		if p.raw(key) != nil {
			return nn.Rope{}, p.fail(key, "is not supported")
		}
	}

	r := nn.Rope{Dim: headDim, Scaling: nn.RopeScaling(p.text("rope_type", p.text("type", string(nn.RopeDefault))))}
	outer := o.number("rope_theta", 10000)
	r.Theta = p.number("rope_theta", outer)
	partial := p.number("partial_rotary_factor", 1)
	if o.err != nil {
		return nn.Rope{}, o.err
	}
	if p.err != nil {
		return nn.Rope{}, p.err
	}
	switch {
	case o.raw("rope_theta") != nil && r.Theta != outer:
		return nn.Rope{}, p.fail("rope_theta", "%g, but the top-level rope_theta is %g", r.Theta, outer)
	case !(r.Theta >= 1 && r.Theta <= 1e12):
		return nn.Rope{}, p.fail("rope_theta", "expected a number from 1 to 1e12, found %g", r.Theta)
	case partial != 1:
		return nn.Rope{}, p.fail("partial_rotary_factor", "%g: partial rotary positions is not supported", partial)
	}

	switch r.Scaling {
	case nn.RopeDefault:
		return r, nil
	case nn.RopeLinear, nn.RopeLlama3:
		r.Factor = p.number("factor", math.NaN())
		if r.Scaling == nn.RopeLlama3 {
			r.LowFreqFactor = p.number("low_freq_factor", math.NaN())
			r.HighFreqFactor = p.number("high_freq_factor", math.NaN())
			r.OriginalPositions = p.size("original_max_position_embeddings", positions, maxPositions)
		}
	default:
		return nn.Rope{}, p.fail("rope_type", "%s is not supported; supported: %s", quote(string(r.Scaling)),
			strings.Join([]string{string(nn.RopeDefault), string(nn.RopeLinear), string(nn.RopeLlama3)}, ", "))
	}
	switch {
	case p.err != nil:
		return nn.Rope{}, p.err
	case !(r.Factor >= 1 && r.Factor <= 1e6):
		return nn.Rope{}, p.fail("factor", "expected a number from 1 to 1e6, found %s", snippet(p.raw("factor")))
	case r.Scaling == nn.RopeLinear:
		return r, nil
	case !(r.LowFreqFactor > 0 && r.LowFreqFactor <= 1e6):
		return nn.Rope{}, p.fail("low_freq_factor", "expected a number from 0 to 1e6, found %s", snippet(p.raw("low_freq_factor")))
	case !(r.HighFreqFactor > r.LowFreqFactor && r.HighFreqFactor <= 1e6):
		return nn.Rope{}, p.fail("high_freq_factor", "expected a number from low_freq_factor to 1e6, found %s", snippet(p.raw("high_freq_factor")))
	}
	return r, nil
}

package settings

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/internal/fmath"
)

// maxPositions bounds lengths: float32 counts exactly up to here.
const maxPositions = 1 << 24

// RopeDefaults is what a family assumes where the configuration is silent.
type RopeDefaults struct {
	// ThetaKey is the key of the base at the top level.
	ThetaKey string
	Theta    float64
	// Partial is the part of a head that rotates; 0 stands for all, and then the
	// configuration may not ask for another part. PartialKey is its key at the top
	// level.
	Partial    float64
	PartialKey string
}

// ropeRefused lists keys inside the rotary parameters that change the computation
// in ways that are not implemented.
var ropeRefused = []string{"mrope_section", "mrope_interleaved"}

var ropeScalings = []string{
	string(nn.RopeDefault), string(nn.RopeLinear), string(nn.RopeDynamic),
	string(nn.RopeLlama3), string(nn.RopeYarn), string(nn.RopeLong),
}

// Rope reads the rotary settings from where transformers puts them: since
// version 5 all in rope_parameters, before that a base and rope_scaling.
func (o *Object) Rope(headDim, positions int, d RopeDefaults) (nn.Rope, error) {
	scaling := "rope_parameters"
	if o.Raw("rope_scaling") != nil {
		if o.Raw("rope_parameters") != nil {
			return nn.Rope{}, o.Fail("rope_scaling", "found together with rope_parameters; one of them must go")
		}
		scaling = "rope_scaling"
	}
	p := o.Object(scaling)
	if o.Err != nil {
		return nn.Rope{}, o.Err
	}
	for _, key := range p.Keys() {
		if v := p.Raw(key); v != nil && v[0] == '{' {
			return nn.Rope{}, p.Fail(key, "rotary positions that differ by layer are not supported")
		}
	}
	for _, key := range ropeRefused {
		if p.Raw(key) != nil {
			return nn.Rope{}, p.Fail(key, "is not supported")
		}
	}

	r := nn.Rope{Dim: headDim, Scaling: nn.RopeScaling(p.Text("rope_type", p.Text("type", string(nn.RopeDefault))))}
	outer := o.Number(d.ThetaKey, d.Theta)
	r.Theta = p.Number("rope_theta", outer)
	whole, partialKey := d.Partial, d.PartialKey
	if whole == 0 {
		whole, partialKey = 1, "partial_rotary_factor"
	}
	outerPart := o.Number(partialKey, whole)
	partial := p.Number("partial_rotary_factor", outerPart)
	if o.Err != nil {
		return nn.Rope{}, o.Err
	}
	if p.Err != nil {
		return nn.Rope{}, p.Err
	}
	switch {
	case o.Raw(d.ThetaKey) != nil && r.Theta != outer:
		return nn.Rope{}, p.Fail("rope_theta", "%g, but the top-level %s is %g", r.Theta, d.ThetaKey, outer)
	case o.Raw(partialKey) != nil && partial != outerPart:
		return nn.Rope{}, p.Fail("partial_rotary_factor", "%g, but the top-level %s is %g", partial, partialKey, outerPart)
	case !(r.Theta >= 1 && r.Theta <= 1e12):
		return nn.Rope{}, p.Fail("rope_theta", "expected a number from 1 to 1e12, found %g", r.Theta)
	case d.Partial == 0 && partial != 1:
		return nn.Rope{}, p.Fail("partial_rotary_factor", "%g: partial rotary positions is not supported", partial)
	case !(partial > 0 && partial <= 1):
		return nn.Rope{}, p.Fail("partial_rotary_factor", "expected a number from 0 to 1, found %g", partial)
	}
	r.Dim = int(float64(headDim) * partial)
	if r.Dim%2 != 0 || r.Dim == 0 {
		return nn.Rope{}, p.Fail("partial_rotary_factor", "%d of a head's %d elements rotate; rotary positions turn pairs", r.Dim, headDim)
	}
	return r, p.scaling(&r, positions)
}

// scaling reads what the rotary scaling needs.
func (o *Object) scaling(r *nn.Rope, positions int) error {
	original := func() int { return o.Size("original_max_position_embeddings", positions, maxPositions) }
	switch r.Scaling {
	case nn.RopeDefault:
		return nil
	case nn.RopeLinear, nn.RopeDynamic:
		r.Factor = o.Number("factor", math.NaN())
		if r.Scaling == nn.RopeDynamic {
			r.Positions = positions
		}
	case nn.RopeLlama3:
		r.Factor = o.Number("factor", math.NaN())
		r.LowFreqFactor = o.Number("low_freq_factor", math.NaN())
		r.HighFreqFactor = o.Number("high_freq_factor", math.NaN())
		r.OriginalPositions = original()
	case nn.RopeYarn, nn.RopeLong:
		r.OriginalPositions = original()
		r.Factor = o.Number("factor", float64(positions)/float64(r.OriginalPositions))
	default:
		return o.Fail("rope_type", "%s is not supported; supported: %s", Quote(string(r.Scaling)), strings.Join(ropeScalings, ", "))
	}
	switch {
	case o.Err != nil:
		return o.Err
	case !(r.Factor >= 1 && r.Factor <= 1e6):
		return o.Fail("factor", "expected a number from 1 to 1e6, found %s", Snippet(o.Raw("factor")))
	}
	switch r.Scaling {
	case nn.RopeDynamic:
		if r.Dim == 2 {
			return o.Fail("rope_type", "dynamic scaling of heads of two elements has no meaning")
		}
	case nn.RopeLlama3:
		switch {
		case !(r.LowFreqFactor > 0 && r.LowFreqFactor <= 1e6):
			return o.Fail("low_freq_factor", "expected a number from 0 to 1e6, found %s", Snippet(o.Raw("low_freq_factor")))
		case !(r.HighFreqFactor > r.LowFreqFactor && r.HighFreqFactor <= 1e6):
			return o.Fail("high_freq_factor", "expected a number from low_freq_factor to 1e6, found %s", Snippet(o.Raw("high_freq_factor")))
		}
	case nn.RopeYarn:
		return o.yarn(r)
	case nn.RopeLong:
		return o.long(r)
	}
	return nil
}

// yarn reads the bounds of the ramp and the multiplier of the tables, which by
// default is 1 + ln(factor)/10.
func (o *Object) yarn(r *nn.Rope) error {
	r.BetaFast, r.BetaSlow = o.Number("beta_fast", 32), o.Number("beta_slow", 1)
	r.Fractions = !o.Flag("truncate", true)
	scale, all := o.Number("mscale", 0), o.Number("mscale_all_dim", 0)
	rule := func(m float64) float64 {
		if r.Factor <= 1 {
			return 1
		}
		return float64(0.1*m*fmath.Log(r.Factor)) + 1
	}
	r.Multiplier = rule(1)
	if scale != 0 && all != 0 {
		r.Multiplier = rule(scale) / rule(all)
	}
	r.Multiplier = o.Number("attention_factor", r.Multiplier)
	switch {
	case o.Err != nil:
		return o.Err
	case !(r.BetaSlow > 0 && r.BetaFast >= r.BetaSlow && r.BetaFast <= 1e6):
		return o.Fail("beta_fast", "expected beta_slow to 1e6, found %g to %g", r.BetaSlow, r.BetaFast)
	case r.Theta == 1:
		return o.Fail("rope_theta", "1 does not go with yarn scaling")
	}
	return o.multiplier(r)
}

// long reads the two lists of factors and the multiplier, which by default is
// √(1 + ln(factor)/ln(original positions)).
func (o *Object) long(r *nn.Rope) error {
	r.ShortFactors, r.LongFactors = o.factors("short_factor", r.Dim/2), o.factors("long_factor", r.Dim/2)
	r.Multiplier = 1
	if r.Factor > 1 {
		r.Multiplier = math.Sqrt(1 + fmath.Log(r.Factor)/fmath.Log(float64(r.OriginalPositions)))
	}
	r.Multiplier = o.Number("attention_factor", r.Multiplier)
	if o.Err != nil {
		return o.Err
	}
	return o.multiplier(r)
}

func (o *Object) multiplier(r *nn.Rope) error {
	if !(r.Multiplier > 0 && r.Multiplier <= 1e6) {
		return o.Fail("attention_factor", "expected a number from 0 to 1e6, found %g", r.Multiplier)
	}
	return nil
}

// factors reads a list of n positive numbers.
func (o *Object) factors(key string, n int) []float64 {
	var list []float64
	if v := o.Raw(key); v == nil || json.Unmarshal(v, &list) != nil || len(list) != n {
		o.wrong(key, "a list with a number for each pair of a head")
		return nil
	}
	for _, f := range list {
		if !(f > 0 && f <= 1e6) {
			o.wrong(key, "a list of numbers from 0 to 1e6")
			return nil
		}
	}
	return list
}

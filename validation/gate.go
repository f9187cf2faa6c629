package validation

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// DefaultTolerance is both limits of a zero [Gate].
const DefaultTolerance = 1e-5

// ErrGate is wrapped by errors about a gate that makes no sense.
var ErrGate = errors.New("bad gate")

// Gate is what an output must meet. Structure (names, order, element types,
// shapes), integers, booleans and decisions must always be equal. The zero value
// is the default gate: both limits 1e-5, no NaN or infinity, decisions taken
// from the output "logits".
type Gate struct {
	// MaxAbs limits the largest |a−b| and RelL2 limits ‖a−b‖/max(‖a‖, 1e-12),
	// where a is the source; both inclusive, both computed in float64. 0 means
	// [DefaultTolerance]: for no tolerance at all set Exact.
	MaxAbs float64 `json:"max_abs"`
	RelL2  float64 `json:"relative_l2"`
	// Exact demands equal values, and Bitwise equal bytes.
	Exact   bool `json:"exact,omitempty"`
	Bitwise bool `json:"bitwise,omitempty"`
	// AllowNonFinite lets NaN and infinity pass in an output that is bitwise equal.
	AllowNonFinite bool `json:"allow_non_finite,omitempty"`
	// Decisions names the outputs whose largest element along the last axis is a
	// decision. Nil means "logits"; an empty slice means none.
	Decisions []string `json:"decisions"`
	// Tops gives, for outputs named in Decisions, how many of the largest elements
	// are chosen, as by a router that takes several experts: which ones, in no
	// order. It is 1 for outputs that are not listed.
	Tops map[string]int `json:"tops,omitempty"`
	// Digests keeps the digests of the candidate's outputs in each
	// [ExampleResult], for whoever wants to recognise them later.
	Digests bool `json:"-"`
	// StopEarly ends [Run] at the first example that fails.
	StopEarly bool `json:"stop_early,omitempty"`
}

// Effective returns the gate with defaults filled in, or an error that wraps
// [ErrGate] when a limit is negative or not finite.
func (g Gate) Effective() (Gate, error) {
	for _, limit := range []struct {
		name  string
		value *float64
	}{{"max_abs", &g.MaxAbs}, {"relative_l2", &g.RelL2}} {
		v := *limit.value
		if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			return g, fmt.Errorf("%w: %s is %v, want a finite number that is not negative", ErrGate, limit.name, v)
		}
		if v == 0 {
			*limit.value = DefaultTolerance
		}
	}
	if g.Decisions == nil {
		g.Decisions = []string{"logits"}
	}
	for _, name := range slices.Sorted(maps.Keys(g.Tops)) {
		if g.Tops[name] < 1 || !g.decides(name) {
			return g, fmt.Errorf("%w: tops of %q is %d, want at least 1 and an output among the decisions %q", ErrGate, name, g.Tops[name], g.Decisions)
		}
	}
	return g, nil
}

// top is how many elements a decision chooses.
func (g Gate) top(output string) int { return max(1, g.Tops[output]) }

func (g Gate) decides(output string) bool { return slices.Contains(g.Decisions, output) }

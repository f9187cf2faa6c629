package finitepass

import (
	"context"

	"github.com/hfcompress/compress/architectures"
)

// Judge compares a whole candidate with its source on examples and decides. It
// returns an error only when it could not decide.
type Judge func(ctx context.Context, source, candidate architectures.Model) (Verdict, error)

// Verdict is the decision of a [Judge].
type Verdict struct {
	Accepted bool `json:"accepted"`
	// Bitwise says that all compared outputs had the same bytes.
	Bitwise  bool `json:"bitwise"`
	Examples int  `json:"examples"`
	// Failures lists what fell outside the gate; not necessarily all of it.
	Failures []GateFailure `json:"failures,omitempty"`
}

// GateFailure is one output of one example outside the gate.
type GateFailure struct {
	Example string  `json:"example"`
	Output  string  `json:"output"`
	MaxAbs  float64 `json:"max_abs"`
	RelL2   float64 `json:"rel_l2"`
	// Reason says what the gate objects to.
	Reason string `json:"reason"`
}

// ProfileMode says where profiles come from.
type ProfileMode string

// The profile modes. The zero value is [ProfilesAuto].
const (
	ProfilesAuto     ProfileMode = "auto"
	ProfilesNone     ProfileMode = "none"
	ProfilesExplicit ProfileMode = "explicit"
)

// ModelOptions adjust [CompileModel].
type ModelOptions struct {
	// Options holds what applies to every block. Contract must be given. Profiles
	// are used in mode explicit alone; Inventory is made from the weights.
	Options
	// Mode says where profiles come from.
	Mode ProfileMode
	// Probe adjusts the search of mode auto.
	Probe ProbeOptions
	// Paths selects blocks; nil takes all that the blueprint declares.
	Paths []string
	// Judge is the whole model's gate; required.
	Judge Judge
	// Observer, when not nil, is told of every step, on the calling goroutine.
	Observer func(Event)
}

// Event is one step of [CompileModel].
type Event struct {
	// Step is "plan", "probe", "compile", "compare", "gate", "bisect", "refused",
	// "compiled" or "rolled_back".
	Step string
	// Path is the block; empty for the whole model.
	Path string
	// Detail is a sentence for people.
	Detail string
	// Done and Total count work within the step, when it is known; else 0.
	Done, Total int64
}

// Result is what [CompileModel] returns.
type Result struct {
	// Model is the model to use: a new view with the accepted blocks, or the source
	// itself when none was.
	Model architectures.Model
	// Lookups holds the blocks in use by path.
	Lookups map[string]*Lookup
	Report  Report
}

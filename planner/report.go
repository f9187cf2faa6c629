package planner

import (
	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/tensor"
)

// Version is the version of a Report's JSON form.
const Version = 1

// Options say what a plan should assume. The zero value is useful.
type Options struct {
	// Profiles is the number of row-count profiles, each of which takes one more
	// full table than the one that there always is.
	Profiles int
	// Timesteps is the number of timesteps that a caller will declare; 0 takes what
	// is usual for the family.
	Timesteps int
	// Blueprint, when not nil, is the design of the one checkpoint that is planned,
	// such as of an architecture file. Its blocks are counted in place of those of
	// a registered family, and it is an error if the checkpoint does not fit it.
	Blueprint architectures.Blueprint

	declared bool // leaves registered architectures aside, for tests
}

// Report is the plan of all checkpoints of a source.
type Report struct {
	// Version is [Version].
	Version int `json:"version"`
	// Profiles and Timesteps are the options that were given.
	Profiles  int `json:"profiles"`
	Timesteps int `json:"timesteps"`
	// Checkpoints has one plan for each checkpoint.
	Checkpoints []Plan `json:"checkpoints"`
}

// Plan is what arithmetic says of one checkpoint.
type Plan struct {
	// Name tells checkpoints apart, and is empty when there is one.
	Name string `json:"name"`
	// Family is the family that was recognised; empty for an unknown one.
	Family string `json:"family"`
	// Architecture is the registered architecture whose blocks were counted, or
	// "declared" for those of [Options].Blueprint; empty when the family is only
	// declared here.
	Architecture string `json:"architecture,omitempty"`
	// Notes are sentences about the checkpoint as a whole, such as why its family
	// is unknown.
	Notes []string `json:"notes,omitempty"`

	Files   []File                `json:"files"`
	Tensors int                   `json:"tensors"`
	Stored  Amount                `json:"stored"`
	DTypes  map[string]DTypeCount `json:"dtypes"`

	// Passes are what the family declares, in a fixed order.
	Passes []Pass `json:"passes"`
	// Observations is what names and shapes suggest where the family is unknown.
	Observations []Observation `json:"observations,omitempty"`
	// Total sums the passes that save without a list of ids, Listed those with one
	// too, and Possible those besides that need a look at the bytes. Where two
	// passes remove the same tensor the better one counts.
	Total    Total `json:"total"`
	Listed   Total `json:"total_with_listed_ids"`
	Possible Total `json:"total_with_possible"`
}

// DTypeCount counts the tensors of one element type.
type DTypeCount struct {
	Tensors int   `json:"tensors"`
	Bytes   int64 `json:"bytes"`
}

// Verdict says what arithmetic decides about a pass.
type Verdict string

// The verdicts.
const (
	// Saves: fewer bytes, if the contract is given and the bytes of the outputs
	// turn out as declared.
	Saves Verdict = "saves"
	// Possible: fewer bytes, if the values are what the family suggests.
	Possible Verdict = "possible"
	// Refused: more bytes, or not a function of a finite domain.
	Refused Verdict = "refused"
)

// Pass is the plan of one pass.
type Pass struct {
	// Kind is lookup, wide_table, timesteps, universal_timesteps, pairs, constant,
	// reachable_ids, shared_tensors, unread_tensors, computed_tensors or fold.
	Kind string `json:"kind"`
	// Title names the pass for people, and Block the place in the model.
	Title string `json:"title"`
	Block string `json:"block"`
	// Rows is the size of the domain, Columns the number of values for each of its
	// elements, and Tables the number of full tables. They are 0 where no table is
	// made.
	Rows    int64 `json:"rows,omitempty"`
	Columns int64 `json:"columns,omitempty"`
	Tables  int64 `json:"tables,omitempty"`

	// Before measures the tensors that change, After what takes their place.
	Before Amount `json:"before"`
	After  Amount `json:"after"`
	// Saved is the difference, negative where it would cost.
	Saved Amount `json:"saved"`
	// Share is the part of all stored bytes that is saved.
	Share float64 `json:"share"`
	// BreakEven is where the saving ends.
	BreakEven *BreakEven `json:"break_even,omitempty"`

	// Contract is what a caller has to promise, and Needs what has to hold besides.
	Contract string   `json:"contract,omitempty"`
	Needs    []string `json:"needs,omitempty"`
	// Verdict is the outcome, Reason why it is not Saves.
	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason,omitempty"`
	// Arithmetic is the count in words.
	Arithmetic string `json:"arithmetic"`
	// Changes lists the tensors that change, by pattern.
	Changes []Change `json:"changes"`

	touched []int // indices of the tensors that go
}

// BreakEven says up to which number a pass saves bytes, all else being equal.
type BreakEven struct {
	// Unit is what is counted: ids, timesteps, pairs, or tables.
	Unit string `json:"unit"`
	// Largest is the greatest number that still saves.
	Largest int64 `json:"largest"`
}

// Change is a group of tensors.
type Change struct {
	// Tensors is a name, or a pattern in which # is a number and {a,b} a choice.
	Tensors string `json:"tensors"`
	Count   int    `json:"count"`
	Stored  Amount `json:"stored"`
}

// Total is what several passes save together.
type Total struct {
	// Passes are positions in Plan.Passes.
	Passes []int   `json:"passes"`
	Before int64   `json:"bytes_before"`
	After  int64   `json:"bytes_after"`
	Saved  int64   `json:"bytes_saved"`
	Share  float64 `json:"share"`
	// Contracts are what a caller promises for them.
	Contracts []string `json:"contracts"`
}

// Observation is something that names and shapes suggest and nothing proves.
type Observation struct {
	// Says is a sentence with its arithmetic.
	Says string `json:"says"`
	// Tensors, Count and Stored describe the tensors concerned.
	Tensors string `json:"tensors"`
	Count   int    `json:"count"`
	Stored  Amount `json:"stored"`
}

// titles of the kinds of passes.
var titles = map[kind]string{
	kindLookup:    "token table",
	kindWide:      "feature table",
	kindTimesteps: "timestep table",
	kindUniversal: "table of every BF16 timestep",
	kindPairs:     "pair table",
	kindConstant:  "constant rows",
	kindTrim:      "reachable rows",
	kindShared:    "equal tensors once",
	kindUnread:    "unread tensors",
	kindComputed:  "tensors that can be computed",
	kindFold:      "fold into an existing table",
}

func countTypes(tensors []Tensor) map[string]DTypeCount {
	out := map[string]DTypeCount{}
	for _, t := range tensors {
		c := out[t.DType]
		out[t.DType] = DTypeCount{c.Tensors + 1, c.Bytes + t.Bytes}
	}
	return out
}

// size returns the bytes of an element of a floating-point type that a table can
// hold, or 0.
func size(dtype string) int64 {
	d, err := tensor.ParseDType(dtype)
	if err != nil {
		return 0
	}
	switch d {
	case tensor.F16, tensor.BF16, tensor.F32, tensor.F64:
		return int64(d.Size())
	}
	return 0
}

package finitepass

// ProbeOptions adjust [FindProfiles].
type ProbeOptions struct {
	// MaxRows is the largest row count that is called, 1,024 if 0. Above it the
	// last interval is assumed to go on, and the report says so.
	MaxRows int
	// SmallRows is the count up to which every row count is called, 33 if 0.
	SmallRows int
	// Tokens is how many evenly spread tokens are evaluated, 16 if 0.
	Tokens int
	// Strict makes a device whose published regimes disagree with what was found
	// an error that wraps [ErrRegimes], instead of a note in the report.
	Strict bool
}

// ProbeReport tells what [FindProfiles] called and found.
type ProbeReport struct {
	// RowCounts lists the row counts that were called, in order.
	RowCounts []int `json:"row_counts"`
	// Calls and Rows count the evaluations.
	Calls int   `json:"calls"`
	Rows  int64 `json:"rows"`
	// Tokens lists the ids that were evaluated.
	Tokens []int `json:"tokens"`
	// Intervals lists the ranges of row counts with equal bits, in order. The last
	// one has no upper bound; what lies above VerifiedRows was not called.
	Intervals    []Interval `json:"intervals"`
	VerifiedRows int        `json:"verified_rows"`
	// Proposed is the shortest profile list that keeps the intervals apart.
	Proposed []Profile `json:"proposed"`
	// Published repeats the device's own regimes as text, and Disagreements says
	// where they are not what was found. Published boundaries across which this
	// block's bits happen to be equal are not disagreements.
	Published     []string `json:"published,omitempty"`
	Disagreements []string `json:"disagreements,omitempty"`
}

// Interval is a range of row counts, both ends included; MaxRows is 0 for the
// last.
type Interval struct {
	MinRows int `json:"min_rows"`
	MaxRows int `json:"max_rows,omitempty"`
	// Signature identifies the bits; intervals with equal signatures share tables.
	Signature string `json:"signature"`
}

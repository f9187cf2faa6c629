package finitepass

import (
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
	"github.com/hfcompress/compress/validation"
)

// Status says what became of a block or of a model.
type Status string

// Statuses of a block.
const (
	// Compiled: the block runs from tables.
	Compiled Status = "compiled"
	// Refused: the block stays as it was; the reason says why.
	Refused Status = "refused"
	// RolledBack: the block was compiled, but the whole model then failed its gate.
	// It is a status of the model when no block is left.
	RolledBack Status = "rolled_back"
)

// Statuses of a model, besides [RolledBack].
const (
	// Compressed: at least one block was rewritten and the whole model passed.
	Compressed Status = "compressed"
	// NoReduction: no block could be rewritten with a saving.
	NoReduction Status = "no_reduction"
)

// BlockReport tells what was done with one block and what was measured.
type BlockReport struct {
	Path   string `json:"path"`
	Status Status `json:"status"`
	// Reason explains a refusal or a roll-back.
	Reason string `json:"reason,omitempty"`

	Contract  string      `json:"contract"`
	NumTokens int         `json:"num_tokens"`
	Domain    *nn.Domain  `json:"domain,omitempty"`
	Outputs   []nn.Output `json:"outputs"`
	// Residual names the output that stays live, and Embedding its tensor.
	Residual  string `json:"residual,omitempty"`
	Embedding string `json:"embedding"`
	// Removes lists the tensors that the rewritten block does not need.
	Removes []string `json:"removes"`

	Plan     Plan         `json:"plan"`
	Profiles []Profile    `json:"profiles"`
	Probe    *ProbeReport `json:"probe,omitempty"`
	// Routes describes the tables, bulk first, then one per profile.
	Routes []RouteReport `json:"routes,omitempty"`
	// Tables describes the stored tables.
	Tables []TableReport `json:"tables,omitempty"`
	// UniqueTables counts the distinct output tables over all routes, the
	// embedding not included; ConstantTables those kept as one row.
	UniqueTables   int `json:"unique_tables"`
	ConstantTables int `json:"constant_tables"`

	// Account is nil when nothing was built.
	Account    *Account    `json:"account,omitempty"`
	Comparison *Comparison `json:"comparison,omitempty"`
	// Gate is the evidence for a roll-back.
	Gate *validation.Failure `json:"gate,omitempty"`

	// Device is the fingerprint of the device that evaluated the block.
	Device string `json:"device"`
	// Digest identifies the recipe and the tensors that the comparison was made
	// with: see [BlockReport.Describes].
	Digest string `json:"digest,omitempty"`
	// SourceDigest identifies the source tensors: see [SourceDigest]. It is empty
	// when Options.Weights was not given.
	SourceDigest string `json:"source_digest,omitempty"`
	// History holds what was measured before a change: see [BlockReport.For].
	History *History `json:"history,omitempty"`
}

// Describes reports whether the report was made for exactly this lookup. When
// it was not, what the report measured is history: it held for another state.
func (r *BlockReport) Describes(l *Lookup) bool { return r.Digest != "" && r.Digest == l.Digest() }

// RouteReport tells how the calls of one range of row counts are served.
type RouteReport struct {
	// Rows is the range of row counts, such as "2–15" or "16 and more".
	Rows string `json:"rows"`
	// EvaluatedRows is the row count of the calls that made the table.
	EvaluatedRows int `json:"evaluated_rows"`
	// Tables names the stored tables that the route reads.
	Tables []string `json:"tables"`
	// NewValues and FullBytes count the tables that no earlier route has, stored
	// whole; StoredBytes is what they take as stored.
	NewValues   int64 `json:"new_values"`
	FullBytes   int64 `json:"full_bytes"`
	StoredBytes int64 `json:"stored_bytes"`
	// DiffersFromBulk counts the table words whose bits differ from the bulk
	// table's.
	DiffersFromBulk int64 `json:"words_that_differ_from_bulk"`
}

// TableReport describes one stored table.
type TableReport struct {
	Name  string       `json:"name"`
	DType tensor.DType `json:"dtype"`
	// Rows is the number of stored rows, 1 for constant tables.
	Rows  int `json:"rows"`
	Width int `json:"width"`
	// Coding is "full", "base" or the coding of the difference.
	Coding      string `json:"coding"`
	FullBytes   int64  `json:"full_bytes"`
	StoredBytes int64  `json:"stored_bytes"`
	// Routes lists the routes that read it: 0 for bulk, i for profile i−1.
	Routes []int `json:"routes"`
}

// Comparison is the outcome of the full-domain comparison.
type Comparison struct {
	Accepted bool `json:"accepted"`
	// Bitwise says that every compared byte agreed.
	Bitwise bool `json:"bitwise"`
	// Tokens, Calls and Rows count the domain and what was compared.
	Tokens int   `json:"tokens"`
	Calls  int   `json:"calls"`
	Rows   int64 `json:"rows"`
	// Sampled says that the domain is a large one: every element was compared at
	// every route in the layout domain, and the others took a spread of elements.
	Sampled bool `json:"sampled,omitempty"`
	// Layouts lists the forms of calls, each with its count.
	Layouts []LayoutReport `json:"layouts"`
	// RowCounts lists the row counts that were called, in order.
	RowCounts []int `json:"row_counts"`
	// Outputs holds the worst of every output.
	Outputs []OutputComparison `json:"outputs"`
	// MaxAbs and RelL2 are the limits, both inclusive.
	MaxAbs         float64 `json:"max_abs_limit"`
	RelL2          float64 `json:"rel_l2_limit"`
	RequireBitwise bool    `json:"require_bitwise"`
	// Failure describes the first call that fell outside the limits.
	Failure string `json:"failure,omitempty"`
}

// LayoutReport counts the calls of one form.
type LayoutReport struct {
	Name  string `json:"name"`
	Calls int    `json:"calls"`
	Rows  int64  `json:"rows"`
}

// OutputComparison is the worst agreement of one output over all calls.
type OutputComparison struct {
	Name string `json:"name"`
	// MaxAbs is the largest |source − table|. RelL2 is the largest over calls of
	// ‖source − table‖₂ / max(‖source‖₂, 1e-30).
	MaxAbs float64 `json:"max_abs"`
	RelL2  float64 `json:"rel_l2"`
	// Bitwise says that all bytes agreed; DifferentRows counts rows that did not.
	Bitwise       bool  `json:"bitwise"`
	DifferentRows int64 `json:"different_rows"`
	// Worst describes the call with the largest MaxAbs, when it is not zero.
	Worst string `json:"worst,omitempty"`
}

// Report is the outcome for a whole model.
type Report struct {
	Status Status        `json:"status"`
	Reason string        `json:"reason,omitempty"`
	Blocks []BlockReport `json:"blocks"`
	// Rewrites lists the paths in use, and Proposed those that passed locally.
	Rewrites []string `json:"rewrites"`
	Proposed []string `json:"proposed"`
	// Account is the whole model's.
	Account Account `json:"account"`
	// Gate is the whole model's verdict on what is returned, and FirstGate the
	// one on all proposed blocks, when that failed.
	Gate      *validation.Report `json:"gate,omitempty"`
	FirstGate *validation.Report `json:"first_gate,omitempty"`
}

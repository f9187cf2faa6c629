package compress

import (
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/pack"
	"github.com/hfcompress/compress/validation"
)

// ReportVersion is the version of [Report]'s JSON form.
const ReportVersion = 1

// Report is what happened, for machines; report.json in a package holds it
// without timings, so that the same run gives the same bytes.
type Report struct {
	Version int `json:"version"`
	// Status is "compressed", "no_reduction" or "rolled_back".
	Status finitepass.Status `json:"status"`
	// Reason says in words why nothing was gained.
	Reason string `json:"reason,omitempty"`

	Source       pack.Source `json:"source"`
	Architecture string      `json:"architecture"`
	// ArchFile is the architecture file, when one took a family's place.
	ArchFile *pack.File `json:"arch_file,omitempty"`
	Device   nn.Info    `json:"device"`
	Contract string     `json:"contract"`

	// Values counts the numbers that the model consists of; After counts every
	// distinct table as if it were stored whole.
	Values Change `json:"values"`
	Bytes  Bytes  `json:"bytes"`

	Profiles Profiles `json:"profiles"`
	// Blocks tells for every declared block what was done and why.
	Blocks []finitepass.BlockReport `json:"blocks"`

	// Require is the gate in a word, and Gate its outcome on what is returned.
	Require Require            `json:"require"`
	Gate    *validation.Report `json:"gate"`
	// Margins is what is known of the decisions that rewritten or rejected blocks
	// take with scores that have not the source's bits.
	Margins []validation.Margins `json:"margins,omitempty"`
	// FirstGate is the outcome on all proposed blocks when that was rolled back.
	FirstGate *validation.Report `json:"first_gate,omitempty"`

	// Storage tells what equal tensors and tables in smaller forms save; nil when
	// there are none, or no package was asked for. Bytes and Values include it.
	Storage *StorageReport `json:"storage,omitempty"`

	Load   LoadReport    `json:"load"`
	Reload *ReloadReport `json:"reload,omitempty"`
}

// Change is a count before and after.
type Change struct {
	Before int64 `json:"before"`
	After  int64 `json:"after"`
}

// Saved is what went.
func (c Change) Saved() int64 { return c.Before - c.After }

// Bytes measures the model three ways.
type Bytes struct {
	// Logical counts every tensor once for each of its names; Resident counts each
	// distinct storage once, as it lies in memory, padding and indices included.
	Logical  Change `json:"logical"`
	Resident Change `json:"resident"`
	// ResidentFullTables is Resident.After with every distinct table stored whole
	// instead of as a difference from another.
	ResidentFullTables int64 `json:"resident_after_full_tables"`
	// Disk compares the weight files of the source with the package's weights and
	// manifest. After is 0 when no package was written.
	Disk Change `json:"disk"`
}

// Profiles tells which row-count profiles were used.
type Profiles struct {
	Mode finitepass.ProfileMode `json:"mode"`
	// List is what the rewritten blocks use, bulk not included.
	List []finitepass.Profile `json:"list"`
}

// LoadReport tells what the strict load found.
type LoadReport struct {
	// Tensors of the checkpoint, and how many bytes they have.
	Tensors int   `json:"tensors"`
	Bytes   int64 `json:"bytes"`
	// Filled lists tied parameters that were absent, Ignored those that are present
	// and not used.
	Filled  []loader.Fill `json:"filled,omitempty"`
	Ignored []string      `json:"ignored,omitempty"`
	// IgnoredBytes are the bytes of the ignored ones, which a package leaves out.
	IgnoredBytes int64 `json:"ignored_bytes,omitempty"`
}

// ReloadReport is the check of the written package before it got its name.
type ReloadReport struct {
	// Examples were run on the package, and Outputs of them compared by digest with
	// those of the validated model; Bitwise says that all agreed.
	Examples int  `json:"examples"`
	Outputs  int  `json:"outputs"`
	Bitwise  bool `json:"bitwise"`
	// Tensors were read back and compared by digest.
	Tensors int `json:"tensors"`
}

// Timings tells how long the stages took, in seconds.
type Timings map[Stage]float64

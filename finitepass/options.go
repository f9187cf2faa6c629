package finitepass

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// Options adjust [CompileFanout]. Only Contract and Inventory are required.
type Options struct {
	// Contract is the caller's promise, such as [architectures.TokenIndicesOnly],
	// and Contracts lists further ones: a model may have blocks over several
	// domains. A block needs the contract of its domain.
	Contract  string
	Contracts []string
	// ReachableIDs, when not empty, compiles blocks over token ids for these ids
	// alone; the lookups refuse all others. It needs the contract
	// [architectures.ReachableIDsOnly] too. Where nothing but the block reads the
	// embedding, the rows of these ids take its place.
	ReachableIDs []int
	// Inventory says what the model holds, for the owner audit and the accounts.
	Inventory *Inventory
	// Weights, when not nil, are those that the block was built from; the report
	// then identifies the source's tensors. [CompileModel] sets them.
	Weights architectures.Weights
	// Profiles lists the row-count profiles.
	Profiles []Profile
	// ChunkRows is the row count of the calls that make the bulk table, 1,024 if
	// 0. It is raised where needed so that these calls are bulk calls, and lowered
	// to the vocabulary where that is smaller.
	ChunkRows int
	// ValidationChunk is the row count of most calls of the comparison, 257 if 0,
	// so that its chunks and those of the table do not begin at the same tokens.
	ValidationChunk int
	// MaxAbs and RelL2 are the limits of the comparison, 1e-5 each if 0. Both are
	// inclusive and both must hold.
	MaxAbs, RelL2 float64
	// RequireBitwise makes every compared byte count.
	RequireBitwise bool
	// NoXOR stores all distinct tables whole. XORBase is the route whose tables
	// are the bases of XOR families: 0, the bulk route, by default, or
	// xortable.BaseAuto for whichever costs fewest bytes.
	NoXOR   bool
	XORBase int
	// Projected compiles a block that applies one linear map to the embedding row
	// and to its L2-normalised form as one table for both: z = W·e and
	// r = max(‖e‖, eps), so that the outputs are z + b and z/r + b. The second
	// rounds otherwise than the source, so the limits decide.
	Projected bool
	// IgnorePlan evaluates blocks that [PlanBlock] refuses for their size alone.
	IgnorePlan bool
	// IdenticalRows bounds the rows that the comparison spends on calls of many
	// identical tokens at one row count, 1,048,576 if 0. Where all tokens do not
	// fit, evenly spread ones are taken.
	IdenticalRows int
	// FullWork bounds the domains that are compared with every element in every
	// layout, by the multiply-adds that evaluating them once takes; 2³⁴ if 0.
	// Exhaustive compares larger ones in the same way: see [Compare].
	FullWork   int64
	Exhaustive bool
	// Alloc makes the tables; [tensor.New] if nil. It lets large tables lie in a
	// mapped file instead of memory.
	Alloc func(d tensor.DType, shape ...int) (*tensor.Tensor, error)
	// Hooks are for tests.
	Hooks Hooks
	// Progress, when not nil, is told how many rows of the work are done.
	Progress func(step string, done, total int64)
}

// Hooks let a test damage a block, to prove that the damage is caught.
type Hooks struct {
	// BeforeLocal replaces a lookup before the full-domain comparison.
	BeforeLocal func(*Lookup) (*Lookup, error)
	// AfterLocal replaces it after that and before the whole model's gate.
	AfterLocal func(*Lookup) (*Lookup, error)
}

const (
	defaultChunkRows       = 1024
	defaultValidationChunk = 257
	defaultTolerance       = 1e-5
	defaultIdenticalRows   = 1 << 20
	defaultFullWork        = 1 << 34
	maxChunkRows           = 1 << 20
)

// withDefaults checks o and fills zero values.
func (o Options) withDefaults() (Options, error) {
	if err := o.checkContracts(); err != nil {
		return o, err
	}
	if o.FullWork < 0 {
		return o, fmt.Errorf("%w: FullWork is %d", ErrOptions, o.FullWork)
	}
	if o.FullWork == 0 {
		o.FullWork = defaultFullWork
	}
	if o.Alloc == nil {
		o.Alloc = tensor.New
	}
	if err := CheckProfiles(o.Profiles); err != nil {
		return o, err
	}
	for _, c := range []struct {
		name     string
		value    *int
		standard int
		most     int
	}{
		{"ChunkRows", &o.ChunkRows, defaultChunkRows, maxChunkRows},
		{"ValidationChunk", &o.ValidationChunk, defaultValidationChunk, maxChunkRows},
		{"IdenticalRows", &o.IdenticalRows, defaultIdenticalRows, math.MaxInt},
	} {
		if *c.value < 0 || *c.value > c.most {
			return o, fmt.Errorf("%w: %s is %d, expected 1 to %d", ErrOptions, c.name, *c.value, c.most)
		}
		if *c.value == 0 {
			*c.value = c.standard
		}
	}
	for _, c := range []struct {
		name  string
		value *float64
	}{{"MaxAbs", &o.MaxAbs}, {"RelL2", &o.RelL2}} {
		if !(*c.value >= 0) || math.IsInf(*c.value, 0) {
			return o, fmt.Errorf("%w: %s is %v, expected a finite limit", ErrOptions, c.name, *c.value)
		}
		if *c.value == 0 {
			*c.value = defaultTolerance
		}
	}
	if o.XORBase < -1 || o.XORBase > len(o.Profiles) {
		return o, fmt.Errorf("%w: XORBase is %d, expected −1 to %d", ErrOptions, o.XORBase, len(o.Profiles))
	}
	return o, nil
}

var contracts = []string{
	architectures.TokenIndicesOnly, architectures.ReachableIDsOnly, architectures.DeclaredTimestepsOnly,
	architectures.DeclaredPairsOnly, architectures.ConstantInputOnly,
}

func (o Options) checkContracts() error {
	if o.Contract == "" && len(o.Contracts) == 0 {
		return fmt.Errorf("%w: no contract, expected %q or that of another domain", ErrContract, architectures.TokenIndicesOnly)
	}
	for _, c := range append([]string{o.Contract}, o.Contracts...) {
		if c != "" && !slices.Contains(contracts, c) {
			return fmt.Errorf("%w: contract is %q, expected %s", ErrContract, c, strings.Join(contracts, ", "))
		}
	}
	if len(o.ReachableIDs) > 0 {
		if !o.promises(architectures.ReachableIDsOnly) {
			return fmt.Errorf("%w: reachable ids are given without the contract %q", ErrContract, architectures.ReachableIDsOnly)
		}
		if _, err := nn.ListedTokens(o.ReachableIDs); err != nil {
			return fmt.Errorf("%w: ReachableIDs: %w", ErrOptions, err)
		}
	}
	return nil
}

func (o Options) promises(contract string) bool {
	return o.Contract == contract || slices.Contains(o.Contracts, contract)
}

// checkSpec refuses a block whose contract is not given.
func (o Options) checkSpec(spec architectures.BlockSpec) error {
	need := architectures.ContractOf(spec.Domain)
	if spec.Contract != need {
		return fmt.Errorf("%w: block %q declares the contract %q, its domain needs %q", ErrBlock, spec.Path, spec.Contract, need)
	}
	if !o.promises(need) {
		return fmt.Errorf("%w: block %q needs %q", ErrContract, spec.Path, need)
	}
	return nil
}

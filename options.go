package compress

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/pack"
	"github.com/hfcompress/compress/validation"
)

// ErrOption is wrapped by errors about options that make no sense; they are
// found before anything is read or sent.
var ErrOption = errors.New("bad option")

// Require says how equal the outputs of source and candidate must be.
type Require string

const (
	// RequireDefault is bitwise on devices that keep the numeric contract to the
	// bit, and tolerance on others.
	RequireDefault Require = ""
	// RequireBitwise accepts equal bytes only.
	RequireBitwise Require = "bitwise"
	// RequireTolerance accepts relative L2 and max abs up to 1e-5, with integers
	// and the decisions of the logits equal.
	RequireTolerance Require = "tolerance"
)

// MarginRule is a rule for decisions that a rewritten block takes; see
// [validation.Margins].
type MarginRule string

const (
	// MarginsReport, the default, counts the elements whose choice the bound on the
	// table's error does not decide, and reports them.
	MarginsReport MarginRule = ""
	// MarginsReject leaves blocks with such elements in place.
	MarginsReject MarginRule = "reject"
)

// Options adjust the road. The zero value suits most models; only [HuggingFace]
// needs Hub.CacheDir as well.
type Options struct {
	// Revision is a branch, tag, pull-request ref or commit; "main" when empty.
	Revision string
	// File chooses the safetensors file or index of a repository that has several.
	File string
	// Architecture names the registered family; empty finds it by config.json.
	Architecture string
	// ArchFile, when not empty, is an architecture file that takes the family's
	// place: see package architectures/declared. The source needs no config.json
	// then.
	ArchFile string

	// Device is "cpu" (default), "cpu:split-k", "auto", or a GPU: "gpu" is the best,
	// "gpu:N" number N of those that [metalgpu.Devices] lists, and "gpu:API" or
	// "gpu:API:N" with API vulkan, metal or go counts those of one API. "auto" is a
	// GPU where there is one, and the processor otherwise.
	Device string
	// Threads bounds the device's threads; 0 takes all processors.
	Threads int

	// Contract is the caller's promise about how the model's blocks are called; a
	// rewrite needs it. Empty means [architectures.TokenIndicesOnly]: a model
	// loaded from a package takes token ids and nothing else.
	Contract string
	// ReachableIDs, when not empty, is the further promise that no other token ids
	// occur: tables hold these alone, and the compressed model refuses others. The
	// order does not matter.
	ReachableIDs []int
	// Timesteps, when not empty, is the promise that a diffusion model is called with
	// these alone, as the numbers that it is given: its timestep blocks become tables
	// of them, and the compressed model refuses others. Labels, when not empty, is the
	// same for class labels where blocks read these too; else all labels count.
	Timesteps []float32
	Labels    []int
	// ProfileMode and Profiles choose row-count profiles. Empty is automatic, or
	// explicit when Profiles are given.
	ProfileMode finitepass.ProfileMode
	Profiles    []finitepass.Profile

	// Require is the whole-model gate.
	Require Require
	// Examples are the caller's, compared besides those that are generated.
	Examples []validation.Example
	// ValidationFile, when not empty, is a file with more of them.
	ValidationFile string
	// Generate adjusts the generated examples.
	Generate validation.Options
	// NearTies adjusts the search for inputs with narrow decisions; Keep < 0 turns
	// it off.
	NearTies validation.TieOptions

	// NearTiesFile, when not empty, keeps what that search finds: it is written when
	// it does not exist, and else read, so that a rerun compares the same inputs.
	NearTiesFile string
	// Margins says what to do with a block whose scores decide something, such as a
	// router's, and whose table has not the source's bits.
	Margins MarginRule

	// NonFinite says whether weights may hold NaN or infinity.
	NonFinite loader.NonFinite

	// Out is the directory of the package; empty writes none.
	Out string
	// Overwrite replaces an existing package at Out.
	Overwrite bool
	// Codec stores the package's weights; nil is the default of package pack.
	Codec pack.Codec
	// Storage says in which form the package holds the tensors that stay.
	Storage StorageOptions

	// Hub configures the client of [HuggingFace].
	Hub hub.Options
	// Observe, when not nil, is told of progress, one call at a time.
	Observe func(Event)
	// Hooks are for tests that damage a block to prove that it is caught.
	Hooks finitepass.Hooks
}

// check refuses what can be refused before any work, and fills defaults.
func (o Options) check() (Options, error) {
	if o.Revision == "" {
		o.Revision = "main"
	}
	if o.Contract == "" {
		o.Contract = architectures.TokenIndicesOnly
	}
	if o.Contract != architectures.TokenIndicesOnly {
		return o, fmt.Errorf("%w: contract %q, expected %q", ErrOption, o.Contract, architectures.TokenIndicesOnly)
	}
	for _, id := range o.ReachableIDs {
		if id < 0 {
			return o, fmt.Errorf("%w: reachable token id %d", ErrOption, id)
		}
	}
	o.ReachableIDs = slices.Compact(slices.Sorted(slices.Values(o.ReachableIDs)))
	if err := o.checkSchedule(); err != nil {
		return o, err
	}
	switch o.Require {
	case RequireDefault, RequireBitwise, RequireTolerance:
	default:
		return o, fmt.Errorf("%w: require %q, expected %q or %q", ErrOption, o.Require, RequireBitwise, RequireTolerance)
	}
	switch o.Margins {
	case MarginsReport, MarginsReject:
	default:
		return o, fmt.Errorf("%w: margins %q, expected %q or nothing", ErrOption, o.Margins, MarginsReject)
	}
	if o.ProfileMode == "" {
		o.ProfileMode = finitepass.ProfilesAuto
		if len(o.Profiles) > 0 {
			o.ProfileMode = finitepass.ProfilesExplicit
		}
	}
	switch o.ProfileMode {
	case finitepass.ProfilesAuto, finitepass.ProfilesNone:
		if len(o.Profiles) > 0 {
			return o, fmt.Errorf("%w: profiles are given, and their mode is %q", ErrOption, o.ProfileMode)
		}
	case finitepass.ProfilesExplicit:
		if err := finitepass.CheckProfiles(o.Profiles); err != nil {
			return o, err
		}
	default:
		return o, fmt.Errorf("%w: profile mode %q", ErrOption, o.ProfileMode)
	}
	if o.Architecture != "" && o.ArchFile != "" {
		return o, fmt.Errorf("%w: architecture %q and the architecture file %q exclude each other", ErrOption, o.Architecture, o.ArchFile)
	}
	if o.Architecture != "" {
		if _, err := architectures.Lookup(o.Architecture); err != nil {
			return o, err
		}
	}
	if o.Threads < 0 {
		return o, fmt.Errorf("%w: threads %d, expected 0 for all processors or more", ErrOption, o.Threads)
	}
	if _, err := parseDevice(o.Device); err != nil {
		return o, err
	}
	return o, nil
}

// contracts are what was promised besides Contract.
func (o Options) contracts() []string {
	var promised []string
	if len(o.ReachableIDs) > 0 {
		promised = append(promised, architectures.ReachableIDsOnly)
	}
	if len(o.Timesteps) > 0 {
		promised = append(promised, architectures.DeclaredTimestepsOnly, architectures.DeclaredPairsOnly)
	}
	return promised
}

// gate returns the gate that Require stands for on a device.
func (r Require) gate(info nn.Info) (validation.Gate, Require) {
	if r == RequireDefault {
		r = RequireTolerance
		if info.Strict {
			r = RequireBitwise
		}
	}
	return validation.Gate{Bitwise: r == RequireBitwise}, r
}

package finitepass

import "errors"

// Kinds of errors; test with errors.Is.
var (
	// ErrContract: the caller did not give the block's contract.
	ErrContract = errors.New("input contract not given")
	// ErrOptions: an option is outside its range.
	ErrOptions = errors.New("bad option")
	// ErrProfiles: a profile list is malformed.
	ErrProfiles = errors.New("bad row-count profiles")
	// ErrPath: a selected block path is unknown, given twice or overlaps another.
	ErrPath = errors.New("bad block path")
	// ErrBlock: the block that runs is not the one that was declared.
	ErrBlock = errors.New("block does not match its declaration")
	// ErrPositions: identical rows of one call gave different bits.
	ErrPositions = errors.New("identical rows of one call disagree")
	// ErrNeighbours: a row's bits depend on the other rows of the call.
	ErrNeighbours = errors.New("a row depends on its neighbours")
	// ErrUnstable: the same call gave different bits the second time.
	ErrUnstable = errors.New("the same call twice disagrees")
	// ErrRegimes: the device's published regimes are not what was measured.
	ErrRegimes = errors.New("published regimes disagree with measurement")
	// ErrNonFinite: an output holds a NaN or an infinity.
	ErrNonFinite = errors.New("output is not finite")
	// ErrRecipe: a stored recipe is malformed or does not fit its tensors.
	ErrRecipe = errors.New("bad lookup recipe")
)

// refusable are the findings about a block that keep it in place; every other
// error stops the work.
var refusable = []error{
	ErrBlock, ErrPositions, ErrNeighbours, ErrUnstable, ErrRegimes, ErrNonFinite,
}

func isRefusal(err error) bool {
	for _, kind := range refusable {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

package gemm

// kernels is a set of tile kernels for one instruction set. All sets give the
// same bits.
type kernels struct {
	name string
	// rows is the number of rows of a full tile.
	rows int
	// panels is how many panels a tile of so many rows takes at a time, a power of
	// two; half as many, and so on down to one, work as well.
	panels [maxTileRows + 1]int
	// run computes a tile of one or more steps.
	run func(*tile[float32])
	// pairs computes a tile whose steps are pairs of bfloat16 numbers with
	// [exponents.exact]; nil where the processor cannot. Its tiles are those of run.
	pairs func(*tile[uint32])
}

var portable = &kernels{
	name:   "portable",
	rows:   4,
	panels: [maxTileRows + 1]int{1: 1, 2: 1, 3: 1, 4: 1},
	run:    twin,
}

// active is the set in use; only tests change it.
var active = available()[0]

// Instructions names the instruction set of the kernels in use: "avx512-bf16",
// "avx512", "avx2", "neon" or "portable".
func Instructions() string { return active.name }

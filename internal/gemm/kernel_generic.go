package gemm

// tileRows is the number of rows of a full tile.
const tileRows = 4

// tilePanels returns how many panels a tile of so many rows takes at a time.
func tilePanels(rows int) int { return 1 }

func (t *tile) run() { t.twin() }

// Instructions names the instruction set of the kernels in use.
func Instructions() string { return "portable" }

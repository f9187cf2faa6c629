//go:build !amd64 || !gc || noasm

package floatcodec

// No kernels in assembly here, but for fields on arm64: the functions in Go do
// everything else.
const haveKernels, haveWideKernels, haveWideSums = false, false, false

func decodeRun(*runState) {}

func fetch([]byte) {}

func countBlock(sym *byte, counts *symbolCount) (n, sum int) { return 0, 0 }

func assignBlock(costs *packedCosts, counts *symbolCount, n int, tables *[256]uint32) {}

func mergeRunBF16(dst, packed, sym *byte, blocks *uint16, n int, base uint64) {}

func mergeRunF32(dst, packed, high, low, sym *byte, blocks *uint16, n int, base uint64) {}

func mergeRunF16(dst, packed, plane, sym *byte, blocks *uint16, n int) {}

func mergeRunE4M3(dst, packed, sym *byte, blocks *uint16, n int) {}

type encodeState struct {
	dst   *byte
	acc   uint64
	nbits uint64
	table *encodeTable
	sym   *byte
	quads uint64
	wide  *wideTable
	flags uint64
	ahead prefetch
}

func splitWideBF16(sym, packed, src *byte, blocks int, negBase uint64) uint64 { return 0 }

func splitWideF16(sym, packed, plane, src *byte, blocks int) {}

func splitWideF32(sym, packed, high, low, src *byte, blocks int, negBase uint64) uint64 { return 0 }

func splitWideE4M3(sym, packed, src *byte, blocks int) {}

func sumWide(state uint32, p *byte, blocks int) uint32 { return 0 }

func encodeSymbols(*encodeState) {}

func encodeWide(*encodeState) {}

func chooseWide(wide *wideTable, tables int, sym *byte) uint64 { return 0 }

func fillMulti(multi, single *[1 << maxCodeLen]uint32) {}

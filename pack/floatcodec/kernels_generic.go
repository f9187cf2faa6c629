//go:build !amd64 || !gc || noasm

package floatcodec

// No kernels in assembly here: the functions in Go do everything.
const haveKernels, haveWideKernels = false, false

type fourStreams struct {
	in    [segments]*byte
	pos   [segments]uint64
	table [segments]*decodeTable
	sum   [segments]uint64
	out   *[segments]symBuffer
}

func decodeFour(*fourStreams) {}

func mergeFieldsBF16(dst, sym, packed *byte, blocks int, base uint64) {}

func splitFieldsBF16(sym, packed, src *byte, blocks int, negBase uint64) uint64 { return 0 }

type encodeState struct {
	dst   *byte
	acc   uint64
	nbits uint64
	table *encodeTable
	sym   *byte
	quads uint64
	wide  *wideTable
}

func encodeSymbols(*encodeState) {}

func encodeWide(*encodeState) {}

func chooseWide(wide *wideTable, tables int, sym *byte) uint64 { return 0 }

func fillMulti(multi, single *[1 << maxCodeLen]uint32) {}

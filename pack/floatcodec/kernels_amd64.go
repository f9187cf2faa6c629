//go:build amd64 && gc && !noasm

package floatcodec

import "golang.org/x/sys/cpu"

// The kernels in kernels_amd64.s do what their twins in Go do, to the same
// bytes; the build tag noasm leaves the twins alone.
var haveKernels = cpu.X86.HasAVX2 && cpu.X86.HasBMI2 && leadingZeros(1) == 63

// haveFieldKernels allows mergeFieldsBF16 and splitFieldsBF16.
var haveFieldKernels = haveKernels

// haveWideKernels allows the kernels that look bytes up 64 at a time.
var haveWideKernels = haveKernels && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VBMI &&
	cpu.X86.HasAVX512VL && cpu.X86.HasAVX512GFNI

// haveWideSums allows sumWide.
var haveWideSums = haveWideKernels && cpu.X86.HasAVX512VPCLMULQDQ && cpu.X86.HasSSE42

// sumWide moves the state of a CRC-32C, which is its complement, on by 256*blocks bytes; there
// must be a block.
//
//go:noescape
func sumWide(state uint32, p *byte, blocks int) uint32

// leadingZeros executes the instruction that decodeRun relies on; where it is
// unknown, processors take it for another.
func leadingZeros(x uint64) uint64

// decodeRun decodes from all streams, at least once, until each has used iters
// words or one has gone beyond its last.
//
//go:noescape
func decodeRun(s *runState)

// fetch brings b close, without waiting for it.
func fetch(b []byte) {
	if len(b) > 0 {
		fetchLines(&b[0], (len(b)+63)/64)
	}
}

//go:noescape
func fetchLines(p *byte, n int)

// countBlock writes the counts of the symbols that occur among blockLen, at most
// 256, in ascending order; it returns how many and the sum of the symbols. What
// it writes beyond those, up to the 256th, is of no meaning.
//
//go:noescape
func countBlock(sym *byte, counts *symbolCount) (n, sum int)

// assignBlock adds the n > 0 counts of a block to those of the table that codes it
// for the least cost, the first if several do.
//
//go:noescape
func assignBlock(costs *packedCosts, counts *symbolCount, n int, tables *[256]uint32)

// mergeRunBF16 merges n blocks that lie anywhere in a chunk: symbols come in the
// order of the list; packed fields and elements lie where the list says.
//
//go:noescape
func mergeRunBF16(dst, packed, sym *byte, blocks *uint16, n int, base uint64)

// mergeRunF32 is mergeRunBF16 for F32, with two planes of bytes.
//
//go:noescape
func mergeRunF32(dst, packed, high, low, sym *byte, blocks *uint16, n int, base uint64)

// mergeRunF16 is mergeRunBF16 for F16, with one plane of bytes.
//
//go:noescape
func mergeRunF16(dst, packed, plane, sym *byte, blocks *uint16, n int)

// mergeRunE4M3 is mergeRunBF16 for F8_E4M3.
//
//go:noescape
func mergeRunE4M3(dst, packed, sym *byte, blocks *uint16, n int)

// mergeFieldsBF16 merges 64*blocks elements: symbols, one per byte, and
// packed fields of seven bits. base repeats in four lanes of 16 bits.
//
//go:noescape
func mergeFieldsBF16(dst, sym, packed *byte, blocks int, base uint64)

// splitFieldsBF16 is the inverse; negBase repeats in four lanes. It returns bits
// above the eighth in any symbol's lane, and writes eight bytes beyond packed.
//
//go:noescape
func splitFieldsBF16(sym, packed, src *byte, blocks int, negBase uint64) (over uint64)

// splitWideBF16 is splitFieldsBF16 in wide registers; over is 0 if there are none.
//
//go:noescape
func splitWideBF16(sym, packed, src *byte, blocks int, negBase uint64) (over uint64)

// splitWideF16 splits F16 elements, with one plane of bytes.
//
//go:noescape
func splitWideF16(sym, packed, plane, src *byte, blocks int)

// splitWideF32 is splitWideBF16 for F32, with two planes of bytes; negBase repeats in
// two lanes.
//
//go:noescape
func splitWideF32(sym, packed, high, low, src *byte, blocks int, negBase uint64) (over uint64)

// splitWideE4M3 splits F8_E4M3 elements; it writes eight bytes beyond packed.
//
//go:noescape
func splitWideE4M3(sym, packed, src *byte, blocks int)

// encodeState is the state of encodeSymbols.
type encodeState struct {
	dst   *byte
	acc   uint64
	nbits uint64
	table *encodeTable
	sym   *byte
	quads uint64
	wide  *wideTable
	// out: bit i is set if the symbol at a place i mod 64 may be absent
	flags uint64
	ahead prefetch // of what is encoded next: in alone
}

// encodeSymbols appends the codes of 4*quads symbols and moves dst.
//
//go:noescape
func encodeSymbols(s *encodeState)

// encodeWide is encodeSymbols for a multiple of 16 quads, with the codes of s.wide.
//
//go:noescape
func encodeWide(s *encodeState)

// chooseWide returns the cheapest of the tables for blockLen symbols: the cost
// times 256, plus the table's index.
//
//go:noescape
func chooseWide(wide *wideTable, tables int, sym *byte) uint64

// fillMulti makes the table of up to three symbols from that of one symbol, which
// holds symbol | length<<8.
//
//go:noescape
func fillMulti(multi, single *[1 << maxCodeLen]uint32)

//go:build arm64 && gc && !noasm

package floatcodec

// The vector instructions of arm64 are always there.
const haveFieldKernels = true

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

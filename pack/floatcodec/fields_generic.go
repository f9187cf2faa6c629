//go:build (!amd64 && !arm64) || !gc || noasm

package floatcodec

// No kernels for fields either.
const haveFieldKernels = false

func mergeFieldsBF16(dst, sym, packed *byte, blocks int, base uint64) {}

func splitFieldsBF16(sym, packed, src *byte, blocks int, negBase uint64) uint64 { return 0 }

//go:build !amd64 || !gc || noasm

package pairsum

const available = false

// blocks is never called where the processor has no instructions for it.
func blocks(_, _ *[8]uint32, _, _ *byte, _ int) { panic("pairsum: not available") }

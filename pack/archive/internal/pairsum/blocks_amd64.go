//go:build amd64 && gc && !noasm

package pairsum

import "golang.org/x/sys/cpu"

var available = cpu.X86.HasSSE41 && cpu.X86.HasSSSE3 && hasSHA()

// hasSHA asks the processor whether it has the instructions for SHA-256.
func hasSHA() bool

// blocks takes n blocks at p into the state a, and n at q into b. The states must
// be different ones; the blocks may be the same.
//
//go:noescape
func blocks(a, b *[8]uint32, p, q *byte, n int)

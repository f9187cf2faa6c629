// Package pairsum computes two SHA-256 over the same bytes at about the cost of
// one.
//
// A tensor's bytes count for two digests: its own, and that of its file. Each
// round of SHA-256 waits for the one before, so that a processor with
// instructions for it is half idle; two digests that take turns fill the gaps.
// The digests may have begun at different places, and need not meet again.
//
// Where the processor has no such instructions, or with the build tag noasm, the
// standard library does the work.
package pairsum

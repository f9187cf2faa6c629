// Package soft is the driver without a GPU: it runs the kernel table on the
// processor. All invocations of a workgroup go through each operation together,
// as far as control flow lets them, and whatever a graphics API leaves undefined
// is an error with the kernel's name and the line: indices outside a buffer or
// shared memory, two invocations that use one word without a barrier between
// them, barriers that not all reach, shared memory that is read before it is
// written, shifts by more than 31 bits, conversions out of range. Results are
// those of IEEE 754 arithmetic.
//
// It is slow: some 2 ns per operation and invocation. It is meant for tests, for
// the debugging of kernels, and as the definition of what they mean.
package soft

// Package nn holds what models are built from: the [Device] that computes, the
// modules (embeddings, linear maps, norms, attention) that an architecture
// composes, and the typed declaration of finite token blocks that passes
// rewrite.
//
// # The numeric contract
//
// The result of an operation for one row is a pure function of the bits of that
// row, the weights, the operation and the regime; the regime depends on the
// number of rows alone. A device publishes its regimes in [Info]. The same call
// twice gives the same bytes, with any number of threads. docs/numerics.md states
// the order of operations of the CPU device, [OpenCPU], whose results are the same
// bits on every machine.
package nn

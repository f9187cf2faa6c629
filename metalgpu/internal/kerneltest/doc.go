// Package kerneltest holds the conformance cases of the kernel table: inputs of
// random shapes and hard values, and what a correct device makes of them. The
// tests of each driver run them, and so does a device's self-test.
//
// Expected results come from the CPU device of architectures/nn where the order
// of operations is that device's, and from plain Go loops elsewhere.
package kerneltest

// Package mslcpu runs the Metal sources of the kernel table on the processor:
// a C++ header stands in for Metal's library, clang compiles all kernels into one
// program, and that program runs the conformance cases. It shows that the sources
// are correct programs of Metal's language as far as that is C++, and that their
// bits are those of the other languages when nothing is contracted. What Metal's
// own compiler makes of them only a Mac can show.
//
// The package has nothing but this test. It needs clang++ (Debian: clang-16).
package mslcpu

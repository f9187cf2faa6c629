// Package metalgpu is the GPU device of architectures/nn: Metal on macOS, Vulkan
// on Linux and Windows, and a driver in plain Go that runs the same kernels on the
// processor, for debugging. No cgo is used, and no graphics library is needed to
// start a program: what is there is found at run time. On Linux, programs are
// linked to the C library for that; the build tag nogpu leaves Vulkan out, and
// with CGO_ENABLED=0 they are static then.
//
// The kernels keep the numeric contract of architectures/nn: sums in a fixed
// order, no fused operations, own elementary functions. [Open] runs a self-test
// and refuses a device that keeps no such promise. docs/gpu.md has the details.
package metalgpu

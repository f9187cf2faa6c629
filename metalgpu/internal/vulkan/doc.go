// Package vulkan is the driver for Vulkan 1.1 and later, called without cgo: the
// loader is opened at run time, so a program needs none to start. It runs compute
// kernels only, from SPIR-V that the kernel package holds.
//
// Memory is taken from the device in blocks and handed out in ranges of them.
// Each list of commands has its own command pool, descriptor pools and fence;
// the queue is behind a lock. Vulkan has no thread affinity, so no goroutine is
// tied to a thread.
//
// # Calls
//
// Functions are called by address with integer arguments (purego.SyscallN).
// Pointers are converted in the argument list of that call, which the pragma
// uintptrescapes of the callee keeps alive and in place; structures hold typed
// pointers, which the collector follows.
package vulkan

package vulkan

import "github.com/hfcompress/compress/metalgpu/internal/kernel"

// Options configure [Open]. The zero value is the default.
type Options struct {
	// Validation loads the Khronos validation layer, with its checks of
	// synchronisation, and gives its warnings and errors to Message. It is an error
	// if the layer is not installed.
	Validation bool
	// Message receives the texts of the validation layer, on the goroutine whose
	// call they are about.
	Message func(text string)
	// Code returns the SPIR-V of a kernel, with the entry point main; nil means that
	// of the kernel table.
	Code func(k *kernel.Kernel) ([]uint32, error)
	// MemoryLimit bounds the bytes of buffers; 0 means what the device has.
	MemoryLimit int64
}

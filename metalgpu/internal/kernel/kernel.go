// Package kernel holds the table of GPU kernels, written once in a small common
// language, and turns it into GLSL and Metal's language.
package kernel

// Kernel is one entry of the table.
type Kernel struct {
	// Name is that of the entry point, too.
	Name string
	// Workgroup is the number of invocations of a group along x, y and z.
	Workgroup [3]int
	// Buffers are bound in this order.
	Buffers []Buffer
	// Push names the 32-bit push constants in their order; a name with the suffix
	// ":float" is a float32, others are uint.
	Push []string
	// Shared is the memory that a workgroup's invocations share.
	Shared []Shared
	// Functions and Body are the source.
	Functions, Body string
}

// Buffer is one storage buffer of a kernel: an array of 32-bit elements.
type Buffer struct {
	Name string
	// Type is "float" or "uint".
	Type string
	// Writes says that the kernel writes it; it may read it as well.
	Writes bool
}

// Shared is an array in workgroup memory.
type Shared struct {
	Name, Type string
	Elements   int
}

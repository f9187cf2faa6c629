package kernel

import "strings"

// Kernel is one entry of the table.
type Kernel struct {
	// Name is that of the entry point in Metal's language, too; in SPIR-V it is main.
	Name string
	// Doc says in a sentence or two what the kernel computes.
	Doc string
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
	// Grid is the number of workgroups for given push constants. See
	// [Kernel.Groups].
	Grid func(p Args) [3]uint32
}

// Groups returns the grid to dispatch for push constants, which are in the
// order of k.Push. A count of 0 in any axis means that there is nothing to do.
func (k *Kernel) Groups(push []uint32) [3]uint32 { return k.Grid(Args{k, push}) }

// Args reads push constants by name.
type Args struct {
	kernel *Kernel
	push   []uint32
}

// Get returns the constant of the given name. It panics for a name that the
// kernel does not have.
func (a Args) Get(name string) uint32 {
	for i, n := range a.kernel.Push {
		if strings.TrimSuffix(n, ":float") == name {
			return a.push[i]
		}
	}
	panic("kernel " + a.kernel.Name + " has no push constant " + name)
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

// Values of the push constant "round": the type to which results are rounded.
const (
	RoundF32 = iota
	RoundBF16
	RoundF16
)

// Bits of the push constant "flags" of the attention kernels: which optional
// operands there are.
const (
	FlagMask = 1 << iota
	FlagBias
	FlagKeyBias
)

// spreadWidth is the extent along x of a grid that is numbered in two axes,
// since devices need not take more than 65,535 groups along one.
const spreadWidth = 32768

// spread returns a grid of at least n workgroups, which a kernel numbers
// wid.y·32768 + wid.x.
func spread(n uint64) [3]uint32 {
	if n <= spreadWidth {
		return [3]uint32{uint32(n), 1, 1}
	}
	return [3]uint32{spreadWidth, uint32((n + spreadWidth - 1) / spreadWidth), 1}
}

// ceil returns ⌈a/b⌉.
func ceil(a, b uint32) uint32 { return uint32((uint64(a) + uint64(b) - 1) / uint64(b)) }

package kernel

import "slices"

// table holds all kernels, by idea.
var table = func() []*Kernel {
	ks := slices.Concat(linearKernels, rowKernels, xorKernels, elementKernels, normKernels, attentionKernels, selectKernels, convolutionKernels, longKernels, probeKernels)
	for _, k := range ks {
		k.Functions = functionsFor(k.Body)
	}
	return ks
}()

var byName = func() map[string]*Kernel {
	m := make(map[string]*Kernel, len(table))
	for _, k := range table {
		m[k.Name] = k
	}
	return m
}()

// Lookup returns the kernel of the given name.
func Lookup(name string) (*Kernel, bool) {
	k, ok := byName[name]
	return k, ok
}

// All returns all kernels in the table's order. They must not be changed.
func All() []*Kernel { return slices.Clone(table) }

// in, out, word and wordOut declare buffers of floats and of 32-bit words.
func in(name string) Buffer      { return Buffer{Name: name, Type: "float"} }
func out(name string) Buffer     { return Buffer{Name: name, Type: "float", Writes: true} }
func word(name string) Buffer    { return Buffer{Name: name, Type: "uint"} }
func wordOut(name string) Buffer { return Buffer{Name: name, Type: "uint", Writes: true} }

// perElement is the grid of kernels with one invocation in a group of 256 for
// each of n elements.
func perElement(p Args) [3]uint32 { return spread(uint64(ceil(p.Get("n"), 256))) }

// perRow is the grid of kernels with a workgroup for each of rows rows.
func perRow(p Args) [3]uint32 { return spread(uint64(p.Get("rows"))) }

package kernel

import "fmt"

// Kernels that move rows. They handle words, so that every bit stays.
var rowKernels = []*Kernel{
	gatherKernel("gather_f32", "table[e]"),
	gatherKernel("gather_bf16", "((table[e >> 1u] >> ((e & 1u) << 4u)) & 0xffffu) << 16u"),
	gatherKernel("gather_f16", "F2U(fromF16((table[e >> 1u] >> ((e & 1u) << 4u)) & 0xffffu))"),
	{
		Name: "columns", Doc: "The same columns of each of a row's groups.",
		Workgroup: [3]int{256, 1, 1},
		Buffers:   []Buffer{word("x"), wordOut("y")},
		Push:      []string{"rows", "width", "groups", "start", "take"},
		Body: `uint i = (wid.y * 32768u + wid.x) * 256u + lid.x;
uint wide = p.groups * p.take;
if (i >= p.rows * wide) {
	return;
}
uint r = i / wide;
uint g = (i - r * wide) / p.take;
uint column = i - r * wide - g * p.take;
y[i] = x[r * p.width + g * (p.width / p.groups) + p.start + column];
`,
		Grid: func(p Args) [3]uint32 {
			return spread((uint64(p.Get("rows"))*uint64(p.Get("groups"))*uint64(p.Get("take")) + 255) / 256)
		},
	},
	{
		Name: "kv_append", Doc: "New positions of keys or values behind those of each sequence.",
		Workgroup: [3]int{256, 1, 1},
		Buffers:   []Buffer{word("x"), wordOut("y")},
		Push:      []string{"batch", "steps", "width", "capacity", "at"},
		Body: `uint i = (wid.y * 32768u + wid.x) * 256u + lid.x;
uint size = p.steps * p.width;
if (i >= p.batch * size) {
	return;
}
uint s = i / size;
y[(s * p.capacity + p.at) * p.width + (i - s * size)] = x[i];
`,
		Grid: func(p Args) [3]uint32 {
			return spread((uint64(p.Get("batch"))*uint64(p.Get("steps"))*uint64(p.Get("width")) + 255) / 256)
		},
	},
	{
		Name: "widen_f16", Doc: "F16 patterns, one a word, to floats in place.",
		Workgroup: [3]int{256, 1, 1},
		Buffers:   []Buffer{wordOut("y")},
		Push:      []string{"n"},
		Body: `uint i = (wid.y * 32768u + wid.x) * 256u + lid.x;
if (i < p.n) {
	y[i] = F2U(fromF16(y[i]));
}
`,
		Grid: perElement,
	},
}

func gatherKernel(name, element string) *Kernel {
	return &Kernel{
		Name: name, Doc: "Rows of a table by index, widened.",
		Workgroup: [3]int{256, 1, 1},
		Buffers:   []Buffer{word("table"), word("ids"), wordOut("y")},
		Push:      []string{"n", "width", "tofs", "first", "count"},
		Body: fmt.Sprintf(`uint i = (wid.y * 32768u + wid.x) * 256u + lid.x;
if (i >= p.n * p.width) {
	return;
}
uint r = i / p.width;
uint id = ids[r] - p.first;
if (id < p.count) {
	uint e = p.tofs + id * p.width + (i - r * p.width);
	y[i] = %s;
}
`, element),
		Grid: perRowElement,
	}
}

// perRowElement is the grid of kernels with an invocation for each of width
// elements of n rows.
func perRowElement(p Args) [3]uint32 {
	return spread((uint64(p.Get("n"))*uint64(p.Get("width")) + 255) / 256)
}

package kernel

// Convolutions along sequences with few taps. A depthwise one has its own kernel;
// one over groups of channels lays the taps of a row side by side, and linear_tiled
// does the rest.
var convolutionKernels = []*Kernel{
	{
		Name: "conv_taps", Doc: "The rows that a row's taps see, side by side.",
		Workgroup: [3]int{256, 1, 1},
		Buffers:   []Buffer{word("x"), wordOut("y")},
		Push:      []string{"rows", "first", "steps", "width", "from", "channels", "taps", "dilation", "left"},
		Body: `uint i = (wid.y * 32768u + wid.x) * 256u + lid.x;
uint wide = p.taps * p.channels;
if (i >= p.rows * wide) {
	return;
}
uint r = i / wide;
uint e = i - r * wide;
r += p.first;
uint j = e / p.channels;
uint c = p.from + e - j * p.channels;
uint b = r / p.steps;
int t = int(r - b * p.steps) + int(j * p.dilation) - int(p.left);
uint v = 0u;
if (t >= 0 && t < int(p.steps)) {
	v = x[(b * p.steps + uint(t)) * p.width + c];
}
y[i] = v;
`,
		Grid: perProduct("rows", "taps", "channels"),
	},
	{
		Name: "conv_depthwise", Doc: "Each channel with its own taps, summed tap by tap from +0.",
		Workgroup: [3]int{256, 1, 1},
		Buffers:   []Buffer{in("x"), in("w"), in("b"), out("y")},
		Push:      []string{"rows", "steps", "width", "taps", "dilation", "left", "bias", "round"},
		Body: `uint i = (wid.y * 32768u + wid.x) * 256u + lid.x;
if (i >= p.rows * p.width) {
	return;
}
uint r = i / p.width;
uint c = i - r * p.width;
uint b0 = r / p.steps * p.steps;
int t = int(r - b0) - int(p.left);
float s = 0.0f;
for (uint j = 0u; j < p.taps; j += 1u) {
	float v = 0.0f;
	if (t >= 0 && t < int(p.steps)) {
		v = x[(b0 + uint(t)) * p.width + c];
	}
	s += v * w[j * p.width + c];
	t += int(p.dilation);
}
s = sumOf(s);
if (p.bias == 1u) {
	s = canonical(s + b[c]);
}
y[i] = rounded(s, p.round);
`,
		Grid: perProduct("rows", "width"),
	},
	elementKernel("mish", "x·tanh(ln(1+e^x)), with the steps of the CPU device.", []Buffer{in("x"), out("y")}, []string{"n", "round"},
		"y[i] = rounded(mish(x[i]), p.round);"),
}

// perProduct is the grid of kernels with one invocation in a group of 256 for each
// element of an array whose extents are constants of the given names.
func perProduct(names ...string) func(p Args) [3]uint32 {
	return func(p Args) [3]uint32 {
		n := uint64(1)
		for _, name := range names {
			n *= uint64(p.Get(name))
		}
		return spread((n + 255) / 256)
	}
}

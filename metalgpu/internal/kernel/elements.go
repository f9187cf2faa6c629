package kernel

// Kernels of single elements.
var elementKernels = []*Kernel{
	elementKernel("map", "An elementwise function.", []Buffer{in("x"), out("y")}, []string{"n", "f", "round"},
		"y[i] = rounded(unary(p.f, x[i], p.round), p.round);"),
	elementKernel("add", "Sums.", []Buffer{in("x"), in("y"), out("z")}, []string{"n", "round"},
		"z[i] = rounded(canonical(x[i] + y[i]), p.round);"),
	elementKernel("mul", "Products.", []Buffer{in("x"), in("y"), out("z")}, []string{"n", "round"},
		"z[i] = rounded(canonical(x[i] * y[i]), p.round);"),
	elementKernel("scale", "Products with a constant.", []Buffer{in("x"), out("y")}, []string{"n", "c:float", "round"},
		"y[i] = rounded(canonical(x[i] * p.c), p.round);"),
	elementKernel("cast", "Values rounded to a type.", []Buffer{word("x"), wordOut("y")}, []string{"n", "round"},
		"y[i] = F2U(rounded(U2F(x[i]), p.round));"),
	{
		Name: "rotary", Doc: "Rotary position embedding of the first elements of each head.",
		Workgroup: [3]int{256, 1, 1},
		Buffers:   []Buffer{in("x"), in("cosines"), in("sines"), out("y")},
		Push:      []string{"rows", "width", "size", "pairs", "style", "stepwise", "round"},
		Body: `uint i = (wid.y * 32768u + wid.x) * 256u + lid.x;
if (i >= p.rows * p.width) {
	return;
}
uint r = i / p.width;
uint column = i - r * p.width;
uint e = column - column / p.size * p.size;
if (e >= 2u * p.pairs) {
	y[i] = rounded(x[i], p.round);
	return;
}
// The pair's number, and whether this is its second element.
uint pair = e >> 1u;
uint apart = 1u;
bool second = (e & 1u) == 1u;
if (p.style == 0u) {
	second = e >= p.pairs;
	apart = p.pairs;
	pair = e;
	if (second) {
		pair = e - p.pairs;
	}
}
float co = cosines[r * p.pairs + pair];
float si = sines[r * p.pairs + pair];
uint type = 0u;
if (p.stepwise == 1u) {
	type = p.round;
}
float v = 0.0f;
if (second) {
	v = rounded(x[i] * co, type) + rounded(x[i - apart] * si, type);
} else {
	v = rounded(x[i] * co, type) - rounded(x[i + apart] * si, type);
}
y[i] = rounded(canonical(v), p.round);
`,
		Grid: func(p Args) [3]uint32 {
			return spread((uint64(p.Get("rows"))*uint64(p.Get("width")) + 255) / 256)
		},
	},
}

// elementKernel computes n elements, element i by one statement.
func elementKernel(name, doc string, buffers []Buffer, push []string, statement string) *Kernel {
	return &Kernel{
		Name: name, Doc: doc, Workgroup: [3]int{256, 1, 1}, Buffers: buffers, Push: push,
		Body: "uint i = (wid.y * 32768u + wid.x) * 256u + lid.x;\nif (i < p.n) {\n\t" + statement + "\n}\n",
		Grid: perElement,
	}
}

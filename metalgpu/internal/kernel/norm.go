package kernel

// Norms have a workgroup for each row. Sums over a row are in the CPU device's
// order: element i to lane i mod 8, each lane from +0 in order, then the eight in
// a tree. All invocations bring 1,024 elements to shared memory, and eight of them
// add up.

// sumRow writes the sum over a row of the expression over x[at + i] to total.
func sumRow(expression string) string {
	return `lane = 0.0f;
for (uint start = 0u; start < p.width; start += 1024u) {
	uint end = min(p.width - start, 1024u);
	for (uint i = lid.x; i < end; i += 256u) {
		float v = x[at + start + i];
		part[i] = ` + expression + `;
	}
	BARRIER();
	if (lid.x < 8u) {
		for (uint i = lid.x; i < end; i += 8u) {
			lane += part[i];
		}
	}
	BARRIER();
}
if (lid.x < 8u) {
	part[lid.x] = lane;
}
BARRIER();
total = sumOf(((part[0u] + part[1u]) + (part[2u] + part[3u])) + ((part[4u] + part[5u]) + (part[6u] + part[7u])));
BARRIER();
`
}

const normRow = `uint row = wid.y * 32768u + wid.x;
if (row >= p.rows) {
	return;
}
uint at = row * p.width;
float lane = 0.0f;
float total = 0.0f;
`

var normShared = []Shared{{"part", "float", 1024}}

var normKernels = []*Kernel{
	{
		Name: "rmsnorm", Doc: "w · (x · 1/√(mean(x²) + eps)) over each row.",
		Workgroup: [3]int{256, 1, 1},
		Buffers:   []Buffer{in("x"), in("w"), out("y")},
		Push:      []string{"rows", "width", "eps:float", "round"},
		Shared:    normShared,
		Body: normRow + sumRow("v * v") + `float r = quotient(1.0f, root(quotient(total, float(p.width)) + p.eps));
for (uint i = lid.x; i < p.width; i += 256u) {
	y[at + i] = rounded(canonical(w[i] * rounded(canonical(x[at + i] * r), p.round)), p.round);
}
`,
		Grid: perRow,
	},
	{
		Name: "layernorm", Doc: "(x − mean)/√(variance + eps) · w + b over each row.",
		Workgroup: [3]int{256, 1, 1},
		Buffers:   []Buffer{in("x"), in("w"), in("b"), out("y")},
		Push:      []string{"rows", "width", "eps:float", "hasw", "hasb", "round"},
		Shared:    normShared,
		Body: normRow + sumRow("v") + "float mean = quotient(total, float(p.width));\n" +
			sumRow("(v - mean) * (v - mean)") + `float deviation = root(quotient(total, float(p.width)) + p.eps);
for (uint i = lid.x; i < p.width; i += 256u) {
	float v = quotient(x[at + i] - mean, deviation);
	if (p.hasw == 1u) {
		v = v * w[i];
	}
	if (p.hasb == 1u) {
		v = v + b[i];
	}
	y[at + i] = rounded(canonical(v), p.round);
}
`,
		Grid: perRow,
	},
	{
		Name: "rownormalize", Doc: "x / max(‖x‖, eps) over each row.",
		Workgroup: [3]int{256, 1, 1},
		Buffers:   []Buffer{in("x"), out("y")},
		Push:      []string{"rows", "width", "eps:float", "round"},
		Shared:    normShared,
		Body: normRow + sumRow("v * v") + `float norm = rounded(root(total), p.round);
if (isNaN(p.eps) || (!isNaN(norm) && norm < p.eps)) {
	norm = p.eps;
}
for (uint i = lid.x; i < p.width; i += 256u) {
	y[at + i] = rounded(quotient(x[at + i], norm), p.round);
}
`,
		Grid: perRow,
	},
}

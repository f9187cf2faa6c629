package kernel

// Convolutions with filters as long as the sequence, and how Hyena's filters are
// made. The steps are those of internal/longconv, which computes in float64: a
// number is two words of a uint buffer, the lower one first, and a complex number
// four. Columns of several sequences make series: column p.first + c of sequence b
// is series b·columns + c.
var longKernels = []*Kernel{
	longKernel("long_direct", "What the rows of a block of 64 give to each other, added up in their order.",
		[]Buffer{in("x"), in("k"), wordOut("sums")}, []string{"series", "columns", "steps", "width", "first", "taps"}, []string{"series", "steps"},
		`uint t = i % p.steps;
uint s = i / p.steps;
uint column = p.first + s % p.columns;
uint row = s / p.columns * p.steps + t;
uint d = t & 63u;
row -= d;
uint h = 0u;
uint l = 0u;
for (uint j = 0u; j <= d; j += 1u) {
	uint ah = 0u;
	uint al = 0u;
	uint bh = 0u;
	uint bl = 0u;
	widen(x[(row + j) * p.width + column], ah, al);
	if (d - j < p.taps) {
		widen(k[(d - j) * p.width + column], bh, bl);
	}
	wideMul(ah, al, bh, bl);
	wideAdd(h, l, ah, al);
}
sums[2u * i] = l;
sums[2u * i + 1u] = h;
`),
	longKernel("long_load", "Blocks as polynomials; of a filter, with those of the next block as imaginary parts.",
		[]Buffer{in("x"), wordOut("y")}, []string{"series", "columns", "steps", "width", "first", "size", "count", "pairs"}, []string{"series", "count", "size"},
		`uint at = i % (p.count * p.size);
uint s = i / (p.count * p.size);
uint column = p.first + s % p.columns;
uint row = s / p.columns * p.steps;
for (uint j = 0u; j <= 1u; j += 1u) {
	uint h = 0u;
	uint l = 0u;
	if (at < p.steps && (j == 0u || p.pairs == 1u)) {
		widen(x[(row + at) * p.width + column], h, l);
	}
	y[4u * i + 2u * j] = l;
	y[4u * i + 2u * j + 1u] = h;
	at += p.size;
}
`),
	longKernel("long_forward", "A step of the transform: from polynomials to those of half the size.",
		[]Buffer{wordOut("y"), word("roots")}, []string{"n", "part", "parts"}, []string{"n"},
		butterfly+`uint th = y[v + 1u];
uint tl = y[v];
uint uh = y[v + 3u];
uint ul = y[v + 2u];
complexMul(th, tl, uh, ul, roots[r + 1u], roots[r], roots[r + 3u], roots[r + 2u]);
for (uint q = 0u; q < 2u; q += 1u) {
	uint ah = y[u + 1u];
	uint al = y[u];
	uint bh = ah;
	uint bl = al;
	wideAdd(ah, al, th, tl);
	wideAdd(bh, bl, th ^ 0x80000000u, tl);
	y[u + 1u] = ah;
	y[u] = al;
	y[v + 1u] = bh;
	y[v] = bl;
	u += 2u;
	v += 2u;
	th = uh;
	tl = ul;
}
`),
	longKernel("long_backward", "The inverse of a step of long_forward, twice as large.",
		[]Buffer{wordOut("y"), word("roots")}, []string{"n", "part", "parts"}, []string{"n"},
		butterfly+`uint th = 0u;
uint tl = 0u;
uint uh = 0u;
uint ul = 0u;
for (uint q = 0u; q < 2u; q += 1u) {
	uint ah = y[u + 1u];
	uint al = y[u];
	th = uh;
	tl = ul;
	uh = ah;
	ul = al;
	wideAdd(ah, al, y[v + 1u], y[v]);
	wideAdd(uh, ul, y[v + 1u] ^ 0x80000000u, y[v]);
	y[u + 1u] = ah;
	y[u] = al;
	u += 2u;
	v += 2u;
}
v -= 4u;
complexMul(th, tl, uh, ul, roots[r + 1u], roots[r], roots[r + 3u] ^ 0x80000000u, roots[r + 2u]);
y[v + 1u] = th;
y[v] = tl;
y[v + 3u] = uh;
y[v + 2u] = ul;
`),
	longKernel("long_multiply", "For each block, the sum of the products of those before it in the larger block with the filter's parts.",
		[]Buffer{word("x"), word("parts"), wordOut("y")}, []string{"series", "columns", "size", "count", "parts"}, []string{"series", "count", "size"},
		`uint e = i % p.size;
uint block = i / p.size % p.count;
uint s = i / p.size / p.count;
uint m = (block + 1u) & 15u;
uint th = 0u;
uint tl = 0u;
uint uh = 0u;
uint ul = 0u;
for (uint j = 0u; j < m; j += 1u) {
	uint a = 4u * ((s * p.count + block + 1u - m + j) * p.size + e);
	uint b = 4u * ((s % p.columns * p.parts + m - j - 1u) * p.size + e);
	uint rh = x[a + 1u];
	uint rl = x[a];
	uint ih = x[a + 3u];
	uint il = x[a + 2u];
	complexMul(rh, rl, ih, il, parts[b + 1u], parts[b], parts[b + 3u], parts[b + 2u]);
	wideAdd(th, tl, rh, rl);
	wideAdd(uh, ul, ih, il);
}
y[4u * i] = tl;
y[4u * i + 1u] = th;
y[4u * i + 2u] = ul;
y[4u * i + 3u] = uh;
`),
	longKernel("long_add", "Adds what blocks receive from those before them.",
		[]Buffer{word("x"), wordOut("sums")}, []string{"series", "steps", "size", "count", "scale"}, []string{"series", "steps"},
		`uint t = i % p.steps;
uint s = i / p.steps;
uint block = t / p.size;
if ((block & 15u) != 0u) {
	uint a = 4u * ((s * p.count + block - 1u) * p.size + t % p.size);
	uint h = x[a + 3u];
	uint l = x[a + 2u];
	wideMul(h, l, p.scale, 0u);
	uint sh = sums[2u * i + 1u];
	uint sl = sums[2u * i];
	wideAdd(sh, sl, h, l);
	sums[2u * i] = sl;
	sums[2u * i + 1u] = sh;
}
`),
	longKernel("long_finish", "Sums plus a multiple of the sequence, rounded once.",
		[]Buffer{word("sums"), in("x"), in("skip"), out("y")}, []string{"series", "columns", "steps", "width", "first"}, []string{"series", "steps"},
		`uint t = i % p.steps;
uint s = i / p.steps;
uint column = p.first + s % p.columns;
uint at = (s / p.columns * p.steps + t) * p.width + column;
uint ah = 0u;
uint al = 0u;
uint bh = 0u;
uint bl = 0u;
widen(skip[column], ah, al);
widen(x[at], bh, bl);
wideMul(ah, al, bh, bl);
bl = sums[2u * i];
bh = sums[2u * i + 1u];
wideAdd(bh, bl, ah, al);
y[at] = narrow(bh, bl);
`),
	longKernel("sine", "Sines of products with a row.",
		[]Buffer{in("x"), in("w"), out("y")}, []string{"rows", "width"}, []string{"rows", "width"},
		"y[i] = sine(w[i % p.width] * x[i]);\n"),
	longKernel("decay", "Products with a window that falls with time.",
		[]Buffer{in("x"), in("t"), in("rate"), out("y")}, []string{"rows", "width", "shift:float"}, []string{"rows", "width"},
		`uint r = i / p.width;
float a = U2F(F2U(rate[i - r * p.width]) & 0x7fffffffu);
float e = exponential(-t[r] * a);
y[i] = canonical(x[i] * (e + p.shift));
`),
}

// butterfly finds the two complex numbers u and v that invocation i changes, and
// the factor r: they are p.part apart within a part of twice as many, and parts
// follow each other through a transform and on to the next one. p.parts is how
// many there are in one.
const butterfly = `uint e = i % p.part;
uint block = i / p.part;
uint u = 4u * (block * 2u * p.part + e);
uint v = u + 4u * p.part;
uint r = 4u * (p.parts + block % p.parts);
`

// longKernel computes one element per invocation, i of as many as the product of
// extents.
func longKernel(name, doc string, buffers []Buffer, push, extents []string, body string) *Kernel {
	condition := "p." + extents[0]
	for _, e := range extents[1:] {
		condition += " * p." + e
	}
	return &Kernel{
		Name: name, Doc: doc, Workgroup: [3]int{256, 1, 1}, Buffers: buffers, Push: push,
		Body: "uint i = (wid.y * 32768u + wid.x) * 256u + lid.x;\nif (i >= " + condition + ") {\n\treturn;\n}\n" + body,
		Grid: perProduct(extents...),
	}
}

package kernel

import (
	"fmt"
	"strings"
)

// The regimes of linear maps. vector and few add up a row's products in 128
// accumulators: product i goes to accumulator i mod 128, each from +0 in order;
// neighbours are added, a[2j] + a[2j+1], and the 64 sums in a tree, s[j] + s[j+32],
// then s[j] + s[j+16] and so on. tiled adds one after the other from +0, as the CPU
// device does. The bias is added after the whole sum.
//
// 64 invocations side by side serve one output and read its weights in pairs, so
// that 32 of them read 256 neighbouring bytes of float32 or 128 of a 16-bit type.
// Grids number rows first: groups that run at the same time share weights, which
// are then read from memory once, and all of x is small.

const (
	linearLanes   = 64
	linearTeams   = 4 // teams of 64 in a workgroup
	vectorOutputs = 2 // of a team
	fewOutputs    = 4
	fewRows       = 4
	linearUnroll  = 4
	tile          = 64 // rows and outputs of a tile
	tileDepth     = 16
	tileStride    = tile + 1 // keeps the transposing writes in different banks
)

var linearKernels = func() []*Kernel {
	var ks []*Kernel
	for _, t := range weightTypes {
		ks = append(ks, lanesKernel("linear_vector_"+t.name, t, 1, vectorOutputs,
			"One row times a matrix, in 128 accumulators and a tree."))
	}
	for _, t := range weightTypes {
		ks = append(ks, lanesKernel("linear_few_"+t.name, t, fewRows, fewOutputs,
			"A few rows times a matrix, each with the bits of linear_vector."))
	}
	for _, t := range weightTypes {
		ks = append(ks, tiledKernel("linear_tiled_"+t.name, t))
	}
	return ks
}()

// weightType says how weights are read. i, w, e and v stand for an expression.
type weightType struct {
	name string
	// one is element e of the buffer.
	one string
	// pairs says that a word holds two elements. Else low and high are words 2j and
	// 2j+1, and always aligned.
	pairs bool
	// low and high are the elements of word v.
	low, high string
}

var weightTypes = []weightType{
	{name: "f32", one: "U2F(w[%[1]s])"},
	{name: "bf16", one: "U2F(((w[(%[1]s) >> 1u] >> (((%[1]s) & 1u) << 4u)) & 0xffffu) << 16u)", pairs: true,
		low: "U2F(%s << 16u)", high: "U2F(%s & 0xffff0000u)"},
	{name: "f16", one: "fromF16((w[(%[1]s) >> 1u] >> (((%[1]s) & 1u) << 4u)) & 0xffffu)", pairs: true,
		low: "fromF16(%s & 0xffffu)", high: "fromF16(%s >> 16u)"},
}

var linearPush = []string{"rows", "k", "n", "wofs", "wstride", "yofs", "ystride", "bias", "round"}

func linearBuffers() []Buffer { return []Buffer{in("x"), word("w"), in("b"), out("y")} }

func (t weightType) element(e string) string { return fmt.Sprintf(t.one, e) }

// finish turns sum v into element y of row r and output o.
func finish(v, r, o string) string {
	return strings.NewReplacer("$sum", v, "$row", r, "$output", o).Replace(`{
	float sum = sumOf($sum);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + ($output)]);
	}
	y[($row) * p.ystride + p.yofs + ($output)] = rounded(sum, p.round);
}
`)
}

// source collects lines of a kernel.
type source struct{ strings.Builder }

func (s *source) line(format string, args ...any) { fmt.Fprintf(s, format+"\n", args...) }

// lanesKernel is linear_vector and linear_few: a team computes rows × outputs
// results.
func lanesKernel(name string, t weightType, rows, outputs int, doc string) *Kernel {
	var s source
	perGroup := linearTeams * outputs
	s.line("uint lane = lid.x & 63u;")
	s.line("uint first = (wid.z * 32768u + wid.y) * %du + (lid.x >> 6u) * %du;", perGroup, outputs)
	s.line("bool live = first < p.n;")
	s.line("uint full = p.k >> 1u;")
	for o := range outputs {
		// An output beyond the last is computed as the last, and not stored.
		s.line("uint w%d = p.wofs + min(first + %du, p.n - 1u) * p.wstride;", o, o)
	}
	for r := range rows {
		s.line("uint x%d = min(wid.x * %du + %du, p.rows - 1u) * p.k;", r, rows, r)
	}
	each := func(f func(r, o int)) {
		for o := range outputs {
			for r := range rows {
				f(r, o)
			}
		}
	}
	each(func(r, o int) { s.line("float e%d_%d = 0.0f;\nfloat f%d_%d = 0.0f;", r, o, r, o) })
	s.line("if (live) {")
	s.line("uint j = lane;")
	if t.pairs {
		s.line("if (((p.wofs | p.wstride) & 1u) == 0u) {")
	}
	unroll := max(1, linearUnroll/rows)
	s.line("while (j + %du < full) {", (unroll-1)*linearLanes)
	for u := range unroll { // all loads first, so that they are under way together
		for o := range outputs {
			if t.pairs {
				s.line("uint v%d_%d = w[(w%d >> 1u) + j + %du];", u, o, o, u*linearLanes)
			} else {
				s.line("uint v%d_%d = w[w%d + 2u * (j + %du)];", u, o, o, u*linearLanes)
				s.line("uint z%d_%d = w[w%d + 2u * (j + %du) + 1u];", u, o, o, u*linearLanes)
			}
		}
	}
	for u := range unroll {
		for r := range rows {
			s.line("float a%d_%d = x[x%d + 2u * (j + %du)];", u, r, r, u*linearLanes)
			s.line("float c%d_%d = x[x%d + 2u * (j + %du) + 1u];", u, r, r, u*linearLanes)
		}
	}
	for u := range unroll {
		for o := range outputs {
			v, z := fmt.Sprintf("v%d_%d", u, o), fmt.Sprintf("z%d_%d", u, o)
			if t.pairs {
				s.line("float g%s = %s;\nfloat h%s = %s;", v, fmt.Sprintf(t.low, v), v, fmt.Sprintf(t.high, v))
			} else {
				s.line("float g%s = U2F(%s);\nfloat h%s = U2F(%s);", v, v, v, z)
			}
		}
		each(func(r, o int) {
			s.line("e%d_%d += a%d_%d * gv%d_%d;\nf%d_%d += c%d_%d * hv%d_%d;", r, o, u, r, u, o, r, o, u, r, u, o)
		})
	}
	s.line("j += %du;", unroll*linearLanes)
	s.line("}")
	if t.pairs {
		s.line("}")
	}
	// What is left, and rows of 16-bit weights that do not begin with a word.
	s.line("while (j < full) {")
	for r := range rows {
		s.line("float a%d = x[x%d + 2u * j];\nfloat c%d = x[x%d + 2u * j + 1u];", r, r, r, r)
	}
	for o := range outputs {
		s.line("float g%d = %s;", o, t.element(fmt.Sprintf("w%d + 2u * j", o)))
		s.line("float h%d = %s;", o, t.element(fmt.Sprintf("w%d + 2u * j + 1u", o)))
	}
	each(func(r, o int) { s.line("e%d_%d += a%d * g%d;\nf%d_%d += c%d * h%d;", r, o, r, o, r, o, r, o) })
	s.line("j += 64u;\n}")
	s.line("if ((p.k & 1u) == 1u && (full & 63u) == lane) {")
	for r := range rows {
		s.line("float a%d = x[x%d + p.k - 1u];", r, r)
	}
	for o := range outputs {
		s.line("float g%d = %s;", o, t.element(fmt.Sprintf("w%d + p.k - 1u", o)))
	}
	each(func(r, o int) { s.line("e%d_%d += a%d * g%d;", r, o, r, o) })
	s.line("}\n}")
	// The trees, as many at a time as there are outputs.
	for r := range rows {
		if r > 0 {
			s.line("BARRIER();")
		}
		for o := range outputs {
			s.line("sums[%du + lid.x] = e%d_%d + f%d_%d;", o*linearLanes*linearTeams, r, o, r, o)
		}
		s.line("BARRIER();")
		s.line("for (uint s = 32u; s > 0u; s = s >> 1u) {\nif (lane < s) {")
		for o := range outputs {
			at := fmt.Sprintf("%du + lid.x", o*linearLanes*linearTeams)
			s.line("sums[%s] += sums[%s + s];", at, at)
		}
		s.line("}\nBARRIER();\n}")
		row := fmt.Sprintf("wid.x * %du + %du", rows, r)
		for o := range outputs {
			s.line("if (lane == %du && live && first + %du < p.n && %s < p.rows) %s", o, o, row,
				strings.TrimSuffix(finish(fmt.Sprintf("sums[%du + (lid.x & 192u)]", o*linearLanes*linearTeams), row, fmt.Sprintf("first + %du", o)), "\n"))
		}
	}
	return &Kernel{
		Name: name, Doc: doc, Workgroup: [3]int{linearLanes * linearTeams, 1, 1},
		Buffers: linearBuffers(), Push: linearPush,
		Shared: []Shared{{"sums", "float", linearLanes * linearTeams * outputs}},
		Body:   s.String(),
		Grid: func(p Args) [3]uint32 {
			g := spread(uint64(ceil(p.Get("n"), uint32(perGroup))))
			return [3]uint32{ceil(p.Get("rows"), uint32(rows)), g[0], g[1]}
		},
	}
}

// tiledKernel computes tiles of 64 rows × 64 outputs. Each of 64 invocations has
// 8 × 8 of them, rows and columns 8 apart so that neighbours read neighbouring
// shared words. Zeros fill up the last block of k: a sum that began as +0 is
// never −0, so adding them changes no bit.
func tiledKernel(name string, t weightType) *Kernel {
	var s source
	s.line("uint row = wid.x * 64u;\nuint col = wid.y * 64u;")
	s.line("uint tx = lid.x & 7u;\nuint ty = lid.x >> 3u;")
	each := func(f func(i, j int)) {
		for i := range 8 {
			for j := range 8 {
				f(i, j)
			}
		}
	}
	each(func(i, j int) { s.line("float s%d%d = 0.0f;", i, j) })
	if t.pairs {
		s.line("bool whole = ((p.wofs | p.wstride) & 1u) == 0u;")
	}
	s.line("for (uint at = 0u; at < p.k; at += 16u) {")
	s.line(`for (uint i = lid.x; i < 1024u; i += 64u) {
uint kk = i & 15u;
uint r = i >> 4u;
float v = 0.0f;
if (row + r < p.rows && at + kk < p.k) {
v = x[(row + r) * p.k + at + kk];
}
xs[kk * 65u + r] = v;
}`)
	if t.pairs {
		s.line(`if (whole) {
for (uint i = lid.x; i < 512u; i += 64u) {
uint kk = (i & 7u) * 2u;
uint o = i >> 3u;
uint v = 0u;
if (col + o < p.n && at + kk < p.k) {
v = w[(p.wofs + (col + o) * p.wstride + at + kk) >> 1u];
}
if (at + kk + 1u == p.k) {
v = v & 0xffffu;
}
ws[kk * 65u + o] = %s;
ws[kk * 65u + 65u + o] = %s;
}
} else {`, fmt.Sprintf(t.low, "v"), fmt.Sprintf(t.high, "v"))
	}
	s.line(`for (uint i = lid.x; i < 1024u; i += 64u) {
uint kk = i & 15u;
uint o = i >> 4u;
float v = 0.0f;
if (col + o < p.n && at + kk < p.k) {
uint e = p.wofs + (col + o) * p.wstride + at + kk;
v = %s;
}
ws[kk * 65u + o] = v;
}`, t.element("e"))
	if t.pairs {
		s.line("}")
	}
	s.line("BARRIER();")
	s.line("for (uint kk = 0u; kk < 1040u; kk += 65u) {")
	for i := range 8 {
		s.line("float a%d = xs[kk + ty + %du];", i, 8*i)
	}
	for j := range 8 {
		s.line("float c%d = ws[kk + tx + %du];", j, 8*j)
	}
	each(func(i, j int) { s.line("s%d%d += a%d * c%d;", i, j, i, j) })
	s.line("}\nBARRIER();\n}")
	// Eight rows at a time go through shared memory, so that neighbours store
	// neighbours.
	for i := range 8 {
		if i > 0 {
			s.line("BARRIER();")
		}
		for j := range 8 {
			s.line("xs[ty * 64u + tx + %du] = s%d%d;", 8*j, i, j)
		}
		s.line("BARRIER();\nfor (uint e = 0u; e < 8u; e += 1u) {\nuint r = row + e + %du;\nuint o = col + lid.x;", 8*i)
		s.line("if (r < p.rows && o < p.n) %s}", finish("xs[e * 64u + lid.x]", "r", "o"))
	}
	return &Kernel{
		Name: name, Doc: "Rows times a matrix, each result summed in the order of k from +0.",
		Workgroup: [3]int{64, 1, 1},
		Buffers:   linearBuffers(), Push: linearPush,
		Shared: []Shared{{"xs", "float", tileDepth * tileStride}, {"ws", "float", tileDepth * tileStride}},
		Body:   s.String(),
		Grid: func(p Args) [3]uint32 {
			return [3]uint32{ceil(p.Get("rows"), tile), ceil(p.Get("n"), tile), 1}
		},
	}
}

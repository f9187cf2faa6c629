package kernel

import (
	"math"

	"github.com/hfcompress/compress/internal/fmath"
)

// A Probe is one question of the self-test: what a device makes of three floats.
type Probe struct {
	Name string
	// statement computes v, a uint, from the floats x, y and z.
	statement string
	// Want is the answer of IEEE 754 arithmetic and, for functions, of the CPU
	// device, for bits a, b and c.
	Want func(a, b, c uint32) uint32
	// Slack is the largest distance from Want, in units in the last place, that a
	// correct device may show.
	Slack uint32
}

// Probes lists the questions in the order in which the kernel probe answers them.
// NaNs are compared as they are: each answer that is not a number is 0x7fc00000.
// A device whose "contraction" answers are those of a fused multiply-add, or whose
// "subnormal" answers are zeros, is not strict.
func Probes() []Probe { return probes }

func float(b uint32) float32 { return math.Float32frombits(b) }

// same returns the bits of x, every NaN as one.
func same(x float32) uint32 {
	if x != x {
		return math.Float32bits(fmath.NaN())
	}
	return math.Float32bits(x)
}

func of1(f func(x float32) float32) func(a, b, c uint32) uint32 {
	return func(a, _, _ uint32) uint32 { return same(f(float(a))) }
}

func of2(f func(x, y float32) float32) func(a, b, c uint32) uint32 {
	return func(a, b, _ uint32) uint32 { return same(f(float(a), float(b))) }
}

// scaled maps a float to one of its sign that is small enough for erf and tanh to
// have something to say: an exponent from −14 to 1.
func scaled(b uint32) uint32 { return b&0x807fffff | ((b>>23&15)+113)<<23 }

var probes = []Probe{
	{Name: "contraction", statement: "v = F2U(canonical(x * y + z));",
		Want: func(a, b, c uint32) uint32 { return same(float32(float(a)*float(b)) + float(c)) }},
	{Name: "contraction by subtraction", statement: "v = F2U(canonical(z - x * y));",
		Want: func(a, b, c uint32) uint32 { return same(float(c) - float32(float(a)*float(b))) }},
	{Name: "addition", statement: "v = F2U(canonical(x + y));", Want: of2(func(x, y float32) float32 { return x + y })},
	{Name: "subtraction", statement: "v = F2U(canonical(x - y));", Want: of2(func(x, y float32) float32 { return x - y })},
	{Name: "multiplication", statement: "v = F2U(canonical(x * y));", Want: of2(func(x, y float32) float32 { return x * y })},
	{Name: "association", statement: "v = F2U(canonical((x + y) - x));", Want: of2(func(x, y float32) float32 { return (x + y) - x })},
	{Name: "negation", statement: "v = F2U(-x);", Want: func(a, _, _ uint32) uint32 { return a ^ 0x80000000 }},
	{Name: "zero plus a value", statement: "v = F2U(canonical(0.0f + x));", Want: of1(func(x float32) float32 { return x + 0 })},
	{Name: "one times a value", statement: "v = F2U(canonical(1.0f * x));", Want: of1(func(x float32) float32 { return 1 * x })},
	// Both operands below 2^−125: results are subnormal where they are not zero.
	{Name: "subnormal addition", statement: "v = F2U(U2F(a[i] & 0x80ffffffu) + U2F(b[i] & 0x80ffffffu));",
		Want: func(a, b, _ uint32) uint32 { return same(float(a&0x80ffffff) + float(b&0x80ffffff)) }},
	{Name: "subnormal product", statement: "v = F2U(U2F((a[i] & 0x807fffffu) | 0x10000000u) * U2F((b[i] & 0x807fffffu) | 0x2c000000u));",
		Want: func(a, b, _ uint32) uint32 {
			return same(float(a&0x807fffff|0x10000000) * float(b&0x807fffff|0x2c000000))
		}},
	{Name: "comparison", statement: `v = 0u;
	if (!isNaN(x) && !isNaN(y)) {
		if (x < y) {
			v = v | 1u;
		}
		if (x > y) {
			v = v | 2u;
		}
		if (x <= y) {
			v = v | 4u;
		}
		if (x >= y) {
			v = v | 8u;
		}
	}`, Want: func(a, b, _ uint32) uint32 {
		x, y := float(a), float(b)
		var v uint32
		for i, is := range []bool{x < y, x > y, x <= y, x >= y} {
			if is {
				v |= 1 << i
			}
		}
		return v
	}},
	{Name: "conversion", statement: "v = F2U(float(a[i] & 0xffffffu)) + uint(float(b[i] >> 8u));",
		Want: func(a, b, _ uint32) uint32 { return math.Float32bits(float32(a&0xffffff)) + b>>8 }},
	{Name: "quotient", statement: "v = F2U(quotient(x, y));", Want: of2(func(x, y float32) float32 { return x / y })},
	{Name: "square root", statement: "v = F2U(root(x));", Want: of1(fmath.Sqrt)},
	{Name: "BF16", statement: "v = F2U(toBF16(x));", Want: func(a, _, _ uint32) uint32 { return math.Float32bits(fmath.RoundBF16(float(a))) }},
	{Name: "F16", statement: "v = F2U(toF16(x));", Want: func(a, _, _ uint32) uint32 { return math.Float32bits(fmath.RoundF16(float(a))) }},
	{Name: "F16 widened", statement: "v = F2U(fromF16(a[i] & 0xffffu));",
		Want: func(a, _, _ uint32) uint32 { return math.Float32bits(fmath.F16(uint16(a))) }},
	{Name: "exponential", statement: "v = F2U(exponential(x));", Want: of1(fmath.Exp)},
	{Name: "exponential near 0", statement: "v = F2U(exponential(U2F(s)));",
		Want: func(a, _, _ uint32) uint32 { return same(fmath.Exp(float(scaled(a)))) }},
	{Name: "SiLU", statement: "v = F2U(silu(x));", Want: of1(fmath.SiLU)},
	{Name: "sigmoid", statement: "v = F2U(sigmoid(U2F(s)));",
		Want: func(a, _, _ uint32) uint32 { return same(fmath.Sigmoid(float(scaled(a)))) }},
	{Name: "hyperbolic tangent", statement: "v = F2U(tangent(U2F(s)));", Slack: 1,
		Want: func(a, _, _ uint32) uint32 { return same(fmath.Tanh(float(scaled(a)))) }},
	{Name: "error function", statement: "v = F2U(errorFunction(U2F(s)));", Slack: 1,
		Want: func(a, _, _ uint32) uint32 { return same(fmath.Erf(float(scaled(a)))) }},
}

// ProbeInputs returns operands that lie in hard places: all pairs of special
// values, operands whose product and sum round twice, and values of all sizes.
func ProbeInputs() (a, b, c []uint32) {
	special := []uint32{0, 0x80000000, 1, 0x80000001, 0x007fffff, 0x00800000, 0x3f7fffff, 0x3f800000, 0xbf800001,
		0x34000000, 0x38800000, 0x477fefff, 0x477ff000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
		0x7fc00000, 0xffc00001, 0x7f800001, 0x42b17218, 0xc2d00000, 0x40490fdb}
	for _, x := range special {
		for _, y := range special {
			a, b, c = append(a, x), append(b, y), append(c, x^y)
		}
	}
	state := uint32(1)
	next := func() uint32 {
		state ^= state << 13
		state ^= state >> 17
		state ^= state << 5
		return state
	}
	for range 1024 {
		// Products near 1 that z nearly takes away: fused and not fused differ.
		x, y := next()&0x7fffff|0x3f800000, next()&0x7fffff|0x3f000000
		a, b, c = append(a, x), append(b, y), append(c, math.Float32bits(-float32(float(x)*float(y))))
	}
	for range 2048 {
		a, b, c = append(a, next()), append(b, next()), append(c, next())
	}
	return a, b, c
}

var probeKernels = func() []*Kernel {
	var s source
	s.line("uint i = (wid.y * 32768u + wid.x) * 64u + lid.x;\nif (i >= p.n) {\n\treturn;\n}")
	s.line("float x = U2F(a[i]);\nfloat y = U2F(b[i]);\nfloat z = U2F(c[i]);\nuint v = 0u;")
	s.line("uint s = (a[i] & 0x807fffffu) | ((((a[i] >> 23u) & 15u) + 113u) << 23u);")
	for j, q := range probes {
		s.line("%s\nresults[%du * p.n + i] = v;", q.statement, j)
	}
	return []*Kernel{{
		Name: "probe", Doc: "The self-test's questions about a device's arithmetic.",
		Workgroup: [3]int{64, 1, 1},
		Buffers:   []Buffer{word("a"), word("b"), word("c"), wordOut("results")},
		Push:      []string{"n"},
		Body:      s.String(),
		Grid:      func(p Args) [3]uint32 { return spread(uint64(ceil(p.Get("n"), 64))) },
	}}
}()

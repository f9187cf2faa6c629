package kernel

import (
	"fmt"
	"math"
	"strings"
)

// transcendental are the elementary functions. exponential has the steps of
// fmath.Exp. tangent and errorFunction compute with pairs of floats, a high part
// and a low part that is at most half a unit of it, to some 40 bits, where the
// CPU device computes in float64: both round once, and rarely differ.
var transcendental = []function{
	{"power2", `FN float power2(int n) {
	return U2F(uint(n + 127) << 23u);
}`},
	{"exponential", `FN float exponential(float x) {
	if (isNaN(x)) {
		return U2F(0x7fc00000u);
	}
	if (x < -104.0f) {
		x = -104.0f;
	}
	if (x > 89.0f) {
		x = 89.0f;
	}
	float t = x * ` + c(1.44269504088896340736) + ` + 12582912.0f;
	int n = int(F2U(t)) - 0x4b400000;
	t = t - 12582912.0f;
	float r = x - t * ` + c(0.693145751953125) + `;
	r = r - t * ` + c(1.42860682031e-6) + `;
	float q = ` + c(0.00019891080463998842) + ` * r + ` + c(0.00139337307157920825) + `;
	q = q * r + ` + c(0.00833331084464786256) + `;
	q = q * r + ` + c(0.0416664641974056923) + `;
	q = q * r + ` + c(0.16666666681704215) + `;
	q = q * r + ` + c(0.500000001353872989) + `;
	float y = (r * r) * q + r;
	y = y + 1.0f;
	int first = n >> 1;
	y = y * power2(first);
	return y * power2(n - first);
}`},

	// Pairs. pairMul multiplies (h, l) by (bh, bl), pairAdd adds (bh, bl) to it.
	{"pairMul", `FN void pairMul(INOUT(float, h), INOUT(float, l), float bh, float bl) {
	float m = h * bh;
	float ah = U2F(F2U(h) & 0xfffff000u);
	float al = h - ah;
	float ch = U2F(F2U(bh) & 0xfffff000u);
	float cl = bh - ch;
	float e = ((ah * ch - m) + ah * cl + al * ch) + al * cl;
	e = e + (h * bl + l * bh);
	h = m + e;
	l = e - (h - m);
}`},
	{"pairAdd", `FN void pairAdd(INOUT(float, h), INOUT(float, l), float bh, float bl) {
	float s = h + bh;
	float t = s - h;
	float e = (h - (s - t)) + (bh - t);
	e = e + (l + bl);
	h = s + e;
	l = e - (h - s);
}`},
	{"pairQuotient", `FN float pairQuotient(float h, float l, float dh, float dl) {
	// (h, l) / (dh, dl), rounded once, for 1 <= dh < 2.
	float r = reciprocal(dh);
	float q = h * r;
	float ph = q;
	float pl = 0.0f;
	pairMul(ph, pl, dh, dl);
	pairAdd(h, l, -ph, -pl);
	return q + h * r;
}`},
	{"tangent", tangent()},
	{"errorFunction", errorFunction()},

	{"sigmoid", `FN float sigmoid(float x) {
	return quotient(1.0f, 1.0f + exponential(-x));
}`},
	{"silu", `FN float silu(float x) {
	return quotient(x, 1.0f + exponential(-x));
}`},
	{"relu", `FN float relu(float x) {
	if (isNaN(x)) {
		return U2F(0x7fc00000u);
	}
	if (x > 0.0f) {
		return x;
	}
	return 0.0f;
}`},
	// The GELUs, with each operation rounded to type where a stepwise form is asked
	// for; the square inside the cube is not rounded in F16.
	{"gelu", `FN float gelu(float x, uint type) {
	float y = rounded(quotient(x, ` + c(math.Sqrt2) + `), type);
	y = rounded(errorFunction(y), type);
	y = rounded(1.0f + y, type);
	return canonical(rounded(x * 0.5f, type) * y);
}`},
	{"geluTanh", `FN float geluTanh(float x, uint type) {
	float y = x * x;
	if (type == 1u) {
		y = toBF16(y);
	}
	y = rounded(y * x, type);
	y = rounded(` + c(0.044715) + ` * y, type);
	y = rounded(x + y, type);
	y = rounded(` + c(0.79788456080286535588) + ` * y, type);
	y = rounded(tangent(y), type);
	y = rounded(1.0f + y, type);
	return canonical(rounded(x * 0.5f, type) * y);
}`},
	{"unary", `FN float unary(uint f, float x, uint type) {
	if (f == 0u) {
		return silu(x);
	}
	if (f == 1u) {
		return gelu(x, 0u);
	}
	if (f == 2u) {
		return geluTanh(x, 0u);
	}
	if (f == 3u) {
		return relu(x);
	}
	if (f == 4u) {
		return tangent(x);
	}
	if (f == 5u) {
		return sigmoid(x);
	}
	if (f == 6u) {
		return gelu(x, type);
	}
	return geluTanh(x, type);
}`},
}

// pair returns the two floats that a float64 constant is split into.
func pair(x float64) string {
	h := float32(x)
	return c(h) + ", " + c(float32(x-float64(h)))
}

// tangent is tanh: (1−e)/(1+e) with e = exp(−2|x|).
func tangent() string {
	var s strings.Builder
	s.WriteString(`FN float tangent(float x) {
	if (isNaN(x)) {
		return U2F(0x7fc00000u);
	}
	uint sign = F2U(x) & 0x80000000u;
	float a = U2F(F2U(x) & 0x7fffffffu);
	if (a >= ` + c(9.02) + `) {
		return U2F(sign | 0x3f800000u);
	}
	if (a < ` + c(0x1p-12) + `) {
		// The next term is 2/15 a^5.
		return U2F(sign | F2U(a - (a * a) * (a * ` + c(1.0/3) + `)));
	}
`)
	// ln 2 in three parts: n ≤ 27 times the first two is exact.
	const part = 1 << 17
	l1 := math.Round(math.Ln2*part) / part
	l2 := math.Round((math.Ln2-l1)*part*part) / (part * part)
	l3 := math.Ln2 - l1 - l2
	fmt.Fprintf(&s, "\tfloat r = -2.0f * a;\n\tfloat n = (r * %s + 12582912.0f) - 12582912.0f;\n", c(math.Log2E))
	fmt.Fprintf(&s, "\tr = r - n * %s;\n\tfloat low = 0.0f;\n\tpairAdd(r, low, -(n * %s), -(n * %s));\n",
		c(float32(l1)), c(float32(l2)), c(float32(l3)))
	// e^r = Σ r^i/i!, |r| ≤ 0.35: from r⁷ on single floats are enough.
	fact := 1.0
	inverse := make([]float64, 11)
	for i := range inverse {
		if i > 0 {
			fact *= float64(i)
		}
		inverse[i] = 1 / fact
	}
	fmt.Fprintf(&s, "\tfloat h = %s;\n", c(float32(inverse[10])))
	for i := 9; i >= 7; i-- {
		fmt.Fprintf(&s, "\th = h * r + %s;\n", c(float32(inverse[i])))
	}
	s.WriteString("\tfloat l = 0.0f;\n")
	for i := 6; i >= 1; i-- {
		fmt.Fprintf(&s, "\tpairMul(h, l, r, low);\n\tpairAdd(h, l, %s);\n", pair(inverse[i]))
	}
	// Now e^r − 1, from which 1 − e follows without cancellation where n is 0.
	s.WriteString(`	pairMul(h, l, r, low);
	int k = int(n);
	float dh = h;
	float dl = l;
	if (k == 0) {
		pairAdd(dh, dl, 2.0f, 0.0f);
	} else {
		pairAdd(h, l, 1.0f, 0.0f);
		float scale = power2(k);
		h = h * scale;
		l = l * scale;
		dh = h;
		dl = l;
		pairAdd(dh, dl, 1.0f, 0.0f);
		pairAdd(h, l, -1.0f, 0.0f);
	}
	return U2F(sign | F2U(pairQuotient(-h, -l, dh, dl)));
}`)
	return s.String()
}

// erf holds the polynomials of fmath.Erf, lowest coefficient first: on [0,1) that
// of erf(a)/a in a², on the unit intervals from 1 on that of erf in the distance
// from the interval's middle.
var erf = [4][12]float64{
	{
		1.12837916709549382, -0.376126389028086136, 0.112837916585487128, -0.0268661690505993239,
		0.00522396719354389972, -0.000854793373651963316, 0.000120462612697797974,
		-0.0000147950314006620446, 1.53063731636410843e-6, -1.04691103321512084e-7,
	},
	{
		0.966105146467246726, 0.11893028922144902, -0.178395431511464349, 0.138752004722132573,
		-0.0445989672848262823, -0.0148663154444742696, 0.0193280425324070563, -0.00474255366838456978,
		-0.00237730388497787451, 0.0017059718143930358, -0.0000394021900273716671, -0.000240815088696549185,
	},
	{
		0.999593047984210152, 0.00217828422985001538, -0.00544571105259049937, 0.00835008969453601205,
		-0.0086223528232423489, 0.00611734143585878043, -0.00279887028712339526, 0.000542526371432569152,
		0.000263606997751912911, -0.000251192047640147356, 0.0000683278472283449269, 8.43235507567130919e-6,
	},
	{
		0.99999925690156686, 5.39942681369230094e-6, -0.0000188979762210392136, 0.0000422954992999442783,
		-0.0000677186250188151709, 0.000082116770117282929, -0.0000777304385157832163, 0.0000581844270993552904,
		-0.0000343643947085120689, 0.0000153949316994183722, -4.27685971942730435e-6, 2.16965794968724691e-7,
	},
}

// errorFunction is erf, with coefficients from the ninth power on as single
// floats: what they contribute is below 2^−17 of the result.
func errorFunction() string {
	const pairs = 9
	var s strings.Builder
	s.WriteString(`FN float errorFunction(float x) {
	if (isNaN(x)) {
		return U2F(0x7fc00000u);
	}
	uint sign = F2U(x) & 0x80000000u;
	float a = U2F(F2U(x) & 0x7fffffffu);
	if (a >= ` + c(3.9192058) + `) {
		return U2F(sign | 0x3f800000u);
	}
	if (a < ` + c(0x1p-30) + `) {
		// a times two over the root of pi, away from where a low part would be lost below 2^-126.
		float ph = ` + c(float32(erf[0][0])) + `;
		float pl = ` + c(float32(erf[0][0]-float64(float32(erf[0][0])))) + `;
		pairMul(ph, pl, a * ` + c(0x1p64) + `, 0.0f);
		return U2F(sign | F2U(ph * ` + c(0x1p-64) + `));
	}
	float t = a;
	float u = 0.0f;
`)
	declare := func(i int) {
		h := float32(erf[0][i])
		fmt.Fprintf(&s, "\tfloat k%d = %s;\n", i, c(h))
		if i < pairs {
			fmt.Fprintf(&s, "\tfloat m%d = %s;\n", i, c(float32(erf[0][i]-float64(h))))
		}
	}
	for i := range erf[0] {
		declare(i)
	}
	s.WriteString("\tif (a < 1.0f) {\n\t\tpairMul(t, u, a, 0.0f);\n\t}")
	for region := 1; region < 4; region++ {
		if region < 3 {
			fmt.Fprintf(&s, " else if (a < %d.0f) {\n", region+1)
		} else {
			s.WriteString(" else {\n")
		}
		fmt.Fprintf(&s, "\t\tt = a - %d.5f;\n", region)
		for i, v := range erf[region] {
			h := float32(v)
			fmt.Fprintf(&s, "\t\tk%d = %s;\n", i, c(h))
			if i < pairs {
				fmt.Fprintf(&s, "\t\tm%d = %s;\n", i, c(float32(v-float64(h))))
			}
		}
		s.WriteString("\t}")
	}
	s.WriteString("\n\tfloat h = k11;\n\tfloat l = 0.0f;\n")
	for i := 10; i >= pairs; i-- {
		fmt.Fprintf(&s, "\th = h * t + k%d;\n", i)
	}
	for i := pairs - 1; i >= 0; i-- {
		fmt.Fprintf(&s, "\tpairMul(h, l, t, u);\n\tpairAdd(h, l, k%d, m%d);\n", i, i)
	}
	s.WriteString(`	if (a < 1.0f) {
		pairMul(h, l, a, 0.0f);
	}
	return U2F(sign | F2U(h));
}`)
	return s.String()
}

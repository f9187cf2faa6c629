package fmath

import "math"

// Constants of Exp: the exponent is split as x = n·ln2 + r with |r| ≤ ½·ln2, and
// e^r = 1 + r + r²·Q(r). Q is the Chebyshev fit of degree 5 on that interval.
const (
	expLog2e = float32(1.44269504088896340736)
	expLn2Hi = float32(0.693145751953125) // 15 bits: n·expLn2Hi is exact
	expLn2Lo = float32(1.42860682031e-6)
	expQ0    = float32(0.500000001353872989)
	expQ1    = float32(0.16666666681704215)
	expQ2    = float32(0.0416664641974056923)
	expQ3    = float32(0.00833331084464786256)
	expQ4    = float32(0.00139337307157920825)
	expQ5    = float32(0.00019891080463998842)

	// expMagic is 1.5·2²³: adding it rounds to an integer in the low bits.
	expMagic     = float32(12582912)
	expMagicBits = 0x4b400000

	// Beyond these the result is 0 or +Inf whatever the fraction.
	expMin = float32(-104)
	expMax = float32(89)
)

// Exp returns e^x. Its error is below 1 ulp, subnormal results included.
func Exp(x float32) float32 {
	if x != x {
		return NaN()
	}
	if x < expMin {
		x = expMin
	}
	if x > expMax {
		x = expMax
	}
	t := float32(x*expLog2e) + expMagic
	n := int32(math.Float32bits(t)) - expMagicBits
	t -= expMagic
	r := x - float32(t*expLn2Hi)
	r -= float32(t * expLn2Lo)

	q := float32(expQ5*r) + expQ4
	q = float32(q*r) + expQ3
	q = float32(q*r) + expQ2
	q = float32(q*r) + expQ1
	q = float32(q*r) + expQ0
	p := float32(float32(r*r)*q) + r
	p += 1

	// Two steps, since 2^n itself may be no float32. The first is exact.
	half := n >> 1
	p = float32(p * pow2(half))
	return float32(p * pow2(n-half))
}

// pow2 returns 2^n for −126 ≤ n ≤ 127.
func pow2(n int32) float32 { return math.Float32frombits(uint32(n+127) << 23) }

// Sigmoid returns 1/(1+e^−x), each operation rounded to float32: the function
// that models are trained with. Its error is below 3 ulp where the result is
// normal.
func Sigmoid(x float32) float32 {
	r := 1 / (1 + Exp(-x))
	if r != r {
		return NaN()
	}
	return r
}

// SiLU returns x/(1+e^−x), each operation rounded to float32.
func SiLU(x float32) float32 {
	r := x / (1 + Exp(-x))
	if r != r {
		return NaN()
	}
	return r
}

// exp64 returns e^x for |x| ≤ 700 with a relative error below 2^−50.
func exp64(x float64) float64 {
	const (
		log2e = 0x1.71547652b82fep+0
		ln2Hi = 0x1.62e42fefa2000p-1
		ln2Lo = 0x1.9ef35793c7673p-41
		magic = 0x1.8p52
	)
	t := float64(x*log2e) + magic
	n := int64(math.Float64bits(t)) - int64(math.Float64bits(magic))
	t -= magic
	r := x - float64(t*ln2Hi)
	r -= float64(t * ln2Lo)

	q := float64(2.09147553258932022e-9*r) + 2.51053127296221018e-8
	q = float64(q*r) + 2.75572734787185805e-7
	q = float64(q*r) + 2.75572551700008874e-6
	q = float64(q*r) + 0.0000248015873256774619
	q = float64(q*r) + 0.000198412698750022788
	q = float64(q*r) + 0.00138888888888837112
	q = float64(q*r) + 0.00833333333332608312
	q = float64(q*r) + 0.0416666666666666698
	q = float64(q*r) + 0.16666666666666671
	q = float64(q*r) + 0.5
	p := float64(float64(r*r)*q) + r
	p += 1
	return p * math.Float64frombits(uint64(n+1023)<<52)
}

package fmath

import "math"

// Erf returns the error function of x. It is computed in float64 and rounded
// once: its error is below 0.51 ulp.
func Erf(x float32) float32 {
	if x != x {
		return NaN()
	}
	a := math.Abs(float64(x))
	var y float64
	switch {
	case a < 1:
		// erf(a)/a as a polynomial in a².
		z := float64(a * a)
		p := poly(z, erf0[:])
		y = float64(a * p)
	case a < 2:
		y = poly(a-1.5, erf1[:])
	case a < 3:
		y = poly(a-2.5, erf2[:])
	case a < erfOne:
		y = poly(a-3.5, erf3[:])
	default:
		y = 1
	}
	return float32(math.Copysign(y, float64(x)))
}

// erfOne is where erf comes closer to 1 than half a unit in the last place.
const erfOne = 3.9192058

// Chebyshev fits of erf on unit intervals, lowest coefficient first; the first
// is erf(a)/a in a², the others are in the distance from the interval's middle.
var (
	erf0 = [...]float64{
		1.12837916709549382, -0.376126389028086136, 0.112837916585487128, -0.0268661690505993239,
		0.00522396719354389972, -0.000854793373651963316, 0.000120462612697797974,
		-0.0000147950314006620446, 1.53063731636410843e-6, -1.04691103321512084e-7,
	}
	erf1 = [...]float64{
		0.966105146467246726, 0.11893028922144902, -0.178395431511464349, 0.138752004722132573,
		-0.0445989672848262823, -0.0148663154444742696, 0.0193280425324070563, -0.00474255366838456978,
		-0.00237730388497787451, 0.0017059718143930358, -0.0000394021900273716671, -0.000240815088696549185,
	}
	erf2 = [...]float64{
		0.999593047984210152, 0.00217828422985001538, -0.00544571105259049937, 0.00835008969453601205,
		-0.0086223528232423489, 0.00611734143585878043, -0.00279887028712339526, 0.000542526371432569152,
		0.000263606997751912911, -0.000251192047640147356, 0.0000683278472283449269, 8.43235507567130919e-6,
	}
	erf3 = [...]float64{
		0.99999925690156686, 5.39942681369230094e-6, -0.0000188979762210392136, 0.0000422954992999442783,
		-0.0000677186250188151709, 0.000082116770117282929, -0.0000777304385157832163, 0.0000581844270993552904,
		-0.0000343643947085120689, 0.0000153949316994183722, -4.27685971942730435e-6, 2.16965794968724691e-7,
	}
)

// poly evaluates a polynomial by Horner's rule.
func poly(x float64, c []float64) float64 {
	y := c[len(c)-1]
	for i := len(c) - 2; i >= 0; i-- {
		y = float64(y*x) + c[i]
	}
	return y
}

// GELU returns x·½·(1+erf(x/√2)), in that order, each operation rounded to
// float32.
func GELU(x float32) float32 {
	r := float32(x*0.5) * float32(1+Erf(x/math.Sqrt2))
	if r != r {
		return NaN()
	}
	return r
}

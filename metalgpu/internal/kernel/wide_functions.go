package kernel

import (
	"fmt"
	"math"
	"strings"
)

// horner declares ph and pl, the polynomial with the given coefficients, that of
// the highest power first, in the number named by two variables. The steps are in
// a loop, so that the kernel holds one of them.
func horner(variable string, coefficients ...float64) string {
	var s strings.Builder
	word := func(x float64) (uint32, uint32) { b := math.Float64bits(x); return uint32(b >> 32), uint32(b) }
	h, l := word(coefficients[0])
	fmt.Fprintf(&s, "\tph = 0x%08xu;\n\tpl = 0x%08xu;\n\tfor (uint i = 1u; i < %du; i += 1u) {\n", h, l, len(coefficients))
	h, l = word(coefficients[1])
	fmt.Fprintf(&s, "\t\tuint ch = 0x%08xu;\n\t\tuint cl = 0x%08xu;\n", h, l)
	for i, v := range coefficients[2:] {
		h, l := word(v)
		fmt.Fprintf(&s, "\t\tif (i == %du) {\n\t\t\tch = 0x%08xu;\n\t\t\tcl = 0x%08xu;\n\t\t}\n", i+2, h, l)
	}
	fmt.Fprintf(&s, "\t\twideMul(ph, pl, %sh, %sl);\n\t\twideAdd(ph, pl, ch, cl);\n\t}\n", variable, variable)
	return s.String()
}

// mish has the steps of fmath.Mish.
func mish() string {
	const log2e, ln2Hi, ln2Lo, magic = 0x1.71547652b82fep+0, 0x1.62e42fefa2000p-1, 0x1.9ef35793c7673p-41, 0x1.8p52
	return `FN float mish(float x) {
	if (isNaN(x) || F2U(x) == 0xff800000u) {
		return U2F(0x7fc00000u);
	}
	if (x > 20.0f) {
		return x;
	}
	if (x < -120.0f) {
		return U2F(0x80000000u);
	}
	uint xh = 0u;
	uint xl = 0u;
	widen(x, xh, xl);
	uint th = xh;
	uint tl = xl;
	wideMul(th, tl, ` + w(log2e) + `);
	wideAdd(th, tl, ` + w(magic) + `);
	// x is n ln 2 + r.
	int n = int(tl);
	wideAdd(th, tl, ` + w(-magic) + `);
	uint rh = xh;
	uint rl = xl;
	uint ph = th;
	uint pl = tl;
	wideMul(ph, pl, ` + w(-ln2Hi) + `);
	wideAdd(rh, rl, ph, pl);
	wideMul(th, tl, ` + w(-ln2Lo) + `);
	wideAdd(rh, rl, th, tl);
` + horner("r", 2.09147553258932022e-9, 2.51053127296221018e-8, 2.75572734787185805e-7, 2.75572551700008874e-6,
		0.0000248015873256774619, 0.000198412698750022788, 0.00138888888888837112, 0.00833333333332608312,
		0.0416666666666666698, 0.16666666666666671, 0.5) + `	uint eh = rh;
	uint el = rl;
	wideMul(eh, el, rh, rl);
	wideMul(eh, el, ph, pl);
	wideAdd(eh, el, rh, rl);
	wideAdd(eh, el, ` + w(1) + `);
	wideMul(eh, el, uint(n + 1023) << 20u, 0u);
	// e(e + 2), and x times it over two more.
	uint nh = eh;
	uint nl = el;
	wideAdd(nh, nl, ` + w(2) + `);
	wideMul(nh, nl, eh, el);
	wideMul(xh, xl, nh, nl);
	wideAdd(nh, nl, ` + w(2) + `);
	wideQuotient(xh, xl, nh, nl);
	return narrow(xh, xl);
}`
}

// sine has the steps of fmath.Sin.
func sine() string {
	const (
		twoOverPi = 0x1.45f306dc9c883p-1
		magic     = 0x1.8p52
		hi        = 0x1.921fb54400000p+0
		mid       = 0x1.0b4611a600000p-34
		low       = 0x1.3198a2e037073p-69
	)
	// The first 256 bits of 2/π, and between two words one shift.
	bits := []uint32{0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561}
	var table strings.Builder
	for i, v := range bits {
		fmt.Fprintf(&table, "\t\t\tif (j == %du) {\n\t\t\t\tnext = 0x%08xu;\n\t\t\t}\n", i, v)
	}
	return `FN float sine(float x) {
	uint a = F2U(x) & 0x7fffffffu;
	if (a >= 0x7f800000u) {
		return U2F(0x7fc00000u);
	}
	if (a == 0u) {
		return x;
	}
	// |x| is r more than the nearest multiple of half of pi, of which the last two
	// bits are quadrant.
	uint quadrant = 0u;
	uint rh = 0u;
	uint rl = 0u;
	if (a < 0x49800000u) {
		widen(U2F(a), rh, rl);
		uint th = rh;
		uint tl = rl;
		wideMul(th, tl, ` + w(twoOverPi) + `);
		wideAdd(th, tl, ` + w(magic) + `);
		quadrant = tl & 3u;
		wideAdd(th, tl, ` + w(-magic) + `);
		for (uint i = 0u; i < 3u; i += 1u) {
			uint qh = th;
			uint ql = tl;
			uint ch = ` + strings.ReplaceAll(w(-hi), ", ", ";\n\t\t\tuint cl = ") + `;
			if (i == 1u) {
				ch = ` + strings.ReplaceAll(w(-mid), ", ", ";\n\t\t\t\tcl = ") + `;
			}
			if (i == 2u) {
				ch = ` + strings.ReplaceAll(w(-low), ", ", ";\n\t\t\t\tcl = ") + `;
			}
			wideMul(qh, ql, ch, cl);
			wideAdd(rh, rl, qh, ql);
		}
	} else {
		// x is m 2^e: m times the bits of 2/pi from the one that makes four turns on,
		// 128 of them, from the last word to the first.
		uint m = (a & 0x7fffffu) | 0x800000u;
		uint last = (a >> 23u) - 25u;
		uint w3 = 0u;
		uint w2 = 0u;
		uint w1 = 0u;
		uint carry = 0u;
		for (uint i = 0u; i < 4u; i += 1u) {
			uint at = last >> 5u;
			uint shift = last & 31u;
			uint v = 0u;
			uint previous = 0u;
			for (uint j = 0u; j < 8u; j += 1u) {
				uint next = 0u;
` + table.String() + `				if (j == at) {
					v = next >> (31u - shift);
					if (shift < 31u) {
						v = v | (previous << (shift + 1u));
					}
				}
				previous = next;
			}
			uint h = 0u;
			uint l = 0u;
			mulWords(m, v, h, l);
			l += carry;
			if (l < carry) {
				h += 1u;
			}
			carry = h;
			w1 = w2;
			w2 = w3;
			w3 = l;
			last -= 32u;
		}
		quadrant = w3 >> 30u;
		uint fh = (w3 << 2u) | (w2 >> 30u);
		uint fl = (w2 << 2u) | (w1 >> 30u);
		uint sign = fh & 0x80000000u;
		if (sign != 0u) {
			quadrant = (quadrant + 1u) & 3u;
			fh = ~fh;
			fl = ~fl + 1u;
			if (fl == 0u) {
				fh += 1u;
			}
		}
		int e = 1086;
		if (fh == 0u) {
			fh = fl;
			fl = 0u;
			e -= 32;
		}
		uint s = 31u - topBit(fh);
		if (s > 0u) {
			fh = (fh << s) | (fl >> (32u - s));
			fl = fl << s;
		}
		wideRound(sign, e - int(s), fh, fl, rh, rl);
		wideMul(rh, rl, ` + w(0x1p-64*(math.Pi/2)) + `);
	}
	uint zh = rh;
	uint zl = rl;
	wideMul(zh, zl, rh, rl);
	uint ph = 0u;
	uint pl = 0u;
	uint sh = rh;
	uint sl = rl;
	if ((quadrant & 1u) == 0u) {
` + horner("z", -2.48051454067474318e-8, 2.75559856252008621e-6, -0.000198412668994373986, 0.00833333333106116007, -0.16666666666663858) + `	} else {
` + horner("z", 2.07002494675627724e-9, -2.75563659022590211e-7, 0.0000248015851984412168, -0.0013888888887264426, 0.0416666666666646587) + `		rh = zh;
		rl = zl;
		sh = zh;
		sl = zl;
		wideMul(sh, sl, ` + w(-0.5) + `);
		wideAdd(sh, sl, ` + w(1) + `);
	}
	wideMul(ph, pl, zh, zl);
	wideMul(ph, pl, rh, rl);
	wideAdd(sh, sl, ph, pl);
	if ((quadrant & 2u) != 0u) {
		sh = sh ^ 0x80000000u;
	}
	return narrow(sh ^ (F2U(x) & 0x80000000u), sl);
}`
}

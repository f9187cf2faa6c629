package kernel

import (
	"fmt"
	"math"
	"strings"
)

// wide are operations on float64 numbers, in whole numbers of 32 bits, since not
// all graphics APIs have the type: h and l are the upper and the lower word of a
// number's bits. Sums, products and quotients are rounded to the nearest number,
// to the even one of two, as the CPU device's are. Two things are simpler than
// IEEE 754 has them, and of no consequence here: a result below 2^−1022 is a
// zero, which no computation of float32 operands comes near, and every NaN that
// is made is 0x7ff80000 00000000.
var wide = []function{
	{"mulWords", `FN void mulWords(uint a, uint b, INOUT(uint, h), INOUT(uint, l)) {
	uint a0 = a & 0xffffu;
	uint a1 = a >> 16u;
	uint b0 = b & 0xffffu;
	uint b1 = b >> 16u;
	uint low = a0 * b0;
	uint m = a1 * b0 + (low >> 16u);
	uint n = a0 * b1 + (m & 0xffffu);
	h = a1 * b1 + (m >> 16u) + (n >> 16u);
	l = (n << 16u) | (low & 0xffffu);
}`},
	// Left out is the bit below the first, so that the conversion cannot round up to
	// the next power of two.
	{"topBit", `FN uint topBit(uint x) {
	return (F2U(float(x & ~(x >> 1u))) >> 23u) - 127u;
}`},
	{"wideIsNaN", `FN bool wideIsNaN(uint h, uint l) {
	uint a = h & 0x7fffffffu;
	return a > 0x7ff00000u || (a == 0x7ff00000u && l != 0u);
}`},
	// The number ±m·2^(e−1086) for the 64 bits m of mh and ml, of which the first is
	// set and the last stands for all that were lost below.
	{"wideRound", `FN void wideRound(uint sign, int e, uint mh, uint ml, INOUT(uint, h), INOUT(uint, l)) {
	if (e < 1) {
		h = sign;
		l = 0u;
		return;
	}
	uint rest = ml & 0x7ffu;
	uint low = (mh << 21u) | (ml >> 11u);
	uint high = (uint(e - 1) << 20u) + (mh >> 11u);
	if (rest > 0x400u || (rest == 0x400u && (low & 1u) == 1u)) {
		low += 1u;
		if (low == 0u) {
			high += 1u;
		}
	}
	if (high >= 0x7ff00000u) {
		high = 0x7ff00000u;
		low = 0u;
	}
	h = high | sign;
	l = low;
}`},
	{"wideAdd", `FN void wideAdd(INOUT(uint, h), INOUT(uint, l), uint yh, uint yl) {
	uint ah = h;
	uint al = l;
	uint bh = yh;
	uint bl = yl;
	if ((ah & 0x7fffffffu) < (bh & 0x7fffffffu) || ((ah & 0x7fffffffu) == (bh & 0x7fffffffu) && al < bl)) {
		ah = yh;
		al = yl;
		bh = h;
		bl = l;
	}
	// a is the larger one now, a NaN if there is one.
	uint ea = (ah >> 20u) & 0x7ffu;
	uint eb = (bh >> 20u) & 0x7ffu;
	if (ea == 0x7ffu) {
		if (wideIsNaN(ah, al) || (eb == 0x7ffu && ah != bh)) {
			ah = 0x7ff80000u;
			al = 0u;
		}
		h = ah;
		l = al;
		return;
	}
	if (eb == 0u) {
		if (ea == 0u) {
			ah = ah & bh;
		}
		h = ah;
		l = al;
		return;
	}
	// 53 bits, and ten more below.
	uint mh = (((ah & 0xfffffu) | 0x100000u) << 10u) | (al >> 22u);
	uint ml = al << 10u;
	uint nh = (((bh & 0xfffffu) | 0x100000u) << 10u) | (bl >> 22u);
	uint nl = bl << 10u;
	uint d = ea - eb;
	if (d > 63u) {
		nh = 0u;
		nl = 1u;
		d = 0u;
	}
	uint lost = 0u;
	if (d > 31u) {
		lost = nl;
		nl = nh;
		nh = 0u;
		d -= 32u;
	}
	if (d > 0u) {
		lost = lost | (nl << (32u - d));
		nl = (nl >> d) | (nh << (32u - d));
		nh = nh >> d;
	}
	if (lost != 0u) {
		nl = nl | 1u;
	}
	if (((ah ^ bh) & 0x80000000u) == 0u) {
		ml += nl;
		mh += nh;
		if (ml < nl) {
			mh += 1u;
		}
	} else {
		mh -= nh;
		if (ml < nl) {
			mh -= 1u;
		}
		ml -= nl;
	}
	int e = int(ea) + 1;
	if (mh == 0u) {
		if (ml == 0u) {
			h = 0u;
			l = 0u;
			return;
		}
		mh = ml;
		ml = 0u;
		e -= 32;
	}
	uint s = 31u - topBit(mh);
	if (s > 0u) {
		mh = (mh << s) | (ml >> (32u - s));
		ml = ml << s;
	}
	wideRound(ah & 0x80000000u, e - int(s), mh, ml, h, l);
}`},
	{"wideMul", `FN void wideMul(INOUT(uint, h), INOUT(uint, l), uint bh, uint bl) {
	uint sign = (h ^ bh) & 0x80000000u;
	uint ea = (h >> 20u) & 0x7ffu;
	uint eb = (bh >> 20u) & 0x7ffu;
	if (ea == 0x7ffu || eb == 0x7ffu) {
		if (wideIsNaN(h, l) || wideIsNaN(bh, bl) || ea == 0u || eb == 0u) {
			h = 0x7ff80000u;
		} else {
			h = sign | 0x7ff00000u;
		}
		l = 0u;
		return;
	}
	if (ea == 0u || eb == 0u) {
		h = sign;
		l = 0u;
		return;
	}
	// The first bits of the four products' sum, in words 3 to 0.
	uint xh = (((h & 0xfffffu) | 0x100000u) << 11u) | (l >> 21u);
	uint xl = l << 11u;
	uint yh = (((bh & 0xfffffu) | 0x100000u) << 11u) | (bl >> 21u);
	uint yl = bl << 11u;
	uint w3 = 0u;
	uint w2 = 0u;
	uint w1 = 0u;
	uint w0 = 0u;
	mulWords(xh, yh, w3, w2);
	mulWords(xl, yl, w1, w0);
	uint ph = 0u;
	uint pl = 0u;
	mulWords(xh, yl, ph, pl);
	uint qh = 0u;
	uint ql = 0u;
	mulWords(xl, yh, qh, ql);
	uint carry = 0u;
	w1 += pl;
	if (w1 < pl) {
		carry += 1u;
	}
	w1 += ql;
	if (w1 < ql) {
		carry += 1u;
	}
	// Two high words and a carry have no more than 33 bits.
	w2 += carry;
	if (w2 < carry) {
		w3 += 1u;
	}
	w2 += ph;
	if (w2 < ph) {
		w3 += 1u;
	}
	w2 += qh;
	if (w2 < qh) {
		w3 += 1u;
	}
	int e = int(ea + eb) - 1022;
	if (w3 < 0x80000000u) {
		w3 = (w3 << 1u) | (w2 >> 31u);
		w2 = (w2 << 1u) | (w1 >> 31u);
		w1 = w1 << 1u;
		e -= 1;
	}
	if ((w1 | w0) != 0u) {
		w2 = w2 | 1u;
	}
	wideRound(sign, e, w3, w2, h, l);
}`},
	// Of finite numbers, of which the second is positive.
	{"wideQuotient", `FN void wideQuotient(INOUT(uint, h), INOUT(uint, l), uint bh, uint bl) {
	uint sign = h & 0x80000000u;
	uint ea = (h >> 20u) & 0x7ffu;
	if (ea == 0u) {
		return;
	}
	int e = int(ea) - int(bh >> 20u) + 1023;
	uint rh = (h & 0xfffffu) | 0x100000u;
	uint rl = l;
	uint dh = (bh & 0xfffffu) | 0x100000u;
	if (rh < dh || (rh == dh && rl < bl)) {
		rh = (rh << 1u) | (rl >> 31u);
		rl = rl << 1u;
		e -= 1;
	}
	uint qh = 0u;
	uint ql = 0u;
	for (uint i = 0u; i < 56u; i += 1u) {
		qh = (qh << 1u) | (ql >> 31u);
		ql = ql << 1u;
		if (rh > dh || (rh == dh && rl >= bl)) {
			rh -= dh;
			if (rl < bl) {
				rh -= 1u;
			}
			rl -= bl;
			ql = ql | 1u;
		}
		rh = (rh << 1u) | (rl >> 31u);
		rl = rl << 1u;
	}
	qh = (qh << 8u) | (ql >> 24u);
	ql = ql << 8u;
	if ((rh | rl) != 0u) {
		ql = ql | 1u;
	}
	wideRound(sign, e, qh, ql, h, l);
}`},
	{"widen", `FN void widen(float x, INOUT(uint, h), INOUT(uint, l)) {
	uint sign = F2U(x) & 0x80000000u;
	uint m = F2U(x) & 0x7fffffffu;
	uint e = (m >> 23u) + 896u;
	if (m == 0u) {
		e = 0u;
	} else if (m < 0x800000u) {
		uint s = shiftOf(m);
		m = m << s;
		e = 897u - s;
	} else if (m >= 0x7f800000u) {
		e = 0x7ffu;
	}
	h = sign | (e << 20u) | ((m & 0x7fffffu) >> 3u);
	l = m << 29u;
}`},
	{"narrow", `FN float narrow(uint h, uint l) {
	uint sign = h & 0x80000000u;
	if (wideIsNaN(h, l)) {
		return U2F(0x7fc00000u);
	}
	int e = int((h >> 20u) & 0x7ffu) - 896;
	if (e >= 255) {
		return U2F(sign | 0x7f800000u);
	}
	uint drop = 8u;
	uint high = 0u;
	if (e < 1) {
		if (e < -23) {
			return U2F(sign);
		}
		drop = uint(9 - e);
	} else {
		high = uint(e - 1) << 23u;
	}
	uint m = 0x80000000u | ((h & 0xfffffu) << 11u) | (l >> 21u);
	if ((l & 0x1fffffu) != 0u) {
		m = m | 1u;
	}
	// What is dropped, from the first bit of a word on.
	uint lost = m << (32u - drop);
	uint r = 0u;
	if (drop < 32u) {
		r = m >> drop;
	}
	if (lost > 0x80000000u || (lost == 0x80000000u && (r & 1u) == 1u)) {
		r += 1u;
	}
	return U2F(sign | (high + r));
}`},
	// (ar, ai) becomes its product with (br, bi); each part has two words.
	{"complexMul", `FN void complexMul(INOUT(uint, arh), INOUT(uint, arl), INOUT(uint, aih), INOUT(uint, ail), uint brh, uint brl, uint bih, uint bil) {
	uint rh = 0u;
	uint rl = 0u;
	uint ih = 0u;
	uint il = 0u;
	for (uint i = 0u; i < 2u; i += 1u) {
		// First with br: the real and the imaginary part. Then with bi, where the real
		// part is the negative of ai·bi.
		uint ph = arh;
		uint pl = arl;
		uint qh = aih;
		uint ql = ail;
		uint fh = brh;
		uint fl = brl;
		if (i == 1u) {
			ph = aih ^ 0x80000000u;
			pl = ail;
			qh = arh;
			ql = arl;
			fh = bih;
			fl = bil;
		}
		wideMul(ph, pl, fh, fl);
		wideMul(qh, ql, fh, fl);
		if (i == 0u) {
			rh = ph;
			rl = pl;
			ih = qh;
			il = ql;
		} else {
			wideAdd(rh, rl, ph, pl);
			wideAdd(ih, il, qh, ql);
		}
	}
	arh = rh;
	arl = rl;
	aih = ih;
	ail = il;
}`},
	{"mish", mish()},
	{"sine", sine()},
}

// w is a float64 constant as arguments.
func w(x float64) string {
	b := math.Float64bits(x)
	return fmt.Sprintf("0x%08xu, 0x%08xu", uint32(b>>32), uint32(b))
}

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

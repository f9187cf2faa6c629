package kernel

import (
	"fmt"
	"math"
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

#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
#define F2U(x) as_type<uint>(x)
#define U2F(x) as_type<float>(x)
#define INOUT(type, name) thread type& name
#define BARRIER() threadgroup_barrier(mem_flags::mem_threadgroup)
#define FN static inline
struct P {
uint n;
uint round;
};
FN bool isNaN(float x) {
	return (F2U(x) & 0x7fffffffu) > 0x7f800000u;
}
FN float toBF16(float x) {
	uint b = F2U(x);
	if (isNaN(x)) {
		if ((b & 0xffffu) == 0u) {
			return x;
		}
		return U2F((b & 0xffff0000u) | 0x400000u);
	}
	return U2F((b + 0x7fffu + ((b >> 16u) & 1u)) & 0xffff0000u);
}
FN float toF16(float x) {
	uint b = F2U(x);
	uint sign = b & 0x80000000u;
	uint a = b & 0x7fffffffu;
	if (a > 0x7f800000u) {
		if ((b & 0x1fffu) == 0u) {
			return x;
		}
		return U2F((b & 0xffffe000u) | 0x400000u);
	}
	if (a >= 0x477ff000u) {
		return U2F(sign | 0x7f800000u);
	}
	if (a >= 0x38800000u) {
		return U2F((b + 0xfffu + ((b >> 13u) & 1u)) & 0xffffe000u);
	}
	// Below 2^-14: a multiple of 2^-24.
	uint s = 126u - (a >> 23u);
	if (s > 24u) {
		return U2F(sign);
	}
	uint m = (a & 0x7fffffu) | 0x800000u;
	uint r = m >> s;
	uint lost = m & ((1u << s) - 1u);
	uint half_ = 1u << (s - 1u);
	if (lost > half_ || (lost == half_ && (r & 1u) == 1u)) {
		r += 1u;
	}
	return U2F(F2U(float(r) * U2F(0x33800000u)) | sign);
}
FN float rounded(float x, uint type) {
	if (type == 1u) {
		return toBF16(x);
	}
	if (type == 2u) {
		return toF16(x);
	}
	return x;
}
FN uint shiftOf(uint m) {
	// By how many bits a subnormal mantissa m, 0 < m < 2^23, must move up.
	return 150u - (F2U(float(m)) >> 23u);
}
FN void mulWords(uint a, uint b, INOUT(uint, h), INOUT(uint, l)) {
	uint a0 = a & 0xffffu;
	uint a1 = a >> 16u;
	uint b0 = b & 0xffffu;
	uint b1 = b >> 16u;
	uint low = a0 * b0;
	uint m = a1 * b0 + (low >> 16u);
	uint n = a0 * b1 + (m & 0xffffu);
	h = a1 * b1 + (m >> 16u) + (n >> 16u);
	l = (n << 16u) | (low & 0xffffu);
}
FN uint topBit(uint x) {
	return (F2U(float(x & ~(x >> 1u))) >> 23u) - 127u;
}
FN bool wideIsNaN(uint h, uint l) {
	uint a = h & 0x7fffffffu;
	return a > 0x7ff00000u || (a == 0x7ff00000u && l != 0u);
}
FN void wideRound(uint sign, int e, uint mh, uint ml, INOUT(uint, h), INOUT(uint, l)) {
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
}
FN void wideAdd(INOUT(uint, h), INOUT(uint, l), uint yh, uint yl) {
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
}
FN void wideMul(INOUT(uint, h), INOUT(uint, l), uint bh, uint bl) {
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
}
FN void wideQuotient(INOUT(uint, h), INOUT(uint, l), uint bh, uint bl) {
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
}
FN void widen(float x, INOUT(uint, h), INOUT(uint, l)) {
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
}
FN float narrow(uint h, uint l) {
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
}
FN float mish(float x) {
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
	wideMul(th, tl, 0x3ff71547u, 0x652b82feu);
	wideAdd(th, tl, 0x43380000u, 0x00000000u);
	// x is n ln 2 + r.
	int n = int(tl);
	wideAdd(th, tl, 0xc3380000u, 0x00000000u);
	uint rh = xh;
	uint rl = xl;
	uint ph = th;
	uint pl = tl;
	wideMul(ph, pl, 0xbfe62e42u, 0xfefa2000u);
	wideAdd(rh, rl, ph, pl);
	wideMul(th, tl, 0xbd69ef35u, 0x793c7673u);
	wideAdd(rh, rl, th, tl);
	ph = 0x3e21f734u;
	pl = 0x0dbc337eu;
	for (uint i = 1u; i < 11u; i += 1u) {
		uint ch = 0x3e5af4e5u;
		uint cl = 0x54377204u;
		if (i == 2u) {
			ch = 0x3e927e4du;
			cl = 0xb46cddd1u;
		}
		if (i == 3u) {
			ch = 0x3ec71de0u;
			cl = 0x1fdbf9cau;
		}
		if (i == 4u) {
			ch = 0x3efa01a0u;
			cl = 0x1a6e1e2au;
		}
		if (i == 5u) {
			ch = 0x3f2a01a0u;
			cl = 0x1abf85abu;
		}
		if (i == 6u) {
			ch = 0x3f56c16cu;
			cl = 0x16c162c3u;
		}
		if (i == 7u) {
			ch = 0x3f811111u;
			cl = 0x111100beu;
		}
		if (i == 8u) {
			ch = 0x3fa55555u;
			cl = 0x55555556u;
		}
		if (i == 9u) {
			ch = 0x3fc55555u;
			cl = 0x55555557u;
		}
		if (i == 10u) {
			ch = 0x3fe00000u;
			cl = 0x00000000u;
		}
		wideMul(ph, pl, rh, rl);
		wideAdd(ph, pl, ch, cl);
	}
	uint eh = rh;
	uint el = rl;
	wideMul(eh, el, rh, rl);
	wideMul(eh, el, ph, pl);
	wideAdd(eh, el, rh, rl);
	wideAdd(eh, el, 0x3ff00000u, 0x00000000u);
	wideMul(eh, el, uint(n + 1023) << 20u, 0u);
	// e(e + 2), and x times it over two more.
	uint nh = eh;
	uint nl = el;
	wideAdd(nh, nl, 0x40000000u, 0x00000000u);
	wideMul(nh, nl, eh, el);
	wideMul(xh, xl, nh, nl);
	wideAdd(nh, nl, 0x40000000u, 0x00000000u);
	wideQuotient(xh, xl, nh, nl);
	return narrow(xh, xl);
}
kernel void mish(
device const float* x [[buffer(0)]],
device float* y [[buffer(1)]],
constant P& p [[buffer(2)]],
uint3 gid [[thread_position_in_grid]],
uint3 lid [[thread_position_in_threadgroup]],
uint3 wid [[threadgroup_position_in_grid]]) {
uint i = (wid.y * 32768u + wid.x) * 256u + lid.x;
if (i < p.n) {
	y[i] = rounded(mish(x[i]), p.round);
}
}

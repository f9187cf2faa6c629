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
};
FN bool isNaN(float x) {
	return (F2U(x) & 0x7fffffffu) > 0x7f800000u;
}
FN float canonical(float x) {
	if (isNaN(x)) {
		return U2F(0x7fc00000u);
	}
	return x;
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
FN float fromF16(uint h) {
	uint o = (h & 0x7fffu) << 13u;
	uint e = o & 0x0f800000u;
	o += 0x38000000u;
	if (e == 0x0f800000u) {
		o += 0x38000000u;
	}
	if (e == 0u) {
		// The difference of two numbers that are not subnormal is exact.
		o = F2U(U2F(o + 0x800000u) - U2F(0x38800000u));
	}
	return U2F(o | ((h & 0x8000u) << 16u));
}
FN uint shiftOf(uint m) {
	// By how many bits a subnormal mantissa m, 0 < m < 2^23, must move up.
	return 150u - (F2U(float(m)) >> 23u);
}
FN float reciprocal(float d) {
	// About 1/d for 1 <= d < 2, to a few units in the last place.
	float r = (U2F(0x4007c1f1u) - U2F(0x3fba2e8cu) * d) + U2F(0x3ea57eb4u) * (d * d);
	r = r * (2.0f - d * r);
	return r * (2.0f - d * r);
}
FN float quotient(float a, float b) {
	uint sign = (F2U(a) ^ F2U(b)) & 0x80000000u;
	uint ma = F2U(a) & 0x7fffffffu;
	uint mb = F2U(b) & 0x7fffffffu;
	if (ma > 0x7f800000u || mb > 0x7f800000u || (ma == mb && (ma == 0u || ma == 0x7f800000u))) {
		return U2F(0x7fc00000u);
	}
	if (ma == 0u || mb == 0x7f800000u) {
		return U2F(sign);
	}
	if (mb == 0u || ma == 0x7f800000u) {
		return U2F(sign | 0x7f800000u);
	}
	int e = int(ma >> 23u) - int(mb >> 23u) + 127;
	if (ma < 0x800000u) {
		uint s = shiftOf(ma);
		ma = ma << s;
		e += 1 - int(s);
	} else {
		ma = (ma & 0x7fffffu) | 0x800000u;
	}
	if (mb < 0x800000u) {
		uint s = shiftOf(mb);
		mb = mb << s;
		e -= 1 - int(s);
	} else {
		mb = (mb & 0x7fffffu) | 0x800000u;
	}
	uint more = 24u;
	if (ma < mb) {
		more = 25u;
		e -= 1;
	}
	float fa = U2F((ma & 0x7fffffu) | 0x3f800000u);
	float fb = U2F((mb & 0x7fffffu) | 0x3f800000u);
	uint q = uint((fa * reciprocal(fb)) * U2F((more + 127u) << 23u));
	uint left = (ma << more) - q * mb;
	while (left >= 0x80000000u) {
		q -= 1u;
		left += mb;
	}
	while (left >= mb) {
		q += 1u;
		left -= mb;
	}
	if (e >= 255) {
		return U2F(sign | 0x7f800000u);
	}
	uint drop = 1u;
	uint high = 0u;
	if (e < 1) {
		if (e < -24) {
			return U2F(sign);
		}
		drop = uint(2 - e);
	} else {
		high = uint(e - 1) << 23u;
	}
	uint r = q >> drop;
	uint lost = q & ((1u << drop) - 1u);
	uint half_ = 1u << (drop - 1u);
	if (lost > half_ || (lost == half_ && (left != 0u || (r & 1u) == 1u))) {
		r += 1u;
	}
	return U2F(sign | (high + r));
}
FN float root(float x) {
	uint m = F2U(x);
	if ((m & 0x7fffffffu) == 0u) {
		return x;
	}
	if (m > 0x7f800000u) {
		return U2F(0x7fc00000u);
	}
	if (m == 0x7f800000u) {
		return x;
	}
	int e = int(m >> 23u) - 150;
	if (m < 0x800000u) {
		uint s = shiftOf(m);
		m = m << s;
		e = -149 - int(s);
	} else {
		m = (m & 0x7fffffu) | 0x800000u;
	}
	// x = m 2^e. An odd e makes m 2^25 a square times an even power of two.
	float f = U2F((m & 0x7fffffu) | 0x3f800000u);
	if ((e & 1) == 0) {
		m = m << 1u;
		e -= 1;
		f = f * 2.0f;
	}
	float y = U2F(0x5f3759dfu - (F2U(f) >> 1u));
	float g = f * 0.5f;
	y = y * (1.5f - g * (y * y));
	y = y * (1.5f - g * (y * y));
	y = y * (1.5f - g * (y * y));
	uint s = uint((f * y) * 16777216.0f);
	uint left = (m << 25u) - s * s;
	while (left >= 0x80000000u) {
		s -= 1u;
		left += 2u * s + 1u;
	}
	while (left > 2u * s) {
		left -= 2u * s + 1u;
		s += 1u;
	}
	// A root of 25 bits is never halfway between two numbers of 24.
	return U2F((uint((e - 25) / 2 + 150) << 23u) + ((s + 1u) >> 1u));
}
FN float power2(int n) {
	return U2F(uint(n + 127) << 23u);
}
FN float exponential(float x) {
	if (isNaN(x)) {
		return U2F(0x7fc00000u);
	}
	if (x < -104.0f) {
		x = -104.0f;
	}
	if (x > 89.0f) {
		x = 89.0f;
	}
	float t = x * U2F(0x3fb8aa3bu) + 12582912.0f;
	int n = int(F2U(t)) - 0x4b400000;
	t = t - 12582912.0f;
	float r = x - t * U2F(0x3f317200u);
	r = r - t * U2F(0x35bfbe8eu);
	float q = U2F(0x395092b6u) * r + U2F(0x3ab6a1d8u);
	q = q * r + U2F(0x3c088870u);
	q = q * r + U2F(0x3d2aaa74u);
	q = q * r + U2F(0x3e2aaaabu);
	q = q * r + U2F(0x3f000000u);
	float y = (r * r) * q + r;
	y = y + 1.0f;
	int first = n >> 1;
	y = y * power2(first);
	return y * power2(n - first);
}
FN void pairMul(INOUT(float, h), INOUT(float, l), float bh, float bl) {
	float m = h * bh;
	float ah = U2F(F2U(h) & 0xfffff000u);
	float al = h - ah;
	float ch = U2F(F2U(bh) & 0xfffff000u);
	float cl = bh - ch;
	float e = ((ah * ch - m) + ah * cl + al * ch) + al * cl;
	e = e + (h * bl + l * bh);
	h = m + e;
	l = e - (h - m);
}
FN void pairAdd(INOUT(float, h), INOUT(float, l), float bh, float bl) {
	float s = h + bh;
	float t = s - h;
	float e = (h - (s - t)) + (bh - t);
	e = e + (l + bl);
	h = s + e;
	l = e - (h - s);
}
FN float pairQuotient(float h, float l, float dh, float dl) {
	// (h, l) / (dh, dl), rounded once, for 1 <= dh < 2.
	float r = reciprocal(dh);
	float q = h * r;
	float ph = q;
	float pl = 0.0f;
	pairMul(ph, pl, dh, dl);
	pairAdd(h, l, -ph, -pl);
	return q + h * r;
}
FN float tangent(float x) {
	if (isNaN(x)) {
		return U2F(0x7fc00000u);
	}
	uint sign = F2U(x) & 0x80000000u;
	float a = U2F(F2U(x) & 0x7fffffffu);
	if (a >= U2F(0x411051ecu)) {
		return U2F(sign | 0x3f800000u);
	}
	if (a < U2F(0x39800000u)) {
		// The next term is 2/15 a^5.
		return U2F(sign | F2U(a - (a * a) * (a * U2F(0x3eaaaaabu))));
	}
	float r = -2.0f * a;
	float n = (r * U2F(0x3fb8aa3bu) + 12582912.0f) - 12582912.0f;
	r = r - n * U2F(0x3f317200u);
	float low = 0.0f;
	pairAdd(r, low, -(n * U2F(0x35bfbe00u)), -(n * U2F(0x2d8e7bc0u)));
	float h = U2F(0x3493f27eu);
	h = h * r + U2F(0x3638ef1du);
	h = h * r + U2F(0x37d00d01u);
	h = h * r + U2F(0x39500d01u);
	float l = 0.0f;
	pairMul(h, l, r, low);
	pairAdd(h, l, U2F(0x3ab60b61u), U2F(0xae13e93fu));
	pairMul(h, l, r, low);
	pairAdd(h, l, U2F(0x3c088889u), U2F(0xafeeeeefu));
	pairMul(h, l, r, low);
	pairAdd(h, l, U2F(0x3d2aaaabu), U2F(0xb0aaaaabu));
	pairMul(h, l, r, low);
	pairAdd(h, l, U2F(0x3e2aaaabu), U2F(0xb1aaaaabu));
	pairMul(h, l, r, low);
	pairAdd(h, l, U2F(0x3f000000u), U2F(0x00000000u));
	pairMul(h, l, r, low);
	pairAdd(h, l, U2F(0x3f800000u), U2F(0x00000000u));
	pairMul(h, l, r, low);
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
}
FN float errorFunction(float x) {
	if (isNaN(x)) {
		return U2F(0x7fc00000u);
	}
	uint sign = F2U(x) & 0x80000000u;
	float a = U2F(F2U(x) & 0x7fffffffu);
	if (a >= U2F(0x407ad445u)) {
		return U2F(sign | 0x3f800000u);
	}
	if (a < U2F(0x30800000u)) {
		// a times two over the root of pi, away from where a low part would be lost below 2^-126.
		float ph = U2F(0x3f906ebbu);
		float pl = U2F(0xb37bd64eu);
		pairMul(ph, pl, a * U2F(0x5f800000u), 0.0f);
		return U2F(sign | F2U(ph * U2F(0x1f800000u)));
	}
	float t = a;
	float u = 0.0f;
	float k0 = U2F(0x3f906ebbu);
	float m0 = U2F(0xb37bd64eu);
	float k1 = U2F(0xbec093a3u);
	float m1 = U2F(0xb230271fu);
	float k2 = U2F(0x3de71791u);
	float m2 = U2F(0xb0d087a2u);
	float k3 = U2F(0xbcdc1671u);
	float m3 = U2F(0x3023c480u);
	float k4 = U2F(0x3bab2dd0u);
	float m4 = U2F(0x2e80d800u);
	float k5 = U2F(0xba601436u);
	float m5 = U2F(0xadad68e0u);
	float k6 = U2F(0x38fca0dfu);
	float m6 = U2F(0x2c57e784u);
	float k7 = U2F(0xb778382du);
	float m7 = U2F(0xa96ef4d5u);
	float k8 = U2F(0x35cd704cu);
	float m8 = U2F(0x28df3bcau);
	float k9 = U2F(0xb3e0d28bu);
	float k10 = U2F(0x00000000u);
	float k11 = U2F(0x00000000u);
	if (a < 1.0f) {
		pairMul(t, u, a, 0.0f);
	} else if (a < 2.0f) {
		t = a - 1.5f;
		k0 = U2F(0x3f7752abu);
		m0 = U2F(0xb28eda0eu);
		k1 = U2F(0x3df391b9u);
		m1 = U2F(0x30d6b7deu);
		k2 = U2F(0xbe36ad4bu);
		m2 = U2F(0x317e7072u);
		k3 = U2F(0x3e0e1501u);
		m3 = U2F(0x31d449b9u);
		k4 = U2F(0xbd36ad68u);
		m4 = U2F(0xaff63be5u);
		k5 = U2F(0xbc7391d9u);
		m5 = U2F(0x2fad4eabu);
		k6 = U2F(0x3c9e55d8u);
		m6 = U2F(0xafb6bc14u);
		k7 = U2F(0xbb9b676cu);
		m7 = U2F(0xaf67bd95u);
		k8 = U2F(0xbb1bcc8au);
		m8 = U2F(0xaee09499u);
		k9 = U2F(0x3adf9aeau);
		k10 = U2F(0xb82543c8u);
		k11 = U2F(0xb97c834fu);
	} else if (a < 3.0f) {
		t = a - 2.5f;
		k0 = U2F(0x3f7fe554u);
		m0 = U2F(0x32f4cd62u);
		k1 = U2F(0x3b0ec18cu);
		m1 = U2F(0xaef15b8eu);
		k2 = U2F(0xbbb271efu);
		m2 = U2F(0xaf5fd4dfu);
		k3 = U2F(0x3c08ced1u);
		m3 = U2F(0xafebf14bu);
		k4 = U2F(0xbc0d44c5u);
		m4 = U2F(0x2f1c0ecdu);
		k5 = U2F(0x3bc873fbu);
		m5 = U2F(0xaf183285u);
		k6 = U2F(0xbb376d40u);
		m6 = U2F(0xaeb2a869u);
		k7 = U2F(0x3a0e3854u);
		m7 = U2F(0x2cb87cc6u);
		k8 = U2F(0x398a34bbu);
		m8 = U2F(0x2d730fc5u);
		k9 = U2F(0xb983b26du);
		k10 = U2F(0x388f4b3cu);
		k11 = U2F(0x370d78b0u);
	} else {
		t = a - 3.5f;
		k0 = U2F(0x3f7ffff4u);
		m0 = U2F(0xb2ef2abcu);
		k1 = U2F(0x36b52cb9u);
		m1 = U2F(0x29851457u);
		k2 = U2F(0xb79e8718u);
		m2 = U2F(0xab18b20fu);
		k3 = U2F(0x38316672u);
		m3 = U2F(0x2ba4356du);
		k4 = U2F(0xb88e0429u);
		m4 = U2F(0x2abfe718u);
		k5 = U2F(0x38ac361bu);
		m5 = U2F(0xaad75df3u);
		k6 = U2F(0xb8a30336u);
		m6 = U2F(0xab7af06du);
		k7 = U2F(0x38740b0eu);
		m7 = U2F(0xabeca49fu);
		k8 = U2F(0xb810227du);
		m8 = U2F(0x2adf7dd6u);
		k9 = U2F(0x3781245du);
		k10 = U2F(0xb68f81f2u);
		k11 = U2F(0x3468f71bu);
	}
	float h = k11;
	float l = 0.0f;
	h = h * t + k10;
	h = h * t + k9;
	pairMul(h, l, t, u);
	pairAdd(h, l, k8, m8);
	pairMul(h, l, t, u);
	pairAdd(h, l, k7, m7);
	pairMul(h, l, t, u);
	pairAdd(h, l, k6, m6);
	pairMul(h, l, t, u);
	pairAdd(h, l, k5, m5);
	pairMul(h, l, t, u);
	pairAdd(h, l, k4, m4);
	pairMul(h, l, t, u);
	pairAdd(h, l, k3, m3);
	pairMul(h, l, t, u);
	pairAdd(h, l, k2, m2);
	pairMul(h, l, t, u);
	pairAdd(h, l, k1, m1);
	pairMul(h, l, t, u);
	pairAdd(h, l, k0, m0);
	if (a < 1.0f) {
		pairMul(h, l, a, 0.0f);
	}
	return U2F(sign | F2U(h));
}
FN float sigmoid(float x) {
	return quotient(1.0f, 1.0f + exponential(-x));
}
FN float silu(float x) {
	return quotient(x, 1.0f + exponential(-x));
}
kernel void probe(
device const uint* a [[buffer(0)]],
device const uint* b [[buffer(1)]],
device const uint* c [[buffer(2)]],
device uint* results [[buffer(3)]],
constant P& p [[buffer(4)]],
uint3 gid [[thread_position_in_grid]],
uint3 lid [[thread_position_in_threadgroup]],
uint3 wid [[threadgroup_position_in_grid]]) {
uint i = (wid.y * 32768u + wid.x) * 64u + lid.x;
if (i >= p.n) {
	return;
}
float x = U2F(a[i]);
float y = U2F(b[i]);
float z = U2F(c[i]);
uint v = 0u;
uint s = (a[i] & 0x807fffffu) | ((((a[i] >> 23u) & 15u) + 113u) << 23u);
v = F2U(canonical(x * y + z));
results[0u * p.n + i] = v;
v = F2U(canonical(z - x * y));
results[1u * p.n + i] = v;
v = F2U(canonical(x + y));
results[2u * p.n + i] = v;
v = F2U(canonical(x - y));
results[3u * p.n + i] = v;
v = F2U(canonical(x * y));
results[4u * p.n + i] = v;
v = F2U(canonical((x + y) - x));
results[5u * p.n + i] = v;
v = F2U(-x);
results[6u * p.n + i] = v;
v = F2U(canonical(0.0f + x));
results[7u * p.n + i] = v;
v = F2U(canonical(1.0f * x));
results[8u * p.n + i] = v;
v = F2U(U2F(a[i] & 0x80ffffffu) + U2F(b[i] & 0x80ffffffu));
results[9u * p.n + i] = v;
v = F2U(U2F((a[i] & 0x807fffffu) | 0x10000000u) * U2F((b[i] & 0x807fffffu) | 0x2c000000u));
results[10u * p.n + i] = v;
v = 0u;
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
	}
results[11u * p.n + i] = v;
v = F2U(float(a[i] & 0xffffffu)) + uint(float(b[i] >> 8u));
results[12u * p.n + i] = v;
v = F2U(quotient(x, y));
results[13u * p.n + i] = v;
v = F2U(root(x));
results[14u * p.n + i] = v;
v = F2U(toBF16(x));
results[15u * p.n + i] = v;
v = F2U(toF16(x));
results[16u * p.n + i] = v;
v = F2U(fromF16(a[i] & 0xffffu));
results[17u * p.n + i] = v;
v = F2U(exponential(x));
results[18u * p.n + i] = v;
v = F2U(exponential(U2F(s)));
results[19u * p.n + i] = v;
v = F2U(silu(x));
results[20u * p.n + i] = v;
v = F2U(sigmoid(U2F(s)));
results[21u * p.n + i] = v;
v = F2U(tangent(U2F(s)));
results[22u * p.n + i] = v;
v = F2U(errorFunction(U2F(s)));
results[23u * p.n + i] = v;
}

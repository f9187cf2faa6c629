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
uint rows;
uint width;
float eps;
uint hasw;
uint hasb;
uint round;
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
FN float sumOf(float x) {
	if (F2U(x) == 0x80000000u) {
		return 0.0f;
	}
	return canonical(x);
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
kernel void layernorm(
device const float* x [[buffer(0)]],
device const float* w [[buffer(1)]],
device const float* b [[buffer(2)]],
device float* y [[buffer(3)]],
constant P& p [[buffer(4)]],
uint3 gid [[thread_position_in_grid]],
uint3 lid [[thread_position_in_threadgroup]],
uint3 wid [[threadgroup_position_in_grid]]) {
threadgroup float part[1024];
uint row = wid.y * 32768u + wid.x;
if (row >= p.rows) {
	return;
}
uint at = row * p.width;
float lane = 0.0f;
float total = 0.0f;
lane = 0.0f;
for (uint start = 0u; start < p.width; start += 1024u) {
	uint end = min(p.width - start, 1024u);
	for (uint i = lid.x; i < end; i += 256u) {
		float v = x[at + start + i];
		part[i] = v;
	}
	BARRIER();
	if (lid.x < 8u) {
		for (uint i = lid.x; i < end; i += 8u) {
			lane += part[i];
		}
	}
	BARRIER();
}
if (lid.x < 8u) {
	part[lid.x] = lane;
}
BARRIER();
total = sumOf(((part[0u] + part[1u]) + (part[2u] + part[3u])) + ((part[4u] + part[5u]) + (part[6u] + part[7u])));
BARRIER();
float mean = quotient(total, float(p.width));
lane = 0.0f;
for (uint start = 0u; start < p.width; start += 1024u) {
	uint end = min(p.width - start, 1024u);
	for (uint i = lid.x; i < end; i += 256u) {
		float v = x[at + start + i];
		part[i] = (v - mean) * (v - mean);
	}
	BARRIER();
	if (lid.x < 8u) {
		for (uint i = lid.x; i < end; i += 8u) {
			lane += part[i];
		}
	}
	BARRIER();
}
if (lid.x < 8u) {
	part[lid.x] = lane;
}
BARRIER();
total = sumOf(((part[0u] + part[1u]) + (part[2u] + part[3u])) + ((part[4u] + part[5u]) + (part[6u] + part[7u])));
BARRIER();
float deviation = root(quotient(total, float(p.width)) + p.eps);
for (uint i = lid.x; i < p.width; i += 256u) {
	float v = quotient(x[at + i] - mean, deviation);
	if (p.hasw == 1u) {
		v = v * w[i];
	}
	if (p.hasb == 1u) {
		v = v + b[i];
	}
	y[at + i] = rounded(canonical(v), p.round);
}
}

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
uint batch;
uint heads;
uint queries;
uint keys;
uint first;
uint block;
uint causal;
uint window;
uint flags;
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
kernel void attention_softmax(
device const uint* mask [[buffer(0)]],
device float* scores [[buffer(1)]],
constant P& p [[buffer(2)]],
uint3 gid [[thread_position_in_grid]],
uint3 lid [[thread_position_in_threadgroup]],
uint3 wid [[threadgroup_position_in_grid]]) {
threadgroup float part[256];
threadgroup uint seen[256];
uint line = wid.y * 32768u + wid.x;
if (line >= p.batch * p.heads * p.block) {
	return;
}
uint s = line / (p.heads * p.block);
uint t = p.first + (line - line / p.block * p.block);
uint limit = p.keys;
uint begin = 0u;
if (p.causal == 1u) {
	// Query t sees keys up to keys − queries + t.
	limit = 0u;
	if (p.keys + t + 1u > p.queries) {
		limit = min(p.keys, p.keys + t + 1u - p.queries);
	}
	if (p.window > 0u && p.keys + t + 1u > p.queries + p.window) {
		begin = min(limit, p.keys + t + 1u - p.queries - p.window);
	}
}
uint at = line * p.keys;
// The largest score that is seen, and whether one is.
float highest = U2F(0xff800000u);
uint any = 0u;
for (uint i = begin + lid.x; i < limit; i += 256u) {
	bool live = true;
	if ((p.flags & 1u) != 0u) {
		live = mask[s * p.keys + i] != 0u;
	}
	if (live) {
		any = 1u;
		float v = scores[at + i];
		if (!isNaN(v) && v > highest) {
			highest = v;
		}
	}
}
part[lid.x] = highest;
seen[lid.x] = any;
BARRIER();
for (uint w = 128u; w > 0u; w = w >> 1u) {
	if (lid.x < w) {
		if (part[lid.x + w] > part[lid.x]) {
			part[lid.x] = part[lid.x + w];
		}
		seen[lid.x] = seen[lid.x] | seen[lid.x + w];
	}
	BARRIER();
}
highest = part[0u];
any = seen[0u];
BARRIER();
if (any == 0u) {
	float even = rounded(quotient(1.0f, float(p.keys)), p.round);
	for (uint i = lid.x; i < p.keys; i += 256u) {
		scores[at + i] = even;
	}
	return;
}
// Exponentials side by side, their sum in key order by the first invocation.
float total = 0.0f;
for (uint start = begin; start < limit; start += 256u) {
	uint i = start + lid.x;
	float e = 0.0f;
	if (i < limit) {
		bool live = true;
		if ((p.flags & 1u) != 0u) {
			live = mask[s * p.keys + i] != 0u;
		}
		if (live) {
			e = exponential(scores[at + i] - highest);
		}
		scores[at + i] = e;
	}
	part[lid.x] = e;
	BARRIER();
	if (lid.x == 0u) {
		uint end = min(limit - start, 256u);
		for (uint j = 0u; j < end; j += 1u) {
			total += part[j];
		}
	}
	BARRIER();
}
if (lid.x == 0u) {
	part[0u] = total;
}
BARRIER();
total = part[0u];
// The invocation that wrote an exponential reads it again.
for (uint start = begin; start < limit; start += 256u) {
	uint i = start + lid.x;
	if (i < limit) {
		bool live = true;
		if ((p.flags & 1u) != 0u) {
			live = mask[s * p.keys + i] != 0u;
		}
		if (live) {
			scores[at + i] = rounded(quotient(scores[at + i], total), p.round);
		} else {
			scores[at + i] = 0.0f;
		}
	}
}
for (uint i = lid.x; i < begin; i += 256u) {
	scores[at + i] = 0.0f;
}
for (uint i = limit + lid.x; i < p.keys; i += 256u) {
	scores[at + i] = 0.0f;
}
}

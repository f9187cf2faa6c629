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
uint k;
uint n;
uint wofs;
uint wstride;
uint yofs;
uint ystride;
uint bias;
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
kernel void linear_few_f16(
device const float* x [[buffer(0)]],
device const uint* w [[buffer(1)]],
device const float* b [[buffer(2)]],
device float* y [[buffer(3)]],
constant P& p [[buffer(4)]],
uint3 gid [[thread_position_in_grid]],
uint3 lid [[thread_position_in_threadgroup]],
uint3 wid [[threadgroup_position_in_grid]]) {
threadgroup float sums[1024];
uint lane = lid.x & 63u;
uint first = (wid.z * 32768u + wid.y) * 16u + (lid.x >> 6u) * 4u;
bool live = first < p.n;
uint full = p.k >> 1u;
uint w0 = p.wofs + min(first + 0u, p.n - 1u) * p.wstride;
uint w1 = p.wofs + min(first + 1u, p.n - 1u) * p.wstride;
uint w2 = p.wofs + min(first + 2u, p.n - 1u) * p.wstride;
uint w3 = p.wofs + min(first + 3u, p.n - 1u) * p.wstride;
uint x0 = min(wid.x * 4u + 0u, p.rows - 1u) * p.k;
uint x1 = min(wid.x * 4u + 1u, p.rows - 1u) * p.k;
uint x2 = min(wid.x * 4u + 2u, p.rows - 1u) * p.k;
uint x3 = min(wid.x * 4u + 3u, p.rows - 1u) * p.k;
float e0_0 = 0.0f;
float f0_0 = 0.0f;
float e1_0 = 0.0f;
float f1_0 = 0.0f;
float e2_0 = 0.0f;
float f2_0 = 0.0f;
float e3_0 = 0.0f;
float f3_0 = 0.0f;
float e0_1 = 0.0f;
float f0_1 = 0.0f;
float e1_1 = 0.0f;
float f1_1 = 0.0f;
float e2_1 = 0.0f;
float f2_1 = 0.0f;
float e3_1 = 0.0f;
float f3_1 = 0.0f;
float e0_2 = 0.0f;
float f0_2 = 0.0f;
float e1_2 = 0.0f;
float f1_2 = 0.0f;
float e2_2 = 0.0f;
float f2_2 = 0.0f;
float e3_2 = 0.0f;
float f3_2 = 0.0f;
float e0_3 = 0.0f;
float f0_3 = 0.0f;
float e1_3 = 0.0f;
float f1_3 = 0.0f;
float e2_3 = 0.0f;
float f2_3 = 0.0f;
float e3_3 = 0.0f;
float f3_3 = 0.0f;
if (live) {
uint j = lane;
if (((p.wofs | p.wstride) & 1u) == 0u) {
while (j + 0u < full) {
uint v0_0 = w[(w0 >> 1u) + j + 0u];
uint v0_1 = w[(w1 >> 1u) + j + 0u];
uint v0_2 = w[(w2 >> 1u) + j + 0u];
uint v0_3 = w[(w3 >> 1u) + j + 0u];
float a0_0 = x[x0 + 2u * (j + 0u)];
float c0_0 = x[x0 + 2u * (j + 0u) + 1u];
float a0_1 = x[x1 + 2u * (j + 0u)];
float c0_1 = x[x1 + 2u * (j + 0u) + 1u];
float a0_2 = x[x2 + 2u * (j + 0u)];
float c0_2 = x[x2 + 2u * (j + 0u) + 1u];
float a0_3 = x[x3 + 2u * (j + 0u)];
float c0_3 = x[x3 + 2u * (j + 0u) + 1u];
float gv0_0 = fromF16(v0_0 & 0xffffu);
float hv0_0 = fromF16(v0_0 >> 16u);
float gv0_1 = fromF16(v0_1 & 0xffffu);
float hv0_1 = fromF16(v0_1 >> 16u);
float gv0_2 = fromF16(v0_2 & 0xffffu);
float hv0_2 = fromF16(v0_2 >> 16u);
float gv0_3 = fromF16(v0_3 & 0xffffu);
float hv0_3 = fromF16(v0_3 >> 16u);
e0_0 += a0_0 * gv0_0;
f0_0 += c0_0 * hv0_0;
e1_0 += a0_1 * gv0_0;
f1_0 += c0_1 * hv0_0;
e2_0 += a0_2 * gv0_0;
f2_0 += c0_2 * hv0_0;
e3_0 += a0_3 * gv0_0;
f3_0 += c0_3 * hv0_0;
e0_1 += a0_0 * gv0_1;
f0_1 += c0_0 * hv0_1;
e1_1 += a0_1 * gv0_1;
f1_1 += c0_1 * hv0_1;
e2_1 += a0_2 * gv0_1;
f2_1 += c0_2 * hv0_1;
e3_1 += a0_3 * gv0_1;
f3_1 += c0_3 * hv0_1;
e0_2 += a0_0 * gv0_2;
f0_2 += c0_0 * hv0_2;
e1_2 += a0_1 * gv0_2;
f1_2 += c0_1 * hv0_2;
e2_2 += a0_2 * gv0_2;
f2_2 += c0_2 * hv0_2;
e3_2 += a0_3 * gv0_2;
f3_2 += c0_3 * hv0_2;
e0_3 += a0_0 * gv0_3;
f0_3 += c0_0 * hv0_3;
e1_3 += a0_1 * gv0_3;
f1_3 += c0_1 * hv0_3;
e2_3 += a0_2 * gv0_3;
f2_3 += c0_2 * hv0_3;
e3_3 += a0_3 * gv0_3;
f3_3 += c0_3 * hv0_3;
j += 64u;
}
}
while (j < full) {
float a0 = x[x0 + 2u * j];
float c0 = x[x0 + 2u * j + 1u];
float a1 = x[x1 + 2u * j];
float c1 = x[x1 + 2u * j + 1u];
float a2 = x[x2 + 2u * j];
float c2 = x[x2 + 2u * j + 1u];
float a3 = x[x3 + 2u * j];
float c3 = x[x3 + 2u * j + 1u];
float g0 = fromF16((w[(w0 + 2u * j) >> 1u] >> (((w0 + 2u * j) & 1u) << 4u)) & 0xffffu);
float h0 = fromF16((w[(w0 + 2u * j + 1u) >> 1u] >> (((w0 + 2u * j + 1u) & 1u) << 4u)) & 0xffffu);
float g1 = fromF16((w[(w1 + 2u * j) >> 1u] >> (((w1 + 2u * j) & 1u) << 4u)) & 0xffffu);
float h1 = fromF16((w[(w1 + 2u * j + 1u) >> 1u] >> (((w1 + 2u * j + 1u) & 1u) << 4u)) & 0xffffu);
float g2 = fromF16((w[(w2 + 2u * j) >> 1u] >> (((w2 + 2u * j) & 1u) << 4u)) & 0xffffu);
float h2 = fromF16((w[(w2 + 2u * j + 1u) >> 1u] >> (((w2 + 2u * j + 1u) & 1u) << 4u)) & 0xffffu);
float g3 = fromF16((w[(w3 + 2u * j) >> 1u] >> (((w3 + 2u * j) & 1u) << 4u)) & 0xffffu);
float h3 = fromF16((w[(w3 + 2u * j + 1u) >> 1u] >> (((w3 + 2u * j + 1u) & 1u) << 4u)) & 0xffffu);
e0_0 += a0 * g0;
f0_0 += c0 * h0;
e1_0 += a1 * g0;
f1_0 += c1 * h0;
e2_0 += a2 * g0;
f2_0 += c2 * h0;
e3_0 += a3 * g0;
f3_0 += c3 * h0;
e0_1 += a0 * g1;
f0_1 += c0 * h1;
e1_1 += a1 * g1;
f1_1 += c1 * h1;
e2_1 += a2 * g1;
f2_1 += c2 * h1;
e3_1 += a3 * g1;
f3_1 += c3 * h1;
e0_2 += a0 * g2;
f0_2 += c0 * h2;
e1_2 += a1 * g2;
f1_2 += c1 * h2;
e2_2 += a2 * g2;
f2_2 += c2 * h2;
e3_2 += a3 * g2;
f3_2 += c3 * h2;
e0_3 += a0 * g3;
f0_3 += c0 * h3;
e1_3 += a1 * g3;
f1_3 += c1 * h3;
e2_3 += a2 * g3;
f2_3 += c2 * h3;
e3_3 += a3 * g3;
f3_3 += c3 * h3;
j += 64u;
}
if ((p.k & 1u) == 1u && (full & 63u) == lane) {
float a0 = x[x0 + p.k - 1u];
float a1 = x[x1 + p.k - 1u];
float a2 = x[x2 + p.k - 1u];
float a3 = x[x3 + p.k - 1u];
float g0 = fromF16((w[(w0 + p.k - 1u) >> 1u] >> (((w0 + p.k - 1u) & 1u) << 4u)) & 0xffffu);
float g1 = fromF16((w[(w1 + p.k - 1u) >> 1u] >> (((w1 + p.k - 1u) & 1u) << 4u)) & 0xffffu);
float g2 = fromF16((w[(w2 + p.k - 1u) >> 1u] >> (((w2 + p.k - 1u) & 1u) << 4u)) & 0xffffu);
float g3 = fromF16((w[(w3 + p.k - 1u) >> 1u] >> (((w3 + p.k - 1u) & 1u) << 4u)) & 0xffffu);
e0_0 += a0 * g0;
e1_0 += a1 * g0;
e2_0 += a2 * g0;
e3_0 += a3 * g0;
e0_1 += a0 * g1;
e1_1 += a1 * g1;
e2_1 += a2 * g1;
e3_1 += a3 * g1;
e0_2 += a0 * g2;
e1_2 += a1 * g2;
e2_2 += a2 * g2;
e3_2 += a3 * g2;
e0_3 += a0 * g3;
e1_3 += a1 * g3;
e2_3 += a2 * g3;
e3_3 += a3 * g3;
}
}
sums[0u + lid.x] = e0_0 + f0_0;
sums[256u + lid.x] = e0_1 + f0_1;
sums[512u + lid.x] = e0_2 + f0_2;
sums[768u + lid.x] = e0_3 + f0_3;
BARRIER();
for (uint s = 32u; s > 0u; s = s >> 1u) {
if (lane < s) {
sums[0u + lid.x] += sums[0u + lid.x + s];
sums[256u + lid.x] += sums[256u + lid.x + s];
sums[512u + lid.x] += sums[512u + lid.x + s];
sums[768u + lid.x] += sums[768u + lid.x + s];
}
BARRIER();
}
if (lane == 0u && live && first + 0u < p.n && wid.x * 4u + 0u < p.rows) {
	float sum = sumOf(sums[0u + (lid.x & 192u)]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (first + 0u)]);
	}
	y[(wid.x * 4u + 0u) * p.ystride + p.yofs + (first + 0u)] = rounded(sum, p.round);
}
if (lane == 1u && live && first + 1u < p.n && wid.x * 4u + 0u < p.rows) {
	float sum = sumOf(sums[256u + (lid.x & 192u)]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (first + 1u)]);
	}
	y[(wid.x * 4u + 0u) * p.ystride + p.yofs + (first + 1u)] = rounded(sum, p.round);
}
if (lane == 2u && live && first + 2u < p.n && wid.x * 4u + 0u < p.rows) {
	float sum = sumOf(sums[512u + (lid.x & 192u)]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (first + 2u)]);
	}
	y[(wid.x * 4u + 0u) * p.ystride + p.yofs + (first + 2u)] = rounded(sum, p.round);
}
if (lane == 3u && live && first + 3u < p.n && wid.x * 4u + 0u < p.rows) {
	float sum = sumOf(sums[768u + (lid.x & 192u)]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (first + 3u)]);
	}
	y[(wid.x * 4u + 0u) * p.ystride + p.yofs + (first + 3u)] = rounded(sum, p.round);
}
BARRIER();
sums[0u + lid.x] = e1_0 + f1_0;
sums[256u + lid.x] = e1_1 + f1_1;
sums[512u + lid.x] = e1_2 + f1_2;
sums[768u + lid.x] = e1_3 + f1_3;
BARRIER();
for (uint s = 32u; s > 0u; s = s >> 1u) {
if (lane < s) {
sums[0u + lid.x] += sums[0u + lid.x + s];
sums[256u + lid.x] += sums[256u + lid.x + s];
sums[512u + lid.x] += sums[512u + lid.x + s];
sums[768u + lid.x] += sums[768u + lid.x + s];
}
BARRIER();
}
if (lane == 0u && live && first + 0u < p.n && wid.x * 4u + 1u < p.rows) {
	float sum = sumOf(sums[0u + (lid.x & 192u)]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (first + 0u)]);
	}
	y[(wid.x * 4u + 1u) * p.ystride + p.yofs + (first + 0u)] = rounded(sum, p.round);
}
if (lane == 1u && live && first + 1u < p.n && wid.x * 4u + 1u < p.rows) {
	float sum = sumOf(sums[256u + (lid.x & 192u)]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (first + 1u)]);
	}
	y[(wid.x * 4u + 1u) * p.ystride + p.yofs + (first + 1u)] = rounded(sum, p.round);
}
if (lane == 2u && live && first + 2u < p.n && wid.x * 4u + 1u < p.rows) {
	float sum = sumOf(sums[512u + (lid.x & 192u)]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (first + 2u)]);
	}
	y[(wid.x * 4u + 1u) * p.ystride + p.yofs + (first + 2u)] = rounded(sum, p.round);
}
if (lane == 3u && live && first + 3u < p.n && wid.x * 4u + 1u < p.rows) {
	float sum = sumOf(sums[768u + (lid.x & 192u)]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (first + 3u)]);
	}
	y[(wid.x * 4u + 1u) * p.ystride + p.yofs + (first + 3u)] = rounded(sum, p.round);
}
BARRIER();
sums[0u + lid.x] = e2_0 + f2_0;
sums[256u + lid.x] = e2_1 + f2_1;
sums[512u + lid.x] = e2_2 + f2_2;
sums[768u + lid.x] = e2_3 + f2_3;
BARRIER();
for (uint s = 32u; s > 0u; s = s >> 1u) {
if (lane < s) {
sums[0u + lid.x] += sums[0u + lid.x + s];
sums[256u + lid.x] += sums[256u + lid.x + s];
sums[512u + lid.x] += sums[512u + lid.x + s];
sums[768u + lid.x] += sums[768u + lid.x + s];
}
BARRIER();
}
if (lane == 0u && live && first + 0u < p.n && wid.x * 4u + 2u < p.rows) {
	float sum = sumOf(sums[0u + (lid.x & 192u)]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (first + 0u)]);
	}
	y[(wid.x * 4u + 2u) * p.ystride + p.yofs + (first + 0u)] = rounded(sum, p.round);
}
if (lane == 1u && live && first + 1u < p.n && wid.x * 4u + 2u < p.rows) {
	float sum = sumOf(sums[256u + (lid.x & 192u)]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (first + 1u)]);
	}
	y[(wid.x * 4u + 2u) * p.ystride + p.yofs + (first + 1u)] = rounded(sum, p.round);
}
if (lane == 2u && live && first + 2u < p.n && wid.x * 4u + 2u < p.rows) {
	float sum = sumOf(sums[512u + (lid.x & 192u)]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (first + 2u)]);
	}
	y[(wid.x * 4u + 2u) * p.ystride + p.yofs + (first + 2u)] = rounded(sum, p.round);
}
if (lane == 3u && live && first + 3u < p.n && wid.x * 4u + 2u < p.rows) {
	float sum = sumOf(sums[768u + (lid.x & 192u)]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (first + 3u)]);
	}
	y[(wid.x * 4u + 2u) * p.ystride + p.yofs + (first + 3u)] = rounded(sum, p.round);
}
BARRIER();
sums[0u + lid.x] = e3_0 + f3_0;
sums[256u + lid.x] = e3_1 + f3_1;
sums[512u + lid.x] = e3_2 + f3_2;
sums[768u + lid.x] = e3_3 + f3_3;
BARRIER();
for (uint s = 32u; s > 0u; s = s >> 1u) {
if (lane < s) {
sums[0u + lid.x] += sums[0u + lid.x + s];
sums[256u + lid.x] += sums[256u + lid.x + s];
sums[512u + lid.x] += sums[512u + lid.x + s];
sums[768u + lid.x] += sums[768u + lid.x + s];
}
BARRIER();
}
if (lane == 0u && live && first + 0u < p.n && wid.x * 4u + 3u < p.rows) {
	float sum = sumOf(sums[0u + (lid.x & 192u)]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (first + 0u)]);
	}
	y[(wid.x * 4u + 3u) * p.ystride + p.yofs + (first + 0u)] = rounded(sum, p.round);
}
if (lane == 1u && live && first + 1u < p.n && wid.x * 4u + 3u < p.rows) {
	float sum = sumOf(sums[256u + (lid.x & 192u)]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (first + 1u)]);
	}
	y[(wid.x * 4u + 3u) * p.ystride + p.yofs + (first + 1u)] = rounded(sum, p.round);
}
if (lane == 2u && live && first + 2u < p.n && wid.x * 4u + 3u < p.rows) {
	float sum = sumOf(sums[512u + (lid.x & 192u)]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (first + 2u)]);
	}
	y[(wid.x * 4u + 3u) * p.ystride + p.yofs + (first + 2u)] = rounded(sum, p.round);
}
if (lane == 3u && live && first + 3u < p.n && wid.x * 4u + 3u < p.rows) {
	float sum = sumOf(sums[768u + (lid.x & 192u)]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (first + 3u)]);
	}
	y[(wid.x * 4u + 3u) * p.ystride + p.yofs + (first + 3u)] = rounded(sum, p.round);
}
}

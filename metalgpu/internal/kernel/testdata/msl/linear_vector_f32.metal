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
kernel void linear_vector_f32(
device const float* x [[buffer(0)]],
device const uint* w [[buffer(1)]],
device const float* b [[buffer(2)]],
device float* y [[buffer(3)]],
constant P& p [[buffer(4)]],
uint3 gid [[thread_position_in_grid]],
uint3 lid [[thread_position_in_threadgroup]],
uint3 wid [[threadgroup_position_in_grid]]) {
threadgroup float sums[512];
uint lane = lid.x & 63u;
uint first = (wid.z * 32768u + wid.y) * 8u + (lid.x >> 6u) * 2u;
bool live = first < p.n;
uint full = p.k >> 1u;
uint w0 = p.wofs + min(first + 0u, p.n - 1u) * p.wstride;
uint w1 = p.wofs + min(first + 1u, p.n - 1u) * p.wstride;
uint x0 = min(wid.x * 1u + 0u, p.rows - 1u) * p.k;
float e0_0 = 0.0f;
float f0_0 = 0.0f;
float e0_1 = 0.0f;
float f0_1 = 0.0f;
if (live) {
uint j = lane;
while (j + 192u < full) {
uint v0_0 = w[w0 + 2u * (j + 0u)];
uint z0_0 = w[w0 + 2u * (j + 0u) + 1u];
uint v0_1 = w[w1 + 2u * (j + 0u)];
uint z0_1 = w[w1 + 2u * (j + 0u) + 1u];
uint v1_0 = w[w0 + 2u * (j + 64u)];
uint z1_0 = w[w0 + 2u * (j + 64u) + 1u];
uint v1_1 = w[w1 + 2u * (j + 64u)];
uint z1_1 = w[w1 + 2u * (j + 64u) + 1u];
uint v2_0 = w[w0 + 2u * (j + 128u)];
uint z2_0 = w[w0 + 2u * (j + 128u) + 1u];
uint v2_1 = w[w1 + 2u * (j + 128u)];
uint z2_1 = w[w1 + 2u * (j + 128u) + 1u];
uint v3_0 = w[w0 + 2u * (j + 192u)];
uint z3_0 = w[w0 + 2u * (j + 192u) + 1u];
uint v3_1 = w[w1 + 2u * (j + 192u)];
uint z3_1 = w[w1 + 2u * (j + 192u) + 1u];
float a0_0 = x[x0 + 2u * (j + 0u)];
float c0_0 = x[x0 + 2u * (j + 0u) + 1u];
float a1_0 = x[x0 + 2u * (j + 64u)];
float c1_0 = x[x0 + 2u * (j + 64u) + 1u];
float a2_0 = x[x0 + 2u * (j + 128u)];
float c2_0 = x[x0 + 2u * (j + 128u) + 1u];
float a3_0 = x[x0 + 2u * (j + 192u)];
float c3_0 = x[x0 + 2u * (j + 192u) + 1u];
float gv0_0 = U2F(v0_0);
float hv0_0 = U2F(z0_0);
float gv0_1 = U2F(v0_1);
float hv0_1 = U2F(z0_1);
e0_0 += a0_0 * gv0_0;
f0_0 += c0_0 * hv0_0;
e0_1 += a0_0 * gv0_1;
f0_1 += c0_0 * hv0_1;
float gv1_0 = U2F(v1_0);
float hv1_0 = U2F(z1_0);
float gv1_1 = U2F(v1_1);
float hv1_1 = U2F(z1_1);
e0_0 += a1_0 * gv1_0;
f0_0 += c1_0 * hv1_0;
e0_1 += a1_0 * gv1_1;
f0_1 += c1_0 * hv1_1;
float gv2_0 = U2F(v2_0);
float hv2_0 = U2F(z2_0);
float gv2_1 = U2F(v2_1);
float hv2_1 = U2F(z2_1);
e0_0 += a2_0 * gv2_0;
f0_0 += c2_0 * hv2_0;
e0_1 += a2_0 * gv2_1;
f0_1 += c2_0 * hv2_1;
float gv3_0 = U2F(v3_0);
float hv3_0 = U2F(z3_0);
float gv3_1 = U2F(v3_1);
float hv3_1 = U2F(z3_1);
e0_0 += a3_0 * gv3_0;
f0_0 += c3_0 * hv3_0;
e0_1 += a3_0 * gv3_1;
f0_1 += c3_0 * hv3_1;
j += 256u;
}
while (j < full) {
float a0 = x[x0 + 2u * j];
float c0 = x[x0 + 2u * j + 1u];
float g0 = U2F(w[w0 + 2u * j]);
float h0 = U2F(w[w0 + 2u * j + 1u]);
float g1 = U2F(w[w1 + 2u * j]);
float h1 = U2F(w[w1 + 2u * j + 1u]);
e0_0 += a0 * g0;
f0_0 += c0 * h0;
e0_1 += a0 * g1;
f0_1 += c0 * h1;
j += 64u;
}
if ((p.k & 1u) == 1u && (full & 63u) == lane) {
float a0 = x[x0 + p.k - 1u];
float g0 = U2F(w[w0 + p.k - 1u]);
float g1 = U2F(w[w1 + p.k - 1u]);
e0_0 += a0 * g0;
e0_1 += a0 * g1;
}
}
sums[0u + lid.x] = e0_0 + f0_0;
sums[256u + lid.x] = e0_1 + f0_1;
BARRIER();
for (uint s = 32u; s > 0u; s = s >> 1u) {
if (lane < s) {
sums[0u + lid.x] += sums[0u + lid.x + s];
sums[256u + lid.x] += sums[256u + lid.x + s];
}
BARRIER();
}
if (lane == 0u && live && first + 0u < p.n && wid.x * 1u + 0u < p.rows) {
	float sum = sumOf(sums[0u + (lid.x & 192u)]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (first + 0u)]);
	}
	y[(wid.x * 1u + 0u) * p.ystride + p.yofs + (first + 0u)] = rounded(sum, p.round);
}
if (lane == 1u && live && first + 1u < p.n && wid.x * 1u + 0u < p.rows) {
	float sum = sumOf(sums[256u + (lid.x & 192u)]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (first + 1u)]);
	}
	y[(wid.x * 1u + 0u) * p.ystride + p.yofs + (first + 1u)] = rounded(sum, p.round);
}
}

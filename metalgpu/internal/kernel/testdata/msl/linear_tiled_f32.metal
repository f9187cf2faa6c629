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
kernel void linear_tiled_f32(
device const float* x [[buffer(0)]],
device const uint* w [[buffer(1)]],
device const float* b [[buffer(2)]],
device float* y [[buffer(3)]],
constant P& p [[buffer(4)]],
uint3 gid [[thread_position_in_grid]],
uint3 lid [[thread_position_in_threadgroup]],
uint3 wid [[threadgroup_position_in_grid]]) {
threadgroup float xs[1040];
threadgroup float ws[1040];
uint row = wid.x * 64u;
uint col = wid.y * 64u;
uint tx = lid.x & 7u;
uint ty = lid.x >> 3u;
float s00 = 0.0f;
float s01 = 0.0f;
float s02 = 0.0f;
float s03 = 0.0f;
float s04 = 0.0f;
float s05 = 0.0f;
float s06 = 0.0f;
float s07 = 0.0f;
float s10 = 0.0f;
float s11 = 0.0f;
float s12 = 0.0f;
float s13 = 0.0f;
float s14 = 0.0f;
float s15 = 0.0f;
float s16 = 0.0f;
float s17 = 0.0f;
float s20 = 0.0f;
float s21 = 0.0f;
float s22 = 0.0f;
float s23 = 0.0f;
float s24 = 0.0f;
float s25 = 0.0f;
float s26 = 0.0f;
float s27 = 0.0f;
float s30 = 0.0f;
float s31 = 0.0f;
float s32 = 0.0f;
float s33 = 0.0f;
float s34 = 0.0f;
float s35 = 0.0f;
float s36 = 0.0f;
float s37 = 0.0f;
float s40 = 0.0f;
float s41 = 0.0f;
float s42 = 0.0f;
float s43 = 0.0f;
float s44 = 0.0f;
float s45 = 0.0f;
float s46 = 0.0f;
float s47 = 0.0f;
float s50 = 0.0f;
float s51 = 0.0f;
float s52 = 0.0f;
float s53 = 0.0f;
float s54 = 0.0f;
float s55 = 0.0f;
float s56 = 0.0f;
float s57 = 0.0f;
float s60 = 0.0f;
float s61 = 0.0f;
float s62 = 0.0f;
float s63 = 0.0f;
float s64 = 0.0f;
float s65 = 0.0f;
float s66 = 0.0f;
float s67 = 0.0f;
float s70 = 0.0f;
float s71 = 0.0f;
float s72 = 0.0f;
float s73 = 0.0f;
float s74 = 0.0f;
float s75 = 0.0f;
float s76 = 0.0f;
float s77 = 0.0f;
for (uint at = 0u; at < p.k; at += 16u) {
for (uint i = lid.x; i < 1024u; i += 64u) {
uint kk = i & 15u;
uint r = i >> 4u;
float v = 0.0f;
if (row + r < p.rows && at + kk < p.k) {
v = x[(row + r) * p.k + at + kk];
}
xs[kk * 65u + r] = v;
}
for (uint i = lid.x; i < 1024u; i += 64u) {
uint kk = i & 15u;
uint o = i >> 4u;
float v = 0.0f;
if (col + o < p.n && at + kk < p.k) {
uint e = p.wofs + (col + o) * p.wstride + at + kk;
v = U2F(w[e]);
}
ws[kk * 65u + o] = v;
}
BARRIER();
for (uint kk = 0u; kk < 1040u; kk += 65u) {
float a0 = xs[kk + ty + 0u];
float a1 = xs[kk + ty + 8u];
float a2 = xs[kk + ty + 16u];
float a3 = xs[kk + ty + 24u];
float a4 = xs[kk + ty + 32u];
float a5 = xs[kk + ty + 40u];
float a6 = xs[kk + ty + 48u];
float a7 = xs[kk + ty + 56u];
float c0 = ws[kk + tx + 0u];
float c1 = ws[kk + tx + 8u];
float c2 = ws[kk + tx + 16u];
float c3 = ws[kk + tx + 24u];
float c4 = ws[kk + tx + 32u];
float c5 = ws[kk + tx + 40u];
float c6 = ws[kk + tx + 48u];
float c7 = ws[kk + tx + 56u];
s00 += a0 * c0;
s01 += a0 * c1;
s02 += a0 * c2;
s03 += a0 * c3;
s04 += a0 * c4;
s05 += a0 * c5;
s06 += a0 * c6;
s07 += a0 * c7;
s10 += a1 * c0;
s11 += a1 * c1;
s12 += a1 * c2;
s13 += a1 * c3;
s14 += a1 * c4;
s15 += a1 * c5;
s16 += a1 * c6;
s17 += a1 * c7;
s20 += a2 * c0;
s21 += a2 * c1;
s22 += a2 * c2;
s23 += a2 * c3;
s24 += a2 * c4;
s25 += a2 * c5;
s26 += a2 * c6;
s27 += a2 * c7;
s30 += a3 * c0;
s31 += a3 * c1;
s32 += a3 * c2;
s33 += a3 * c3;
s34 += a3 * c4;
s35 += a3 * c5;
s36 += a3 * c6;
s37 += a3 * c7;
s40 += a4 * c0;
s41 += a4 * c1;
s42 += a4 * c2;
s43 += a4 * c3;
s44 += a4 * c4;
s45 += a4 * c5;
s46 += a4 * c6;
s47 += a4 * c7;
s50 += a5 * c0;
s51 += a5 * c1;
s52 += a5 * c2;
s53 += a5 * c3;
s54 += a5 * c4;
s55 += a5 * c5;
s56 += a5 * c6;
s57 += a5 * c7;
s60 += a6 * c0;
s61 += a6 * c1;
s62 += a6 * c2;
s63 += a6 * c3;
s64 += a6 * c4;
s65 += a6 * c5;
s66 += a6 * c6;
s67 += a6 * c7;
s70 += a7 * c0;
s71 += a7 * c1;
s72 += a7 * c2;
s73 += a7 * c3;
s74 += a7 * c4;
s75 += a7 * c5;
s76 += a7 * c6;
s77 += a7 * c7;
}
BARRIER();
}
xs[ty * 64u + tx + 0u] = s00;
xs[ty * 64u + tx + 8u] = s01;
xs[ty * 64u + tx + 16u] = s02;
xs[ty * 64u + tx + 24u] = s03;
xs[ty * 64u + tx + 32u] = s04;
xs[ty * 64u + tx + 40u] = s05;
xs[ty * 64u + tx + 48u] = s06;
xs[ty * 64u + tx + 56u] = s07;
BARRIER();
for (uint e = 0u; e < 8u; e += 1u) {
uint r = row + e + 0u;
uint o = col + lid.x;
if (r < p.rows && o < p.n) {
	float sum = sumOf(xs[e * 64u + lid.x]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (o)]);
	}
	y[(r) * p.ystride + p.yofs + (o)] = rounded(sum, p.round);
}
}
BARRIER();
xs[ty * 64u + tx + 0u] = s10;
xs[ty * 64u + tx + 8u] = s11;
xs[ty * 64u + tx + 16u] = s12;
xs[ty * 64u + tx + 24u] = s13;
xs[ty * 64u + tx + 32u] = s14;
xs[ty * 64u + tx + 40u] = s15;
xs[ty * 64u + tx + 48u] = s16;
xs[ty * 64u + tx + 56u] = s17;
BARRIER();
for (uint e = 0u; e < 8u; e += 1u) {
uint r = row + e + 8u;
uint o = col + lid.x;
if (r < p.rows && o < p.n) {
	float sum = sumOf(xs[e * 64u + lid.x]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (o)]);
	}
	y[(r) * p.ystride + p.yofs + (o)] = rounded(sum, p.round);
}
}
BARRIER();
xs[ty * 64u + tx + 0u] = s20;
xs[ty * 64u + tx + 8u] = s21;
xs[ty * 64u + tx + 16u] = s22;
xs[ty * 64u + tx + 24u] = s23;
xs[ty * 64u + tx + 32u] = s24;
xs[ty * 64u + tx + 40u] = s25;
xs[ty * 64u + tx + 48u] = s26;
xs[ty * 64u + tx + 56u] = s27;
BARRIER();
for (uint e = 0u; e < 8u; e += 1u) {
uint r = row + e + 16u;
uint o = col + lid.x;
if (r < p.rows && o < p.n) {
	float sum = sumOf(xs[e * 64u + lid.x]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (o)]);
	}
	y[(r) * p.ystride + p.yofs + (o)] = rounded(sum, p.round);
}
}
BARRIER();
xs[ty * 64u + tx + 0u] = s30;
xs[ty * 64u + tx + 8u] = s31;
xs[ty * 64u + tx + 16u] = s32;
xs[ty * 64u + tx + 24u] = s33;
xs[ty * 64u + tx + 32u] = s34;
xs[ty * 64u + tx + 40u] = s35;
xs[ty * 64u + tx + 48u] = s36;
xs[ty * 64u + tx + 56u] = s37;
BARRIER();
for (uint e = 0u; e < 8u; e += 1u) {
uint r = row + e + 24u;
uint o = col + lid.x;
if (r < p.rows && o < p.n) {
	float sum = sumOf(xs[e * 64u + lid.x]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (o)]);
	}
	y[(r) * p.ystride + p.yofs + (o)] = rounded(sum, p.round);
}
}
BARRIER();
xs[ty * 64u + tx + 0u] = s40;
xs[ty * 64u + tx + 8u] = s41;
xs[ty * 64u + tx + 16u] = s42;
xs[ty * 64u + tx + 24u] = s43;
xs[ty * 64u + tx + 32u] = s44;
xs[ty * 64u + tx + 40u] = s45;
xs[ty * 64u + tx + 48u] = s46;
xs[ty * 64u + tx + 56u] = s47;
BARRIER();
for (uint e = 0u; e < 8u; e += 1u) {
uint r = row + e + 32u;
uint o = col + lid.x;
if (r < p.rows && o < p.n) {
	float sum = sumOf(xs[e * 64u + lid.x]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (o)]);
	}
	y[(r) * p.ystride + p.yofs + (o)] = rounded(sum, p.round);
}
}
BARRIER();
xs[ty * 64u + tx + 0u] = s50;
xs[ty * 64u + tx + 8u] = s51;
xs[ty * 64u + tx + 16u] = s52;
xs[ty * 64u + tx + 24u] = s53;
xs[ty * 64u + tx + 32u] = s54;
xs[ty * 64u + tx + 40u] = s55;
xs[ty * 64u + tx + 48u] = s56;
xs[ty * 64u + tx + 56u] = s57;
BARRIER();
for (uint e = 0u; e < 8u; e += 1u) {
uint r = row + e + 40u;
uint o = col + lid.x;
if (r < p.rows && o < p.n) {
	float sum = sumOf(xs[e * 64u + lid.x]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (o)]);
	}
	y[(r) * p.ystride + p.yofs + (o)] = rounded(sum, p.round);
}
}
BARRIER();
xs[ty * 64u + tx + 0u] = s60;
xs[ty * 64u + tx + 8u] = s61;
xs[ty * 64u + tx + 16u] = s62;
xs[ty * 64u + tx + 24u] = s63;
xs[ty * 64u + tx + 32u] = s64;
xs[ty * 64u + tx + 40u] = s65;
xs[ty * 64u + tx + 48u] = s66;
xs[ty * 64u + tx + 56u] = s67;
BARRIER();
for (uint e = 0u; e < 8u; e += 1u) {
uint r = row + e + 48u;
uint o = col + lid.x;
if (r < p.rows && o < p.n) {
	float sum = sumOf(xs[e * 64u + lid.x]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (o)]);
	}
	y[(r) * p.ystride + p.yofs + (o)] = rounded(sum, p.round);
}
}
BARRIER();
xs[ty * 64u + tx + 0u] = s70;
xs[ty * 64u + tx + 8u] = s71;
xs[ty * 64u + tx + 16u] = s72;
xs[ty * 64u + tx + 24u] = s73;
xs[ty * 64u + tx + 32u] = s74;
xs[ty * 64u + tx + 40u] = s75;
xs[ty * 64u + tx + 48u] = s76;
xs[ty * 64u + tx + 56u] = s77;
BARRIER();
for (uint e = 0u; e < 8u; e += 1u) {
uint r = row + e + 56u;
uint o = col + lid.x;
if (r < p.rows && o < p.n) {
	float sum = sumOf(xs[e * 64u + lid.x]);
	if (p.bias == 1u) {
		sum = canonical(sum + b[p.yofs + (o)]);
	}
	y[(r) * p.ystride + p.yofs + (o)] = rounded(sum, p.round);
}
}
}

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
uint steps;
uint width;
uint taps;
uint dilation;
uint left;
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
kernel void conv_depthwise(
device const float* x [[buffer(0)]],
device const float* w [[buffer(1)]],
device const float* b [[buffer(2)]],
device float* y [[buffer(3)]],
constant P& p [[buffer(4)]],
uint3 gid [[thread_position_in_grid]],
uint3 lid [[thread_position_in_threadgroup]],
uint3 wid [[threadgroup_position_in_grid]]) {
uint i = (wid.y * 32768u + wid.x) * 256u + lid.x;
if (i >= p.rows * p.width) {
	return;
}
uint r = i / p.width;
uint c = i - r * p.width;
uint b0 = r / p.steps * p.steps;
int t = int(r - b0) - int(p.left);
float s = 0.0f;
for (uint j = 0u; j < p.taps; j += 1u) {
	float v = 0.0f;
	if (t >= 0 && t < int(p.steps)) {
		v = x[(b0 + uint(t)) * p.width + c];
	}
	s += v * w[j * p.width + c];
	t += int(p.dilation);
}
s = sumOf(s);
if (p.bias == 1u) {
	s = canonical(s + b[c]);
}
y[i] = rounded(s, p.round);
}

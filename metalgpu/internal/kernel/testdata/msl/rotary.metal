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
uint size;
uint pairs;
uint style;
uint stepwise;
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
kernel void rotary(
device const float* x [[buffer(0)]],
device const float* cosines [[buffer(1)]],
device const float* sines [[buffer(2)]],
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
uint column = i - r * p.width;
uint e = column - column / p.size * p.size;
if (e >= 2u * p.pairs) {
	y[i] = rounded(x[i], p.round);
	return;
}
// The pair's number, and whether this is its second element.
uint pair = e >> 1u;
uint apart = 1u;
bool second = (e & 1u) == 1u;
if (p.style == 0u) {
	second = e >= p.pairs;
	apart = p.pairs;
	pair = e;
	if (second) {
		pair = e - p.pairs;
	}
}
float co = cosines[r * p.pairs + pair];
float si = sines[r * p.pairs + pair];
uint type = 0u;
if (p.stepwise == 1u) {
	type = p.round;
}
float v = 0.0f;
if (second) {
	v = rounded(x[i] * co, type) + rounded(x[i - apart] * si, type);
} else {
	v = rounded(x[i] * co, type) - rounded(x[i + apart] * si, type);
}
y[i] = rounded(canonical(v), p.round);
}

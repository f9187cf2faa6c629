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
float shift;
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
kernel void decay(
device const float* x [[buffer(0)]],
device const float* t [[buffer(1)]],
device const float* rate [[buffer(2)]],
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
float a = U2F(F2U(rate[i - r * p.width]) & 0x7fffffffu);
float e = exponential(-t[r] * a);
y[i] = canonical(x[i] * (e + p.shift));
}

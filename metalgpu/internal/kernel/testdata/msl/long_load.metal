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
uint series;
uint columns;
uint steps;
uint width;
uint first;
uint size;
uint count;
uint pairs;
};
FN uint shiftOf(uint m) {
	// By how many bits a subnormal mantissa m, 0 < m < 2^23, must move up.
	return 150u - (F2U(float(m)) >> 23u);
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
kernel void long_load(
device const float* x [[buffer(0)]],
device uint* y [[buffer(1)]],
constant P& p [[buffer(2)]],
uint3 gid [[thread_position_in_grid]],
uint3 lid [[thread_position_in_threadgroup]],
uint3 wid [[threadgroup_position_in_grid]]) {
uint i = (wid.y * 32768u + wid.x) * 256u + lid.x;
if (i >= p.series * p.count * p.size) {
	return;
}
uint at = i % (p.count * p.size);
uint s = i / (p.count * p.size);
uint column = p.first + s % p.columns;
uint row = s / p.columns * p.steps;
for (uint j = 0u; j <= 1u; j += 1u) {
	uint h = 0u;
	uint l = 0u;
	if (at < p.steps && (j == 0u || p.pairs == 1u)) {
		widen(x[(row + at) * p.width + column], h, l);
	}
	y[4u * i + 2u * j] = l;
	y[4u * i + 2u * j + 1u] = h;
	at += p.size;
}
}

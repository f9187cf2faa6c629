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
uint width;
uint bits;
uint lowbits;
uint slots;
uint colbits;
uint highbits;
uint shift;
};
kernel void xor_high(
device const uint* columns [[buffer(0)]],
device const uint* high [[buffer(1)]],
device const uint* ids [[buffer(2)]],
device uint* y [[buffer(3)]],
constant P& p [[buffer(4)]],
uint3 gid [[thread_position_in_grid]],
uint3 lid [[thread_position_in_threadgroup]],
uint3 wid [[threadgroup_position_in_grid]]) {
uint i = (wid.y * 32768u + wid.x) * 256u + lid.x;
if (i >= p.n * p.slots) {
	return;
}
uint r = i / p.slots;
uint e = ids[r] * p.slots + (i - r * p.slots);
uint column = 0u;
if (p.colbits == 16u) {
	column = (columns[e >> 1u] >> ((e & 1u) << 4u)) & 0xffffu;
} else {
	column = columns[e];
}
uint v = 0u;
uint upper = 0u;
if (p.highbits == 8u) {
	v = (high[e >> 2u] >> ((e & 3u) << 3u)) & 0xffu;
} else if (p.highbits == 16u) {
	v = (high[e >> 1u] >> ((e & 1u) << 4u)) & 0xffffu;
} else if (p.highbits == 32u) {
	v = high[e];
} else {
	v = high[2u * e];
	upper = high[2u * e + 1u];
}
if ((v | upper) == 0u) {
	return;
}
uint at = r * p.width + column;
if (p.bits < 64u) {
	y[at] = y[at] ^ ((v << p.lowbits) << p.shift);
} else {
	y[2u * at] = y[2u * at] ^ (v << p.lowbits);
	y[2u * at + 1u] = y[2u * at + 1u] ^ ((upper << p.lowbits) | (v >> (32u - p.lowbits)));
}
}

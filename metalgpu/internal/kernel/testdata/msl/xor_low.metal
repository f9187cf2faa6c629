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
uint shift;
};
kernel void xor_low(
device const uint* base [[buffer(0)]],
device const uint* low [[buffer(1)]],
device const uint* ids [[buffer(2)]],
device uint* y [[buffer(3)]],
constant P& p [[buffer(4)]],
uint3 gid [[thread_position_in_grid]],
uint3 lid [[thread_position_in_threadgroup]],
uint3 wid [[threadgroup_position_in_grid]]) {
uint i = (wid.y * 32768u + wid.x) * 256u + lid.x;
if (i >= p.n * p.width) {
	return;
}
uint r = i / p.width;
uint e = ids[r] * p.width + (i - r * p.width);
uint v = 0u;
if (p.lowbits == 8u) {
	v = (low[e >> 2u] >> ((e & 3u) << 3u)) & 0xffu;
} else {
	v = (low[e >> 1u] >> ((e & 1u) << 4u)) & 0xffffu;
}
if (p.bits == 16u) {
	y[i] = (((base[e >> 1u] >> ((e & 1u) << 4u)) & 0xffffu) ^ v) << p.shift;
} else if (p.bits == 32u) {
	y[i] = (base[e] ^ v) << p.shift;
} else {
	y[2u * i] = base[2u * e] ^ v;
	y[2u * i + 1u] = base[2u * e + 1u];
}
}

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
uint tofs;
uint first;
uint count;
};
kernel void gather_f32(
device const uint* table [[buffer(0)]],
device const uint* ids [[buffer(1)]],
device uint* y [[buffer(2)]],
constant P& p [[buffer(3)]],
uint3 gid [[thread_position_in_grid]],
uint3 lid [[thread_position_in_threadgroup]],
uint3 wid [[threadgroup_position_in_grid]]) {
uint i = (wid.y * 32768u + wid.x) * 256u + lid.x;
if (i >= p.n * p.width) {
	return;
}
uint r = i / p.width;
uint id = ids[r] - p.first;
if (id < p.count) {
	uint e = p.tofs + id * p.width + (i - r * p.width);
	y[i] = table[e];
}
}

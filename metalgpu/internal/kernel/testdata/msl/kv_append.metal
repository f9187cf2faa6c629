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
uint batch;
uint steps;
uint width;
uint capacity;
uint at;
};
kernel void kv_append(
device const uint* x [[buffer(0)]],
device uint* y [[buffer(1)]],
constant P& p [[buffer(2)]],
uint3 gid [[thread_position_in_grid]],
uint3 lid [[thread_position_in_threadgroup]],
uint3 wid [[threadgroup_position_in_grid]]) {
uint i = (wid.y * 32768u + wid.x) * 256u + lid.x;
uint size = p.steps * p.width;
if (i >= p.batch * size) {
	return;
}
uint s = i / size;
y[(s * p.capacity + p.at) * p.width + (i - s * size)] = x[i];
}

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
};
FN float fromF16(uint h) {
	uint o = (h & 0x7fffu) << 13u;
	uint e = o & 0x0f800000u;
	o += 0x38000000u;
	if (e == 0x0f800000u) {
		o += 0x38000000u;
	}
	if (e == 0u) {
		// The difference of two numbers that are not subnormal is exact.
		o = F2U(U2F(o + 0x800000u) - U2F(0x38800000u));
	}
	return U2F(o | ((h & 0x8000u) << 16u));
}
kernel void widen_f16(
device uint* y [[buffer(0)]],
constant P& p [[buffer(1)]],
uint3 gid [[thread_position_in_grid]],
uint3 lid [[thread_position_in_threadgroup]],
uint3 wid [[threadgroup_position_in_grid]]) {
uint i = (wid.y * 32768u + wid.x) * 256u + lid.x;
if (i < p.n) {
	y[i] = F2U(fromF16(y[i]));
}
}

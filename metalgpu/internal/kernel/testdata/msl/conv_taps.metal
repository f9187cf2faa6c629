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
uint first;
uint steps;
uint width;
uint from;
uint channels;
uint taps;
uint dilation;
uint left;
};
kernel void conv_taps(
device const uint* x [[buffer(0)]],
device uint* y [[buffer(1)]],
constant P& p [[buffer(2)]],
uint3 gid [[thread_position_in_grid]],
uint3 lid [[thread_position_in_threadgroup]],
uint3 wid [[threadgroup_position_in_grid]]) {
uint i = (wid.y * 32768u + wid.x) * 256u + lid.x;
uint wide = p.taps * p.channels;
if (i >= p.rows * wide) {
	return;
}
uint r = i / wide;
uint e = i - r * wide;
r += p.first;
uint j = e / p.channels;
uint c = p.from + e - j * p.channels;
uint b = r / p.steps;
int t = int(r - b * p.steps) + int(j * p.dilation) - int(p.left);
uint v = 0u;
if (t >= 0 && t < int(p.steps)) {
	v = x[(b * p.steps + uint(t)) * p.width + c];
}
y[i] = v;
}

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
};
FN bool isNaN(float x) {
	return (F2U(x) & 0x7fffffffu) > 0x7f800000u;
}
FN uint orderOf(float x) {
	uint b = F2U(x);
	if (isNaN(x)) {
		return 0u;
	}
	if ((b & 0x80000000u) == 0u) {
		return b | 0x80000000u;
	}
	if (b == 0x80000000u) {
		return b;
	}
	return ~b;
}
kernel void argmax(
device const float* x [[buffer(0)]],
device uint* index [[buffer(1)]],
constant P& p [[buffer(2)]],
uint3 gid [[thread_position_in_grid]],
uint3 lid [[thread_position_in_threadgroup]],
uint3 wid [[threadgroup_position_in_grid]]) {
threadgroup uint keys[256];
threadgroup uint places[256];
uint row = wid.y * 32768u + wid.x;
if (row >= p.rows) {
	return;
}
uint lastKey = 0xffffffffu;
uint last = 0u;
for (uint found = 0u; found < 1u; found += 1u) {
	uint best = 0u;
	uint where = 0xffffffffu;
	for (uint i = lid.x; i < p.width; i += 256u) {
		uint key = orderOf(x[row * p.width + i]);
		if ((key < lastKey || (key == lastKey && i > last)) && (key > best || where == 0xffffffffu)) {
			best = key;
			where = i;
		}
	}
	keys[lid.x] = best;
	places[lid.x] = where;
	BARRIER();
	for (uint w = 128u; w > 0u; w = w >> 1u) {
		if (lid.x < w) {
			uint other = keys[lid.x + w];
			uint place = places[lid.x + w];
			if (other > keys[lid.x] || (other == keys[lid.x] && place < places[lid.x])) {
				keys[lid.x] = other;
				places[lid.x] = place;
			}
		}
		BARRIER();
	}
	lastKey = keys[0u];
	last = places[0u];
	BARRIER();
	if (lid.x == 0u) {
		index[row] = last;
	}
}
}

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
uint offwords;
uint shift;
};
FN uint byteAt(uint word, uint at) {
	return (word >> ((at & 3u) << 3u)) & 0xffu;
}
kernel void xor_entries(
device const uint* codes [[buffer(0)]],
device const uint* offsets [[buffer(1)]],
device const uint* ids [[buffer(2)]],
device uint* y [[buffer(3)]],
constant P& p [[buffer(4)]],
uint3 gid [[thread_position_in_grid]],
uint3 lid [[thread_position_in_threadgroup]],
uint3 wid [[threadgroup_position_in_grid]]) {
threadgroup uint sums[128];
uint r = wid.y * 32768u + wid.x;
if (r >= p.n) {
	return;
}
uint id = ids[r];
uint from = offsets[id * p.offwords];
uint to = offsets[(id + 1u) * p.offwords];
uint groups = (p.width + 63u) >> 6u;
if (to == from) {
	return;
}
// Where the entries begin: behind the heads and all codes.
uint lanes = 64u / p.bits;
uint words = 0u;
for (uint g = lid.x; g < groups; g += 64u) {
	uint k = byteAt(codes[(from + g) >> 2u], from + g) & 127u;
	if (g == p.width >> 6u) {
		words += ((((p.width & 63u) + lanes - 1u) / lanes) * k + p.bits - 1u) / p.bits;
	} else {
		words += k;
	}
}
sums[lid.x] = words;
BARRIER();
uint total = 0u;
for (uint g = 0u; g < 64u; g += 1u) {
	total += sums[g];
}
BARRIER();
uint at = from + groups + total * 8u;
uint before = 0xffffffffu;
for (uint first = at; first < to; first += 128u) {
	uint mine = first + lid.x * 2u;
	uint gap = 0u;
	if (mine < to) {
		gap = byteAt(codes[mine >> 2u], mine);
	}
	// The columns are running sums of the gaps.
	uint here = 0u;
	sums[lid.x] = gap;
	BARRIER();
	for (uint s = 1u; s < 64u; s = s << 1u) {
		uint v = sums[here + lid.x];
		if (lid.x >= s) {
			v += sums[here + lid.x - s];
		}
		here = 64u - here;
		sums[here + lid.x] = v;
		BARRIER();
	}
	uint column = before + sums[here + lid.x];
	before += sums[here + 63u];
	BARRIER();
	// Who has a gap serves the entries behind it that have none, as the column is
	// the same.
	if (gap > 0u) {
		uint head = from + (column >> 6u);
		uint shift = byteAt(codes[head >> 2u], head) & 127u;
		uint lo = 0u;
		uint hi = 0u;
		uint entry = mine;
		bool more = true;
		while (more) {
			uint value = byteAt(codes[(entry + 1u) >> 2u], entry + 1u);
			if (shift >= 32u) {
				if (shift < 64u) {
					hi = hi | (value << (shift - 32u));
				}
			} else {
				lo = lo | (value << shift);
				if (shift > 24u) {
					hi = hi | (value >> (32u - shift));
				}
			}
			shift += 8u;
			entry += 2u;
			more = false;
			if (entry < to) {
				more = byteAt(codes[entry >> 2u], entry) == 0u;
			}
		}
		if ((lo | hi) != 0u) {
			uint o = r * p.width + column;
			if (p.bits < 64u) {
				y[o] = y[o] ^ (lo << p.shift);
			} else {
				y[2u * o] = y[2u * o] ^ lo;
				y[2u * o + 1u] = y[2u * o + 1u] ^ hi;
			}
		}
	}
}
}

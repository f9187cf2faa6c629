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
uint heads;
uint kvheads;
uint size;
uint queries;
uint keys;
uint vcap;
uint first;
uint block;
uint causal;
uint window;
uint flags;
uint round;
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
FN float sumOf(float x) {
	if (F2U(x) == 0x80000000u) {
		return 0.0f;
	}
	return canonical(x);
}
FN float toBF16(float x) {
	uint b = F2U(x);
	if (isNaN(x)) {
		if ((b & 0xffffu) == 0u) {
			return x;
		}
		return U2F((b & 0xffff0000u) | 0x400000u);
	}
	return U2F((b + 0x7fffu + ((b >> 16u) & 1u)) & 0xffff0000u);
}
FN float toF16(float x) {
	uint b = F2U(x);
	uint sign = b & 0x80000000u;
	uint a = b & 0x7fffffffu;
	if (a > 0x7f800000u) {
		if ((b & 0x1fffu) == 0u) {
			return x;
		}
		return U2F((b & 0xffffe000u) | 0x400000u);
	}
	if (a >= 0x477ff000u) {
		return U2F(sign | 0x7f800000u);
	}
	if (a >= 0x38800000u) {
		return U2F((b + 0xfffu + ((b >> 13u) & 1u)) & 0xffffe000u);
	}
	// Below 2^-14: a multiple of 2^-24.
	uint s = 126u - (a >> 23u);
	if (s > 24u) {
		return U2F(sign);
	}
	uint m = (a & 0x7fffffu) | 0x800000u;
	uint r = m >> s;
	uint lost = m & ((1u << s) - 1u);
	uint half_ = 1u << (s - 1u);
	if (lost > half_ || (lost == half_ && (r & 1u) == 1u)) {
		r += 1u;
	}
	return U2F(F2U(float(r) * U2F(0x33800000u)) | sign);
}
FN float rounded(float x, uint type) {
	if (type == 1u) {
		return toBF16(x);
	}
	if (type == 2u) {
		return toF16(x);
	}
	return x;
}
kernel void attention_context(
device const float* weights [[buffer(0)]],
device const float* v [[buffer(1)]],
device const uint* mask [[buffer(2)]],
device float* y [[buffer(3)]],
constant P& p [[buffer(4)]],
uint3 gid [[thread_position_in_grid]],
uint3 lid [[thread_position_in_threadgroup]],
uint3 wid [[threadgroup_position_in_grid]]) {
threadgroup float part[2112];
threadgroup uint seen[64];
threadgroup uint some[1];
uint line = wid.y * 256u + wid.z;
if (line >= p.batch * p.heads * p.block) {
	return;
}
uint s = line / (p.heads * p.block);
uint h = (line / p.block) - s * p.heads;
uint t = p.first + (line - line / p.block * p.block);
uint limit = p.keys;
uint begin = 0u;
if (p.causal == 1u) {
	// Query t sees keys up to keys − queries + t.
	limit = 0u;
	if (p.keys + t + 1u > p.queries) {
		limit = min(p.keys, p.keys + t + 1u - p.queries);
	}
	if (p.window > 0u && p.keys + t + 1u > p.queries + p.window) {
		begin = min(limit, p.keys + t + 1u - p.queries - p.window);
	}
}
uint masked = p.flags & 1u;
if (lid.x == 0u) {
	some[0u] = 0u;
}
BARRIER();
if (masked == 1u) {
	// Every invocation that finds a key writes the same: one does it for all.
	uint any = 0u;
	for (uint i = begin + lid.x; i < limit; i += 256u) {
		any = any | mask[s * p.keys + i];
	}
	part[lid.x] = 0.0f;
	if (any != 0u) {
		part[lid.x] = 1.0f;
	}
	BARRIER();
	if (lid.x == 0u) {
		for (uint i = 0u; i < 256u; i += 1u) {
			if (part[i] > 0.0f) {
				some[0u] = 1u;
			}
		}
	}
	BARRIER();
}
if ((masked == 1u && some[0u] == 0u) || limit == begin) {
	masked = 0u;
	begin = 0u;
	limit = p.keys;
}
uint d = lid.x & 31u;
uint element = wid.x * 32u + d;
uint lane = lid.x >> 5u;
uint column = h / (p.heads / p.kvheads) * p.size + element;
float sum = 0.0f;
for (uint start = begin; start < limit; start += 64u) {
	uint end = min(limit - start, 64u);
	if (element < p.size) {
		for (uint i = lane; i < end; i += 8u) {
			part[i * 33u + d] = weights[line * p.keys + start + i] * v[(s * p.vcap + start + i) * p.kvheads * p.size + column];
		}
	}
	if (lid.x < end) {
		seen[lid.x] = 1u;
		if (masked == 1u) {
			seen[lid.x] = mask[s * p.keys + start + lid.x];
		}
	}
	BARRIER();
	if (lane == 0u && element < p.size) {
		for (uint i = 0u; i < end; i += 1u) {
			if (seen[i] != 0u) {
				sum += part[i * 33u + d];
			}
		}
	}
	BARRIER();
}
if (lane == 0u && element < p.size) {
	y[((s * p.queries + t) * p.heads + h) * p.size + element] = rounded(sumOf(sum), p.round);
}
}

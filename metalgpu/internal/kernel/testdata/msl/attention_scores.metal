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
uint kcap;
uint first;
uint block;
float scale;
uint causal;
uint window;
uint flags;
uint wide;
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
kernel void attention_scores(
device const float* q [[buffer(0)]],
device const float* k [[buffer(1)]],
device const uint* mask [[buffer(2)]],
device const float* bias [[buffer(3)]],
device const float* keybias [[buffer(4)]],
device float* scores [[buffer(5)]],
constant P& p [[buffer(6)]],
uint3 gid [[thread_position_in_grid]],
uint3 lid [[thread_position_in_threadgroup]],
uint3 wid [[threadgroup_position_in_grid]]) {
threadgroup float query[64];
uint line = wid.y * 256u + wid.z;
if (line >= p.batch * p.heads * p.block) {
	return;
}
uint i = wid.x * 64u + lid.x;
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
uint type = p.round;
if (p.wide == 1u) {
	type = 0u;
}
uint at = (s * p.queries + t) * p.heads * p.size + h * p.size;
uint from = (s * p.kcap + i) * p.kvheads * p.size + h / (p.heads / p.kvheads) * p.size;
float v = 0.0f;
bool live = i >= begin && i < limit;
for (uint d = 0u; d < p.size; d += 64u) {
	BARRIER();
	if (d + lid.x < p.size) {
		query[lid.x] = q[at + d + lid.x];
	}
	BARRIER();
	if (live) {
		uint end = min(p.size - d, 64u);
		uint j = 0u;
		while (j + 3u < end) {
			float k0 = k[from + d + j];
			float k1 = k[from + d + j + 1u];
			float k2 = k[from + d + j + 2u];
			float k3 = k[from + d + j + 3u];
			v += query[j] * k0;
			v += query[j + 1u] * k1;
			v += query[j + 2u] * k2;
			v += query[j + 3u] * k3;
			j += 4u;
		}
		while (j < end) {
			v += query[j] * k[from + d + j];
			j += 1u;
		}
	}
}
if (i < p.keys) {
	if (live) {
		v = rounded(rounded(sumOf(v), type) * p.scale, type);
		if ((p.flags & 2u) != 0u) {
			v = rounded(v + bias[(h * p.queries + t) * p.keys + i], type);
		}
		if ((p.flags & 4u) != 0u) {
			v = rounded(v + keybias[s * p.keys + i], type);
		}
		v = canonical(v);
	}
	scores[line * p.keys + i] = v;
}
}

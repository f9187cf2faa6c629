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
FN uint bytesAt(uint word, uint next, uint at) {
	uint s = (at & 3u) << 3u;
	if (s == 0u) {
		return word;
	}
	return (word >> s) | (next << (32u - s));
}
kernel void xor_codes(
device const uint* base [[buffer(0)]],
device const uint* codes [[buffer(1)]],
device const uint* offsets [[buffer(2)]],
device const uint* ids [[buffer(3)]],
device uint* y [[buffer(4)]],
constant P& p [[buffer(5)]],
uint3 gid [[thread_position_in_grid]],
uint3 lid [[thread_position_in_threadgroup]],
uint3 wid [[threadgroup_position_in_grid]]) {
threadgroup uint sizes[64];
threadgroup uint starts[64];
uint r = wid.y * 32768u + wid.x;
if (r >= p.n) {
	return;
}
uint id = ids[r];
uint from = offsets[id * p.offwords];
uint to = offsets[(id + 1u) * p.offwords];
uint groups = (p.width + 63u) >> 6u;
uint lanes = 64u / p.bits;
uint at = from + groups;
for (uint g0 = 0u; g0 < groups; g0 += 64u) {
	uint mine = g0 + lid.x;
	uint size = 0u;
	if (mine < groups && to > from) {
		uint k = byteAt(codes[(from + mine) >> 2u], from + mine) & 127u;
		size = k * 8u;
		if (mine == p.width >> 6u) {
			size = ((((p.width & 63u) + lanes - 1u) / lanes) * k + p.bits - 1u) / p.bits * 8u;
		}
	}
	sizes[lid.x] = size;
	BARRIER();
	uint start = at;
	uint total = at;
	for (uint g = 0u; g < 64u; g += 1u) {
		if (g == lid.x) {
			start = total;
		}
		total += sizes[g];
	}
	starts[lid.x] = start;
	at = total;
	BARRIER();
	uint end = min(p.width - g0 * 64u, 4096u);
	for (uint i = lid.x; i < end; i += 64u) {
		uint column = g0 * 64u + i;
		uint e = id * p.width + column;
		uint o = r * p.width + column;
		uint k = 0u;
		uint head = 0u;
		if (to > from) {
			uint h = from + g0 + (i >> 6u);
			head = byteAt(codes[h >> 2u], h);
			k = head & 127u;
		}
		uint inside = i & 63u;
		uint bit = (inside / lanes) * k;
		uint word = bit / p.bits;
		uint off = bit - word * p.bits;
		uint byte = starts[i >> 6u] + word * 8u + (inside & (lanes - 1u)) * (p.bits >> 3u);
		uint runs = 0u;
		if (off + k > p.bits) {
			runs = 1u;
		}
		if (p.bits < 64u) {
			uint v = 0u;
			if (p.bits == 32u) {
				v = base[e];
			} else {
				v = (base[e >> 1u] >> ((e & 1u) << 4u)) & 0xffffu;
			}
			if (k > 0u) {
				// Codes lie at any byte: take them from two words.
				uint code = bytesAt(codes[byte >> 2u], codes[(byte + p.bits / 8u - 1u) >> 2u], byte);
				if (p.bits == 16u) {
					code = code & 0xffffu;
				}
				code = code >> off;
				if (runs == 1u) {
					uint next = byte + 8u;
					uint more = bytesAt(codes[next >> 2u], codes[(next + p.bits / 8u - 1u) >> 2u], next);
					code = code | (more << (p.bits - off));
				}
				if (k < 32u) {
					code = code & ((1u << k) - 1u);
				}
				if ((head & 128u) == 0u) {
					v = v ^ code;
				} else {
					v = v + code - (1u << (k - 1u));
				}
				if (p.bits == 16u) {
					v = v & 0xffffu;
				}
			}
			y[o] = v << p.shift;
		} else {
			uint v = base[2u * e];
			uint u = base[2u * e + 1u];
			if (k > 0u) {
				uint lo = bytesAt(codes[byte >> 2u], codes[(byte + 3u) >> 2u], byte);
				uint hi = bytesAt(codes[(byte + 4u) >> 2u], codes[(byte + 7u) >> 2u], byte);
				// The code shifted down to bit 0, from this word and the next.
				uint cl = lo;
				uint ch = hi;
				if (off >= 32u) {
					cl = hi >> (off - 32u);
					ch = 0u;
				} else if (off > 0u) {
					cl = (lo >> off) | (hi << (32u - off));
					ch = hi >> off;
				}
				if (runs == 1u) {
					uint ml = bytesAt(codes[(byte + 8u) >> 2u], codes[(byte + 11u) >> 2u], byte);
					uint mh = bytesAt(codes[(byte + 12u) >> 2u], codes[(byte + 15u) >> 2u], byte);
					uint up = 64u - off;
					if (up >= 32u) {
						ch = ch | (ml << (up - 32u));
					} else {
						cl = cl | (ml << up);
						ch = ch | (mh << up) | (ml >> (32u - up));
					}
				}
				if (k < 32u) {
					cl = cl & ((1u << k) - 1u);
					ch = 0u;
				} else if (k < 64u) {
					ch = ch & ((1u << (k - 32u)) - 1u);
				}
				if ((head & 128u) == 0u) {
					v = v ^ cl;
					u = u ^ ch;
				} else {
					// Add the code and take away 2^(k-1).
					uint sum = v + cl;
					u = u + ch;
					if (sum < v) {
						u += 1u;
					}
					v = sum;
					if (k > 32u) {
						u -= 1u << (k - 33u);
					} else {
						uint half_ = 1u << (k - 1u);
						if (v < half_) {
							u -= 1u;
						}
						v -= half_;
					}
				}
			}
			y[2u * o] = v;
			y[2u * o + 1u] = u;
		}
	}
	BARRIER();
}
}

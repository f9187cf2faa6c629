package kernel

// Kernels that decode rows of packed XOR tables, whose form docs/xortable.md
// gives. Each comes in two parts, the codes of all columns and the exceptions,
// since the second changes what the first wrote.
//
// y holds a word for each element of 16 or 32 bits, shifted left by shift, and
// two for one of 64 bits.
var xorKernels = []*Kernel{
	{
		Name: "xor_low", Doc: "The low parts of rectangular rows against the base.",
		Workgroup: [3]int{256, 1, 1},
		Buffers:   []Buffer{word("base"), word("low"), word("ids"), wordOut("y")},
		Push:      []string{"n", "width", "bits", "lowbits", "shift"},
		Body: `uint i = (wid.y * 32768u + wid.x) * 256u + lid.x;
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
`,
		Grid: perRowElement,
	},
	{
		Name: "xor_high", Doc: "The exceptions of rectangular rows: each names another column.",
		Workgroup: [3]int{256, 1, 1},
		Buffers:   []Buffer{word("columns"), word("high"), word("ids"), wordOut("y")},
		Push:      []string{"n", "width", "bits", "lowbits", "slots", "colbits", "highbits", "shift"},
		Body: `uint i = (wid.y * 32768u + wid.x) * 256u + lid.x;
if (i >= p.n * p.slots) {
	return;
}
uint r = i / p.slots;
uint e = ids[r] * p.slots + (i - r * p.slots);
uint column = 0u;
if (p.colbits == 16u) {
	column = (columns[e >> 1u] >> ((e & 1u) << 4u)) & 0xffffu;
} else {
	column = columns[e];
}
uint v = 0u;
uint upper = 0u;
if (p.highbits == 8u) {
	v = (high[e >> 2u] >> ((e & 3u) << 3u)) & 0xffu;
} else if (p.highbits == 16u) {
	v = (high[e >> 1u] >> ((e & 1u) << 4u)) & 0xffffu;
} else if (p.highbits == 32u) {
	v = high[e];
} else {
	v = high[2u * e];
	upper = high[2u * e + 1u];
}
if ((v | upper) == 0u) {
	return;
}
uint at = r * p.width + column;
if (p.bits < 64u) {
	y[at] = y[at] ^ ((v << p.lowbits) << p.shift);
} else {
	y[2u * at] = y[2u * at] ^ (v << p.lowbits);
	y[2u * at + 1u] = y[2u * at + 1u] ^ ((upper << p.lowbits) | (v >> (32u - p.lowbits)));
}
`,
		Grid: func(p Args) [3]uint32 {
			return spread((uint64(p.Get("n"))*uint64(p.Get("slots")) + 255) / 256)
		},
	},
	{
		Name: "xor_codes", Doc: "The codes of packed rows against the base, 64 groups of 64 columns at a time.",
		Workgroup: [3]int{64, 1, 1},
		Buffers:   []Buffer{word("base"), word("codes"), word("offsets"), word("ids"), wordOut("y")},
		Push:      []string{"n", "width", "bits", "offwords", "shift"},
		Shared:    []Shared{{"sizes", "uint", 64}, {"starts", "uint", 64}},
		// A code may run over two words of 64 bits, of which a lane of 16 or 32 bits
		// is one half-word or word.
		Body: packedRow + `
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
`,
		Grid: perID,
	},
	{
		Name: "xor_entries", Doc: "The exceptions of packed rows, 64 entries at a time.",
		Workgroup: [3]int{64, 1, 1},
		Buffers:   []Buffer{word("codes"), word("offsets"), word("ids"), wordOut("y")},
		Push:      []string{"n", "width", "bits", "offwords", "shift"},
		Shared:    []Shared{{"sums", "uint", 128}},
		Body: packedRow + `
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
`,
		Grid: perID,
	},
}

// packedRow finds row r of the result and where its bytes lie in codes.
const packedRow = `uint r = wid.y * 32768u + wid.x;
if (r >= p.n) {
	return;
}
uint id = ids[r];
uint from = offsets[id * p.offwords];
uint to = offsets[(id + 1u) * p.offwords];
uint groups = (p.width + 63u) >> 6u;`

// perID is the grid of kernels with a workgroup for each of n rows.
func perID(p Args) [3]uint32 { return spread(uint64(p.Get("n"))) }

package kernel

// Attention has three steps over a block of queries of each sequence: scores,
// softmax in place, context. All have the CPU device's order.

// sees is a condition: query t of sequence s sees key i. hidden keys take no part.
const limits = `uint limit = p.keys;
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
`

var attentionKernels = []*Kernel{
	{
		Name: "attention_scores", Doc: "Scaled and biased products of queries and keys, one invocation each.",
		Workgroup: [3]int{64, 1, 1},
		Buffers:   []Buffer{in("q"), in("k"), word("mask"), in("bias"), in("keybias"), out("scores")},
		Push: []string{"batch", "heads", "kvheads", "size", "queries", "keys", "kcap", "first", "block",
			"scale:float", "causal", "window", "flags", "wide", "round"},
		// A group has 64 keys of one query of one head, which lie along y. The query is
		// shared; products are made and added four elements at a time only to have loads
		// under way.
		Body: `uint line = wid.y * 256u + wid.z;
if (line >= p.batch * p.heads * p.block) {
	return;
}
uint i = wid.x * 64u + lid.x;
uint s = line / (p.heads * p.block);
uint h = (line / p.block) - s * p.heads;
uint t = p.first + (line - line / p.block * p.block);
` + limits + `uint type = p.round;
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
`,
		Shared: []Shared{{"query", "float", 64}},
		Grid: func(p Args) [3]uint32 {
			lines := uint64(p.Get("batch")) * uint64(p.Get("heads")) * uint64(p.Get("block"))
			g := [3]uint32{ceil(p.Get("keys"), 64), uint32((lines + 255) / 256), 256}
			if lines < 256 {
				g[1], g[2] = min(1, uint32(lines)), uint32(lines)
			}
			return g
		},
	},
	{
		Name: "attention_softmax", Doc: "The weights of each row of scores, in place.",
		Workgroup: [3]int{256, 1, 1},
		Buffers:   []Buffer{word("mask"), out("scores")},
		Push:      []string{"batch", "heads", "queries", "keys", "first", "block", "causal", "window", "flags", "round"},
		Shared:    []Shared{{"part", "float", 256}, {"seen", "uint", 256}},
		Body: `uint line = wid.y * 32768u + wid.x;
if (line >= p.batch * p.heads * p.block) {
	return;
}
uint s = line / (p.heads * p.block);
uint t = p.first + (line - line / p.block * p.block);
` + limits + `uint at = line * p.keys;
// The largest score that is seen, and whether one is.
float highest = U2F(0xff800000u);
uint any = 0u;
for (uint i = begin + lid.x; i < limit; i += 256u) {
	bool live = true;
	if ((p.flags & 1u) != 0u) {
		live = mask[s * p.keys + i] != 0u;
	}
	if (live) {
		any = 1u;
		float v = scores[at + i];
		if (!isNaN(v) && v > highest) {
			highest = v;
		}
	}
}
part[lid.x] = highest;
seen[lid.x] = any;
BARRIER();
for (uint w = 128u; w > 0u; w = w >> 1u) {
	if (lid.x < w) {
		if (part[lid.x + w] > part[lid.x]) {
			part[lid.x] = part[lid.x + w];
		}
		seen[lid.x] = seen[lid.x] | seen[lid.x + w];
	}
	BARRIER();
}
highest = part[0u];
any = seen[0u];
BARRIER();
if (any == 0u) {
	float even = rounded(quotient(1.0f, float(p.keys)), p.round);
	for (uint i = lid.x; i < p.keys; i += 256u) {
		scores[at + i] = even;
	}
	return;
}
// Exponentials side by side, their sum in key order by the first invocation.
float total = 0.0f;
for (uint start = begin; start < limit; start += 256u) {
	uint i = start + lid.x;
	float e = 0.0f;
	if (i < limit) {
		bool live = true;
		if ((p.flags & 1u) != 0u) {
			live = mask[s * p.keys + i] != 0u;
		}
		if (live) {
			e = exponential(scores[at + i] - highest);
		}
		scores[at + i] = e;
	}
	part[lid.x] = e;
	BARRIER();
	if (lid.x == 0u) {
		uint end = min(limit - start, 256u);
		for (uint j = 0u; j < end; j += 1u) {
			total += part[j];
		}
	}
	BARRIER();
}
if (lid.x == 0u) {
	part[0u] = total;
}
BARRIER();
total = part[0u];
// The invocation that wrote an exponential reads it again.
for (uint start = begin; start < limit; start += 256u) {
	uint i = start + lid.x;
	if (i < limit) {
		bool live = true;
		if ((p.flags & 1u) != 0u) {
			live = mask[s * p.keys + i] != 0u;
		}
		if (live) {
			scores[at + i] = rounded(quotient(scores[at + i], total), p.round);
		} else {
			scores[at + i] = 0.0f;
		}
	}
}
for (uint i = lid.x; i < begin; i += 256u) {
	scores[at + i] = 0.0f;
}
for (uint i = limit + lid.x; i < p.keys; i += 256u) {
	scores[at + i] = 0.0f;
}
`,
		Grid: func(p Args) [3]uint32 {
			return spread(uint64(p.Get("batch")) * uint64(p.Get("heads")) * uint64(p.Get("block")))
		},
	},
	{
		Name: "attention_context", Doc: "Values weighted and added up in key order, 32 elements of a head's query in a group.",
		Workgroup: [3]int{256, 1, 1},
		Buffers:   []Buffer{in("weights"), in("v"), word("mask"), out("y")},
		Push: []string{"batch", "heads", "kvheads", "size", "queries", "keys", "vcap", "first", "block",
			"causal", "window", "flags", "round"},
		// All invocations bring 64 keys' products to shared memory, each of 32 adds up
		// those of one element. Without a mask, and for a query that sees nothing, each
		// key between the limits counts.
		Shared: []Shared{{"part", "float", 64 * 33}, {"seen", "uint", 64}, {"some", "uint", 1}},
		Body: `uint line = wid.y * 256u + wid.z;
if (line >= p.batch * p.heads * p.block) {
	return;
}
uint s = line / (p.heads * p.block);
uint h = (line / p.block) - s * p.heads;
uint t = p.first + (line - line / p.block * p.block);
` + limits + `uint masked = p.flags & 1u;
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
`,
		Grid: func(p Args) [3]uint32 {
			lines := uint64(p.Get("batch")) * uint64(p.Get("heads")) * uint64(p.Get("block"))
			g := [3]uint32{ceil(p.Get("size"), 32), uint32((lines + 255) / 256), 256}
			if lines < 256 {
				g[1], g[2] = min(1, uint32(lines)), uint32(lines)
			}
			return g
		},
	},
}

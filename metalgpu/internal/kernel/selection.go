package kernel

import "strings"

// Selection compares elements by a number that grows with them: NaNs come first,
// both zeros are one, and of equal elements the one further ahead is larger. A
// workgroup has a row and finds its largest element below the last one found.
const selectBody = `uint row = wid.y * 32768u + wid.x;
if (row >= p.rows) {
	return;
}
uint lastKey = 0xffffffffu;
uint last = 0u;
for (uint found = 0u; found < COUNT; found += 1u) {
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
		STORE
	}
}
`

var selectShared = []Shared{{"keys", "uint", 256}, {"places", "uint", 256}}

var selectKernels = []*Kernel{
	{
		Name: "argmax", Doc: "The place of each row's largest element.",
		Workgroup: [3]int{256, 1, 1},
		Buffers:   []Buffer{in("x"), wordOut("index")},
		Push:      []string{"rows", "width"},
		Shared:    selectShared,
		Body:      selection("1u", "index[row] = last;"),
		Grid:      perRow,
	},
	{
		Name: "topk", Doc: "Each row's largest elements and their places.",
		Workgroup: [3]int{256, 1, 1},
		Buffers:   []Buffer{in("x"), out("values"), wordOut("index")},
		Push:      []string{"rows", "width", "count"},
		Shared:    selectShared,
		Body:      selection("p.count", "values[row * p.count + found] = x[row * p.width + last];\n\t\tindex[row * p.count + found] = last;"),
		Grid:      perRow,
	},
}

func selection(count, store string) string {
	return strings.NewReplacer("COUNT", count, "STORE", store).Replace(selectBody)
}

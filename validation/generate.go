package validation

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/tensor"
)

// Options bound what [Generate] makes. The zero value is useful.
type Options struct {
	// Seed selects the random token ids; equal options give equal examples.
	Seed uint64
	// MaxLength is the longest sequence, 0 for 64; never above what the model takes.
	MaxLength int
	// MaxRows is the largest row count (batch × length) tried, 0 for 129, the first
	// above the common kernel sizes. Boundaries are tried whatever it says.
	MaxRows int
	// Boundaries lists row counts at which a model may switch its computation, such
	// as the largest count of each profile: each is tried with both neighbours.
	Boundaries []int
	// MaxSingles is how many tokens get a call of one row each, 0 for 1,024. A
	// larger vocabulary is sampled evenly, first and last token included.
	MaxSingles int
	// MaxPositions bounds the token positions of all examples together, 0 for
	// 32,768. Examples that do not fit are left out, the least telling first.
	MaxPositions int
	// MaxAttentionLength is the longest sequence whose attention weights are asked
	// for, 0 for 128: they grow with its square.
	MaxAttentionLength int
}

func (o Options) effective(spec architectures.InputSpec) Options {
	set := func(v *int, value int) {
		if *v <= 0 {
			*v = value
		}
	}
	set(&o.MaxLength, 64)
	set(&o.MaxRows, 129)
	set(&o.MaxSingles, 1024)
	set(&o.MaxPositions, 32768)
	set(&o.MaxAttentionLength, 128)
	if spec.MaxPositions > 0 {
		o.MaxLength = min(o.MaxLength, spec.MaxPositions)
	}
	return o
}

// Generate makes examples for a model that takes token ids: every token in a
// call of its own, row counts around powers of two and around the given
// boundaries, pairs of tokens, batches, long and repetitive sequences and, when
// the model understands masks, right and left padding, and any further inputs in
// several shapes. All ask for hidden
// states and, up to a length, for attention weights. It gives nothing for an
// empty vocabulary. For a model that takes images there are batches of random ones
// with random timesteps and labels, and every timestep and every label in a call of
// its own; four values of an image count as a position. For one that takes rows of
// features there are batches of sequences with texts, shorter ones padded, without
// conditions and with guidance, and every timestep in a call of its own.
func Generate(spec architectures.InputSpec, o Options) []Example {
	if spec.Size() < 1 && spec.Latent == nil && spec.Flow == nil {
		return nil
	}
	o = o.effective(spec)
	g := &generator{spec: spec, o: o, rng: rand.New(rand.NewPCG(o.Seed, 0x76616c6964617465))}
	if spec.Latent != nil {
		g.latents(spec.Latent)
		return g.examples
	}
	if spec.Flow != nil {
		g.flows(spec.Flow)
		return g.examples
	}
	g.rowCounts() // few, and the most telling: they come before the budget is spent
	if spec.Masks {
		g.padded()
	}
	for _, f := range spec.Further {
		g.further(f)
	}
	g.batches()
	g.repeated()
	g.add("long", [][]int{g.ids(o.MaxLength)})
	g.singles()
	g.pairs()
	return g.examples
}

type generator struct {
	spec     architectures.InputSpec
	o        Options
	rng      *rand.Rand
	examples []Example
	spent    int
	names    map[string]bool
}

// id returns a random token id.
func (g *generator) id() int { return g.spec.ID(g.rng.IntN(g.spec.Size())) }

// ids returns n random token ids.
func (g *generator) ids(n int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = g.id()
	}
	return ids
}

func (g *generator) batch(sequences, length int) [][]int {
	rows := make([][]int, sequences)
	for i := range rows {
		rows[i] = g.ids(length)
	}
	return rows
}

// add enters one example unless its name is taken or the budget is spent. extra
// are masks and positions by input name.
func (g *generator) add(name string, rows [][]int, extra ...map[string][][]int) {
	positions := len(rows) * len(rows[0])
	for _, m := range extra {
		for _, values := range m {
			positions = max(positions, len(values)*len(values[0]))
		}
	}
	if g.names[name] || positions == 0 || g.spent+positions > g.o.MaxPositions {
		return
	}
	inputs := architectures.Inputs{
		Tensors: map[string]*tensor.Tensor{inputIDs: mustIDs(rows)},
		Flags: map[string]bool{
			flagHiddenStates: true,
			flagAttentions:   len(rows[0]) <= g.o.MaxAttentionLength,
		},
	}
	for _, m := range extra {
		for input, values := range m {
			inputs.Tensors[input] = mustIDs(values)
		}
	}
	if g.names == nil {
		g.names = map[string]bool{}
	}
	g.names[name] = true
	g.spent += positions
	g.examples = append(g.examples, Example{name, inputs})
}

// mustIDs is for rows that are equally long by construction.
func mustIDs(rows [][]int) *tensor.Tensor {
	t, err := architectures.IDTensor(rows)
	if err != nil {
		panic(err)
	}
	return t
}

// singles gives each token a call of one row, the row count at which
// matrix-vector kernels run.
func (g *generator) singles() {
	for _, i := range sample(g.spec.Size(), g.o.MaxSingles) {
		token := g.spec.ID(i)
		g.add(fmt.Sprintf("token-%d", token), [][]int{{token}})
	}
}

// sample returns at most n of 0 … size−1, evenly spread and with both ends.
func sample(size, n int) []int {
	if n >= size {
		n = size
	}
	if n == 1 {
		return []int{0}
	}
	out := make([]int, n)
	for i := range out {
		out[i] = int(int64(i) * int64(size-1) / int64(n-1))
	}
	return out
}

// pairs puts neighbouring and distant tokens side by side, in both orders.
func (g *generator) pairs() {
	if g.o.MaxLength < 2 {
		return
	}
	v := g.spec.Size()
	for _, i := range sample(v, 32) {
		for _, j := range []int{(i + 1) % v, v - 1 - i} {
			a, b := g.spec.ID(i), g.spec.ID(j)
			g.add(fmt.Sprintf("pair-%d-%d", a, b), [][]int{{a, b}})
			g.add(fmt.Sprintf("pair-%d-%d", b, a), [][]int{{b, a}})
		}
	}
}

// rowCounts covers the row counts at which kernels are known to change.
func (g *generator) rowCounts() {
	counts := map[int]bool{}
	for p := 1; p-1 <= g.o.MaxRows; p *= 2 {
		for _, n := range []int{p - 1, p, p + 1} {
			if n <= g.o.MaxRows {
				counts[n] = true
			}
		}
	}
	// What the caller declared comes first, so that no budget leaves it out.
	for _, b := range g.o.Boundaries {
		for _, n := range []int{b - 1, b, b + 1} {
			g.rows(n)
		}
		for n := range counts {
			if n >= b-1 && n <= b+1 {
				delete(counts, n)
			}
		}
	}
	sorted := make([]int, 0, len(counts))
	for n := range counts {
		sorted = append(sorted, n)
	}
	slices.Sort(sorted)
	for _, n := range sorted {
		g.rows(n)
	}
}

// rows adds a call of n rows: one sequence when it fits, and a batch otherwise
// or as well, since only the product may matter.
func (g *generator) rows(n int) {
	if n < 1 {
		return
	}
	if n <= g.o.MaxLength {
		g.add(fmt.Sprintf("rows-%d", n), [][]int{g.ids(n)})
	}
	length := 1
	for d := 2; d < n && d <= g.o.MaxLength; d++ {
		if n%d == 0 {
			length = d
		}
	}
	if n > 1 {
		g.add(fmt.Sprintf("rows-%dx%d", n/length, length), g.batch(n/length, length))
	}
}

// batches covers several sequences at once.
func (g *generator) batches() {
	half := max(1, g.o.MaxLength/2)
	for _, length := range []int{1, min(7, g.o.MaxLength), half} {
		g.add(fmt.Sprintf("batch-2x%d", length), g.batch(2, length))
	}
	g.add(fmt.Sprintf("batch-5x%d", min(3, g.o.MaxLength)), g.batch(5, min(3, g.o.MaxLength)))
}

// repeated covers sequences of one token and of two in turn.
func (g *generator) repeated() {
	length := min(12, g.o.MaxLength)
	for _, i := range sample(g.spec.Size(), 4) {
		token := g.spec.ID(i)
		ids := make([]int, length)
		for i := range ids {
			ids[i] = token
		}
		g.add(fmt.Sprintf("repeat-%dx%d", token, length), [][]int{ids})
	}
	ids := make([]int, length)
	a, b := g.id(), g.id()
	for i := range ids {
		ids[i] = a
		if i%2 == 1 {
			ids[i] = b
		}
	}
	g.add("alternate", [][]int{ids})
}

// further gives an input beside input_ids to calls of several shapes: every value
// in turn, as far as the singles go, random ones, and padding.
func (g *generator) further(f architectures.FurtherInput) {
	if f.Values < 1 {
		return
	}
	size, value := f.Values, func(i int) int { return i }
	if f.Tokens {
		size, value = g.spec.Size(), g.spec.ID
	}
	with := func(name string, ids [][]int, values [][]int) {
		g.add(f.Name+"-"+name, ids, map[string][][]int{f.Name: values})
	}
	lengths := []int{1, min(7, g.o.MaxLength), max(1, g.o.MaxLength/2)}
	for _, n := range []int{1, 3} {
		for _, length := range lengths {
			ids, own := g.batch(n, length), length
			if f.OwnLength {
				own = max(1, lengths[len(lengths)-1]-length+1)
			}
			values := make([][]int, n)
			for i := range values {
				values[i] = make([]int, own)
				end := max(1, own-2*i) // of padding: the first sequence is the longest
				for j := range values[i] {
					switch {
					case !f.Padding:
						values[i][j] = value(g.rng.IntN(size))
					case j < end:
						values[i][j] = 1
					}
				}
			}
			with(fmt.Sprintf("%dx%d", n, length), ids, values)
		}
	}
	if f.Padding {
		return
	}
	for _, i := range sample(size, max(1, g.o.MaxSingles/8)) {
		v := value(i)
		with(fmt.Sprintf("value-%d", v), [][]int{g.ids(1)}, [][]int{{v}})
	}
}

// padded covers batches of sequences of different lengths, padded on either
// side. Left padding comes with positions that count real tokens from 0 and are
// 0 in the padding.
func (g *generator) padded() {
	longest := min(g.o.MaxLength, 16)
	if longest < 2 {
		return
	}
	pad := min(max(g.spec.PadToken, 0), g.spec.Vocabulary-1)
	if len(g.spec.IDs) > 0 && !slices.Contains(g.spec.IDs, pad) {
		pad = g.spec.ID(0)
	}
	lengths := []int{longest, longest/2 + longest%2, 1}
	for _, left := range []bool{false, true} {
		var ids, mask, positions [][]int
		for _, n := range lengths {
			row, m, p := make([]int, longest), make([]int, longest), make([]int, longest)
			first := 0
			if left {
				first = longest - n
			}
			for i := range row {
				row[i] = pad
			}
			for i, id := range g.ids(n) {
				row[first+i], m[first+i], p[first+i] = id, 1, i
			}
			ids, mask, positions = append(ids, row), append(mask, m), append(positions, p)
		}
		if left {
			g.add("left-padded", ids, map[string][][]int{attentionMask: mask, positionIDs: positions})
			g.add("left-padded-mask-only", ids, map[string][][]int{attentionMask: mask})
		} else {
			g.add("right-padded", ids, map[string][][]int{attentionMask: mask})
		}
	}
}

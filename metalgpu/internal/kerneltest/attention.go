package kerneltest

import (
	"fmt"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/metalgpu/internal/kernel"
	"github.com/hfcompress/compress/tensor"
)

// attention makes cases of all three steps together, each block of queries on its
// own, against the CPU device.
func attention(g *gen) []Case {
	var list []Case
	for number, t := range types {
		list = append(list, g.attention(number, t), g.attention(number, t))
	}
	return list
}

func (g *gen) attention(number int, t tensor.DType) Case {
	batch, kvheads, size := g.between(1, 2), g.between(1, 2), g.between(1, 40)
	heads := kvheads * g.between(1, 3)
	queries, keys := g.between(1, 6), g.between(1, 12)
	switch g.IntN(6) {
	case 0:
		keys, queries = g.between(250, 300), 1
	case 1:
		size = g.between(60, 140)
	}
	capacity := keys + g.IntN(3)
	in := nn.AttentionInput{Batch: batch, Heads: heads, KVHeads: kvheads, HeadDim: size, Weights: true,
		Scale: g.floats(1, tame, tensor.F32)[0], Causal: g.coin(), Wide: t != tensor.F32 && g.IntN(3) == 0}
	if in.Causal && g.coin() {
		in.Window = g.between(1, keys+1)
	}
	s := g.spice()
	qType := t
	if in.Wide && g.coin() {
		qType = tensor.F32
	}
	q := g.floats(batch*queries*heads*size, s, qType)
	k := g.floats(batch*capacity*kvheads*size, s, qType)
	v := g.floats(batch*capacity*kvheads*size, s, t)
	mask := make([]uint32, batch*keys)
	bias := g.floats(heads*queries*keys, s, t)
	keyBias := g.floats(batch*keys, s, tensor.F32)
	flags := 0
	if g.coin() {
		flags |= kernel.FlagMask
		show := g.between(0, 3)
		for i := range mask {
			if g.IntN(3) < show {
				mask[i] = 1
			}
			in.Mask = append(in.Mask, mask[i] == 1)
		}
	}
	if g.coin() {
		flags |= kernel.FlagKeyBias
		in.KeyBias = keyBias
	}
	useBias := g.coin()
	if useBias {
		flags |= kernel.FlagBias
	}
	// The CPU device sees the positions that count.
	row := kvheads * size
	cut := func(x []float32) []float32 {
		var out []float32
		for b := range batch {
			out = append(out, x[b*capacity*row:][:keys*row]...)
		}
		return out
	}
	want := onCPU(func(sn nn.Session) []nn.Array {
		in.Q = sn.FromHost(host(q, qType, batch*queries, heads*size))
		in.K = sn.FromHost(host(cut(k), qType, batch*keys, row))
		in.V = sn.FromHost(host(cut(v), t, batch*keys, row))
		if useBias {
			in.Bias = sn.FromHost(host(bias, t, heads, queries*keys))
		}
		out := sn.Attention(in)
		return []nn.Array{out.Context, out.Weights}
	})
	first := 0
	block := queries
	if queries > 1 && g.coin() {
		first = g.IntN(queries)
		block = g.between(1, queries-first)
	}
	context, weights := blank(len(want[0])), []uint32{}
	for b := range batch {
		for t := first; t < first+block; t++ {
			copy(context[(b*queries+t)*heads*size:][:heads*size], want[0][(b*queries+t)*heads*size:])
		}
		for h := range heads {
			weights = append(weights, want[1][((b*heads+h)*queries+first)*keys:][:block*keys]...)
		}
	}
	return Case{
		Name: fmt.Sprintf("attention %s batch %d heads %d/%d×%d, %d queries (%d from %d), %d keys of %d, causal %t window %d flags %d wide %t",
			typeNames[number], batch, heads, kvheads, size, queries, block, first, keys, capacity, in.Causal, in.Window, flags, in.Wide),
		Buffers: [][]uint32{words(q), words(k), mask, words(bias), words(keyBias), blank(len(weights)), words(v), blank(len(context))},
		Steps: []Step{
			step("attention_scores", []int{0, 1, 2, 3, 4, 5}, batch, heads, kvheads, size, queries, keys, capacity, first, block,
				in.Scale, in.Causal, in.Window, flags, in.Wide, number),
			step("attention_softmax", []int{2, 5}, batch, heads, queries, keys, first, block, in.Causal, in.Window, flags, number),
			step("attention_context", []int{5, 6, 2, 7}, batch, heads, kvheads, size, queries, keys, capacity, first, block,
				in.Causal, in.Window, flags, number),
		},
		Want: map[int][]uint32{5: weights, 7: context},
	}
}

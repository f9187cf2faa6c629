package nn

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/internal/gemm"
	"github.com/hfcompress/compress/tensor"
)

// queryBlock is how many queries of a head are taken at a time: their scores
// fill a buffer of queryBlock × S.
const queryBlock = 24

// attention is one call of [Session.Attention] after its checks.
type attention struct {
	AttentionInput
	queries, keys  int          // T and S
	dtype          tensor.DType // of the values
	q, bias        []float32
	seq            []sequence
	context        []float32
	weights        []float32 // [Batch·Heads·T, S], or nil
	qWidth, kWidth int
	panels         *[]float32 // where keys lie that are in no cache
}

func (s *session) Attention(in AttentionInput) AttentionOutput {
	const op = "attention"
	none := AttentionOutput{Context: dead}
	if in.Weights {
		none.Weights = dead
	}
	if !s.begin(op) {
		return none
	}
	a, err := s.attentionInput(op, in)
	if a != nil && a.panels != nil {
		defer s.device.pool.put(a.panels)
	}
	if s.err != nil {
		return none
	}
	if err != nil {
		s.fail(op, err)
		return none
	}
	out := s.make(op, a.dtype, in.Batch*a.queries, a.qWidth)
	if out == nil {
		return none
	}
	a.context = out.f
	result := AttentionOutput{Context: out}
	if in.Weights {
		w := s.make(op, a.dtype, in.Batch*in.Heads*a.queries, a.keys)
		if w == nil {
			return none
		}
		a.weights, result.Weights = w.f, w
	}
	blocks := (a.queries + queryBlock - 1) / queryBlock
	s.run(in.Batch*in.Heads*blocks, func(i int) {
		buf := s.device.pool.get(queryBlock * a.keys)
		defer s.device.pool.put(buf)
		lo := i % blocks * queryBlock
		a.block((*buf)[:queryBlock*a.keys], i/blocks/in.Heads, i/blocks%in.Heads, lo, min(lo+queryBlock, a.queries))
	})
	if err := s.ctx.Err(); err != nil {
		s.fail(op, err)
		return none
	}
	return result
}

// attentionInput checks the operands. A failure is either recorded in the
// session or returned.
func (s *session) attentionInput(op string, in AttentionInput) (*attention, error) {
	if err := in.CheckCounts(); err != nil {
		return nil, err
	}
	a := &attention{AttentionInput: in}
	q := s.matrix(op, "q", in.Q)
	if q == nil {
		return nil, nil
	}
	if err := in.CheckQueries(q.shape); err != nil {
		return nil, err
	}
	a.q, a.queries, a.qWidth, a.dtype = q.f, q.rows()/in.Batch, q.width(), q.dtype
	if in.Wide && q.dtype == tensor.F32 {
		a.dtype = s.valueType(in)
	}
	a.kWidth = in.KVHeads * in.HeadDim
	if err := s.attentionKeys(op, a); err != nil || s.err != nil {
		return nil, err
	}
	if err := in.CheckKeys(a.queries, a.keys); err != nil {
		return nil, err
	}
	if !isNil(in.Bias) {
		bias := s.matrix(op, "bias", in.Bias)
		if bias == nil {
			return nil, nil
		}
		if want := (tensor.Shape{in.Heads, a.queries * a.keys}); !bias.shape.Equal(want) {
			return nil, fmt.Errorf("%w: bias must be %v, is %v", tensor.ErrShape, want, bias.shape)
		}
		if !s.same(op, "bias", bias, a.dtype) {
			return nil, nil
		}
		a.bias = bias.f
	}
	return a, nil
}

// valueType is the type of the values that attention with wide queries runs
// over.
func (s *session) valueType(in AttentionInput) tensor.DType {
	if c, ok := in.Cache.(*cache); ok && c != nil && c.length > 0 {
		return c.valueType
	}
	if v, ok := in.V.(*array); ok && v != nil && computes(v.dtype) {
		return v.dtype
	}
	return tensor.F32
}

// attentionKeys finds the keys and values, in the cache or in K and V.
func (s *session) attentionKeys(op string, a *attention) error {
	in := a.Q
	if a.Cache != nil {
		c, ok := a.Cache.(*cache)
		switch {
		case !isNil(a.K) || !isNil(a.V):
			return fmt.Errorf("%w: both a cache and k or v are given", ErrOperand)
		case !ok || c == nil || c.device != s.device:
			return fmt.Errorf("%w: the cache belongs to another device", ErrOperand)
		case c.batch != a.Batch || c.width != a.kWidth:
			return fmt.Errorf("%w: a cache of %d sequences of width %d for batch %d and %d key/value heads of size %d",
				tensor.ErrShape, c.batch, c.width, a.Batch, a.KVHeads, a.HeadDim)
		case c.length > 0 && (c.keyType != in.DType() || c.valueType != a.dtype):
			return fmt.Errorf("%w: a cache of %v keys and %v values for q %v", tensor.ErrDType, c.keyType, c.valueType, in.DType())
		}
		a.keys, a.seq = c.length, c.seq
		return nil
	}
	k, v := s.matrix(op, "k", a.K), s.matrix(op, "v", a.V)
	if k == nil || v == nil {
		return nil
	}
	if !k.shape.Equal(v.shape) || k.rows()%a.Batch != 0 || k.width() != a.kWidth {
		return fmt.Errorf("%w: k %v and v %v do not fit batch %d and %d key/value heads of size %d",
			tensor.ErrShape, k.shape, v.shape, a.Batch, a.KVHeads, a.HeadDim)
	}
	if !s.same(op, "k", k, in.DType()) || !s.same(op, "v", v, a.dtype) {
		return nil
	}
	a.keys = k.rows() / a.Batch
	a.seq = make([]sequence, a.Batch)
	n := a.keys * a.kWidth
	panels := (a.keys + keyPanel - 1) / keyPanel
	size := panels * keyPanel * a.kWidth
	a.panels = s.device.pool.get(a.Batch * size)
	values := v.f
	if all := len(values) + pad; cap(values) >= all {
		values = values[:all]
	} else { // an uploaded array
		values = append(make([]float32, 0, all), values...)[:all]
	}
	infinite := make([]atomic.Bool, a.Batch)
	for b := range a.seq {
		a.seq[b] = sequence{keys: (*a.panels)[b*size : (b+1)*size], values: values[b*n:]}
	}
	s.run(a.Batch*panels, func(i int) {
		b, p := i/panels, i%panels
		lo, hi := p*keyPanel, min((p+1)*keyPanel, a.keys)
		dst := a.seq[b].keys[lo*a.kWidth:][:keyPanel*a.kWidth]
		if hi-lo < keyPanel {
			clear(dst)
		}
		at, end := b*n+lo*a.kWidth, b*n+hi*a.kWidth
		a.seq[b].panel(k.f[at:end], a.kWidth, lo)
		if !finite(v.f[at:end]) {
			infinite[b].Store(true)
		}
	})
	for b := range a.seq {
		a.seq[b].finite = !infinite[b].Load()
	}
	return s.ctx.Err()
}

// block computes queries lo … hi−1 of head h of sequence b. p is a buffer of
// queryBlock × keys.
func (a *attention) block(p []float32, b, h, lo, hi int) {
	seq := &a.seq[b]
	column := h / (a.Heads / a.KVHeads) * a.HeadDim
	// No query of the block sees keys from visible on.
	visible := a.limit(hi - 1)
	q := a.q[(b*a.queries+lo)*a.qWidth+h*a.HeadDim:]
	scores := gemm.Product{
		Rows: hi - lo, Cols: visible, K: a.HeadDim,
		A: q, LDA: a.qWidth,
		B: seq.keys[column*keyPanel:], BStep: keyPanel, BPanel: keyPanel * a.kWidth,
		C: p, LDC: a.keys,
	}
	if visible > 0 {
		scores.Run()
	}
	blind := a.softmax(p, b, h, lo, hi, visible)
	context := gemm.Product{
		Rows: hi - lo, Cols: a.HeadDim, K: visible,
		A: p, LDA: a.keys,
		B: seq.values[column:], BStep: a.kWidth, BPanel: gemm.PanelWidth,
		C: a.context[(b*a.queries+lo)*a.qWidth+h*a.HeadDim:], LDC: a.qWidth,
	}
	if seq.finite {
		// A hidden key has weight +0, and adding ±0 to a sum that began as +0
		// changes no bit.
		context.Run()
		for t := range context.Rows {
			round(a.dtype, context.C[t*a.qWidth:][:a.HeadDim])
		}
	}
	for t := lo; t < hi; t++ {
		row := p[(t-lo)*a.keys:][:a.keys]
		if blind[t-lo] || !seq.finite {
			a.contextOf(context.C[(t-lo)*a.qWidth:][:a.HeadDim], row, seq, b, t, column, blind[t-lo])
		}
		if a.weights != nil {
			copy(a.weights[((b*a.Heads+h)*a.queries+t)*a.keys:], row)
		}
	}
}

// limit is the number of leading keys that query t may see, masks aside.
func (a *attention) limit(t int) int {
	if !a.Causal {
		return a.keys
	}
	return max(0, min(a.keys, a.keys-a.queries+t+1))
}

// first is the first key of query t's window.
func (a *attention) first(t int) int {
	if a.Window == 0 {
		return 0
	}
	return max(0, a.keys-a.queries+t+1-a.Window)
}

// sees reports whether sequence b's mask shows key i.
func (a *attention) sees(b, i int) bool { return a.Mask == nil || a.Mask[b*a.keys+i] }

// softmax turns the products of queries lo … hi−1 with the visible keys, a row of
// p each, into attention weights, +0 for hidden keys. It returns which queries see
// no key; their weights are even over all keys.
func (a *attention) softmax(p []float32, b, h, lo, hi, visible int) (blind [queryBlock]bool) {
	for t := lo; t < hi; t++ {
		row := p[(t-lo)*a.keys:][:a.keys]
		blind[t-lo] = !a.powers(row[:a.limit(t)], b, h, t)
		clear(row[a.limit(t):])
	}
	var totals [queryBlock]float32
	fmath.SumRows(totals[:hi-lo], p, visible, a.keys)
	for t := lo; t < hi; t++ {
		row := p[(t-lo)*a.keys:][:a.keys]
		if blind[t-lo] {
			even := a.rounded(1 / float32(len(row)))
			for i := range row {
				row[i] = even
			}
			continue
		}
		row = row[:a.limit(t)]
		fmath.Divide(row, row, totals[t-lo])
		round(a.dtype, row)
		a.hide(row, b, t, 0) // also where the total is NaN
	}
	return blind
}

// powers turns the products of one query with keys into e^(score − largest
// score), +0 for hidden keys. It returns false when there are no others; then the
// row is all zeros.
func (a *attention) powers(row []float32, b, h, t int) bool {
	narrow := a.dtype != tensor.F32 && !a.Wide
	step := func() {
		if narrow {
			round(a.dtype, row)
		}
	}
	step()
	fmath.Scale(row, row, a.Scale)
	step()
	if a.bias != nil {
		fmath.Adds(row, row, a.bias[(h*a.queries+t)*a.keys:][:len(row)])
		step()
	}
	if a.KeyBias != nil {
		fmath.Adds(row, row, a.KeyBias[b*a.keys:][:len(row)])
		step()
	}
	// e^−∞ = +0 adds nothing to the total.
	if hidden := a.hide(row, b, t, float32(math.Inf(-1))); hidden == len(row) {
		clear(row)
		return false
	}
	fmath.Shift(row, row, fmath.Max(row))
	fmath.Exps(row)
	return true
}

// hide sets the values of keys that query t must not see, of those up to its
// limit, and returns their number.
func (a *attention) hide(row []float32, b, t int, v float32) int {
	first := a.first(t)
	for i := range row[:first] {
		row[i] = v
	}
	hidden := first
	if a.Mask != nil {
		for i, visible := range a.Mask[b*a.keys:][first:len(row)] {
			if !visible {
				row[first+i] = v
				hidden++
			}
		}
	}
	return hidden
}

// contextOf computes one row of the context key by key: hidden keys take no
// part, so that nothing comes of one that is infinite or NaN. A blind query
// attends to all.
func (a *attention) contextOf(dst, weights []float32, seq *sequence, b, t, column int, blind bool) {
	clear(dst)
	first, limit := a.first(t), a.limit(t)
	if blind {
		first, limit = 0, a.keys
	}
	for i, w := range weights[:limit] {
		if !blind && (i < first || !a.sees(b, i)) {
			continue
		}
		v := seq.values[i*a.kWidth+column:][:a.HeadDim]
		for j := range dst {
			dst[j] += float32(w * v[j])
		}
	}
	for j, v := range dst {
		dst[j] = a.rounded(canonical(v))
	}
}

// rounded is the nearest value of the operands' type.
func (a *attention) rounded(x float32) float32 {
	switch a.dtype {
	case tensor.BF16:
		return fmath.RoundBF16(x)
	case tensor.F16:
		return fmath.RoundF16(x)
	}
	return x
}

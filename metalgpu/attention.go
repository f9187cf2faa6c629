package metalgpu

import (
	"fmt"
	"math"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/metalgpu/internal/driver"
	"github.com/hfcompress/compress/metalgpu/internal/kernel"
	"github.com/hfcompress/compress/tensor"
)

// scoreBytes bounds the scores that are held at a time.
const scoreBytes = 64 << 20

// attention is one call of [nn.Session.Attention] after its checks.
type attention struct {
	nn.AttentionInput
	queries, keys int          // T and S
	room          int          // positions for which k and v have place
	dtype         tensor.DType // of the values
	q, k, v, bias driver.Buffer
	qWidth        int
	kWidth        int
	causal        uint32
}

func (s *session) Attention(in nn.AttentionInput) nn.AttentionOutput {
	const op = "attention"
	none := nn.AttentionOutput{Context: dead}
	if in.Weights {
		none.Weights = dead
	}
	if !s.begin(op) {
		return none
	}
	defer s.device.leave()
	a, err := s.attentionInput(op, in)
	if err != nil {
		s.fail(op, err)
	}
	if s.err != nil {
		return none
	}
	out := s.make(op, a.dtype, in.Batch*a.queries, a.qWidth)
	if out == nil {
		return none
	}
	result := nn.AttentionOutput{Context: out}
	block := a.block(in.Weights)
	var scores driver.Buffer
	if in.Weights {
		w := s.make(op, a.dtype, in.Batch*in.Heads*a.queries, a.keys)
		if w == nil {
			return none
		}
		scores, result.Weights = w.buffer, w
	} else if scores = s.take(op, 4*int64(in.Batch)*int64(in.Heads)*int64(block)*int64(a.keys)); scores == nil {
		return none
	}
	s.attend(op, a, out.buffer, scores, block)
	if !in.Weights {
		s.scratch = append(s.scratch, scores)
	}
	s.pause(op)
	if s.err != nil {
		return none
	}
	return result
}

// block is how many queries of each sequence are taken at a time. All are where
// the weights are asked for: the scores become them.
func (a *attention) block(all bool) int {
	line := 4 * int64(a.Batch) * int64(a.Heads) * int64(max(a.keys, 1))
	if all {
		return a.queries
	}
	return int(max(1, min(int64(a.queries), scoreBytes/line)))
}

// attend records the three steps for each block of queries.
func (s *session) attend(op string, a *attention, out, scores driver.Buffer, block int) {
	if a.queries == 0 {
		return
	}
	var flags uint32
	var mask, keyBias driver.Buffer
	if a.Mask != nil {
		flags |= kernel.FlagMask
		list := make([]uint32, len(a.Mask))
		for i, shown := range a.Mask {
			list[i] = flag(shown)
		}
		mask = s.constant(op, list)
	}
	if a.bias != nil {
		flags |= kernel.FlagBias
	}
	if a.KeyBias != nil {
		flags |= kernel.FlagKeyBias
		list := make([]uint32, len(a.KeyBias))
		for i, v := range a.KeyBias {
			list[i] = pattern(v)
		}
		keyBias = s.constant(op, list)
	}
	batch, heads, kvHeads, size := uint32(a.Batch), uint32(a.Heads), uint32(a.KVHeads), uint32(a.HeadDim)
	queries, keys, room, window := uint32(a.queries), uint32(a.keys), uint32(a.room), uint32(min(a.Window, math.MaxInt32))
	for first := 0; first < a.queries; first += block {
		from, n := uint32(first), uint32(min(block, a.queries-first))
		work := int64(a.Batch) * int64(n) * int64(a.qWidth) * int64(a.keys)
		s.run(op, "attention_scores", work, []driver.Buffer{a.q, a.k, mask, a.bias, keyBias, scores},
			batch, heads, kvHeads, size, queries, keys, room, from, n, pattern(a.Scale), a.causal, window, flags, flag(a.Wide), round(a.dtype))
		s.run(op, "attention_softmax", functionCost*work/int64(max(a.HeadDim, 1)), []driver.Buffer{mask, scores},
			batch, heads, queries, keys, from, n, a.causal, window, flags, round(a.dtype))
		s.run(op, "attention_context", work, []driver.Buffer{scores, a.v, mask, out},
			batch, heads, kvHeads, size, queries, keys, room, from, n, a.causal, window, flags, round(a.dtype))
	}
}

// attentionInput checks the operands. A failure is either recorded in the
// session or returned.
func (s *session) attentionInput(op string, in nn.AttentionInput) (*attention, error) {
	if err := in.CheckCounts(); err != nil {
		return nil, err
	}
	a := &attention{AttentionInput: in, causal: flag(in.Causal)}
	q := s.matrix(op, "q", in.Q)
	if q == nil {
		return nil, nil
	}
	if err := in.CheckQueries(q.shape); err != nil {
		return nil, err
	}
	a.q, a.queries, a.qWidth, a.dtype = q.buffer, q.rows()/in.Batch, q.width(), q.dtype
	if in.Wide && q.dtype == tensor.F32 {
		a.dtype = valueType(in)
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
		a.bias = bias.buffer
	}
	return a, nil
}

// valueType is the type of the values that attention with wide queries runs
// over.
func valueType(in nn.AttentionInput) tensor.DType {
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
			return fmt.Errorf("%w: both a cache and k or v are given", nn.ErrOperand)
		case !ok || c == nil || c.device != s.device:
			return fmt.Errorf("%w: the cache belongs to another device", nn.ErrOperand)
		case c.batch != a.Batch || c.width != a.kWidth:
			return fmt.Errorf("%w: a cache of %d sequences of width %d for batch %d and %d key/value heads of size %d",
				tensor.ErrShape, c.batch, c.width, a.Batch, a.KVHeads, a.HeadDim)
		case c.length > 0 && (c.keyType != in.DType() || c.valueType != a.dtype):
			return fmt.Errorf("%w: a cache of %v keys and %v values for q %v", tensor.ErrDType, c.keyType, c.valueType, in.DType())
		}
		a.keys, a.room, a.k, a.v = c.length, c.room, c.keys, c.values
		if c.resident != nil {
			s.hold(c.resident)
		}
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
	a.room, a.k, a.v = a.keys, k.buffer, v.buffer
	return nil
}

package llama

import (
	"context"
	"fmt"
	"math"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// Forward runs the model once on a whole batch. Errors about inputs wrap
// [ErrInput].
func (m *Model) Forward(ctx context.Context, in architectures.Inputs) (architectures.Outputs, error) {
	k, err := m.cfg.parse(in, 0)
	if err != nil {
		return nil, err
	}
	return m.run(ctx, k, nil)
}

// run evaluates a checked call, in front of which cache, when not nil, holds
// earlier positions, and copies the outputs to the host.
func (m *Model) run(ctx context.Context, k *call, cache *cache) (out architectures.Outputs, err error) {
	s := m.dev.Begin(ctx)
	defer func() {
		if e := s.Close(); err == nil && e != nil {
			out, err = nil, e
		}
	}()
	var hidden, attentions []nn.Array
	last, err := m.trunk(s, k, cache, &hidden, &attentions)
	if err != nil {
		return nil, err
	}
	logits := m.head.Forward(s, last)

	emit := func(name string, a nn.Array, shape ...int) {
		if err != nil {
			return
		}
		t := s.ToHost(a)
		if err = s.Err(); err != nil {
			return
		}
		if t, err = t.Reshape(shape...); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
			return
		}
		out = append(out, architectures.Named{Name: name, Tensor: t})
	}
	emit("logits", logits, k.batch, k.length, m.cfg.VocabSize)
	for i, h := range hidden {
		emit(fmt.Sprintf("hidden_states.%d", i), h, k.batch, k.length, m.cfg.HiddenSize)
	}
	for i, a := range attentions {
		keys := k.length
		if cache != nil {
			keys = cache.len()
		}
		emit(fmt.Sprintf("attentions.%d", i), a, k.batch, m.cfg.Heads, k.length, keys)
	}
	return out, err
}

// trunk computes everything up to the final norm, whose result it returns. What
// the call's flags ask for is appended to hidden and attentions.
func (m *Model) trunk(s nn.Session, k *call, cache *cache, hidden, attentions *[]nn.Array) (nn.Array, error) {
	c := &m.cfg
	cosines, sines, err := nn.RotaryTables(m.freq, k.positions)
	if err != nil {
		return nil, err
	}
	cos, sin := s.FromHost(cosines), s.FromHost(sines)
	block := m.qkv.Forward(s, k.ids)
	if err := s.Err(); err != nil { // a failed session's arrays must not be used
		return nil, err
	}
	q, key, v, h := block[0], block[1], block[2], block[3]
	for i := range m.layers {
		l := &m.layers[i]
		if k.hidden {
			*hidden = append(*hidden, h)
		}
		if i > 0 {
			x := l.norm.Forward(s, h)
			q, key, v = l.q.Forward(s, x), l.k.Forward(s, x), l.v.Forward(s, x)
		}
		q = s.Rotary(q, cos, sin, c.Heads, nn.RotateHalves)
		key = s.Rotary(key, cos, sin, c.KVHeads, nn.RotateHalves)
		in := nn.AttentionInput{
			Q: q, K: key, V: v,
			Batch: k.batch, Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim,
			Scale: c.scale(), Causal: true, Mask: k.mask, Weights: k.attentions,
		}
		if cache != nil {
			s.Append(cache.layers[i], key, v)
			in.K, in.V, in.Cache = nil, nil, cache.layers[i]
			in.Mask = cache.mask()
		}
		att := s.Attention(in)
		if k.attentions {
			*attentions = append(*attentions, att.Weights)
		}
		h = s.Add(h, l.o.Forward(s, att.Context))

		x := l.postNorm.Forward(s, h)
		x = s.Mul(s.Map(c.Activation, l.gate.Forward(s, x)), l.up.Forward(s, x))
		h = s.Add(h, l.down.Forward(s, x))
		if err := s.Err(); err != nil {
			return nil, err
		}
	}
	h = m.norm.Forward(s, h)
	if k.hidden {
		*hidden = append(*hidden, h)
	}
	return h, s.Err()
}

// argmax returns the index of the largest value, the first one among equals as
// in the reference. A NaN has no place in an order and is an error.
func argmax(values []float32) (int, error) {
	best := 0
	for i, v := range values {
		if math.IsNaN(float64(v)) {
			return 0, fmt.Errorf("logit %d is NaN", i)
		}
		if v > values[best] {
			best = i
		}
	}
	return best, nil
}

// lastRows returns row length−1 of every sequence of h [batch·length, width] as
// an array of the session.
func lastRows(s nn.Session, h nn.Array, batch, length, width int) (nn.Array, error) {
	if length == 1 {
		return h, nil
	}
	t := s.ToHost(h)
	if err := s.Err(); err != nil {
		return nil, err
	}
	rows, err := tensor.New(tensor.F32, batch, width)
	if err != nil {
		return nil, err
	}
	for b := range batch {
		copy(rows.Row(b), t.Row(b*length+length-1))
	}
	return s.FromHost(rows), nil
}

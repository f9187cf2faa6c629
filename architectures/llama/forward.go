package llama

import (
	"context"
	"fmt"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// Forward runs the model once on a whole batch. Errors about inputs wrap
// [ErrInput]. Memory on the device is bounded by a few layers' intermediate
// values, whatever the number of layers.
func (m *Model) Forward(ctx context.Context, in architectures.Inputs) (architectures.Outputs, error) {
	k, err := m.cfg.parse(in, 0)
	if err != nil {
		return nil, err
	}
	return m.run(ctx, k, nil)
}

// run evaluates a checked call. When cache is not nil, it holds the positions in
// front of the call's.
func (m *Model) run(ctx context.Context, k *call, cache *cache) (out architectures.Outputs, err error) {
	p := &pass{m: m, ctx: ctx, call: k, cache: cache, mask: k.mask}
	if cache != nil {
		p.mask = cache.mask()
	}
	if err := m.cfg.checkOutputs(k, p.keys()); err != nil {
		return nil, err
	}
	p.s = m.dev.Begin(ctx)
	defer func() {
		if e := p.s.Close(); err == nil && e != nil {
			out, err = nil, e
		}
	}()
	h, err := p.trunk()
	if err != nil {
		return nil, err
	}
	if k.lastOnly {
		if h, err = p.lastRows(h); err != nil {
			return nil, err
		}
	}
	width := k.length
	if k.lastOnly {
		width = 1
	}
	logits, err := p.keep(m.head.Forward(p.s, h), k.batch, width, m.cfg.VocabSize)
	if err != nil {
		return nil, err
	}
	out = append(out, architectures.Named{Name: "logits", Tensor: logits})
	for i, t := range p.hidden {
		out = append(out, architectures.Named{Name: fmt.Sprintf("hidden_states.%d", i), Tensor: t})
	}
	for i, t := range p.attentions {
		out = append(out, architectures.Named{Name: fmt.Sprintf("attentions.%d", i), Tensor: t})
	}
	return out, nil
}

// pass is one run through the layers. Results of a session occupy the device
// until it is closed, so a pass over many rows goes on in a new session whenever
// they add up to sessionBytes. That does not change any value.
type pass struct {
	m     *Model
	ctx   context.Context
	call  *call
	cache *cache

	mask     []bool // [batch, keys], or nil when everything is visible
	s        nn.Session
	cos, sin nn.Array
	used     float64 // bytes of results in s, about

	hidden, attentions []*tensor.Tensor
}

// sessionBytes is when a pass starts its next session.
const sessionBytes = 256 << 20

// trunk computes everything up to the final norm and returns its result, in the
// session that the pass has then.
func (p *pass) trunk() (nn.Array, error) {
	m, k, c := p.m, p.call, &p.m.cfg
	cos, sin, err := nn.RotaryTables(m.freq, k.positions)
	if err != nil {
		return nil, err
	}
	p.cos, p.sin = p.s.FromHost(cos), p.s.FromHost(sin)
	block := m.qkv.Forward(p.s, k.ids)
	if err := p.s.Err(); err != nil { // a failed session's arrays must not be used
		return nil, err
	}
	q, key, v, h := block[0], block[1], block[2], block[3]
	attention, mlp := c.layerBytes(k, p.keys())
	p.used = attention
	for i := range m.layers {
		l := &m.layers[i]
		if i > 0 {
			if h, err = p.room(attention, h, cos, sin); err != nil {
				return nil, err
			}
			x := l.norm.Forward(p.s, h)
			q, key, v = l.q.Forward(p.s, x), l.k.Forward(p.s, x), l.v.Forward(p.s, x)
		}
		if err := p.keepHidden(h); err != nil {
			return nil, err
		}
		attended, err := p.attend(i, q, key, v)
		if err != nil {
			return nil, err
		}
		h = p.s.Add(h, l.o.Forward(p.s, attended))
		if h, err = p.room(mlp, h, cos, sin); err != nil {
			return nil, err
		}
		x := l.postNorm.Forward(p.s, h)
		x = p.s.Mul(p.s.Map(c.Activation, l.gate.Forward(p.s, x)), l.up.Forward(p.s, x))
		h = p.s.Add(h, l.down.Forward(p.s, x))
		if err := p.s.Err(); err != nil {
			return nil, err
		}
	}
	h = m.norm.Forward(p.s, h)
	return h, p.keepHidden(h)
}

// attend applies rotary positions and attention of layer i.
func (p *pass) attend(i int, q, key, v nn.Array) (nn.Array, error) {
	s, k, c := p.s, p.call, &p.m.cfg
	q = s.Rotary(q, p.cos, p.sin, c.Heads, nn.RotateHalves)
	key = s.Rotary(key, p.cos, p.sin, c.KVHeads, nn.RotateHalves)
	in := nn.AttentionInput{
		Q: q, K: key, V: v,
		Batch: k.batch, Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim,
		Scale: c.scale(), Causal: true, Mask: p.mask, Weights: k.attentions,
	}
	if p.cache != nil {
		s.Append(p.cache.layers[i], key, v)
		in.K, in.V, in.Cache = nil, nil, p.cache.layers[i]
	}
	out := s.Attention(in)
	if err := s.Err(); err != nil || !k.attentions {
		return out.Context, err
	}
	t, err := p.keep(out.Weights, k.batch, c.Heads, k.length, p.keys())
	p.attentions = append(p.attentions, t)
	return out.Context, err
}

// keys is the number of positions that a query's attention runs over.
func (p *pass) keys() int {
	if p.cache == nil {
		return p.call.length
	}
	return p.cache.visible()
}

// room makes room for results of so many bytes: when the session would exceed
// its bound, the pass goes on in a new one. h is all that the pass needs of the
// old session; it is returned as an array of the session that the pass then has.
func (p *pass) room(bytes float64, h nn.Array, cos, sin *tensor.Tensor) (nn.Array, error) {
	if p.used += bytes; p.used <= p.m.sessionBytes {
		return h, p.s.Err()
	}
	t := p.s.ToHost(h)
	if err := p.s.Close(); err != nil {
		return nil, err
	}
	p.s, p.used = p.m.dev.Begin(p.ctx), bytes
	p.cos, p.sin = p.s.FromHost(cos), p.s.FromHost(sin)
	return p.s.FromHost(t), p.s.Err()
}

// keep copies a result to the host.
func (p *pass) keep(a nn.Array, shape ...int) (*tensor.Tensor, error) {
	if err := p.s.Err(); err != nil {
		return nil, err
	}
	t := p.s.ToHost(a)
	if err := p.s.Err(); err != nil {
		return nil, err
	}
	return t.Reshape(shape...)
}

func (p *pass) keepHidden(h nn.Array) error {
	if !p.call.hidden {
		return p.s.Err()
	}
	t, err := p.keep(h, p.call.batch, p.call.length, p.m.cfg.HiddenSize)
	p.hidden = append(p.hidden, t)
	return err
}

// lastRows returns the last row of every sequence of h [batch·length, hidden].
func (p *pass) lastRows(h nn.Array) (nn.Array, error) {
	k, width := p.call, p.m.cfg.HiddenSize
	if k.length == 1 {
		return h, nil
	}
	t, err := p.keep(h, k.batch*k.length, width)
	if err != nil {
		return nil, err
	}
	rows, err := tensor.New(tensor.F32, k.batch, width)
	if err != nil {
		return nil, err
	}
	for b := range k.batch {
		copy(rows.Row(b), t.Row((b+1)*k.length-1))
	}
	return p.s.FromHost(rows), nil
}

// layerBytes is about what the results of a layer's two halves occupy in a
// session.
func (c *Config) layerBytes(k *call, keys int) (attention, mlp float64) {
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	attention = float64(3*c.HiddenSize + 3*q + 3*kv)
	if k.attentions {
		attention += float64(c.Heads) * float64(keys)
	}
	mlp = float64(3*c.HiddenSize + 4*c.IntermediateSize)
	bytes := 4 * float64(k.batch) * float64(k.length)
	return attention * bytes, mlp * bytes
}

package llama

import (
	"context"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/batch"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/architectures/nn"
)

// ErrInput is wrapped by every error about what a call was given.
var ErrInput = batch.ErrInput

// Forward runs the model once on a whole batch. Errors about inputs wrap
// [ErrInput]. Memory on the device is bounded by a few layers' intermediate
// values, whatever the number of layers.
func (m *Model) Forward(ctx context.Context, in architectures.Inputs) (architectures.Outputs, error) {
	limits := m.cfg.limits()
	k, err := limits.Parse(in, 0)
	if err != nil {
		return nil, err
	}
	return m.run(ctx, k, nil)
}

// pass is one run through the layers.
type pass struct {
	*run.Pass
	m     *Model
	call  *batch.Call
	cache *run.Cache
	keys  int
	mask  []bool // [batch, keys], or nil when everything is visible

	cos, sin nn.Array
	trace    run.Trace
}

// run evaluates a checked call. When cache is not nil, it holds the positions in
// front of the call's.
func (m *Model) run(ctx context.Context, k *batch.Call, cache *run.Cache) (out architectures.Outputs, err error) {
	c := &m.cfg
	p := &pass{m: m, call: k, cache: cache}
	p.keys, p.mask = run.Keys(k, cache)
	if err := k.CheckOutputs(float64(c.VocabSize), float64(c.HiddenSize)*float64(c.Layers+1),
		float64(c.Heads)*float64(c.Layers)*float64(p.keys)); err != nil {
		return nil, err
	}
	p.Pass = run.Begin(ctx, m.dev, m.sessionBytes)
	defer func() {
		if p.End(&err); err != nil {
			out = nil
		}
	}()
	h, err := p.trunk()
	if err != nil {
		return nil, err
	}
	logits, err := p.Logits(k, h, []nn.RowLocal{m.head}, c.VocabSize)
	if err != nil {
		return nil, err
	}
	return p.trace.Append(architectures.Outputs{{Name: "logits", Tensor: logits}}), nil
}

// trunk computes everything up to the final norm and returns its result, in the
// session that the pass has then.
func (p *pass) trunk() (nn.Array, error) {
	m, k, c := p.m, p.call, &p.m.cfg
	cos, sin, err := c.Rope.Tables(k.Positions)
	if err != nil {
		return nil, err
	}
	p.Fix(&p.cos, cos, c.DType)
	p.Fix(&p.sin, sin, c.DType)
	block := m.qkv.Forward(p.S, k.IDs)
	if err := p.S.Err(); err != nil { // a failed session's arrays must not be used
		return nil, err
	}
	q, key, v, h := block[0], block[1], block[2], block[3]
	attention, mlp := c.layerBytes(k, p.keys)
	p.Use(attention)
	for i := range m.layers {
		l := &m.layers[i]
		if i > 0 {
			if err := p.Room(attention, &h); err != nil {
				return nil, err
			}
			x := l.norm.Forward(p.S, h)
			q, key, v = nn.Apply(p.S, l.q, x), nn.Apply(p.S, l.k, x), nn.Apply(p.S, l.v, x)
		}
		if err := p.trace.KeepHidden(p.Pass, k, h, c.HiddenSize); err != nil {
			return nil, err
		}
		attended, err := p.attend(i, q, key, v)
		if err != nil {
			return nil, err
		}
		h = p.S.Add(h, l.o.Forward(p.S, attended))
		if err := p.Room(mlp, &h); err != nil {
			return nil, err
		}
		x := l.postNorm.Forward(p.S, h)
		x = p.S.Mul(p.S.Map(c.Activation, l.gate.Forward(p.S, x)), l.up.Forward(p.S, x))
		h = p.S.Add(h, l.down.Forward(p.S, x))
		if err := p.S.Err(); err != nil {
			return nil, err
		}
	}
	h = m.norm.Forward(p.S, h)
	return h, p.trace.KeepHidden(p.Pass, k, h, c.HiddenSize)
}

// attend applies rotary positions and attention of layer i.
func (p *pass) attend(i int, q, key, v nn.Array) (nn.Array, error) {
	s, k, c := p.S, p.call, &p.m.cfg
	out := p.cache.Attend(s, i, nn.AttentionInput{
		Q:     s.Rotary(q, p.cos, p.sin, c.Heads, nn.RotateHalves),
		K:     s.Rotary(key, p.cos, p.sin, c.KVHeads, nn.RotateHalves),
		V:     v,
		Batch: k.Batch, Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim,
		Scale: c.scale(), Causal: true, Window: c.window(i), Mask: p.mask, Weights: k.Attentions,
	})
	return out.Context, p.trace.KeepAttention(p.Pass, k, out.Weights, c.Heads, p.keys)
}

// layerBytes is about what the results of a layer's two halves occupy in a
// session.
func (c *Config) layerBytes(k *batch.Call, keys int) (attention, mlp float64) {
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	attention = float64(3*c.HiddenSize + 3*q + 3*kv)
	if k.Attentions {
		attention += float64(c.Heads) * float64(keys)
	}
	mlp = float64(3*c.HiddenSize + 4*c.IntermediateSize)
	bytes := 4 * float64(k.Rows())
	return attention * bytes, mlp * bytes
}

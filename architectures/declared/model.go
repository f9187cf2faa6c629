package declared

import (
	"context"
	"fmt"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// sessionBytes is when a pass starts its next session: results of a session
// occupy the device until it is closed.
const sessionBytes = 256 << 20

// pass is one call of the model.
type pass struct {
	m    *Model
	ctx  context.Context
	call *call
	s    nn.Session
	used float64 // bytes of results in s, about

	values            []nn.Array
	hidden, attention architectures.Outputs
}

// Forward computes the outputs of the file in its order, each [batch, length,
// width] or, pooled, [batch, width]. With output_hidden_states, every other value
// of a block or step at the top of the file follows, as hidden_states.NAME, and
// the results of repetitions, as hidden_states.NAME.I; with output_attentions,
// the weights of every attention, as attentions.I, [batch, heads, length, length].
func (m *Model) Forward(ctx context.Context, in architectures.Inputs) (architectures.Outputs, error) {
	c, err := m.b.parseCall(in)
	if err != nil {
		return nil, err
	}
	if err := m.b.bound(c); err != nil {
		return nil, err
	}
	p := &pass{m: m, ctx: ctx, call: c, s: m.dev.Begin(ctx), values: make([]nn.Array, len(m.b.values))}
	out, err := p.run()
	if closed := p.s.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (p *pass) run() (architectures.Outputs, error) {
	b := p.m.b
	next := 0
	for i, k := range p.m.blocks {
		for _, a := range k.Forward(p.s, p.call.ids) {
			p.values[next] = a
			next++
		}
		if err := p.s.Err(); err != nil {
			return nil, fmt.Errorf("block %s: %w", b.blocks[i].path, err)
		}
	}
	for v := range next {
		p.used += p.bytes(v)
		if err := p.show(v); err != nil {
			return nil, err
		}
	}
	for i := range b.steps {
		if err := p.room(i); err != nil {
			return nil, err
		}
		s := &b.steps[i]
		a, err := p.step(i, s)
		if err == nil {
			err = p.s.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("step %s: %w", b.values[s.to].name, err)
		}
		p.values[s.to] = a
		if err := p.show(s.to); err != nil {
			return nil, err
		}
	}
	var out architectures.Outputs
	for _, o := range b.outputs {
		t, err := p.take(o.from)
		if err != nil {
			return nil, err
		}
		out = append(out, architectures.Named{Name: o.name, Tensor: t})
	}
	return append(append(out, p.hidden...), p.attention...), nil
}

// step computes one step in the session.
func (p *pass) step(i int, s *step) (nn.Array, error) {
	x := p.values[s.from[0]]
	switch s.op {
	case stepLayers:
		for _, l := range p.m.layers[i] {
			x = l.Forward(p.s, x)
		}
	case stepSum, stepProduct:
		for _, v := range s.from[1:] {
			if s.op == stepSum {
				x = p.s.Add(x, p.values[v])
			} else {
				x = p.s.Mul(x, p.values[v])
			}
		}
	case stepPositions:
		rows := make([]int, len(p.call.positions))
		for i, at := range p.call.positions {
			rows[i] = at + s.offset
		}
		x = p.s.Add(x, p.s.Gather(p.m.tables[i], rows))
	case stepRotary:
		cos, sin, err := nn.RotaryTables(p.m.freqs[i], p.call.positions)
		if err != nil {
			return nil, err
		}
		x = p.s.Rotary(x, p.s.FromHost(cos), p.s.FromHost(sin), s.heads, s.style)
	case stepAttention:
		return p.attend(s)
	case stepPool:
		// In float32, and rounded once.
		t := p.s.ToHost(p.cast(x, tensor.F32))
		if err := p.s.Err(); err != nil {
			return nil, err
		}
		pooled, err := p.call.pool(t, s.how)
		if err != nil {
			return nil, err
		}
		x = p.cast(p.s.FromHost(pooled), p.m.b.dtype)
	}
	return x, nil
}

func (p *pass) cast(x nn.Array, d tensor.DType) nn.Array {
	if p.m.b.dtype == tensor.F32 {
		return x
	}
	return p.s.Cast(x, d)
}

func (p *pass) attend(s *step) (nn.Array, error) {
	c := p.call
	out := p.s.Attention(nn.AttentionInput{
		Q: p.values[s.from[0]], K: p.values[s.from[1]], V: p.values[s.from[2]],
		Batch: c.batch, Heads: s.heads, KVHeads: s.kvHeads, HeadDim: s.headDim,
		Scale: s.scale, Causal: s.causal, Mask: c.mask, Weights: c.attentions,
	})
	if err := p.s.Err(); err != nil || !c.attentions {
		return out.Context, err
	}
	t := p.s.ToHost(out.Weights)
	if err := p.s.Err(); err != nil {
		return nil, err
	}
	t, err := t.Reshape(c.batch, s.heads, c.length, c.length)
	if err != nil {
		return nil, err
	}
	p.attention = append(p.attention, architectures.Named{Name: fmt.Sprintf("attentions.%d", len(p.attention)), Tensor: t})
	return out.Context, nil
}

// take copies a value to the host, in the shape that outputs have.
func (p *pass) take(v int) (*tensor.Tensor, error) {
	t := p.s.ToHost(p.values[v])
	if err := p.s.Err(); err != nil {
		return nil, err
	}
	info := &p.m.b.values[v]
	if info.pooled {
		return t.Reshape(p.call.batch, info.width)
	}
	return t.Reshape(p.call.batch, p.call.length, info.width)
}

// show keeps a value for the outputs when hidden states are asked for.
func (p *pass) show(v int) error {
	b := p.m.b
	name := b.values[v].shown
	if !p.call.hidden || name == "" {
		return p.s.Err()
	}
	for _, o := range b.outputs {
		if o.from == v { // it is returned as it is
			return p.s.Err()
		}
	}
	t, err := p.take(v)
	p.hidden = append(p.hidden, architectures.Named{Name: "hidden_states." + name, Tensor: t})
	return err
}

// bytes is about what a value occupies.
func (p *pass) bytes(v int) float64 {
	rows := float64(p.call.batch)
	if !p.m.b.values[v].pooled {
		rows *= float64(p.call.length)
	}
	return 4 * rows * float64(p.m.b.values[v].width)
}

// room makes room for step i: when the session would exceed its bound, the pass
// goes on in a new one with the values that are still read. That changes no
// value.
func (p *pass) room(i int) error {
	s := &p.m.b.steps[i]
	need := p.bytes(s.to)
	for _, l := range s.layers {
		need += l.cost() * 4 * float64(len(p.call.ids))
	}
	if s.op == stepAttention && p.call.attentions {
		need += 4 * float64(len(p.call.ids)) * float64(p.call.length) * float64(s.heads)
	}
	if p.used += need; p.used <= p.m.sessionBytes {
		return nil
	}
	live := map[int]*tensor.Tensor{}
	for v, a := range p.values {
		if a != nil && p.m.last[v] >= i {
			live[v] = p.s.ToHost(a)
		}
	}
	if err := p.s.Close(); err != nil {
		return err
	}
	p.s, p.used = p.m.dev.Begin(p.ctx), need
	for v := range p.values {
		p.values[v] = nil
		if t := live[v]; t != nil {
			p.values[v] = p.s.FromHost(t)
			p.used += p.bytes(v)
		}
	}
	return p.s.Err()
}

// cost counts the elements per row that a layer's results have.
func (l *layer) cost() float64 {
	n := float64(l.out)
	for _, chain := range l.of {
		for i := range chain {
			n += chain[i].cost()
		}
	}
	return n
}

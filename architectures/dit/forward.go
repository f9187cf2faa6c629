package dit

import (
	"context"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/batch"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// pass is one run through the layers.
type pass struct {
	*run.Pass
	m     *Model
	call  *call
	shape *batch.Call // what the trace asks of a call
	trace run.Trace
	// sines are the timesteps' [batch, timeWidth], nil with a schedule.
	sines *tensor.Tensor
	// last are the shift and scale in front of the last projection.
	last *tensor.Tensor
}

// Forward runs the model once on a whole batch: see the package's documentation
// for inputs and outputs.
func (m *Model) Forward(ctx context.Context, in architectures.Inputs) (out architectures.Outputs, err error) {
	c := &m.cfg
	k, err := m.parse(in)
	if err != nil {
		return nil, err
	}
	p := &pass{m: m, call: k, shape: &batch.Call{Batch: k.batch, Length: c.patches(), Hidden: k.hidden, IDs: make([]int, k.batch*c.patches())}}
	for i := range p.shape.IDs {
		p.shape.IDs[i] = i % c.patches()
	}
	perPatch := float64(c.PatchSize*c.PatchSize) * float64(c.OutChannels)
	if err := p.shape.CheckOutputs(perPatch, float64(c.width())*float64(c.Layers+1), 0); err != nil {
		return nil, err
	}
	if m.domain == nil {
		if p.sines, err = m.sines.Tensor(k.steps); err != nil {
			return nil, err
		}
	}
	image, err := cut(c, k.image)
	if err != nil {
		return nil, err
	}
	p.Pass = run.Begin(ctx, m.dev, run.SessionBytes)
	defer func() {
		if p.End(&err); err != nil {
			out = nil
		}
	}()
	h := p.S.Add(m.patches.Forward(p.S, p.S.FromHost(image)), p.S.Gather(m.positions, p.shape.IDs))
	for i := range m.layers {
		if err := p.Room(4*float64(len(p.shape.IDs))*float64(28*c.width()), &h); err != nil {
			return nil, err
		}
		if err := p.trace.KeepHidden(p.Pass, p.shape, h, c.width()); err != nil {
			return nil, err
		}
		if h, err = p.layer(i, h); err != nil {
			return nil, err
		}
	}
	if err := p.trace.KeepHidden(p.Pass, p.shape, h, c.width()); err != nil {
		return nil, err
	}
	h = p.modulate(p.S.LayerNorm(h, nil, nil, adaptiveEpsilon), p.last, 0, 1)
	rows, err := p.Keep(m.project.Forward(p.S, h), len(p.shape.IDs), int(perPatch))
	if err != nil {
		return nil, err
	}
	sample, err := join(c, rows, k.batch)
	if err != nil {
		return nil, err
	}
	return p.trace.Append(architectures.Outputs{{Name: "sample", Tensor: sample}}), nil
}

// modulations returns those of layer i, [batch, 6·width]; with the first layer's
// come the last ones.
func (p *pass) modulations(i int) (*tensor.Tensor, error) {
	var parts []nn.Array
	if p.m.domain != nil {
		parts = p.m.blocks[i].Forward(p.S, p.call.pairs)
	} else {
		parts = p.m.conditions[i].forward(p.S, p.S.FromHost(p.sines), p.call.labels)
	}
	if err := p.S.Err(); err != nil { // a failed session's arrays must not be used
		return nil, err
	}
	d := p.m.cfg.width()
	if i == 0 {
		var err error
		if p.last, err = p.Keep(parts[1], p.call.batch, 2*d); err != nil {
			return nil, err
		}
	}
	return p.Keep(parts[0], p.call.batch, 6*d)
}

// spread returns part n of the images' modulations, with plus added, for each
// patch: [batch·patches, width]. Sessions have no operation for it, and on the host
// it is a copy and one rounded sum.
func (p *pass) spread(of *tensor.Tensor, n int, plus float32) nn.Array {
	if p.S.Err() != nil {
		return nil
	}
	d, patches := p.m.cfg.width(), p.m.cfg.patches()
	t, err := tensor.New(tensor.F32, p.call.batch*patches, d)
	if err != nil {
		panic(err) // the rows of the call exist
	}
	out, width := t.Float32s(), of.Shape()[1]
	for b := range p.call.batch {
		first := out[b*patches*d : (b*patches+1)*d]
		copy(first, of.Float32s()[b*width+n*d:])
		if plus != 0 {
			for i, v := range first {
				first[i] = plus + v
			}
		}
		for at := 1; at < patches; at++ {
			copy(out[(b*patches+at)*d:(b*patches+at+1)*d], first)
		}
	}
	return p.S.FromHost(t)
}

// modulate returns x·(1 + scale) + shift, by the numbers of their parts.
func (p *pass) modulate(x nn.Array, of *tensor.Tensor, shift, scale int) nn.Array {
	if p.S.Err() != nil {
		return x
	}
	return p.S.Add(p.S.Mul(x, p.spread(of, scale, 1)), p.spread(of, shift, 0))
}

// The parts of a layer's modulations.
const (
	shiftAttention = iota
	scaleAttention
	gateAttention
	shiftMLP
	scaleMLP
	gateMLP
)

func (p *pass) layer(i int, h nn.Array) (nn.Array, error) {
	s, c, l := p.S, &p.m.cfg, &p.m.layers[i]
	of, err := p.modulations(i)
	if err != nil {
		return nil, err
	}
	x := p.modulate(s.LayerNorm(h, nil, nil, adaptiveEpsilon), of, shiftAttention, scaleAttention)
	a := s.Attention(nn.AttentionInput{
		Q: l.q.Forward(s, x), K: l.k.Forward(s, x), V: l.v.Forward(s, x),
		Batch: p.call.batch, Heads: c.Heads, KVHeads: c.Heads, HeadDim: c.HeadDim, Scale: c.scale(),
	})
	if err := s.Err(); err != nil {
		return nil, err
	}
	h = s.Add(s.Mul(p.spread(of, gateAttention, 0), l.out.Forward(s, a.Context)), h)
	x = p.modulate(s.LayerNorm(h, nil, nil, c.NormEpsilon), of, shiftMLP, scaleMLP)
	x = l.down.Forward(s, s.Map(c.Activation, l.up.Forward(s, x)))
	if err := s.Err(); err != nil {
		return nil, err
	}
	return s.Add(s.Mul(p.spread(of, gateMLP, 0), x), h), s.Err()
}

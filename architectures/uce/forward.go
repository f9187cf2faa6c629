package uce

import (
	"context"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/batch"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/architectures/nn"
)

// pass is one run through the layers.
type pass struct {
	*run.Pass
	m     *Model
	call  *batch.Call
	trace run.Trace
	// mask hides keys and shift is added to the scores of each; at most one of
	// them is not nil.
	mask  []bool
	shift []float32
}

// Forward runs the model once on a whole batch: see the package's documentation
// for inputs and outputs.
func (m *Model) Forward(ctx context.Context, in architectures.Inputs) (out architectures.Outputs, err error) {
	c := &m.cfg
	limits := batch.Limits{Vocabulary: c.VocabSize, Positions: c.Positions}
	k, err := limits.Parse(in, 0)
	if err != nil {
		return nil, err
	}
	if err := k.CheckOutputs(2*float64(c.OutputDim), float64(c.HiddenSize)*float64(c.Layers+1),
		float64(c.Heads)*float64(c.Layers)*float64(k.Length)); err != nil {
		return nil, err
	}
	p := &pass{m: m, call: k}
	p.setPadding()
	p.Pass = run.Begin(ctx, m.dev, run.SessionBytes)
	defer func() {
		if p.End(&err); err != nil {
			out = nil
		}
	}()
	h, err := p.layers()
	if err != nil {
		return nil, err
	}
	if err := p.Room(float64(4*k.Rows()*(3*c.DecoderSize+8*c.OutputDim)), &h); err != nil {
		return nil, err
	}
	genes := nn.Apply(p.S, m.decoder, h)
	first, err := p.Pick(genes, k.Batch, k.Length, 0)
	if err != nil {
		return nil, err
	}
	cell, err := p.Keep(p.S.RowNormalize(first, 1e-12), k.Batch, c.OutputDim)
	if err != nil {
		return nil, err
	}
	all, err := p.Keep(genes, k.Batch, k.Length, c.OutputDim)
	if err != nil {
		return nil, err
	}
	return p.trace.Append(architectures.Outputs{{Name: "embedding", Tensor: cell}, {Name: "gene_output", Tensor: all}}), nil
}

// setPadding turns the call's mask into what attention takes.
func (p *pass) setPadding() {
	switch mask := p.call.Mask; {
	case mask == nil:
	case p.m.cfg.Padding == PaddingHidden:
		p.mask = mask
	default:
		p.shift = make([]float32, len(mask))
		for i, visible := range mask {
			if !visible {
				p.shift[i] = 1
			}
		}
	}
}

// layers returns the encoder's result [batch·length, hidden], in the session that
// the pass has then.
func (p *pass) layers() (nn.Array, error) {
	m, k, c := p.m, p.call, &p.m.cfg
	block := m.encoder.Forward(p.S, k.IDs)
	if err := p.S.Err(); err != nil { // a failed session's arrays must not be used
		return nil, err
	}
	h := p.S.Add(block[0], p.S.Gather(m.positions, k.Positions))
	bytes := 4 * float64(k.Rows()) * float64(12*c.HiddenSize+2*c.IntermediateSize)
	if k.Attentions {
		bytes += 4 * float64(k.Rows()) * float64(c.Heads) * float64(k.Length)
	}
	for i := range m.layers {
		if err := p.Room(bytes, &h); err != nil {
			return nil, err
		}
		if err := p.trace.KeepHidden(p.Pass, k, h, c.HiddenSize); err != nil {
			return nil, err
		}
		var err error
		if h, err = p.layer(&m.layers[i], h); err != nil {
			return nil, err
		}
	}
	return h, p.trace.KeepHidden(p.Pass, k, h, c.HiddenSize)
}

func (p *pass) layer(l *layer, h nn.Array) (nn.Array, error) {
	s, k, c := p.S, p.call, &p.m.cfg
	qkv := l.qkv.Forward(s, h)
	a := s.Attention(nn.AttentionInput{
		Q:     s.Columns(qkv, 0, c.HiddenSize),
		K:     s.Columns(qkv, c.HiddenSize, c.HiddenSize),
		V:     s.Columns(qkv, 2*c.HiddenSize, c.HiddenSize),
		Batch: k.Batch, Heads: c.Heads, KVHeads: c.Heads, HeadDim: c.headDim(),
		Scale: c.scale(), Mask: p.mask, KeyBias: p.shift, Weights: k.Attentions,
	})
	if err := p.trace.KeepAttention(p.Pass, k, a.Weights, c.Heads, k.Length); err != nil {
		return nil, err
	}
	h = l.norm1.Forward(s, s.Add(h, l.out.Forward(s, a.Context)))
	x := l.linear2.Forward(s, s.Map(nn.ReLU, l.linear1.Forward(s, h)))
	h = l.norm2.Forward(s, s.Add(h, x))
	return h, s.Err()
}

package hyenadna

import (
	"context"
	"fmt"
	"slices"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/batch"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// Forward runs the model once on a whole batch: see the package's documentation
// for inputs and outputs. Errors about inputs wrap [ErrInput].
func (m *Model) Forward(ctx context.Context, in architectures.Inputs) (out architectures.Outputs, err error) {
	c := &m.cfg
	limits := c.limits()
	k, err := limits.Parse(in, 0)
	if err != nil {
		return nil, err
	}
	if c.Labels > 0 && c.PadToken < 0 && k.Batch > 1 {
		return nil, fmt.Errorf("%w: %s: %d sequences; without a pad_token_id a classifier takes one at a time", ErrInput, batch.IDs, k.Batch)
	}
	if err := k.CheckOutputs(float64(c.VocabSize), float64(c.HiddenSize)*float64(c.Layers+2), 0); err != nil {
		return nil, err
	}
	p := run.Begin(ctx, m.dev, m.sessionBytes)
	defer func() {
		if p.End(&err); err != nil {
			out = nil
		}
	}()
	var trace run.Trace
	block := m.block.Forward(p.S, k.IDs)
	if err := p.S.Err(); err != nil { // a failed session's arrays must not be used
		return nil, err
	}
	streams, h := block[0], block[1]
	rows := float64(k.Rows())
	p.Use(4 * rows * float64(c.streams()+2*c.HiddenSize))
	for i := range m.layers {
		l := &m.layers[i]
		if err := trace.KeepHidden(p, k, h, c.HiddenSize); err != nil {
			return nil, err
		}
		if i > 0 {
			if err := p.Room(4*rows*float64(c.streams()+c.HiddenSize), &h); err != nil {
				return nil, err
			}
			streams = nn.Apply(p.S, l.enter, h)
		}
		if h, err = m.mix(p, k, l, streams, h); err != nil {
			return nil, err
		}
		if err := p.Room(4*rows*float64(3*c.HiddenSize+2*c.IntermediateSize), &h); err != nil {
			return nil, err
		}
		h = p.S.Add(nn.Apply(p.S, l.mlp, h), h)
	}
	if err := trace.KeepHidden(p, k, h, c.HiddenSize); err != nil {
		return nil, err
	}
	h = m.norm.Forward(p.S, h)
	if err := trace.KeepHidden(p, k, h, c.HiddenSize); err != nil {
		return nil, err
	}
	switch {
	case c.Labels > 0:
		logits, err := m.classify(p, k, h)
		if err != nil {
			return nil, err
		}
		return trace.Append(architectures.Outputs{{Name: "logits", Tensor: logits}}), nil
	case !c.LM:
		last, err := p.Keep(h, k.Batch, k.Length, c.HiddenSize)
		if err != nil {
			return nil, err
		}
		return trace.Append(architectures.Outputs{{Name: "last_hidden_state", Tensor: last}}), nil
	}
	logits, err := p.Logits(k, h, m.head, c.VocabSize)
	if err != nil {
		return nil, err
	}
	return trace.Append(architectures.Outputs{{Name: "logits", Tensor: logits}}), nil
}

// classify applies the head to one position of each sequence: the one in front of
// its first pad token, and the last one where that is the first position, or where
// there is none, as the published classifier does.
func (m *Model) classify(p *run.Pass, k *batch.Call, h nn.Array) (*tensor.Tensor, error) {
	c := &m.cfg
	all, err := p.Keep(h, k.Rows(), c.HiddenSize)
	if err != nil {
		return nil, err
	}
	rows, err := tensor.New(all.DType(), k.Batch, c.HiddenSize)
	if err != nil {
		return nil, err
	}
	for b := range k.Batch {
		at := slices.Index(k.IDs[b*k.Length:(b+1)*k.Length], c.PadToken) - 1
		if at < 0 {
			at = k.Length - 1
		}
		copy(rows.Row(b), all.Row(b*k.Length+at))
	}
	return p.Keep(nn.Apply(p.S, m.head, p.S.FromHost(rows)), k.Batch, c.Labels)
}

// mix returns h plus what a layer's convolutions make of the streams that its input
// projection gives.
func (m *Model) mix(p *run.Pass, k *batch.Call, l *layer, streams, h nn.Array) (nn.Array, error) {
	c, rows := &m.cfg, float64(k.Rows())
	// Results are given up as early as they can be: those of a long sequence are
	// gigabytes.
	if err := p.Room(4*rows*float64(c.streams()), &streams, &h); err != nil {
		return nil, err
	}
	short, ok := p.S.(nn.Convolver)
	if !ok {
		return nil, nn.ErrNoConvolution
	}
	streams = short.Convolve(streams, nn.Convolution{Batch: k.Batch, Kernel: shortTaps, Left: shortTaps - 1, Taps: l.taps, Bias: l.bias})

	taps := min(nn.LongFilterRows(k.Length), c.Positions)
	work := float64((2*c.FilterLayers+2)*c.FilterSize + 2*c.filters() + 2*c.PositionSize)
	if err := p.Room(4*float64(taps)*work, &streams, &h); err != nil {
		return nil, err
	}
	long, ok := p.S.(nn.LongConvolver)
	if !ok {
		return nil, nn.ErrNoLongConvolution
	}
	filters := l.filter.rows(p.S, long, taps)

	bytes := 4*rows*float64(c.Order*3+4)*float64(c.HiddenSize) + 4*float64(taps)*float64(c.filters())
	if err := p.Room(bytes, &streams, &filters, &h); err != nil {
		return nil, err
	}
	if long, ok = p.S.(nn.LongConvolver); !ok {
		return nil, nn.ErrNoLongConvolution
	}
	stream := func(i int) nn.Array { return p.S.Columns(streams, i*c.HiddenSize, c.HiddenSize) }
	v := stream(c.Order)
	for i := range c.Order - 1 {
		filter := filters
		if c.Order > 2 {
			filter = p.S.Columns(filters, i*c.HiddenSize, c.HiddenSize)
		}
		v = long.ConvolveLong(p.S.Mul(v, stream(c.Order-1-i)), nn.LongConvolution{Batch: k.Batch, Filter: filter, Skip: l.filter.skips[i]})
	}
	h = p.S.Add(l.out.Forward(p.S, p.S.Mul(v, stream(0))), h)
	return h, p.S.Err()
}

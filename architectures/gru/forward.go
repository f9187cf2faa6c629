package gru

import (
	"context"
	"fmt"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/batch"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// decoderIDs is the input that the decoder reads.
const decoderIDs = "decoder_input_ids"

// Forward runs the model once on a whole batch: see the package's documentation
// for inputs and outputs.
func (m *Model) Forward(ctx context.Context, in architectures.Inputs) (out architectures.Outputs, err error) {
	if err := batch.CheckNames(in, []string{batch.IDs, decoderIDs}); err != nil {
		return nil, err
	}
	n, length, ids, err := batch.Tokens(in, batch.IDs, m.cfg.SourceVocab)
	if err != nil {
		return nil, err
	}
	d := &decoding{m: m, batch: n, steps: m.cfg.MaxNewTokens}
	if in.Tensors[decoderIDs] != nil {
		var sequences int
		if sequences, d.steps, d.ids, err = batch.Tokens(in, decoderIDs, m.cfg.TargetVocab); err != nil {
			return nil, err
		}
		if sequences != n {
			return nil, fmt.Errorf("%w: %s has %d sequences, %s has %d", batch.ErrInput, decoderIDs, sequences, batch.IDs, n)
		}
	}
	hidden := in.Flags[batch.FlagHidden]
	call := batch.Call{Batch: n, Length: d.steps + length}
	if err := call.CheckOutputs(float64(m.cfg.TargetVocab)+float64(m.cfg.HiddenSize), 0, 0); err != nil {
		return nil, err
	}

	p := run.Begin(ctx, m.dev, run.SessionBytes)
	defer p.End(&err)
	g := newRunner(p, n, m.cfg.HiddenSize)
	var states [][]byte
	for t := range length {
		if err := g.step(&m.encoder, column(ids, n, length, t)); err != nil {
			return nil, err
		}
		if hidden {
			if states, err = keep(states, p, g.h); err != nil {
				return nil, err
			}
		}
	}
	if err := d.run(g, hidden); err != nil {
		return nil, err
	}
	return d.outputs(states, hidden)
}

// column returns element t of each sequence.
func column(ids []int, n, length, t int) []int {
	out := make([]int, n)
	for b := range out {
		out[b] = ids[b*length+t]
	}
	return out
}

// keep appends the bytes of a result to those of earlier steps.
func keep(steps [][]byte, p *run.Pass, a nn.Array) ([][]byte, error) {
	t := p.S.ToHost(a)
	if t == nil {
		return nil, p.S.Err()
	}
	return append(steps, t.Bytes()), p.S.Err()
}

// interleave turns steps of [batch, width] into F32 [batch, steps, width].
func interleave(steps [][]byte, n, width int) (*tensor.Tensor, error) {
	out, err := tensor.New(tensor.F32, n, len(steps), width)
	if err != nil {
		return nil, err
	}
	size := 4 * width
	for t, s := range steps {
		for b := range n {
			copy(out.Bytes()[(b*len(steps)+t)*size:], s[b*size:(b+1)*size])
		}
	}
	return out, nil
}

// runner holds the state of a batch of sequences, [batch, hidden].
type runner struct {
	p     *run.Pass
	h     nn.Array
	ones  nn.Array
	width int
	bytes float64 // of the results of a step, about
}

func newRunner(p *run.Pass, n, width int) *runner {
	g := &runner{p: p, width: width, bytes: 24 * 4 * float64(n) * float64(width)}
	zero, err := tensor.New(tensor.F32, n, width)
	if err != nil {
		panic(err) // the checks of the call bound it
	}
	one, err := tensor.New(tensor.F32, n, width)
	if err != nil {
		panic(err)
	}
	for i := range one.Float32s() {
		one.Float32s()[i] = 1
	}
	p.Fix(&g.ones, one, tensor.F32)
	g.h = p.S.FromHost(zero)
	return g
}

// step reads one token per sequence.
func (g *runner) step(c *cell, ids []int) error {
	if err := g.p.Room(g.bytes, &g.h); err != nil {
		return err
	}
	s := g.p.S
	in := c.input.Forward(s, ids)
	if err := s.Err(); err != nil {
		return err
	}
	state := c.state.Forward(s, g.h)
	gate := func(i int) (x, h nn.Array) {
		return s.Columns(in[0], i*g.width, g.width), s.Columns(state, i*g.width, g.width)
	}
	xr, hr := gate(0)
	xz, hz := gate(1)
	xn, hn := gate(2)
	r := s.Map(nn.Sigmoid, s.Add(xr, hr))
	z := s.Map(nn.Sigmoid, s.Add(xz, hz))
	n := s.Map(nn.Tanh, s.Add(xn, s.Mul(r, hn)))
	rest := s.Add(g.ones, s.Scale(z, -1)) // 1 − z, to the bit
	g.h = s.Add(s.Mul(rest, n), s.Mul(z, g.h))
	return s.Err()
}

package gru

import (
	"fmt"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/tensor"
)

// decoding is the decoder's part of a call.
type decoding struct {
	m            *Model
	batch, steps int
	ids          []int // given; nil when the decoder reads its own choices

	logits, states [][]byte // by step
	chosen         [][]int  // by step, when the decoder chooses
}

// run decodes from the state that the encoder left.
func (d *decoding) run(g *runner, hidden bool) error {
	c := &d.m.cfg
	next := make([]int, d.batch)
	for b := range next {
		next[b] = c.StartToken
	}
	done := make([]bool, d.batch)
	for t := range d.steps {
		if d.ids != nil {
			next = column(d.ids, d.batch, d.steps, t)
		}
		if err := g.step(&d.m.decoder, next); err != nil {
			return err
		}
		var err error
		if hidden {
			if d.states, err = keep(d.states, g.p, g.h); err != nil {
				return err
			}
		}
		row := g.p.S.ToHost(d.m.head.Forward(g.p.S, g.h))
		if row == nil {
			return g.p.S.Err()
		}
		d.logits = append(d.logits, row.Bytes())
		if d.ids != nil {
			continue
		}
		var open bool
		if next, open, err = d.choose(row, done); err != nil {
			return fmt.Errorf("step %d: %w", t, err)
		}
		d.chosen = append(d.chosen, next)
		if !open {
			return nil
		}
	}
	return nil
}

// choose takes the most likely token of every sequence that has not ended, and
// reports whether one is left.
func (d *decoding) choose(logits *tensor.Tensor, done []bool) (next []int, open bool, err error) {
	c := &d.m.cfg
	next = make([]int, d.batch)
	values := logits.Float32s()
	for b := range next {
		if done[b] {
			next[b] = c.PadToken
			continue
		}
		if next[b], err = run.Argmax(values[b*c.TargetVocab : (b+1)*c.TargetVocab]); err != nil {
			return nil, false, fmt.Errorf("sequence %d: %w", b, err)
		}
		done[b] = next[b] == c.EndToken
		open = open || !done[b]
	}
	return next, open, nil
}

// outputs lists the results of a call, with the encoder's states when they were
// asked for.
func (d *decoding) outputs(encoder [][]byte, hidden bool) (out architectures.Outputs, err error) {
	add := func(name string, steps [][]byte, width int) {
		if err == nil {
			var t *tensor.Tensor
			t, err = interleave(steps, d.batch, width)
			out = append(out, architectures.Named{Name: name, Tensor: t})
		}
	}
	add("logits", d.logits, d.m.cfg.TargetVocab)
	if d.ids == nil && err == nil {
		var t *tensor.Tensor
		t, err = d.sequences()
		out = append(out, architectures.Named{Name: "sequences", Tensor: t})
	}
	if hidden {
		add("encoder_hidden_states.0", encoder, d.m.cfg.HiddenSize)
		add("decoder_hidden_states.0", d.states, d.m.cfg.HiddenSize)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (d *decoding) sequences() (*tensor.Tensor, error) {
	values := make([]int64, d.batch*len(d.chosen))
	for t, ids := range d.chosen {
		for b, id := range ids {
			values[b*len(d.chosen)+t] = int64(id)
		}
	}
	return tensor.FromInt64s(values, d.batch, len(d.chosen))
}

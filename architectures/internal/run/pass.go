package run

import (
	"context"
	"fmt"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/batch"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// SessionBytes is when a pass starts its next session.
const SessionBytes = 256 << 20

// Pass is one run through a model's layers. Results of a session occupy the
// device until it is closed, so a pass over many rows goes on in a new session
// whenever they add up to its bound. That does not change any value. The session
// S must be closed by whoever began the pass, with [Pass.End].
type Pass struct {
	S nn.Session

	dev   nn.Device
	ctx   context.Context
	bound float64
	used  float64 // bytes of results in S, about
	fixed []fixed
}

// fixed is a value that every session of the pass needs.
type fixed struct {
	host  *tensor.Tensor
	dtype tensor.DType
	at    *nn.Array
}

// Begin starts a pass whose sessions hold about so many bytes each.
func Begin(ctx context.Context, dev nn.Device, bytes float64) *Pass {
	return &Pass{S: dev.Begin(ctx), dev: dev, ctx: ctx, bound: bytes}
}

// End closes the pass's session and sets *err to its failure unless there is an
// earlier one.
func (p *Pass) End(err *error) {
	if e := p.S.Close(); *err == nil && e != nil {
		*err = e
	}
}

// Fix keeps *at the array of a host value, cast to type d, in every session of
// the pass.
func (p *Pass) Fix(at *nn.Array, host *tensor.Tensor, d tensor.DType) {
	f := fixed{host, d, at}
	p.fixed = append(p.fixed, f)
	p.place(f)
}

func (p *Pass) place(f fixed) {
	*f.at = p.S.FromHost(f.host)
	if f.dtype != f.host.DType() {
		*f.at = p.S.Cast(*f.at, f.dtype)
	}
}

// Use counts results of so many bytes that the session holds already.
func (p *Pass) Use(bytes float64) { p.used += bytes }

// Room makes room for results of so many bytes: when the session would exceed
// its bound, the pass goes on in a new one. live are all the arrays that the pass
// needs of the old session; they are replaced by arrays of the session that the
// pass then has. A session that is an [nn.Trimmer] frees the others earlier.
func (p *Pass) Room(bytes float64, live ...*nn.Array) error {
	if p.used += bytes; p.used <= p.bound {
		if t, ok := p.S.(nn.Trimmer); ok {
			var keep []nn.Array
			for _, f := range p.fixed {
				keep = append(keep, *f.at)
			}
			for _, a := range live {
				keep = append(keep, *a)
			}
			t.Trim(keep...)
			p.used = bytes
		}
		return p.S.Err()
	}
	host := make([]*tensor.Tensor, len(live))
	for i, a := range live {
		host[i] = p.S.ToHost(*a)
	}
	if err := p.S.Close(); err != nil {
		return err
	}
	p.S, p.used = p.dev.Begin(p.ctx), bytes
	for _, f := range p.fixed {
		p.place(f)
	}
	for i, a := range live {
		*a = p.S.FromHost(host[i])
	}
	return p.S.Err()
}

// Keep copies a result to the host.
func (p *Pass) Keep(a nn.Array, shape ...int) (*tensor.Tensor, error) {
	if err := p.S.Err(); err != nil {
		return nil, err
	}
	t := p.S.ToHost(a)
	if err := p.S.Err(); err != nil {
		return nil, err
	}
	return t.Reshape(shape...)
}

// Pick returns one row of every sequence of h [batch·length, width]: the one at
// the given position.
func (p *Pass) Pick(h nn.Array, batch, length, position int) (nn.Array, error) {
	if length == 1 {
		return h, p.S.Err()
	}
	if err := p.S.Err(); err != nil { // a failed session's arrays must not be used
		return nil, err
	}
	width := h.Shape()[1]
	t, err := p.Keep(h, batch*length, width)
	if err != nil {
		return nil, err
	}
	rows, err := tensor.New(t.DType(), batch, width)
	if err != nil {
		return nil, err
	}
	for b := range batch {
		copy(rows.Row(b), t.Row(b*length+position))
	}
	return p.S.FromHost(rows), nil
}

// Trace collects the outputs that flags ask for.
type Trace struct {
	hidden, attentions []*tensor.Tensor
}

// KeepHidden keeps h [batch·length, width] when the call asks for hidden states.
func (t *Trace) KeepHidden(p *Pass, k *batch.Call, h nn.Array, width int) error {
	if !k.Hidden {
		return p.S.Err()
	}
	host, err := p.Keep(h, k.Batch, k.Length, width)
	t.hidden = append(t.hidden, host)
	return err
}

// KeepAttention keeps attention weights when the call asks for them.
func (t *Trace) KeepAttention(p *Pass, k *batch.Call, w nn.Array, heads, keys int) error {
	if !k.Attentions {
		return p.S.Err()
	}
	host, err := p.Keep(w, k.Batch, heads, k.Length, keys)
	t.attentions = append(t.attentions, host)
	return err
}

// Append adds what was collected to the outputs, in the fixed order.
func (t *Trace) Append(out architectures.Outputs) architectures.Outputs {
	return t.AppendNamed(out, "hidden_states", "attentions")
}

// AppendNamed is [Trace.Append] under other names.
func (t *Trace) AppendNamed(out architectures.Outputs, hidden, attentions string) architectures.Outputs {
	for i, h := range t.hidden {
		out = append(out, architectures.Named{Name: fmt.Sprintf("%s.%d", hidden, i), Tensor: h})
	}
	for i, a := range t.attentions {
		out = append(out, architectures.Named{Name: fmt.Sprintf("%s.%d", attentions, i), Tensor: a})
	}
	return out
}

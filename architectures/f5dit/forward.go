package f5dit

import (
	"context"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/batch"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/tensor"
)

// pass is one run through the model.
type pass struct {
	*run.Pass
	m     *Model
	call  *call
	shape *batch.Call // what the trace asks of a call
	trace run.Trace
	// padded marks the rows behind the ends of sequences; nil when there are none.
	padded []bool
	// visible is the mask of attention, nil when all is visible.
	visible []bool
	// modulations are those of each layer [sequences, 6·dim], and the last ones
	// [sequences, 2·dim].
	modulations []*tensor.Tensor
	cos, sin    nn.Array
}

// Forward runs the model once on a whole batch: see the package's documentation
// for inputs and outputs.
func (m *Model) Forward(ctx context.Context, in architectures.Inputs) (out architectures.Outputs, err error) {
	c := &m.cfg
	k, err := m.parse(in)
	if err != nil {
		return nil, err
	}
	p := &pass{m: m, call: k, shape: &batch.Call{Batch: k.sequences(), Length: k.length, Hidden: k.hidden, IDs: make([]int, k.rows())}}
	if err := p.shape.CheckOutputs(float64(c.MelDim), float64(c.Dim)*float64(c.Depth+1), 0); err != nil {
		return nil, err
	}
	p.findPadding()
	p.Pass = run.Begin(ctx, m.dev, run.SessionBytes)
	defer func() {
		if p.End(&err); err != nil {
			out = nil
		}
	}()
	if err := p.modulate(); err != nil {
		return nil, err
	}
	h, err := p.embed()
	if err != nil {
		return nil, err
	}
	if err := p.rotary(); err != nil {
		return nil, err
	}
	first := h
	for i := range m.layers {
		live := []*nn.Array{&h}
		if m.skip != nil {
			live = append(live, &first)
		}
		if err := p.Room(4*float64(k.rows())*float64(22*c.Dim+10*c.inner()+2*c.FFMult*c.Dim), live...); err != nil {
			return nil, err
		}
		if err := p.trace.KeepHidden(p.Pass, p.shape, h, c.Dim); err != nil {
			return nil, err
		}
		if h, err = p.layer(i, h); err != nil {
			return nil, err
		}
	}
	if err := p.trace.KeepHidden(p.Pass, p.shape, h, c.Dim); err != nil {
		return nil, err
	}
	if m.skip != nil {
		joined, err := p.join(h, first)
		if err != nil {
			return nil, err
		}
		h = m.skip.Forward(p.S, joined)
	}
	h = p.norm(h, p.modulations[c.Depth], lastShift, lastScale)
	flow, err := p.Keep(m.project.Forward(p.S, h), k.sequences(), k.length, c.MelDim)
	if err != nil {
		return nil, err
	}
	return p.trace.Append(architectures.Outputs{{Name: "flow", Tensor: flow}}), nil
}

// findPadding marks the rows that the mask hides.
func (p *pass) findPadding() {
	k := p.call
	if k.lengths == nil {
		return
	}
	p.padded = make([]bool, k.rows())
	for r := range p.padded {
		p.padded[r] = r%k.length >= k.visible(r/k.length)
	}
	if p.m.cfg.MaskAttention {
		p.visible = make([]bool, k.rows())
		for r, hidden := range p.padded {
			p.visible[r] = !hidden
		}
	}
}

// modulate computes the modulations of the call's times.
func (p *pass) modulate() error {
	m, k := p.m, p.call
	var parts []nn.Array
	if m.domain != nil {
		parts = m.block.Forward(p.S, k.indices)
	} else {
		times := make([]float32, k.sequences())
		for i := range times {
			from, _ := k.source(i)
			times[i] = k.times[from]
		}
		sines, err := m.sines.Tensor(times)
		if err != nil {
			return err
		}
		x := nn.Apply(p.S, m.modulations.prefix, p.S.FromHost(sines))
		for _, b := range m.modulations.branches {
			parts = append(parts, nn.Apply(p.S, b.Layers, x))
		}
	}
	for i, o := range m.cfg.outputs() {
		t, err := p.Keep(parts[i], k.sequences(), o.Width)
		if err != nil {
			return err
		}
		p.modulations = append(p.modulations, t)
	}
	return nil
}

// embed lays noised rows, known rows and text side by side, projects them and adds
// what the convolutions know of the positions.
func (p *pass) embed() (nn.Array, error) {
	c, k := &p.m.cfg, p.call
	text, err := p.encodeText()
	if err != nil {
		return nil, err
	}
	mixed, err := tensor.New(tensor.F32, k.rows(), c.mixed())
	if err != nil {
		return nil, err
	}
	for r := range k.rows() {
		from, without := k.source(r / k.length)
		from = (from*k.length + r%k.length) * c.MelDim
		row := mixed.Float32s()[r*c.mixed():][:c.mixed()]
		copy(row, k.noised.Float32s()[from:from+c.MelDim])
		if !without.dropAudio {
			copy(row[c.MelDim:], k.known.Float32s()[from:from+c.MelDim])
		}
		copy(row[2*c.MelDim:], text.Float32s()[r*c.TextDim:])
	}
	p.Use(4 * float64(k.rows()) * float64(c.mixed()+9*c.Dim))
	h := p.m.enter.Forward(p.S, p.S.FromHost(mixed))
	x := h
	if err := p.blank(&x, p.padded); err != nil {
		return nil, err
	}
	for _, conv := range p.m.position {
		if x, err = conv.Forward(p.S, x, k.sequences()); err != nil {
			return nil, err
		}
		if err := p.blank(&x, p.padded); err != nil {
			return nil, err
		}
		x = p.S.Map(nn.Mish, x)
	}
	return p.S.Add(x, h), p.S.Err()
}

// rotary enters the angles of all rows. Where some heads alone rotate, they are the
// first columns of one wide head, with the angles of each side by side.
func (p *pass) rotary() error {
	c, k := &p.m.cfg, p.call
	positions := make([]int, k.rows())
	for r := range positions {
		positions[r] = r % k.length
	}
	freqs := p.m.rotary
	if c.RotaryHeads < c.Heads {
		freqs = nil
		for range c.RotaryHeads {
			freqs = append(freqs, p.m.rotary...)
		}
	}
	cos, sin, err := nn.RotaryTables(freqs, positions)
	if err != nil {
		return err
	}
	p.Fix(&p.cos, cos, tensor.F32)
	p.Fix(&p.sin, sin, tensor.F32)
	return p.S.Err()
}

// rotate rotates queries or keys.
func (p *pass) rotate(x nn.Array) nn.Array {
	heads := p.m.cfg.Heads
	if p.m.cfg.RotaryHeads < heads {
		heads = 1
	}
	return p.S.Rotary(x, p.cos, p.sin, heads, nn.RotatePairs)
}

// The parts of a layer's modulations, and of the last ones.
const (
	shiftAttention = iota
	scaleAttention
	gateAttention
	shiftMLP
	scaleMLP
	gateMLP

	lastScale = 0
	lastShift = 1
)

func (p *pass) layer(i int, h nn.Array) (nn.Array, error) {
	s, c, l, of := p.S, &p.m.cfg, &p.m.layers[i], p.modulations[i]
	x := p.norm(h, of, shiftAttention, scaleAttention)
	q, k := l.q.Forward(s, x), l.k.Forward(s, x)
	if c.QKNorm {
		q, k = l.qNorm.Forward(s, q), l.kNorm.Forward(s, k)
	}
	a := s.Attention(nn.AttentionInput{
		Q: p.rotate(q), K: p.rotate(k), V: l.v.Forward(s, x), Mask: p.visible,
		Batch: p.call.sequences(), Heads: c.Heads, KVHeads: c.Heads, HeadDim: c.HeadDim, Scale: c.scale(),
	})
	if err := s.Err(); err != nil {
		return nil, err
	}
	x = l.out.Forward(s, a.Context)
	if err := p.blank(&x, p.padded); err != nil {
		return nil, err
	}
	h = s.Add(h, s.Mul(p.spread(of, gateAttention, 0), x))
	x = p.norm(h, of, shiftMLP, scaleMLP)
	x = l.down.Forward(s, s.Map(nn.GELUTanh, l.up.Forward(s, x)))
	return s.Add(h, s.Mul(p.spread(of, gateMLP, 0), x)), s.Err()
}

// norm returns LayerNorm(x)·(1 + scale) + shift, by the numbers of their parts.
func (p *pass) norm(x nn.Array, of *tensor.Tensor, shift, scale int) nn.Array {
	x = p.S.LayerNorm(x, nil, nil, epsilon)
	return p.S.Add(p.S.Mul(x, p.spread(of, scale, 1)), p.spread(of, shift, 0))
}

// spread returns part n of the sequences' modulations, with plus added, for each
// row: [sequences·length, dim]. Sessions have no operation for it, and on the host it
// is a copy and one rounded sum.
func (p *pass) spread(of *tensor.Tensor, n int, plus float32) nn.Array {
	d, k, width := p.m.cfg.Dim, p.call, of.Shape()[1]
	t, err := tensor.New(tensor.F32, k.rows(), d)
	if err != nil {
		panic(err) // the rows of the call exist
	}
	out := t.Float32s()
	for b := range k.sequences() {
		rows := out[b*k.length*d : (b+1)*k.length*d]
		copy(rows[:d], of.Float32s()[b*width+n*d:])
		if plus != 0 {
			for i, v := range rows[:d] {
				if v += plus; v != v {
					v = fmath.NaN()
				}
				rows[i] = v
			}
		}
		for at := d; at < len(rows); at += d {
			copy(rows[at:at+d], rows[:d])
		}
	}
	return p.S.FromHost(t)
}

// blank puts zeros in the marked rows; none are marked when rows is nil.
func (p *pass) blank(x *nn.Array, rows []bool) error {
	if err := p.S.Err(); err != nil || rows == nil {
		return err
	}
	t := p.S.ToHost(*x)
	if t == nil {
		return p.S.Err()
	}
	for r, marked := range rows {
		if marked {
			clear(t.Row(r))
		}
	}
	*x = p.S.FromHost(t)
	return p.S.Err()
}

// join lays the rows of two arrays side by side.
func (p *pass) join(a, b nn.Array) (nn.Array, error) {
	rows, d := p.call.rows(), p.m.cfg.Dim
	x, err := p.Keep(a, rows, d)
	if err != nil {
		return nil, err
	}
	y, err := p.Keep(b, rows, d)
	if err != nil {
		return nil, err
	}
	t, err := tensor.New(tensor.F32, rows, 2*d)
	if err != nil {
		return nil, err
	}
	for r := range rows {
		n := copy(t.Row(r), x.Row(r))
		copy(t.Row(r)[n:], y.Row(r))
	}
	return p.S.FromHost(t), p.S.Err()
}

package f5dit

import (
	"math"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/tensor"
)

// textEncoder turns text ids into a row for each row of the spectrogram.
type textEncoder struct {
	table  nn.Table
	freqs  []float32 // of the positions; nil without blocks
	blocks []textBlock
}

// textBlock is a ConvNeXtV2 block (Woo et al., 2023) over one axis.
type textBlock struct {
	conv         *nn.Conv1D
	norm         *nn.LayerNorm
	up, down     *nn.Linear
	gamma, delta []float32 // of the response normalisation: its factor and its sum
}

func (u *uploader) textEncoder(c *Config) (textEncoder, error) {
	var e textEncoder
	_, e.table = u.Table(u.prefix + textTable)
	for i := range c.ConvLayers {
		at := textPrefix(i)
		e.blocks = append(e.blocks, textBlock{
			conv: u.conv(at+"dwconv", c.TextDim),
			norm: u.LayerNorm(u.prefix+at+"norm", epsilon),
			up:   u.linear(at + "pwconv1"), down: u.linear(at + "pwconv2"),
			gamma: u.values(at + "grn.gamma"), delta: u.values(at + "grn.beta"),
		})
	}
	if u.Err != nil || c.ConvLayers == 0 {
		return e, u.Err
	}
	var err error
	e.freqs, err = nn.Rope{Theta: textPeriod, Dim: c.TextDim}.InverseFrequencies()
	return e, err
}

// encodeText returns the text's rows [sequences·length, TextDim] on the host.
func (p *pass) encodeText() (*tensor.Tensor, error) {
	c, k, e := &p.m.cfg, p.call, &p.m.text
	ids, filler := make([]int, k.rows()), make([]bool, k.rows())
	beyond := make([]bool, k.rows()) // the end of the sequence
	for i := range k.sequences() {
		from, without := k.source(i)
		for t := range k.length {
			at := i*k.length + t
			id := k.text[from*k.length+t]
			filler[at] = id == 0
			beyond[at] = t >= k.visible(i)
			if !without.dropText {
				ids[at] = id
			}
		}
	}
	h := p.S.Gather(e.table, ids)
	if k.lengths != nil {
		if err := p.blank(&h, beyond); err != nil {
			return nil, err
		}
	}
	if len(e.blocks) > 0 {
		positions, err := e.positions(k, beyond)
		if err != nil {
			return nil, err
		}
		h = p.S.Add(h, p.S.FromHost(positions))
		if !c.TextMaskPadding {
			filler = nil
		}
		if err := p.blank(&h, filler); err != nil {
			return nil, err
		}
		for i := range e.blocks {
			if err := p.Room(4*float64(k.rows())*float64(16*c.TextDim), &h); err != nil {
				return nil, err
			}
			if h, err = p.textBlock(&e.blocks[i], h); err != nil {
				return nil, err
			}
			if err := p.blank(&h, filler); err != nil {
				return nil, err
			}
		}
	}
	return p.Keep(h, k.rows(), c.TextDim)
}

// positions are the cosines and then the sines of each position, zeros behind the
// end of a sequence.
func (e *textEncoder) positions(k *call, beyond []bool) (*tensor.Tensor, error) {
	all := make([]int, k.length)
	for i := range all {
		all[i] = i
	}
	cos, sin, err := nn.RotaryTables(e.freqs, all)
	if err != nil {
		return nil, err
	}
	half := len(e.freqs)
	t, err := tensor.New(tensor.F32, k.rows(), 2*half)
	if err != nil {
		return nil, err
	}
	for r := range k.rows() {
		if at := r % k.length; !beyond[r] {
			row := t.Float32s()[r*2*half:]
			copy(row[:half], cos.Float32s()[at*half:])
			copy(row[half:2*half], sin.Float32s()[at*half:])
		}
	}
	return t, nil
}

func (p *pass) textBlock(b *textBlock, h nn.Array) (nn.Array, error) {
	k := p.call
	x, err := b.conv.Forward(p.S, h, k.sequences())
	if err != nil {
		return nil, err
	}
	x = p.S.Map(nn.GELU, b.up.Forward(p.S, b.norm.Forward(p.S, x)))
	rows, err := p.Keep(x, k.rows(), len(b.gamma))
	if err != nil {
		return nil, err
	}
	for i := range k.sequences() {
		width := len(b.gamma)
		b.respond(rows.Float32s()[i*k.length*width:][:k.length*width])
	}
	return p.S.Add(h, b.down.Forward(p.S, p.S.FromHost(rows))), p.S.Err()
}

// respond normalises the response of each channel of a sequence, [length, channels],
// in place: with g the norm of a channel over all rows, taken in float64 from the
// first row on and rounded once, γ·(x·(g/(mean(g)+ε))) + β + x.
func (b *textBlock) respond(x []float32) {
	width := len(b.gamma)
	squares := make([]float64, width)
	for at := 0; at < len(x); at += width {
		for i, v := range x[at : at+width] {
			squares[i] += float64(float64(v) * float64(v))
		}
	}
	norms, sum := make([]float32, width), 0.0
	for i, s := range squares {
		norms[i] = float32(math.Sqrt(s))
		sum += float64(norms[i])
	}
	mean := float32(sum/float64(width)) + responseEpsilon
	for i := range norms {
		norms[i] /= mean
	}
	for at := 0; at < len(x); at += width {
		for i, v := range x[at : at+width] {
			y := float32(b.gamma[i]*float32(v*norms[i])) + b.delta[i]
			if y += v; y != y {
				y = fmath.NaN()
			}
			x[at+i] = y
		}
	}
}

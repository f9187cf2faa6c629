package esm

import (
	"context"
	"fmt"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/batch"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// Errors of this package's models, besides those of devices.
var (
	// ErrInput is wrapped by every error about what a call was given.
	ErrInput = batch.ErrInput
	// ErrBlock is wrapped by errors about a block path that is not declared, or a
	// block that does not fit its place.
	ErrBlock = run.ErrBlock
)

// Model is an ESM-2 model on a device. It is immutable and safe for concurrent
// use. Its weights are freed with the device.
type Model struct {
	cfg   Config
	dev   nn.Device
	block nn.TokenBlock
	// source is the block in its source form, nil where its weights are gone. It
	// computes batches with <mask>, as long as it is in use.
	source *nn.Fanout
	layers []layer
	norm   *nn.LayerNorm
	head   []nn.RowLocal
	// frequencies are the angles per position of the rotary pairs.
	frequencies []float32

	sessionBytes float64 // the constant, but for tests
}

// layer is one encoder layer. What the block computes of layer 0 is not there.
type layer struct {
	norm    *nn.LayerNorm
	q, k, v []nn.RowLocal
	out     *nn.Linear
	mlp     []nn.RowLocal
}

// Build uploads weights one tensor at a time, and none of those that a block in
// blocks takes the place of.
func (b *Blueprint) Build(dev nn.Device, weights architectures.Weights, blocks map[string]nn.TokenBlock) (architectures.Model, error) {
	c := &b.cfg
	given, err := c.slots().Given(blocks)
	if err != nil {
		return nil, err
	}
	m := &Model{cfg: *c, dev: dev, block: given[0], sessionBytes: run.SessionBytes}
	if m.frequencies, err = b.readFrequencies(weights); err != nil {
		return nil, err
	}
	u := run.NewUploader(dev, weights, b.Params())
	for i := range c.Layers {
		at := layerName(i)
		var l layer
		if i > 0 || m.block == nil {
			l.norm = u.LayerNormNamed(at+"attention.LayerNorm"+b.weight, at+"attention.LayerNorm"+b.bias, c.NormEpsilon)
			l.q = []nn.RowLocal{u.Linear(at+"attention.self.query", true), nn.Scaled{Factor: c.queryScale()}}
			l.k = []nn.RowLocal{u.Linear(at+"attention.self.key", true)}
			l.v = []nn.RowLocal{u.Linear(at+"attention.self.value", true)}
		}
		if i == 0 && m.block == nil {
			prefix := []nn.RowLocal{l.norm}
			if c.TokenDropout {
				prefix = []nn.RowLocal{nn.Scaled{Factor: trained}, l.norm}
			}
			m.source = u.Fanout(BlockPath, embeddingName, prefix,
				[]nn.Branch{{Name: outputQ, Layers: l.q}, {Name: outputK, Layers: l.k}, {Name: outputV, Layers: l.v}}, outputResidual)
			m.block = m.source
			l = layer{}
		}
		l.out = u.Linear(at+"attention.output.dense", true)
		l.mlp = []nn.RowLocal{
			u.LayerNormNamed(at+"LayerNorm"+b.weight, at+"LayerNorm"+b.bias, c.NormEpsilon),
			u.Linear(at+"intermediate.dense", true),
			nn.Activation{Function: nn.GELUStepwise},
			u.Linear(at+"output.dense", true),
		}
		if u.Err != nil {
			return nil, u.Err
		}
		m.layers = append(m.layers, l)
	}
	m.norm = u.LayerNorm("esm.encoder.emb_layer_norm_after", c.NormEpsilon)
	m.head = c.head(u)
	if u.Err != nil {
		return nil, u.Err
	}
	return m, nil
}

// head is what turns the last hidden states into logits.
func (c *Config) head(u *run.Uploader) []nn.RowLocal {
	if c.Labels > 0 {
		return []nn.RowLocal{u.Linear("classifier.dense", true), nn.Activation{Function: nn.Tanh}, u.Linear("classifier.out_proj", true)}
	}
	decoder := "lm_head.decoder.weight"
	if c.TiedHead {
		decoder = embeddingName
	}
	return []nn.RowLocal{
		u.Linear("lm_head.dense", true),
		nn.Activation{Function: nn.GELUStepwise},
		u.LayerNorm("lm_head.layer_norm", c.NormEpsilon),
		u.Matrix(decoder, ""),
		u.Sum("lm_head.bias"), // the reference rounds what is before
	}
}

// Device returns the device that the model runs on.
func (m *Model) Device() nn.Device { return m.dev }

// Config returns the model's settings.
func (m *Model) Config() Config { return m.cfg }

// Block returns the block in use at path, which must be [BlockPath].
func (m *Model) Block(path string) (nn.TokenBlock, error) {
	if _, err := m.cfg.slots().Index(path); err != nil {
		return nil, err
	}
	return m.block, nil
}

// WithBlock returns a model that uses block at path, which must be [BlockPath],
// and shares everything else with m. The block must have the declared outputs,
// then the residual.
func (m *Model) WithBlock(path string, block nn.TokenBlock) (architectures.Model, error) {
	if _, err := m.cfg.slots().Place(path, block); err != nil {
		return nil, err
	}
	view := *m
	view.block = block
	return &view, nil
}

// masked returns the index of the first <mask> that token dropout acts on, or -1.
func (m *Model) masked(k *batch.Call) int {
	if !m.cfg.TokenDropout {
		return -1
	}
	for i, id := range k.IDs {
		if id == m.cfg.MaskToken {
			return i
		}
	}
	return -1
}

// enter returns queries, keys, values and residual of layer 0.
func (m *Model) enter(p *run.Pass, k *batch.Call) (q, key, v, h nn.Array, err error) {
	at := m.masked(k)
	if at < 0 {
		out := m.block.Forward(p.S, k.IDs)
		if err := p.S.Err(); err != nil { // a failed session's arrays must not be used
			return nil, nil, nil, nil, err
		}
		h = out[3]
		if m.cfg.TokenDropout {
			h = p.S.Scale(h, trained)
		}
		return out[0], out[1], out[2], h, p.S.Err()
	}
	if m.source == nil || m.block != nn.TokenBlock(m.source) {
		return nil, nil, nil, nil, fmt.Errorf("%w: %s: the <mask> token %d of sequence %d at position %d: the rows of a batch with <mask> depend on how many there are, and the table at %s holds for batches without it",
			ErrInput, batch.IDs, m.cfg.MaskToken, at/k.Length, at%k.Length, BlockPath)
	}
	if h, err = m.dropped(p, k); err != nil {
		return nil, nil, nil, nil, err
	}
	prefix := m.source.Prefix[len(m.source.Prefix)-1:] // without the scale, which is applied already
	x := nn.Apply(p.S, prefix, h)
	branch := func(i int) nn.Array { return nn.Apply(p.S, m.source.Branches[i].Layers, x) }
	return branch(0), branch(1), branch(2), h, p.S.Err()
}

// dropped returns the embedding rows with token dropout: those of <mask> are zero,
// the others 0.88·E[id] divided by the part of their sequence that is not masked.
func (m *Model) dropped(p *run.Pass, k *batch.Call) (nn.Array, error) {
	rows := p.S.Gather(m.source.Embedding, k.IDs)
	host, err := p.Keep(rows, k.Rows(), m.cfg.HiddenSize)
	if err != nil {
		return nil, err
	}
	values, round := architectures.Floats(host), rounding(m.cfg.DType)
	for b := range k.Batch {
		seen, masks := 0, 0
		for t := range k.Length {
			at := b*k.Length + t
			if k.Mask == nil || k.Mask[at] {
				seen++
			}
			if k.IDs[at] == m.cfg.MaskToken {
				masks++
			}
		}
		left := float32(1) // of a sequence that is hidden altogether, whatever it means
		if seen > 0 {
			left -= float32(masks) / float32(seen)
		}
		for t := range k.Length {
			at := b*k.Length + t
			row := values[at*m.cfg.HiddenSize : (at+1)*m.cfg.HiddenSize]
			if k.IDs[at] == m.cfg.MaskToken {
				clear(row)
			}
			for j, v := range row {
				row[j] = float32(v * trained)
			}
			round(row)
			for j, v := range row {
				row[j] = v / left
			}
			round(row)
		}
	}
	if host, err = tensor.FromFloat32s(values, k.Rows(), m.cfg.HiddenSize); err != nil {
		return nil, err
	}
	return p.S.Cast(p.S.FromHost(host), m.cfg.DType), p.S.Err()
}

// Forward runs the model once on a whole batch. Errors about inputs wrap
// [ErrInput].
func (m *Model) Forward(ctx context.Context, in architectures.Inputs) (out architectures.Outputs, err error) {
	limits := m.cfg.limits()
	k, err := limits.Parse(in, 0)
	if err != nil {
		return nil, err
	}
	c := &m.cfg
	if err := k.CheckOutputs(float64(c.logitWidth()), float64(c.HiddenSize)*float64(c.Layers+1),
		float64(c.Heads)*float64(c.Layers)*float64(k.Length)); err != nil {
		return nil, err
	}
	p := run.Begin(ctx, m.dev, m.sessionBytes)
	defer func() {
		if p.End(&err); err != nil {
			out = nil
		}
	}()
	hostCos, hostSin, err := m.rotary(k.Positions)
	if err != nil {
		return nil, err
	}
	var cos, sin nn.Array
	p.Fix(&cos, hostCos, tensor.F32)
	p.Fix(&sin, hostSin, tensor.F32)
	var trace run.Trace

	q, key, v, h, err := m.enter(p, k)
	if err != nil {
		return nil, err
	}
	attention, mlp := c.layerBytes(k)
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
		if err := trace.KeepHidden(p, k, h, c.HiddenSize); err != nil {
			return nil, err
		}
		attended := p.S.Attention(nn.AttentionInput{
			Q:     p.S.Rotary(q, cos, sin, c.Heads, nn.RotateHalves),
			K:     p.S.Rotary(key, cos, sin, c.Heads, nn.RotateHalves),
			V:     v,
			Batch: k.Batch, Heads: c.Heads, KVHeads: c.Heads, HeadDim: c.headDim(),
			Scale: 1, Mask: k.Mask, Weights: k.Attentions,
		})
		if err := trace.KeepAttention(p, k, attended.Weights, c.Heads, k.Length); err != nil {
			return nil, err
		}
		h = p.S.Add(l.out.Forward(p.S, attended.Context), h)
		if err := p.Room(mlp, &h); err != nil {
			return nil, err
		}
		h = p.S.Add(nn.Apply(p.S, l.mlp, h), h)
		if err := p.S.Err(); err != nil {
			return nil, err
		}
	}
	h = m.norm.Forward(p.S, h)
	if err := trace.KeepHidden(p, k, h, c.HiddenSize); err != nil {
		return nil, err
	}
	logits, err := m.logits(p, k, h)
	if err != nil {
		return nil, err
	}
	return trace.Append(architectures.Outputs{{Name: "logits", Tensor: logits}}), nil
}

// logits are one row for each position, or of a classifier one for each sequence,
// from its first position.
func (m *Model) logits(p *run.Pass, k *batch.Call, h nn.Array) (*tensor.Tensor, error) {
	if m.cfg.Labels == 0 {
		return p.Logits(k, h, m.head, m.cfg.VocabSize)
	}
	h, err := p.Pick(h, k.Batch, k.Length, 0)
	if err != nil {
		return nil, err
	}
	return p.Keep(nn.Apply(p.S, m.head, h), k.Batch, m.cfg.Labels)
}

// layerBytes is about what the results of a layer's two halves occupy in a
// session.
func (c *Config) layerBytes(k *batch.Call) (attention, mlp float64) {
	attention = float64(11 * c.HiddenSize)
	if k.Attentions {
		attention += float64(c.Heads) * float64(k.Length)
	}
	bytes := 4 * float64(k.Rows())
	return attention * bytes, float64(3*c.HiddenSize+2*c.IntermediateSize) * bytes
}

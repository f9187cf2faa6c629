package bert

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
	// ErrBlock is wrapped by errors about a block path that is not declared, and by
	// those about a block for a place that is refused.
	ErrBlock = run.ErrBlock
)

// Model is a BERT model on a device. It is immutable and safe for concurrent
// use. Its weights are freed with the device.
type Model struct {
	cfg    Config
	dev    nn.Device
	block  *run.Summed
	tables []nn.Table // tokens, token types, positions
	norm   *nn.LayerNorm
	layers []layer
	pooler []nn.RowLocal // nil when there is none
	head   []nn.RowLocal // nil when there is none

	sessionBytes float64 // the constant, but for tests
}

type layer struct {
	q, k, v, out, up, down *nn.Linear
	norm1, norm2           *nn.LayerNorm
}

// Build uploads weights one tensor at a time. No block can be given: the one that
// is declared is refused.
func (b *Blueprint) Build(dev nn.Device, weights architectures.Weights, blocks map[string]nn.TokenBlock) (architectures.Model, error) {
	if _, err := (run.Slots{}).Given(blocks); err != nil {
		return nil, err
	}
	c, n := &b.cfg, b.names
	m := &Model{cfg: *c, dev: dev, sessionBytes: run.SessionBytes}
	u := run.NewUploader(dev, weights, b.Params())
	norm := func(at string) *nn.LayerNorm { return u.LayerNormNamed(at+n.weight, at+n.bias, c.NormEpsilon) }
	for _, name := range []string{wordRows, typeRows, positionRows} {
		_, table := u.Table(n.prefix + name)
		m.tables = append(m.tables, table)
	}
	m.norm = norm(n.prefix + "embeddings.LayerNorm")
	for i := range c.Layers {
		at := b.layer(i)
		m.layers = append(m.layers, layer{
			q:     u.Linear(at+"attention.self.query", true),
			k:     u.Linear(at+"attention.self.key", true),
			v:     u.Linear(at+"attention.self.value", true),
			out:   u.Linear(at+"attention.output.dense", true),
			norm1: norm(at + "attention.output.LayerNorm"),
			up:    u.Linear(at+"intermediate.dense", true),
			down:  u.Linear(at+"output.dense", true),
			norm2: norm(at + "output.LayerNorm"),
		})
		if u.Err != nil {
			return nil, u.Err
		}
	}
	if n.pooler {
		m.pooler = []nn.RowLocal{u.Linear(n.prefix+"pooler.dense", true), nn.Activation{Function: nn.Tanh}}
	}
	if c.MaskedLM {
		m.head = []nn.RowLocal{
			u.Linear("cls.predictions.transform.dense", true),
			nn.Activation{Function: c.Activation},
			norm("cls.predictions.transform.LayerNorm"),
			u.Matrix(n.prefix+wordRows, "cls.predictions.bias"),
		}
	}
	if u.Err != nil {
		return nil, u.Err
	}
	l := m.layers[0]
	m.block = &run.Summed{
		Spec: b.sum().Spec(), Tables: m.tables, Prefix: []nn.RowLocal{m.norm},
		Branches: [][]nn.RowLocal{{l.q}, {l.k}, {l.v}, {}},
	}
	return m, nil
}

// Device returns the device that the model runs on.
func (m *Model) Device() nn.Device { return m.dev }

// Config returns the model's settings.
func (m *Model) Config() Config { return m.cfg }

// Block returns the source form of the declared block, which is a function of
// token, token type and position together.
func (m *Model) Block(path string) (nn.TokenBlock, error) {
	if path != BlockPath {
		return nil, fmt.Errorf("%w: %q; declared: %s", ErrBlock, path, BlockPath)
	}
	return m.block, nil
}

// WithBlock refuses every block.
func (m *Model) WithBlock(path string, _ nn.TokenBlock) (architectures.Model, error) {
	if _, err := m.Block(path); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: %s: %s", ErrBlock, path, m.block.Spec.Refusal)
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
	width := float64(c.HiddenSize)
	if c.MaskedLM {
		width = float64(c.VocabSize)
	}
	if err := k.CheckOutputs(width, float64(c.HiddenSize)*float64(c.Layers+1),
		float64(c.Heads)*float64(c.Layers)*float64(k.Length)); err != nil {
		return nil, err
	}
	p := run.Begin(ctx, m.dev, m.sessionBytes)
	defer func() {
		if p.End(&err); err != nil {
			out = nil
		}
	}()
	var trace run.Trace
	h := m.norm.Forward(p.S, run.AddRows(p.S, m.tables, [][]int{k.IDs, k.TokenTypes, k.Positions}))
	if err := p.S.Err(); err != nil { // a failed session's arrays must not be used
		return nil, err
	}
	attention, mlp := c.layerBytes(k)
	for i := range m.layers {
		l := &m.layers[i]
		if err := p.Room(attention, &h); err != nil {
			return nil, err
		}
		if err := trace.KeepHidden(p, k, h, c.HiddenSize); err != nil {
			return nil, err
		}
		attended := p.S.Attention(nn.AttentionInput{
			Q: l.q.Forward(p.S, h), K: l.k.Forward(p.S, h), V: l.v.Forward(p.S, h),
			Batch: k.Batch, Heads: c.Heads, KVHeads: c.Heads, HeadDim: c.headDim(),
			Scale: c.scale(), Mask: k.Mask, Weights: k.Attentions,
		})
		if err := trace.KeepAttention(p, k, attended.Weights, c.Heads, k.Length); err != nil {
			return nil, err
		}
		h = l.norm1.Forward(p.S, p.S.Add(l.out.Forward(p.S, attended.Context), h))
		if err := p.Room(mlp, &h); err != nil {
			return nil, err
		}
		x := p.S.Map(c.Activation, l.up.Forward(p.S, h))
		h = l.norm2.Forward(p.S, p.S.Add(l.down.Forward(p.S, x), h))
		if err := p.S.Err(); err != nil {
			return nil, err
		}
	}
	if err := trace.KeepHidden(p, k, h, c.HiddenSize); err != nil {
		return nil, err
	}
	if out, err = m.results(p, k, h); err != nil {
		return nil, err
	}
	return trace.Append(out), nil
}

// results are the outputs that are always there.
func (m *Model) results(p *run.Pass, k *batch.Call, h nn.Array) (architectures.Outputs, error) {
	c := &m.cfg
	if c.MaskedLM {
		logits, err := p.Logits(k, h, m.head, c.VocabSize)
		return architectures.Outputs{{Name: "logits", Tensor: logits}}, err
	}
	last, err := p.Keep(h, k.Batch, k.Length, c.HiddenSize)
	if err != nil {
		return nil, err
	}
	out := architectures.Outputs{{Name: "last_hidden_state", Tensor: last}}
	if m.pooler == nil {
		return out, nil
	}
	if h, err = p.Pick(h, k.Batch, k.Length, 0); err != nil {
		return nil, err
	}
	pooled, err := p.Keep(nn.Apply(p.S, m.pooler, h), k.Batch, c.HiddenSize)
	return append(out, architectures.Named{Name: "pooler_output", Tensor: pooled}), err
}

// Embed returns one row per sequence, F32 [batch, hidden], as sentence-transformers
// makes them with mean pooling: the mean of the last hidden states of the
// positions that the mask shows, divided by its length when normalize is set. It
// needs a BertModel.
func (m *Model) Embed(ctx context.Context, in architectures.Inputs, normalize bool) (*tensor.Tensor, error) {
	if m.cfg.MaskedLM {
		return nil, fmt.Errorf("%w: embeddings are those of a %s, this is a %s", ErrInput, classModel, classMaskedLM)
	}
	limits := m.cfg.limits()
	k, err := limits.Parse(in, 0)
	if err != nil {
		return nil, err
	}
	out, err := m.Forward(ctx, architectures.Inputs{Tensors: in.Tensors})
	if err != nil {
		return nil, err
	}
	hidden, width := architectures.Floats(out.Get("last_hidden_state")), m.cfg.HiddenSize
	mean, err := tensor.New(tensor.F32, k.Batch, width)
	if err != nil {
		return nil, err
	}
	for b := range k.Batch {
		row := mean.Float32s()[b*width : (b+1)*width]
		seen := float32(0)
		for t := range k.Length {
			at := b*k.Length + t
			if k.Mask != nil && !k.Mask[at] {
				continue
			}
			seen++
			for j, v := range hidden[at*width : (at+1)*width] {
				row[j] += v
			}
		}
		for j := range row {
			row[j] /= max(seen, 1e-9)
		}
	}
	if !normalize {
		return mean, nil
	}
	s := m.dev.Begin(ctx)
	unit := s.ToHost(s.RowNormalize(s.FromHost(mean), 1e-12))
	if err := s.Close(); err != nil {
		return nil, err
	}
	return unit, nil
}

// layerBytes is about what the results of a layer's two halves occupy in a
// session.
func (c *Config) layerBytes(k *batch.Call) (attention, mlp float64) {
	attention = float64(7 * c.HiddenSize)
	if k.Attentions {
		attention += float64(c.Heads) * float64(k.Length)
	}
	bytes := 4 * float64(k.Rows())
	return attention * bytes, float64(3*c.HiddenSize+2*c.IntermediateSize) * bytes
}

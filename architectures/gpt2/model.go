package gpt2

import (
	"context"
	"fmt"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/batch"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/architectures/nn"
)

// Errors of this package's models, besides those of devices.
var (
	// ErrInput is wrapped by every error about what a call was given.
	ErrInput = batch.ErrInput
	// ErrBlock is wrapped by errors about a block path that is not declared, and by
	// those about a block for a place that is refused.
	ErrBlock = run.ErrBlock
)

// Model is a GPT-2 model on a device. It is immutable and safe for concurrent
// use. Its weights are freed with the device.
type Model struct {
	cfg    Config
	dev    nn.Device
	block  *run.Summed
	tables []nn.Table // tokens, positions
	layers []layer
	norm   *nn.LayerNorm
	head   *nn.Linear

	sessionBytes float64 // the constant, but for tests
}

type layer struct {
	norm1, norm2       *nn.LayerNorm
	qkv, out, up, down *nn.Linear
}

// Build uploads weights one tensor at a time. No block can be given: the one that
// is declared is refused.
func (b *Blueprint) Build(dev nn.Device, weights architectures.Weights, blocks map[string]nn.TokenBlock) (architectures.Model, error) {
	if _, err := (run.Slots{}).Given(blocks); err != nil {
		return nil, err
	}
	c := &b.cfg
	m := &Model{cfg: b.Config(), dev: dev, sessionBytes: run.SessionBytes}
	u := run.NewUploader(dev, weights, b.Params())
	for _, name := range []string{"wte.weight", "wpe.weight"} {
		_, table := u.Table(b.prefix + name)
		m.tables = append(m.tables, table)
	}
	for i := range c.Layers {
		at := b.layer(i)
		m.layers = append(m.layers, layer{
			norm1: u.LayerNorm(at+"ln_1", c.NormEpsilon),
			qkv:   u.Transposed(at + "attn.c_attn"),
			out:   u.Transposed(at + "attn.c_proj"),
			norm2: u.LayerNorm(at+"ln_2", c.NormEpsilon),
			up:    u.Transposed(at + "mlp.c_fc"),
			down:  u.Transposed(at + "mlp.c_proj"),
		})
		if u.Err != nil {
			return nil, u.Err
		}
	}
	m.norm = u.LayerNorm(b.prefix+"ln_f", c.NormEpsilon)
	if c.TiedHead {
		m.head = u.Matrix(b.prefix+"wte.weight", "")
	} else {
		m.head = u.Matrix(headName, "")
	}
	if u.Err != nil {
		return nil, u.Err
	}
	m.block = &run.Summed{
		Spec: b.sum().Spec(), Tables: m.tables,
		Prefix: []nn.RowLocal{m.layers[0].norm1}, Branches: [][]nn.RowLocal{{m.layers[0].qkv}},
	}
	return m, nil
}

// Device returns the device that the model runs on.
func (m *Model) Device() nn.Device { return m.dev }

// Config returns the model's settings.
func (m *Model) Config() Config { return (&Blueprint{cfg: m.cfg}).Config() }

// Block returns the source form of the declared block, which is a function of
// token and position together.
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
func (m *Model) Forward(ctx context.Context, in architectures.Inputs) (architectures.Outputs, error) {
	limits := m.cfg.limits()
	k, err := limits.Parse(in, 0)
	if err != nil {
		return nil, err
	}
	return m.run(ctx, k, nil)
}

// run evaluates a checked call. When cache is not nil, it holds the positions in
// front of the call's.
func (m *Model) run(ctx context.Context, k *batch.Call, cache *run.Cache) (out architectures.Outputs, err error) {
	c := &m.cfg
	keys, mask := run.Keys(k, cache)
	if err := k.CheckOutputs(float64(c.VocabSize), float64(c.HiddenSize)*float64(c.Layers+1),
		float64(c.Heads)*float64(c.Layers)*float64(keys)); err != nil {
		return nil, err
	}
	p := run.Begin(ctx, m.dev, m.sessionBytes)
	defer func() {
		if p.End(&err); err != nil {
			out = nil
		}
	}()
	var trace run.Trace
	h := run.AddRows(p.S, m.tables, [][]int{k.IDs, k.Positions})
	attention, mlp := c.layerBytes(k, keys)
	for i := range m.layers {
		l := &m.layers[i]
		if err := p.Room(attention, &h); err != nil {
			return nil, err
		}
		if err := trace.KeepHidden(p, k, h, c.HiddenSize); err != nil {
			return nil, err
		}
		qkv := l.qkv.Forward(p.S, l.norm1.Forward(p.S, h))
		attended := cache.Attend(p.S, i, nn.AttentionInput{
			Q:     p.S.Columns(qkv, 0, c.HiddenSize),
			K:     p.S.Columns(qkv, c.HiddenSize, c.HiddenSize),
			V:     p.S.Columns(qkv, 2*c.HiddenSize, c.HiddenSize),
			Batch: k.Batch, Heads: c.Heads, KVHeads: c.Heads, HeadDim: c.HiddenSize / c.Heads,
			Scale: c.scale(i), Causal: true, Wide: c.WideScores, Mask: mask, Weights: k.Attentions,
		})
		if err := trace.KeepAttention(p, k, attended.Weights, c.Heads, keys); err != nil {
			return nil, err
		}
		h = p.S.Add(l.out.Forward(p.S, attended.Context), h)
		if err := p.Room(mlp, &h); err != nil {
			return nil, err
		}
		x := l.up.Forward(p.S, l.norm2.Forward(p.S, h))
		h = p.S.Add(h, l.down.Forward(p.S, p.S.Map(c.Activation, x)))
	}
	if err := p.S.Err(); err != nil {
		return nil, err
	}
	h = m.norm.Forward(p.S, h)
	if err := trace.KeepHidden(p, k, h, c.HiddenSize); err != nil {
		return nil, err
	}
	logits, err := p.Logits(k, h, []nn.RowLocal{m.head}, c.VocabSize)
	if err != nil {
		return nil, err
	}
	return trace.Append(architectures.Outputs{{Name: "logits", Tensor: logits}}), nil
}

// layerBytes is about what the results of a layer's two halves occupy in a
// session.
func (c *Config) layerBytes(k *batch.Call, keys int) (attention, mlp float64) {
	attention = float64(10 * c.HiddenSize)
	if k.Attentions {
		attention += float64(c.Heads) * float64(keys)
	}
	bytes := 4 * float64(k.Rows())
	return attention * bytes, float64(3*c.HiddenSize+2*c.IntermediateSize) * bytes
}

// Decoder runs a batch of sequences a few positions at a time and keeps the keys
// and values of the positions before. It belongs to one goroutine; a model may
// have many.
type Decoder = run.Decoder

func (m *Model) causal() *run.Causal {
	return &run.Causal{
		Dev: m.dev, Layers: len(m.layers), Width: m.cfg.HiddenSize,
		Limits: m.cfg.limits(), EndTokens: m.cfg.EndTokens, Fill: m.cfg.fillToken(),
		Run: m.run,
	}
}

// NewDecoder returns a decoder for batch sequences of at most capacity
// positions, none of them filled.
func (m *Model) NewDecoder(batch, capacity int) (*Decoder, error) {
	return m.causal().NewDecoder(batch, capacity)
}

// Generate continues each prompt by up to maxNew tokens, each the most likely
// one, and returns prompts and continuations together. A sequence ends with one
// of the configuration's end tokens, which is included. Prompts may differ in
// length: shorter ones are padded on the left, hidden from attention, and their
// positions count from their first token.
func (m *Model) Generate(ctx context.Context, prompts [][]int, maxNew int) ([][]int, error) {
	return m.causal().Generate(ctx, prompts, maxNew)
}

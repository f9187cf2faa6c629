package progen

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

// Model is a ProGen2 model on a device. It is immutable and safe for concurrent
// use. Its weights are freed with the device.
type Model struct {
	cfg    Config
	dev    nn.Device
	block  nn.TokenBlock
	layers []layer
	norm   *nn.LayerNorm
	head   *nn.Linear

	sessionBytes float64 // the constant, but for tests
}

// layer is one decoder layer. What the block computes of layer 0 is not there.
type layer struct {
	norm     *nn.LayerNorm
	qkv, out *nn.Linear
	mlp      []nn.RowLocal
}

// Build uploads weights one tensor at a time, and none of those that a block in
// blocks takes the place of.
func (b *Blueprint) Build(dev nn.Device, weights architectures.Weights, blocks map[string]nn.TokenBlock) (architectures.Model, error) {
	c := &b.cfg
	given, err := c.slots().Given(blocks)
	if err != nil {
		return nil, err
	}
	m := &Model{cfg: b.Config(), dev: dev, block: given[0], sessionBytes: run.SessionBytes}
	u := run.NewUploader(dev, weights, b.Params())
	for i := range c.Layers {
		at := layerName(i)
		var l layer
		if i > 0 || m.block == nil {
			l.norm = u.LayerNorm(at+"ln_1", c.NormEpsilon)
			l.qkv = u.Linear(at+"attn.qkv_proj", false)
			l.mlp = []nn.RowLocal{u.Linear(at+"mlp.fc_in", true), nn.Activation{Function: c.Activation}, u.Linear(at+"mlp.fc_out", true)}
		}
		if i == 0 && m.block == nil {
			m.block = u.Fanout(BlockPath, embeddingName, []nn.RowLocal{l.norm}, []nn.Branch{
				{Name: outputQKV, Layers: []nn.RowLocal{l.qkv}},
				{Name: outputMLP, Layers: l.mlp},
			}, outputResidual)
			l = layer{}
		}
		l.out = u.Linear(at+"attn.out_proj", false)
		if u.Err != nil {
			return nil, u.Err
		}
		m.layers = append(m.layers, l)
	}
	m.norm = u.LayerNorm(finalNormName, c.NormEpsilon)
	m.head = u.Linear(headName, true)
	if u.Err != nil {
		return nil, u.Err
	}
	return m, nil
}

// Device returns the device that the model runs on.
func (m *Model) Device() nn.Device { return m.dev }

// Config returns the model's settings.
func (m *Model) Config() Config { return (&Blueprint{cfg: m.cfg}).Config() }

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
	if err := k.CheckOutputs(float64(c.Logits), float64(c.HiddenSize)*float64(c.Layers+1),
		float64(c.Heads)*float64(c.Layers)*float64(keys)); err != nil {
		return nil, err
	}
	p := run.Begin(ctx, m.dev, m.sessionBytes)
	defer func() {
		if p.End(&err); err != nil {
			out = nil
		}
	}()
	hostCos, hostSin, err := c.Rope.Tables(k.Positions)
	if err != nil {
		return nil, err
	}
	var cos, sin nn.Array
	p.Fix(&cos, hostCos, tensor.F32)
	p.Fix(&sin, hostSin, tensor.F32)
	var trace run.Trace

	block := m.block.Forward(p.S, k.IDs)
	if err := p.S.Err(); err != nil { // a failed session's arrays must not be used
		return nil, err
	}
	qkv, mlp, h := block[0], block[1], block[2]
	bytes := c.layerBytes(k, keys)
	p.Use(bytes)
	for i := range m.layers {
		l := &m.layers[i]
		if i > 0 {
			if err := p.Room(bytes, &h); err != nil {
				return nil, err
			}
			x := l.norm.Forward(p.S, h)
			qkv, mlp = l.qkv.Forward(p.S, x), nn.Apply(p.S, l.mlp, x)
		}
		if err := trace.KeepHidden(p, k, h, c.HiddenSize); err != nil {
			return nil, err
		}
		attended := cache.Attend(p.S, i, nn.AttentionInput{
			Q:     c.rotate(p.S, c.part(p.S, qkv, 0), cos, sin),
			V:     c.part(p.S, qkv, 1),
			K:     c.rotate(p.S, c.part(p.S, qkv, 2), cos, sin),
			Batch: k.Batch, Heads: c.Heads, KVHeads: c.Heads, HeadDim: c.headDim(),
			Scale: c.scale(), Causal: true, Wide: true, Mask: mask, Weights: k.Attentions,
		})
		if err := trace.KeepAttention(p, k, attended.Weights, c.Heads, keys); err != nil {
			return nil, err
		}
		h = p.S.Add(p.S.Add(l.out.Forward(p.S, attended.Context), mlp), h)
		if err := p.S.Err(); err != nil {
			return nil, err
		}
	}
	h = m.norm.Forward(p.S, h)
	if err := trace.KeepHidden(p, k, h, c.HiddenSize); err != nil {
		return nil, err
	}
	logits, err := p.Logits(k, h, []nn.RowLocal{m.head, widened{}}, c.Logits)
	if err != nil {
		return nil, err
	}
	return trace.Append(architectures.Outputs{{Name: "logits", Tensor: logits}}), nil
}

// part returns queries (0), values (1) or keys (2) of the fused projection, heads
// in order.
func (c *Config) part(s nn.Session, qkv nn.Array, n int) nn.Array {
	width := c.HiddenSize / groups
	return s.GroupColumns(qkv, groups, n*width, width)
}

// rotate turns heads in float32, where the reference's queries and keys stay.
func (c *Config) rotate(s nn.Session, x, cos, sin nn.Array) nn.Array {
	return s.Rotary(s.Cast(x, tensor.F32), cos, sin, c.Heads, nn.RotatePairs)
}

// widened casts logits to float32.
type widened struct{ nn.Activation }

func (widened) Forward(s nn.Session, x nn.Array) nn.Array { return s.Cast(x, tensor.F32) }

// layerBytes is about what the results of a layer occupy in a session.
func (c *Config) layerBytes(k *batch.Call, keys int) float64 {
	n := float64(16*c.HiddenSize + 2*c.IntermediateSize)
	if k.Attentions {
		n += float64(c.Heads) * float64(keys)
	}
	return 4 * n * float64(k.Rows())
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
// of the configuration's end tokens, which is included. Prompts must have one
// length: padding would shift positions.
func (m *Model) Generate(ctx context.Context, prompts [][]int, maxNew int) ([][]int, error) {
	for i, p := range prompts {
		if len(p) != len(prompts[0]) {
			return nil, fmt.Errorf("%w: prompt %d has %d tokens, prompt 0 has %d; the positions of this model are columns, so that padding would change it",
				ErrInput, i, len(p), len(prompts[0]))
		}
	}
	return m.causal().Generate(ctx, prompts, maxNew)
}

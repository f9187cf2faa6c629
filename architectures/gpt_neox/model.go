package gpt_neox

import (
	"context"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/batch"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/architectures/nn"
)

// Errors of this package's models, besides those of devices.
var (
	// ErrInput is wrapped by every error about what a call was given.
	ErrInput = batch.ErrInput
	// ErrBlock is wrapped by errors about a block path that is not declared, or a
	// block that does not fit its place.
	ErrBlock = run.ErrBlock
)

// Model is a GPT-NeoX model on a device. It is immutable and safe for concurrent
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
	qkv, mlp []nn.RowLocal
	dense    *nn.Linear
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
			l.qkv = []nn.RowLocal{u.LayerNorm(at+"input_layernorm", c.NormEpsilon), u.Linear(at+"attention.query_key_value", c.AttentionBias)}
		}
		if i > 0 || m.block == nil || !c.Parallel {
			l.mlp = []nn.RowLocal{
				u.LayerNorm(at+"post_attention_layernorm", c.NormEpsilon),
				u.Linear(at+"mlp.dense_h_to_4h", true),
				nn.Activation{Function: c.Activation},
				u.Linear(at+"mlp.dense_4h_to_h", true),
			}
		}
		l.dense = u.Linear(at+"attention.dense", c.AttentionBias)
		if u.Err != nil {
			return nil, u.Err
		}
		if i == 0 && m.block == nil {
			branches := []nn.Branch{{Name: outputQKV, Layers: l.qkv}}
			if c.Parallel {
				branches = append(branches, nn.Branch{Name: outputMLP, Layers: l.mlp})
				l.mlp = nil
			}
			l.qkv = nil
			m.block = u.Fanout(BlockPath, embeddingName, nil, branches, outputResidual)
		}
		m.layers = append(m.layers, l)
	}
	m.norm = u.LayerNorm(finalNormName, c.NormEpsilon)
	if c.TiedHead {
		m.head = u.Matrix(embeddingName, "")
	} else {
		m.head = u.Matrix(headName, "")
	}
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
	hostCos, hostSin, err := c.Rope.Tables(k.Positions)
	if err != nil {
		return nil, err
	}
	var cos, sin nn.Array
	p.Fix(&cos, hostCos, c.DType)
	p.Fix(&sin, hostSin, c.DType)
	var trace run.Trace

	block := m.block.Forward(p.S, k.IDs)
	if err := p.S.Err(); err != nil { // a failed session's arrays must not be used
		return nil, err
	}
	qkv, h := block[0], block[len(block)-1]
	bytes := c.layerBytes(k, keys)
	p.Use(bytes)
	for i := range m.layers {
		l := &m.layers[i]
		if i > 0 {
			if err := p.Room(bytes, &h); err != nil {
				return nil, err
			}
			qkv = nn.Apply(p.S, l.qkv, h)
		}
		if err := trace.KeepHidden(p, k, h, c.HiddenSize); err != nil {
			return nil, err
		}
		size := c.headDim()
		part := func(n int) nn.Array { return p.S.GroupColumns(qkv, c.Heads, n*size, size) }
		attended := cache.Attend(p.S, i, nn.AttentionInput{
			Q:     p.S.Rotary(part(0), cos, sin, c.Heads, nn.RotateHalves),
			K:     p.S.Rotary(part(1), cos, sin, c.Heads, nn.RotateHalves),
			V:     part(2),
			Batch: k.Batch, Heads: c.Heads, KVHeads: c.Heads, HeadDim: size,
			Scale: c.scale(), Causal: true, Mask: mask, Weights: k.Attentions,
		})
		if err := trace.KeepAttention(p, k, attended.Weights, c.Heads, keys); err != nil {
			return nil, err
		}
		attention := l.dense.Forward(p.S, attended.Context)
		switch {
		case !c.Parallel:
			attention = p.S.Add(attention, h)
			h = p.S.Add(nn.Apply(p.S, l.mlp, attention), attention)
		case i == 0:
			h = p.S.Add(p.S.Add(block[1], attention), h)
		default:
			h = p.S.Add(p.S.Add(nn.Apply(p.S, l.mlp, h), attention), h)
		}
		if err := p.S.Err(); err != nil {
			return nil, err
		}
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
// of the configuration's end tokens, which is included. Prompts may differ in
// length: shorter ones are padded on the left, hidden from attention, and their
// positions count from their first token.
func (m *Model) Generate(ctx context.Context, prompts [][]int, maxNew int) ([][]int, error) {
	return m.causal().Generate(ctx, prompts, maxNew)
}

package llama

import (
	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/architectures/nn"
)

// ErrBlock is wrapped by errors about a block path that is not declared, or a
// block that does not fit its place.
var ErrBlock = run.ErrBlock

// Model is a Llama model on a device. It is immutable and safe for concurrent
// use. Its weights are freed with the device.
type Model struct {
	cfg Config
	dev nn.Device

	qkv    nn.TokenBlock
	layers []layer
	norm   *nn.RMSNorm
	head   *nn.Linear

	sessionBytes float64 // the constant, but for tests
}

// layer is one decoder layer. Layer 0 has no input norm, q, k and v of its own:
// they belong to the block.
type layer struct {
	norm, postNorm *nn.RMSNorm
	q, k, v        []nn.RowLocal
	o              *nn.Linear
	gate, up, down *nn.Linear
}

// Build uploads weights one tensor at a time. Only tensors that the model reads
// are asked of weights: not the stored rotary frequencies, not a tied head, and
// none of the tensors that a block in blocks takes the place of. A block given
// for [QKVPath] must have the outputs q, k, v and residual, so that the embedding
// is asked for only when the head is tied to it.
func (b *Blueprint) Build(dev nn.Device, weights architectures.Weights, blocks map[string]nn.TokenBlock) (architectures.Model, error) {
	c := &b.cfg
	given, err := c.slots().Given(blocks)
	if err != nil {
		return nil, err
	}
	m := &Model{cfg: b.Config(), dev: dev, sessionBytes: run.SessionBytes}
	u := run.NewUploader(dev, weights, b.Params())
	if m.qkv = given[0]; m.qkv == nil {
		m.qkv = c.fanout(u)
	}
	for i := range c.Layers {
		at := layerPrefix(i)
		var l layer
		if i > 0 {
			l.norm = u.RMSNorm(at+"input_layernorm", c.NormEpsilon)
			l.q, l.k, l.v = c.projections(u, at)
		}
		l.o = u.Linear(at+"self_attn.o_proj", c.OutputBias)
		l.postNorm = u.RMSNorm(at+"post_attention_layernorm", c.NormEpsilon)
		l.gate = u.Linear(at+"mlp.gate_proj", c.MLPBias)
		l.up = u.Linear(at+"mlp.up_proj", c.MLPBias)
		l.down = u.Linear(at+"mlp.down_proj", c.MLPBias)
		if u.Err != nil {
			return nil, u.Err
		}
		m.layers = append(m.layers, l)
	}
	m.norm = u.RMSNorm("model.norm", c.NormEpsilon)
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

// projections uploads what makes queries, keys and values of a layer, up to where
// they rotate.
func (c *Config) projections(u *run.Uploader, at string) (q, k, v []nn.RowLocal) {
	q = []nn.RowLocal{u.Linear(at+"self_attn.q_proj", c.QKVBias)}
	k = []nn.RowLocal{u.Linear(at+"self_attn.k_proj", c.QKVBias)}
	v = []nn.RowLocal{u.Linear(at+"self_attn.v_proj", c.QKVBias)}
	if c.HeadNorms {
		q = append(q, u.HeadNorm(at+"self_attn.q_norm", c.NormEpsilon, c.Heads))
		k = append(k, u.HeadNorm(at+"self_attn.k_norm", c.NormEpsilon, c.KVHeads))
	}
	return q, k, v
}

// fanout uploads the declared block in its source form.
func (c *Config) fanout(u *run.Uploader) *nn.Fanout {
	at := layerPrefix(0)
	norm := u.RMSNorm(at+"input_layernorm", c.NormEpsilon)
	q, k, v := c.projections(u, at)
	return u.Fanout(QKVPath, embeddingName, []nn.RowLocal{norm},
		[]nn.Branch{{Name: outputQ, Layers: q}, {Name: outputK, Layers: k}, {Name: outputV, Layers: v}}, outputResidual)
}

// Device returns the device that the model runs on.
func (m *Model) Device() nn.Device { return m.dev }

// Config returns the model's settings.
func (m *Model) Config() Config { return (&Blueprint{cfg: m.cfg}).Config() }

// Block returns the block in use at path, which must be [QKVPath].
func (m *Model) Block(path string) (nn.TokenBlock, error) {
	if _, err := m.cfg.slots().Index(path); err != nil {
		return nil, err
	}
	return m.qkv, nil
}

// WithBlock returns a model that uses block at path, which must be [QKVPath],
// and shares everything else with m. The block must have the declared outputs,
// then the residual.
func (m *Model) WithBlock(path string, block nn.TokenBlock) (architectures.Model, error) {
	if _, err := m.cfg.slots().Place(path, block); err != nil {
		return nil, err
	}
	view := *m
	view.qkv = block
	return &view, nil
}

package t5

import (
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

// Model is a T5 model on a device. It is immutable and safe for concurrent use.
// Its weights are freed with the device.
type Model struct {
	cfg     Config
	dev     nn.Device
	encoder *stack
	decoder *stack // nil for an encoder alone
	head    []nn.RowLocal

	sessionBytes float64 // the constant, but for tests
}

// stack is an encoder or a decoder.
type stack struct {
	block   nn.TokenBlock
	layers  []layer
	norm    *norm
	buckets buckets
	bias    []float32 // [buckets, heads]
}

// layer is one layer of a stack. What the block computes of layer 0 is not there.
type layer struct {
	norm    *norm
	q, k, v *nn.Linear
	o       *nn.Linear

	crossNorm                      *norm // nil in an encoder, with all of its row
	crossQ, crossK, crossV, crossO *nn.Linear

	mlpNorm        *norm
	gate, up, down *nn.Linear // up is nil without a gate
}

// Build uploads weights one tensor at a time, and none of those that a block in
// blocks takes the place of.
func (b *Blueprint) Build(dev nn.Device, weights architectures.Weights, blocks map[string]nn.TokenBlock) (architectures.Model, error) {
	c := &b.cfg
	given, err := c.slots().Given(blocks)
	if err != nil {
		return nil, err
	}
	m := &Model{cfg: b.Config(), dev: dev, sessionBytes: run.SessionBytes}
	u := run.NewUploader(dev, weights, b.Params())
	for i, s := range c.stacks() {
		built, err := c.build(u, dev, s, given[i])
		if err != nil {
			return nil, err
		}
		if s.decoder {
			m.decoder = built
		} else {
			m.encoder = built
		}
	}
	if m.decoder != nil {
		name := headName
		if c.TiedHead {
			name = embeddingName
		}
		if c.ScaledHead {
			m.head = []nn.RowLocal{nn.Scaled{Factor: c.headScale()}}
		}
		m.head = append(m.head, u.Matrix(name, ""))
	}
	if u.Err != nil {
		return nil, u.Err
	}
	return m, nil
}

// build uploads a stack.
func (c *Config) build(u *run.Uploader, dev nn.Device, s stackSpec, block nn.TokenBlock) (*stack, error) {
	out := &stack{block: block, buckets: buckets{rows: c.Buckets, most: c.MaxDistance, bothWays: !s.decoder}}
	table, err := u.Tensor(s.biasName())
	if err != nil {
		return nil, err
	}
	out.bias = append(out.bias, architectures.Floats(table)...)
	for i := range s.layers {
		at := s.layer(i, 0)
		var l layer
		if i > 0 || block == nil {
			l.norm = c.norm(u, dev, at+"layer_norm", i > 0)
			l.q = u.Linear(at+"SelfAttention.q", false)
			l.k = u.Linear(at+"SelfAttention.k", false)
			l.v = u.Linear(at+"SelfAttention.v", false)
		}
		if i == 0 && block == nil {
			out.block = u.Fanout(s.path(), embeddingName, []nn.RowLocal{l.norm.RMSNorm}, []nn.Branch{
				{Name: outputQ, Layers: []nn.RowLocal{l.q}},
				{Name: outputK, Layers: []nn.RowLocal{l.k}},
				{Name: outputV, Layers: []nn.RowLocal{l.v}},
			}, outputResidual)
			l = layer{}
		}
		l.o = u.Linear(at+"SelfAttention.o", false)
		if s.decoder {
			at = s.layer(i, 1)
			l.crossNorm = c.norm(u, dev, at+"layer_norm", i > 0)
			l.crossQ = u.Linear(at+"EncDecAttention.q", false)
			l.crossK = u.Linear(at+"EncDecAttention.k", false)
			l.crossV = u.Linear(at+"EncDecAttention.v", false)
			l.crossO = u.Linear(at+"EncDecAttention.o", false)
		}
		at = s.layer(i, s.mlp())
		l.mlpNorm = c.norm(u, dev, at+"layer_norm", i > 0)
		names := c.mlpInputs()
		l.gate = u.Linear(at+"DenseReluDense."+names[0], false)
		if c.Gated {
			l.up = u.Linear(at+"DenseReluDense."+names[1], false)
		}
		l.down = c.down(u, dev, at+"DenseReluDense.wo")
		if u.Err != nil {
			return nil, u.Err
		}
		out.layers = append(out.layers, l)
	}
	out.norm = c.norm(u, dev, s.name+".final_layer_norm", true)
	return out, u.Err
}

// Device returns the device that the model runs on.
func (m *Model) Device() nn.Device { return m.dev }

// Config returns the model's settings.
func (m *Model) Config() Config { return (&Blueprint{cfg: m.cfg}).Config() }

// Block returns the block in use at path.
func (m *Model) Block(path string) (nn.TokenBlock, error) {
	i, err := m.cfg.slots().Index(path)
	if err != nil {
		return nil, err
	}
	return []*stack{m.encoder, m.decoder}[i].block, nil
}

// WithBlock returns a model that uses block at path and shares everything else
// with m. The block must have the declared outputs, then the residual.
func (m *Model) WithBlock(path string, block nn.TokenBlock) (architectures.Model, error) {
	i, err := m.cfg.slots().Place(path, block)
	if err != nil {
		return nil, err
	}
	view := *m
	at := []**stack{&view.encoder, &view.decoder}[i]
	changed := **at
	changed.block = block
	*at = &changed
	return &view, nil
}

package hyenadna

import (
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

// Model is a HyenaDNA model on a device. It is immutable and safe for concurrent
// use. Its weights are freed with the device.
type Model struct {
	cfg    Config
	dev    nn.Device
	block  nn.TokenBlock
	layers []layer
	norm   *nn.LayerNorm
	head   []nn.RowLocal // over ids or classes; nil for a model without one

	sessionBytes float64 // the constant, but for tests
}

// layer is one layer. What the block computes of layer 0 is not there.
type layer struct {
	enter      []nn.RowLocal // norm and input projection
	taps, bias nn.Array      // of the short convolution
	filter     filter
	out        *nn.Linear
	mlp        []nn.RowLocal
}

// Build uploads weights one tensor at a time, and none of those that a block in
// blocks takes the place of. The device's sessions must have convolutions: see
// [nn.CanConvolve] and [nn.CanConvolveLong].
func (b *Blueprint) Build(dev nn.Device, weights architectures.Weights, blocks map[string]nn.TokenBlock) (architectures.Model, error) {
	c := &b.cfg
	given, err := c.slots().Given(blocks)
	if err != nil {
		return nil, err
	}
	if err := nn.CanConvolve(dev); err != nil {
		return nil, err
	}
	if err := nn.CanConvolveLong(dev); err != nil {
		return nil, err
	}
	m := &Model{cfg: *c, dev: dev, block: given[0], sessionBytes: run.SessionBytes}
	u := run.NewUploader(dev, weights, b.Params())
	shared := tables{}
	for i := range c.Layers {
		at := b.layer(i)
		var l layer
		if i > 0 || m.block == nil {
			norm, project := u.LayerNorm(at+"norm1", normEpsilon), u.Linear(at+inProj, true)
			l.enter = []nn.RowLocal{norm, project}
			if i == 0 {
				m.block = u.Fanout(BlockPath, b.prefix+embedding, []nn.RowLocal{norm},
					[]nn.Branch{{Name: outputStreams, Layers: []nn.RowLocal{project}}}, outputResidual)
				l.enter = nil
			}
		}
		l.taps = shortTapsOf(u, dev, at+shortConv+".weight")
		l.bias = vector(u, dev, at+shortConv+".bias", 0, c.streams())
		l.filter = newFilter(u, dev, shared, c, at)
		l.out = u.Linear(at+outProj, true)
		l.mlp = []nn.RowLocal{
			u.LayerNorm(at+"norm2", normEpsilon),
			u.Linear(at+"mlp.fc1", true),
			nn.Activation{Function: nn.GELUTanh},
			u.Linear(at+"mlp.fc2", true),
		}
		if u.Err != nil {
			return nil, u.Err
		}
		m.layers = append(m.layers, l)
	}
	m.norm = u.LayerNorm(b.prefix+"backbone.ln_f", normEpsilon)
	switch {
	case c.TiedHead:
		m.head = []nn.RowLocal{u.Matrix(b.prefix+embedding, "")}
	case c.Labels > 0:
		m.head = []nn.RowLocal{u.Matrix(scoreName, "")}
	case c.LM:
		m.head = []nn.RowLocal{u.Matrix(headName, "")}
	}
	if u.Err != nil {
		return nil, u.Err
	}
	return m, nil
}

// shortTapsOf uploads the weight [width, 1, taps] of a depthwise convolution, tap by
// tap.
func shortTapsOf(u *run.Uploader, dev nn.Device, name string) nn.Array {
	if u.Err != nil {
		return nil
	}
	w, err := u.Tensor(name)
	if err != nil {
		u.Err = err
		return nil
	}
	width := w.Shape()[0]
	values := make([]float32, w.Len())
	for i, v := range w.Float32s() {
		values[i%shortTaps*width+i/shortTaps] = v
	}
	t, err := tensor.FromFloat32s(values, len(values))
	if err != nil {
		u.Err = err
		return nil
	}
	var a nn.Array
	a, u.Err = dev.Upload(t, nn.AsVector)
	return a
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
// and shares everything else with m. The block must have the declared output, then
// the residual.
func (m *Model) WithBlock(path string, block nn.TokenBlock) (architectures.Model, error) {
	if _, err := m.cfg.slots().Place(path, block); err != nil {
		return nil, err
	}
	view := *m
	view.block = block
	return &view, nil
}

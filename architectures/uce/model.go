package uce

import (
	"fmt"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/architectures/nn"
)

// Model is a UCE model on a device. It is immutable and safe for concurrent use.
// Its weights are freed with the device.
type Model struct {
	cfg Config
	dev nn.Device

	encoder   nn.TokenBlock
	positions nn.Table
	layers    []layer
	decoder   []nn.RowLocal
}

// layer is one encoder layer, with a norm behind either sum.
type layer struct {
	qkv, out     *nn.Linear
	linear1      *nn.Linear
	linear2      *nn.Linear
	norm1, norm2 *nn.LayerNorm
}

// Build uploads weights one tensor at a time. When a block is given for
// [EncoderPath], the tensors that it replaces are not asked for.
func (b *Blueprint) Build(dev nn.Device, weights architectures.Weights, blocks map[string]nn.TokenBlock) (architectures.Model, error) {
	c := b.cfg
	given, err := c.slots().Given(blocks)
	if err != nil {
		return nil, err
	}
	m := &Model{cfg: c, dev: dev, encoder: given[0]}
	u := run.NewUploader(dev, weights, b.Params())
	if m.encoder == nil {
		branch := nn.Branch{Name: output, Layers: []nn.RowLocal{
			nn.RowNormalize{Eps: 1e-12},
			u.Linear(project, true),
			nn.Activation{Function: nn.GELU},
			u.LayerNorm(inputNorm, normEpsilon),
			nn.Scaled{Factor: c.rootWidth()},
		}}
		if u.Err != nil {
			return nil, u.Err
		}
		m.encoder = u.Fanout(EncoderPath, vectors, nil, []nn.Branch{branch}, "")
	}
	if m.positions, err = uploadPositions(u, dev, &c); err != nil {
		return nil, err
	}
	for i := range c.Layers {
		at := layerPrefix(i)
		m.layers = append(m.layers, layer{
			qkv:     u.Matrix(at+"self_attn.in_proj_weight", at+"self_attn.in_proj_bias"),
			out:     u.Linear(at+"self_attn.out_proj", true),
			linear1: u.Linear(at+"linear1", true),
			linear2: u.Linear(at+"linear2", true),
			norm1:   u.LayerNorm(at+"norm1", normEpsilon),
			norm2:   u.LayerNorm(at+"norm2", normEpsilon),
		})
		if u.Err != nil {
			return nil, u.Err
		}
	}
	for i := range c.decoderWidths() {
		at := fmt.Sprintf("decoder.%d.", i)
		m.decoder = append(m.decoder, u.Linear(at+"0", true), u.LayerNorm(at+"1", normEpsilon), nn.Activation{Function: nn.GELU})
	}
	m.decoder = append(m.decoder, u.Linear(lastLayer, true))
	return m, u.Err
}

// Config returns the model's settings.
func (m *Model) Config() Config { return m.cfg }

// Device returns the device that the model runs on.
func (m *Model) Device() nn.Device { return m.dev }

// Block returns the block in use at path.
func (m *Model) Block(path string) (nn.TokenBlock, error) {
	if _, err := m.cfg.slots().Index(path); err != nil {
		return nil, err
	}
	return m.encoder, nil
}

// WithBlock returns a model that shares all weights but uses block at path.
func (m *Model) WithBlock(path string, block nn.TokenBlock) (architectures.Model, error) {
	if _, err := m.cfg.slots().Place(path, block); err != nil {
		return nil, err
	}
	view := *m
	view.encoder = block
	return &view, nil
}

// uploadPositions uploads the stored positions [positions, 1, hidden] as a table.
func uploadPositions(u *run.Uploader, dev nn.Device, c *Config) (nn.Table, error) {
	if u.Err != nil {
		return nil, u.Err
	}
	t, err := u.Tensor(positions)
	if err != nil {
		return nil, err
	}
	if t, err = t.Reshape(c.Positions, c.HiddenSize); err != nil {
		return nil, err
	}
	rows, err := nn.TensorRows(t)
	if err != nil {
		return nil, err
	}
	return dev.UploadRows(rows)
}

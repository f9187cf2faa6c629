package gru

import (
	"fmt"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/architectures/nn"
)

// Model is a model on a device. It is immutable and safe for concurrent use. Its
// weights are freed with the device.
type Model struct {
	cfg              Config
	dev              nn.Device
	encoder, decoder cell
	head             *nn.Linear
}

// cell is one recurrent stack: the block that projects its input, and the
// projection of its state.
type cell struct {
	input nn.TokenBlock
	state *nn.Linear
}

// Build uploads weights one tensor at a time. A block given for a stack takes the
// place of its embedding and input projection, which are then not asked for.
func (b *Blueprint) Build(dev nn.Device, weights architectures.Weights, blocks map[string]nn.TokenBlock) (architectures.Model, error) {
	given, err := b.cfg.slots().Given(blocks)
	if err != nil {
		return nil, err
	}
	m := &Model{cfg: b.cfg, dev: dev}
	u := run.NewUploader(dev, weights, b.Params())
	for i, s := range b.cfg.stacks() {
		c := m.cell(i)
		if c.input = given[i]; c.input == nil {
			project := u.Matrix(s.wIn(), s.bIn())
			c.input = u.Fanout(s.path, s.embedding(), nil, []nn.Branch{{Name: output, Layers: []nn.RowLocal{project}}}, "")
		}
		c.state = u.Matrix(s.wState(), s.bState())
		if u.Err != nil {
			return nil, u.Err
		}
	}
	m.head = u.Matrix(headWeight, headBias)
	return m, u.Err
}

// cell returns the stack of a slot.
func (m *Model) cell(slot int) *cell {
	if slot == 0 {
		return &m.encoder
	}
	return &m.decoder
}

// Config returns the model's settings.
func (m *Model) Config() Config { return m.cfg }

// Device returns the device that the model runs on.
func (m *Model) Device() nn.Device { return m.dev }

// Block returns the block in use at path.
func (m *Model) Block(path string) (nn.TokenBlock, error) {
	i, err := m.cfg.slots().Index(path)
	if err != nil {
		return nil, err
	}
	return m.cell(i).input, nil
}

// WithBlock returns a model that shares all weights but uses block at path.
func (m *Model) WithBlock(path string, block nn.TokenBlock) (architectures.Model, error) {
	slots := m.cfg.slots()
	i, err := slots.Index(path)
	if err != nil {
		return nil, err
	}
	if err := slots[i].Check(block); err != nil {
		return nil, fmt.Errorf("gru_seq2seq: %w", err)
	}
	view := *m
	view.cell(i).input = block
	return &view, nil
}

package dit

import (
	"fmt"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// Model is a DiT model on a device. It is immutable and safe for concurrent use.
// Its weights are freed with the device.
type Model struct {
	cfg    Config
	dev    nn.Device
	domain *nn.Domain // of the blocks, nil without a schedule
	sines  nn.Sinusoid

	// Either blocks or conditions give the modulations, one for each layer.
	blocks     []nn.TokenBlock
	conditions []condition

	patches   *nn.Linear
	positions nn.Table
	layers    []layer
	project   *nn.Linear
}

// layer is what follows the modulations.
type layer struct {
	q, k, v, out *nn.Linear
	up, down     *nn.Linear
}

// condition is the source form of a layer's modulations: from the sines and
// cosines of a timestep and from a class label.
type condition struct {
	time    []nn.RowLocal
	classes nn.Table
	source  nn.RowSource
	name    string
	// branches read what joins the two.
	branches []nn.Branch
}

func (c *condition) forward(s nn.Session, sines nn.Array, labels []int) []nn.Array {
	x := s.Add(nn.Apply(s, c.time, sines), s.Gather(c.classes, labels))
	out := make([]nn.Array, len(c.branches))
	for i, b := range c.branches {
		out[i] = nn.Apply(s, b.Layers, x)
	}
	return out
}

// Build uploads weights one tensor at a time. When a block is given for a layer's
// path, the tensors that it replaces are not asked for.
func (b *Blueprint) Build(dev nn.Device, weights architectures.Weights, blocks map[string]nn.TokenBlock) (architectures.Model, error) {
	m := &Model{cfg: b.cfg, dev: dev, domain: b.domain}
	c := &m.cfg
	given, err := c.slots(b.domain).Given(blocks)
	if err != nil {
		return nil, err
	}
	freqs, err := nn.DiffusionFrequencies(timeWidth, 10000, 1)
	if err != nil {
		return nil, err
	}
	m.sines = nn.Sinusoid{Freqs: freqs, CosFirst: true}
	u := run.NewUploader(dev, weights, b.Params())
	if m.patches, err = uploadPatches(u, dev, c); err != nil {
		return nil, err
	}
	rows, err := nn.TensorRows(positions(c))
	if err != nil {
		return nil, err
	}
	if m.positions, err = dev.UploadRows(rows); err != nil {
		return nil, err
	}
	for i := range c.Layers {
		if err := m.addModulations(u, i, given); err != nil {
			return nil, err
		}
		at := layerPrefix(i)
		m.layers = append(m.layers, layer{
			q:    u.Linear(at+"attn1.to_q", c.AttentionBias),
			k:    u.Linear(at+"attn1.to_k", c.AttentionBias),
			v:    u.Linear(at+"attn1.to_v", c.AttentionBias),
			out:  u.Linear(at+"attn1.to_out.0", true),
			up:   u.Linear(at+"ff.net.0.proj", true),
			down: u.Linear(at+"ff.net.2", true),
		})
		if u.Err != nil {
			return nil, u.Err
		}
	}
	m.project = u.Linear(lastProjection, true)
	return m, u.Err
}

// addModulations enters what gives the modulations of layer i.
func (m *Model) addModulations(u *run.Uploader, i int, given []nn.TokenBlock) error {
	if m.domain != nil && given[i] != nil {
		m.blocks = append(m.blocks, given[i])
		return nil
	}
	c := m.uploadCondition(u, i)
	if u.Err != nil {
		return u.Err
	}
	if m.domain == nil {
		m.conditions = append(m.conditions, c)
		return nil
	}
	f, err := m.fanout(&c)
	if err != nil {
		return fmt.Errorf("%s: %w", BlockPath(i), err)
	}
	m.blocks = append(m.blocks, f)
	return nil
}

func (m *Model) uploadCondition(u *run.Uploader, i int) condition {
	at := BlockPath(i)
	silu := nn.Activation{Function: nn.SiLU}
	c := condition{
		time: []nn.RowLocal{
			u.Linear(at+".emb.timestep_embedder.linear_1", true), silu,
			u.Linear(at+".emb.timestep_embedder.linear_2", true),
		},
		branches: []nn.Branch{{Name: modulation, Layers: []nn.RowLocal{silu, u.Linear(at+".linear", true)}}},
		name:     layerPrefix(i) + classTable,
	}
	c.source, c.classes = u.Table(c.name)
	if i == 0 {
		c.branches = append(c.branches, nn.Branch{Name: outModulation, Layers: []nn.RowLocal{silu, u.Linear(lastModulation, true)}})
	}
	return c
}

// fanout is a condition over the schedule's pairs.
func (m *Model) fanout(c *condition) (*nn.Fanout, error) {
	steps, labels := &m.domain.Factors[0], &m.domain.Factors[1]
	rows, err := m.sines.Rows(steps.Values())
	if err != nil {
		return nil, err
	}
	table, err := m.dev.UploadRows(rows)
	if err != nil {
		return nil, err
	}
	pair := &nn.Pair{
		Embedding: c.classes, EmbeddingSource: c.source, EmbeddingName: c.name,
		FirstLayers: c.time, Join: nn.Sum,
	}
	if labels.Size < c.source.NumRows() || labels.Keys != nil {
		pair.EmbeddingSource = declaredRows{c.source, labels}
		if pair.Embedding, err = m.dev.UploadRows(pair.EmbeddingSource); err != nil {
			return nil, err
		}
	}
	f := &nn.Fanout{Embedding: table, EmbeddingSource: rows, Over: m.domain, Pair: pair, Branches: c.branches}
	return f, f.Validate()
}

// declaredRows are the rows of the declared class labels.
type declaredRows struct {
	nn.RowSource
	labels *nn.Domain
}

func (r declaredRows) NumRows() int { return r.labels.Size }

func (r declaredRows) DecodeRow(dst []byte, i int) error {
	if i < 0 || i >= r.labels.Size {
		return fmt.Errorf("row %d of a table with %d rows", i, r.labels.Size)
	}
	if r.labels.Keys != nil {
		i = int(r.labels.Keys[i])
	}
	return r.RowSource.DecodeRow(dst, i)
}

// Config returns the model's settings.
func (m *Model) Config() Config { return m.cfg }

// Device returns the device that the model runs on.
func (m *Model) Device() nn.Device { return m.dev }

// Block returns the block in use at path.
func (m *Model) Block(path string) (nn.TokenBlock, error) {
	i, err := m.cfg.slots(m.domain).Index(path)
	if err != nil {
		return nil, err
	}
	return m.blocks[i], nil
}

// WithBlock returns a model that shares all weights but uses block at path.
func (m *Model) WithBlock(path string, block nn.TokenBlock) (architectures.Model, error) {
	i, err := m.cfg.slots(m.domain).Place(path, block)
	if err != nil {
		return nil, err
	}
	view := *m
	view.blocks = append([]nn.TokenBlock(nil), m.blocks...)
	view.blocks[i] = block
	return &view, nil
}

// uploadPatches uploads the convolution over patches, whose strides are its size,
// as the linear map that it is.
func uploadPatches(u *run.Uploader, dev nn.Device, c *Config) (*nn.Linear, error) {
	const weight, bias = patchProjection + ".weight", patchProjection + ".bias"
	return nn.NewLinear(dev, func(name string) (*tensor.Tensor, error) {
		t, err := u.Tensor(name)
		if err != nil || name != weight {
			return t, err
		}
		return t.Reshape(c.width(), c.InChannels*c.PatchSize*c.PatchSize)
	}, weight, bias)
}

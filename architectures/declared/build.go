package declared

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// Model is a declared model on a device. It is immutable and safe for concurrent
// use. Its weights are freed with the device.
type Model struct {
	b      *Blueprint
	dev    nn.Device
	blocks []nn.TokenBlock
	// Per step: its layers, its table of learned positions, its rotary
	// frequencies.
	layers [][]nn.RowLocal
	tables []nn.Table
	freqs  [][]float32
	// last is, per value, the last step that reads it; len(steps) for outputs.
	last []int

	sessionBytes float64 // the constant, but for tests
}

// Build uploads weights one tensor at a time, each once per use. Tensors that
// only blocks given in blocks read are not asked for; kept and ignored ones never
// are.
func (b *Blueprint) Build(dev nn.Device, weights architectures.Weights, blocks map[string]nn.TokenBlock) (architectures.Model, error) {
	for path := range blocks {
		if b.block(path) < 0 {
			return nil, b.unknown(path)
		}
	}
	u := &uploader{dev: dev, weights: weights, params: map[string]loader.Param{}, have: map[upload]nn.Array{}, rows: map[string]uploadedRows{}}
	for _, p := range b.params {
		u.params[p.Name] = p
	}
	m := &Model{
		b: b, dev: dev, sessionBytes: sessionBytes, last: b.lastUses(),
		layers: make([][]nn.RowLocal, len(b.steps)), tables: make([]nn.Table, len(b.steps)), freqs: make([][]float32, len(b.steps)),
	}
	for i := range b.blocks {
		k := &b.blocks[i]
		given, ok := blocks[k.path]
		if !ok {
			m.blocks = append(m.blocks, u.fanout(k))
			continue
		}
		if err := b.check(k, given); err != nil {
			return nil, err
		}
		m.blocks = append(m.blocks, given)
	}
	for i, s := range b.steps {
		switch s.op {
		case stepLayers:
			m.layers[i] = u.layers(s.layers)
		case stepPositions:
			m.tables[i] = u.table(s.table).table
		case stepRotary:
			var err error
			if m.freqs[i], err = s.rope.InverseFrequencies(); err != nil {
				return nil, err
			}
		}
		if u.err != nil {
			return nil, u.err
		}
	}
	return m, u.err
}

func (b *Blueprint) block(path string) int {
	return slices.IndexFunc(b.blocks, func(k block) bool { return k.path == path })
}

func (b *Blueprint) unknown(path string) error {
	var known []string
	for _, k := range b.blocks {
		known = append(known, k.path)
	}
	return fmt.Errorf("%w: %s; declared: %s", ErrBlock, quote(path), strings.Join(known, ", "))
}

// check compares a block with its declaration.
func (b *Blueprint) check(k *block, given nn.TokenBlock) error {
	if err := nn.CheckBlock(given, b.vocabulary, nil, k.allOutputs(b.dtype)); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrBlock, k.path, err)
	}
	return nil
}

// lastUses finds when each value is read for the last time.
func (b *Blueprint) lastUses() []int {
	last := make([]int, len(b.values))
	for i, s := range b.steps {
		for _, v := range s.from {
			last[v] = i
		}
	}
	for _, o := range b.outputs {
		last[o.from] = len(b.steps)
	}
	return last
}

// uploader moves weights to a device; the first failure sticks.
type uploader struct {
	dev     nn.Device
	weights architectures.Weights
	params  map[string]loader.Param
	have    map[upload]nn.Array
	rows    map[string]uploadedRows
	err     error
}

type upload struct {
	name string
	use  nn.Use
}

type uploadedRows struct {
	source nn.RowSource
	table  nn.Table
}

// tensor fetches a bound tensor and checks it again: weights may come from
// anyone.
func (u *uploader) tensor(name string) *tensor.Tensor {
	if u.err != nil {
		return nil
	}
	t, err := u.weights.Tensor(name)
	p := u.params[name]
	switch {
	case err != nil:
		u.err = fmt.Errorf("tensor %s: %w", name, err)
	case t == nil:
		u.err = fmt.Errorf("tensor %s: not given", name)
	case !slices.Contains(p.DTypes, t.DType()):
		u.err = fmt.Errorf("tensor %s: %w: expected %v, found %v", name, tensor.ErrDType, p.DTypes, t.DType())
	case !t.Shape().Equal(p.Shape):
		u.err = fmt.Errorf("tensor %s: %w: expected %v, found %v", name, tensor.ErrShape, p.Shape, t.Shape())
	}
	if u.err != nil {
		return nil
	}
	return t
}

func (u *uploader) upload(name string, use nn.Use) nn.Array {
	if a, ok := u.have[upload{name, use}]; ok {
		return a
	}
	t := u.tensor(name)
	if u.err != nil {
		return nil
	}
	a, err := u.dev.Upload(t, use)
	if err != nil {
		u.err = fmt.Errorf("tensor %s: %w", name, err)
		return nil
	}
	u.have[upload{name, use}] = a
	return a
}

func (u *uploader) table(name string) uploadedRows {
	if r, ok := u.rows[name]; ok {
		return r
	}
	if u.err != nil {
		return uploadedRows{}
	}
	var r uploadedRows
	var err error
	if r.source, err = architectures.Rows(u.weights, name); err == nil {
		have := tensor.Shape{r.source.NumRows(), r.source.Width()}
		switch p := u.params[name]; {
		case !slices.Contains(p.DTypes, r.source.DType()):
			err = fmt.Errorf("%w: expected %v, found %v", tensor.ErrDType, p.DTypes, r.source.DType())
		case !have.Equal(p.Shape):
			err = fmt.Errorf("%w: expected %v, found %v", tensor.ErrShape, p.Shape, have)
		default:
			r.table, err = u.dev.UploadRows(r.source)
		}
	}
	if err != nil {
		u.err = fmt.Errorf("tensor %s: %w", name, err)
		return uploadedRows{}
	}
	u.rows[name] = r
	return r
}

// fanout uploads a block in its source form.
func (u *uploader) fanout(k *block) *nn.Fanout {
	rows := u.table(k.embedding)
	f := &nn.Fanout{
		Embedding: rows.table, EmbeddingSource: rows.source, EmbeddingName: k.embedding,
		Prefix: u.layers(k.prefix), Residual: k.residual,
	}
	for _, br := range k.branches {
		f.Branches = append(f.Branches, nn.Branch{Name: br.name, Layers: u.layers(br.layers)})
	}
	if u.err == nil {
		if err := f.Validate(); err != nil {
			u.err = fmt.Errorf("%w: %s: %w", ErrBlock, k.path, err)
		}
	}
	return f
}

// Device returns the device that the model runs on.
func (m *Model) Device() nn.Device { return m.dev }

// Block returns the block in use at path.
func (m *Model) Block(path string) (nn.TokenBlock, error) {
	i := m.b.block(path)
	if i < 0 {
		return nil, m.b.unknown(path)
	}
	return m.blocks[i], nil
}

// WithBlock returns a model that uses block at path and shares everything else
// with m. The block must have the declared outputs, then the residual if there is
// one.
func (m *Model) WithBlock(path string, block nn.TokenBlock) (architectures.Model, error) {
	i := m.b.block(path)
	if i < 0 {
		return nil, m.b.unknown(path)
	}
	if err := m.b.check(&m.b.blocks[i], block); err != nil {
		return nil, err
	}
	view := *m
	view.blocks = slices.Clone(m.blocks)
	view.blocks[i] = block
	return &view, nil
}

var _ architectures.Model = (*Model)(nil)

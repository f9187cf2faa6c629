package llama

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// ErrBlock is wrapped by errors about a block path that is not declared, or a
// block that does not fit its place.
var ErrBlock = errors.New("unknown or unsuitable block")

// Model is a Llama model on a device. It is immutable and safe for concurrent
// use. Its weights are freed with the device.
type Model struct {
	cfg  Config
	dev  nn.Device
	freq []float32 // rotary frequencies, HeadDim/2

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
	q, k, v, o     *nn.Linear
	gate, up, down *nn.Linear
}

// Build uploads weights one tensor at a time. Only tensors that the model reads
// are asked of weights: not the stored rotary frequencies, not a tied head, and
// none of the tensors that a block in blocks takes the place of. A block given
// for [QKVPath] must have the outputs q, k, v and residual, so that the embedding
// is asked for only when the head is tied to it.
func (b *Blueprint) Build(dev nn.Device, weights architectures.Weights, blocks map[string]nn.TokenBlock) (architectures.Model, error) {
	for path := range blocks {
		if path != QKVPath {
			return nil, fmt.Errorf("%w: %q; declared: %s", ErrBlock, path, QKVPath)
		}
	}
	c := &b.cfg
	freq, err := c.Rope.InverseFrequencies()
	if err != nil {
		return nil, err
	}
	m := &Model{cfg: b.Config(), dev: dev, freq: freq, sessionBytes: sessionBytes}
	u := uploader{dev: dev, weights: weights, eps: c.NormEpsilon, params: map[string]loader.Param{}}
	for _, p := range b.Params() {
		u.params[p.Name] = p
	}

	if block, given := blocks[QKVPath]; given {
		if err := c.checkQKV(block); err != nil {
			return nil, err
		}
		m.qkv = block
	} else {
		m.qkv = u.fanout(c)
	}
	linears := c.layerLinears()
	for i := range c.Layers {
		at := layerPrefix(i)
		var l layer
		if i > 0 {
			l.norm = u.norm(at + "input_layernorm")
			l.q = u.linear(at, linears[0])
			l.k = u.linear(at, linears[1])
			l.v = u.linear(at, linears[2])
		}
		l.o = u.linear(at, linears[3])
		l.postNorm = u.norm(at + "post_attention_layernorm")
		l.gate = u.linear(at, linears[4])
		l.up = u.linear(at, linears[5])
		l.down = u.linear(at, linears[6])
		if u.err != nil {
			return nil, u.err
		}
		m.layers = append(m.layers, l)
	}
	m.norm = u.norm("model.norm")
	if c.TiedHead {
		m.head = u.matrix(embeddingName, "")
	} else {
		m.head = u.matrix(headName, "")
	}
	if u.err != nil {
		return nil, u.err
	}
	return m, nil
}

// checkQKV compares a block with the declaration.
func (c *Config) checkQKV(block nn.TokenBlock) error {
	if block == nil {
		return fmt.Errorf("%w: %s: nil", ErrBlock, QKVPath)
	}
	if n := block.NumTokens(); n != c.VocabSize {
		return fmt.Errorf("%w: %s: expected %d tokens, found %d", ErrBlock, QKVPath, c.VocabSize, n)
	}
	want := append(c.qkvOutputs(), nn.Output{Name: outputResidual, Width: c.HiddenSize, DType: tensor.F32})
	if have := block.Outputs(); !slices.Equal(have, want) {
		return fmt.Errorf("%w: %s: expected outputs %v, found %v", ErrBlock, QKVPath, want, have)
	}
	return nil
}

// uploader moves weights to a device; the first failure sticks.
type uploader struct {
	dev     nn.Device
	weights architectures.Weights
	params  map[string]loader.Param
	eps     float32
	err     error
}

// tensor fetches a declared tensor and checks it again: weights may come from
// anyone.
func (u *uploader) tensor(name string) (*tensor.Tensor, error) {
	t, err := u.weights.Tensor(name)
	p := u.params[name]
	switch {
	case err != nil:
		return nil, fmt.Errorf("tensor %s: %w", name, err)
	case t == nil:
		return nil, fmt.Errorf("tensor %s: not given", name)
	case t.DType() != p.DTypes[0]:
		return nil, fmt.Errorf("tensor %s: %w: expected %v, found %v", name, tensor.ErrDType, p.DTypes[0], t.DType())
	case !t.Shape().Equal(p.Shape):
		return nil, fmt.Errorf("tensor %s: %w: expected %v, found %v", name, tensor.ErrShape, p.Shape, t.Shape())
	}
	return t, nil
}

// norm uploads an RMSNorm; at is its name without ".weight".
func (u *uploader) norm(at string) (n *nn.RMSNorm) {
	if u.err == nil {
		n, u.err = nn.NewRMSNorm(u.dev, u.tensor, at+".weight", u.eps)
	}
	return n
}

// matrix uploads a linear map; bias is empty when it has none.
func (u *uploader) matrix(weight, bias string) (l *nn.Linear) {
	if u.err == nil {
		l, u.err = nn.NewLinear(u.dev, u.tensor, weight, bias)
	}
	return l
}

func (u *uploader) linear(at string, l linearSpec) *nn.Linear {
	if l.bias {
		return u.matrix(at+l.name+".weight", at+l.name+".bias")
	}
	return u.matrix(at+l.name+".weight", "")
}

// fanout uploads the declared block in its source form.
func (u *uploader) fanout(c *Config) *nn.Fanout {
	if u.err != nil {
		return nil
	}
	t, err := u.tensor(embeddingName)
	if err != nil {
		u.err = err
		return nil
	}
	rows, err := nn.TensorRows(t)
	if err != nil {
		u.err = fmt.Errorf("tensor %s: %w", embeddingName, err)
		return nil
	}
	table, err := u.dev.UploadRows(rows)
	if err != nil {
		u.err = fmt.Errorf("tensor %s: %w", embeddingName, err)
		return nil
	}
	at, linears := layerPrefix(0), c.layerLinears()
	f := &nn.Fanout{
		Embedding:       table,
		EmbeddingSource: rows,
		EmbeddingName:   embeddingName,
		Prefix:          []nn.RowLocal{u.norm(at + "input_layernorm")},
		Residual:        outputResidual,
	}
	for i, name := range []string{outputQ, outputK, outputV} {
		f.Branches = append(f.Branches, nn.Branch{Name: name, Layers: []nn.RowLocal{u.linear(at, linears[i])}})
	}
	if u.err == nil {
		if err := f.Validate(); err != nil {
			u.err = fmt.Errorf("%w: %s: %w", ErrBlock, QKVPath, err)
		}
	}
	return f
}

// Device returns the device that the model runs on.
func (m *Model) Device() nn.Device { return m.dev }

// Config returns the model's settings.
func (m *Model) Config() Config { return (&Blueprint{cfg: m.cfg}).Config() }

// Block returns the block in use at path, which must be [QKVPath].
func (m *Model) Block(path string) (nn.TokenBlock, error) {
	if path != QKVPath {
		return nil, fmt.Errorf("%w: %q; declared: %s", ErrBlock, path, QKVPath)
	}
	return m.qkv, nil
}

// WithBlock returns a model that uses block at path, which must be [QKVPath],
// and shares everything else with m. The block must have the declared outputs,
// then the residual.
func (m *Model) WithBlock(path string, block nn.TokenBlock) (architectures.Model, error) {
	if _, err := m.Block(path); err != nil {
		return nil, err
	}
	if err := m.cfg.checkQKV(block); err != nil {
		return nil, err
	}
	view := *m
	view.qkv = block
	return &view, nil
}

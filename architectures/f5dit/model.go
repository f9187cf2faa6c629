package f5dit

import (
	"fmt"
	"math"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/internal/fmath"
)

// Model is an F5-TTS model on a device. It is immutable and safe for concurrent
// use. Its weights are freed with the device.
type Model struct {
	cfg    Config
	dev    nn.Device
	domain *nn.Domain // of the block, nil without a schedule
	sines  nn.Sinusoid

	// Either block or modulations gives the modulations.
	block       nn.TokenBlock
	modulations modulations

	text     textEncoder
	enter    *nn.Linear
	position []*nn.Conv1D
	rotary   []float32 // frequencies
	layers   []layer
	skip     *nn.Linear // nil without a long skip
	project  *nn.Linear
}

// layer is what follows the modulations.
type layer struct {
	q, k, v, out *nn.Linear
	qNorm, kNorm *nn.RMSNorm // nil without norms
	up, down     *nn.Linear
}

// modulations is the source form of the finite block: from the sines and cosines of
// a time.
type modulations struct {
	prefix   []nn.RowLocal
	branches []nn.Branch
}

// Build uploads weights one tensor at a time. When the block is given, the tensors
// that it replaces are not asked for. A device that does not convolve is refused
// with [nn.ErrNoConvolution].
func (b *Blueprint) Build(dev nn.Device, weights architectures.Weights, blocks map[string]nn.TokenBlock) (architectures.Model, error) {
	m := &Model{cfg: b.cfg, dev: dev, domain: b.domain, sines: nn.Sinusoid{Freqs: timeFrequencies(), Scale: timeScale, ScaleFirst: true}}
	c := &m.cfg
	given, err := c.slots(b.domain).Given(blocks)
	if err != nil {
		return nil, err
	}
	if err := nn.CanConvolve(dev); err != nil {
		return nil, fmt.Errorf("%s: %w", familyName, err)
	}
	u := &uploader{Uploader: run.NewUploader(dev, weights, b.Params()), dev: dev, prefix: b.prefix}
	if len(given) > 0 && given[0] != nil {
		m.block = given[0]
	} else if err := m.addModulations(u); err != nil {
		return nil, err
	}
	if m.text, err = u.textEncoder(c); err != nil {
		return nil, err
	}
	m.enter = u.linear(enterProjection)
	for _, at := range positionConvs {
		m.position = append(m.position, u.conv(at, positionGroups))
	}
	m.rotary = u.values(rotaryFrequencies)
	for i := range c.Depth {
		m.layers = append(m.layers, u.layer(c, layerPrefix(i)))
		if u.Err != nil {
			return nil, u.Err
		}
	}
	if c.LongSkip {
		m.skip = u.Linear(b.prefix+longSkip, false)
	}
	m.project = u.linear(lastProjection)
	return m, u.Err
}

// timeFrequencies are e^(−i·ln(10000)/127), the quotient, the product and the power
// rounded to float32 as in the published code. A frequency is multiplied by up to
// 1,000, so that its last bit is seen in the result: one of them is what PyTorch
// 2.15.0 gives on a CPU, a unit in the last place below the correctly rounded power.
func timeFrequencies() []float32 {
	freqs := make([]float32, timeWidth/2)
	step := -float32(math.Log(textPeriod) / float64(len(freqs)-1))
	for i := range freqs {
		freqs[i] = float32(fmath.Exp64(float64(float32(i) * step)))
	}
	freqs[4] = math.Nextafter32(freqs[4], 0)
	return freqs
}

// addModulations uploads the source of the modulations and, with a schedule, makes
// a block of it.
func (m *Model) addModulations(u *uploader) error {
	silu := nn.Activation{Function: nn.SiLU}
	s := modulations{prefix: []nn.RowLocal{u.linear(timeFirst), silu, u.linear(timeSecond), silu}}
	for i, o := range m.cfg.outputs() {
		at := lastModulation
		if i < m.cfg.Depth {
			at = modulationOf(i)
		}
		s.branches = append(s.branches, nn.Branch{Name: o.Name, Layers: []nn.RowLocal{u.linear(at)}})
	}
	if u.Err != nil {
		return u.Err
	}
	if m.domain == nil {
		m.modulations = s
		return nil
	}
	rows, err := m.sines.Rows(m.domain.Values())
	if err != nil {
		return err
	}
	table, err := m.dev.UploadRows(rows)
	if err != nil {
		return err
	}
	f := &nn.Fanout{Embedding: table, EmbeddingSource: rows, Over: m.domain, Prefix: s.prefix, Branches: s.branches}
	if err := f.Validate(); err != nil {
		return fmt.Errorf("%s: %w", BlockPath, err)
	}
	m.block = f
	return nil
}

// uploader adds the prefix of names, and what only this family uploads.
type uploader struct {
	*run.Uploader
	dev    nn.Device
	prefix string
}

func (u *uploader) linear(at string) *nn.Linear { return u.Linear(u.prefix+at, true) }

func (u *uploader) conv(at string, groups int) (c *nn.Conv1D) {
	if u.Err == nil {
		c, u.Err = nn.NewConv1D(u.dev, u.Tensor, u.prefix+at+".weight", u.prefix+at+".bias", groups)
	}
	return c
}

// values reads a tensor that stays on the host.
func (u *uploader) values(name string) []float32 {
	if u.Err != nil {
		return nil
	}
	t, err := u.Tensor(u.prefix + name)
	if err != nil {
		u.Err = err
		return nil
	}
	return t.Clone().Float32s()
}

func (u *uploader) layer(c *Config, at string) layer {
	l := layer{
		q: u.linear(at + "attn.to_q"), k: u.linear(at + "attn.to_k"), v: u.linear(at + "attn.to_v"), out: u.linear(at + "attn.to_out.0"),
		up: u.linear(at + "ff.ff.0.0"), down: u.linear(at + "ff.ff.2"),
	}
	if c.QKNorm {
		l.qNorm = u.HeadNorm(u.prefix+at+"attn.q_norm", epsilon, c.Heads)
		l.kNorm = u.HeadNorm(u.prefix+at+"attn.k_norm", epsilon, c.Heads)
	}
	return l
}

// Config returns the model's settings.
func (m *Model) Config() Config { return m.cfg }

// Device returns the device that the model runs on.
func (m *Model) Device() nn.Device { return m.dev }

// Block returns the block in use at path.
func (m *Model) Block(path string) (nn.TokenBlock, error) {
	if _, err := m.cfg.slots(m.domain).Index(path); err != nil {
		return nil, err
	}
	return m.block, nil
}

// WithBlock returns a model that shares all weights but uses block at path.
func (m *Model) WithBlock(path string, block nn.TokenBlock) (architectures.Model, error) {
	if _, err := m.cfg.slots(m.domain).Place(path, block); err != nil {
		return nil, err
	}
	view := *m
	view.block = block
	return &view, nil
}

package f5dit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

func init() { architectures.Register(family{}) }

const (
	familyName = "f5_dit"
	className  = "DiT"
)

// BlockPath addresses the block of all modulations.
const BlockPath = "time_embed"

// Where the transformer lies in a checkpoint: published ones hold the moving average
// of the weights.
const (
	averaged = "ema_model."
	core     = "transformer."
)

// bookkeeping are tensors of published checkpoints that belong to the average's
// training and to the spectrogram's computation.
var bookkeeping = []string{"initted", "step", averaged + "mel_spec.mel_stft.mel_scale.fb", averaged + "mel_spec.mel_stft.spectrogram.window"}

type family struct{}

func (family) Name() string { return familyName }

func (family) Matches(cfg architectures.Config) bool { return cfg.ModelType == familyName }

func (family) New(cfg architectures.Config) (architectures.Blueprint, error) {
	c, err := ParseConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &Blueprint{cfg: *c, prefix: averaged + core}, nil
}

// Blueprint is an F5-TTS model without weights, with or without a schedule. It is
// immutable and safe for concurrent use.
type Blueprint struct {
	cfg Config
	// domain is that of the declared times, nil without a schedule.
	domain *nn.Domain
	// prefix stands before the names of the transformer's tensors.
	prefix string
}

// Config returns the settings that the blueprint was made from.
func (b *Blueprint) Config() Config { return b.cfg }

// ForNames returns the blueprint for checkpoints of the averaged weights, whose
// names begin with "ema_model.", or of the weights themselves.
func (b *Blueprint) ForNames(names []string) architectures.Blueprint {
	view := *b
	if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, core) }) {
		view.prefix = core
	}
	return &view
}

// TimestepCast says how the model rounds a time.
func (b *Blueprint) TimestepCast() nn.Cast { return timestepCast }

var timestepCast = nn.Cast{DType: tensor.F32}

// WithTimesteps returns a blueprint whose modulations are declared as a finite block
// over d, a domain of times of type F32. Its models refuse other times.
func (b *Blueprint) WithTimesteps(d *nn.Domain) (architectures.Blueprint, error) {
	if d == nil {
		return nil, fmt.Errorf("%s: no timesteps are given", familyName)
	}
	if err := d.Validate(); err != nil {
		return nil, err
	}
	if d.Kind != nn.Timesteps || *d.Cast != timestepCast {
		return nil, fmt.Errorf("%s: expected timesteps of type F32, found %v", familyName, d)
	}
	view := *b
	view.domain = d
	return &view, nil
}

// UsualTimesteps are those of [DefaultSteps] steps.
func (b *Blueprint) UsualTimesteps() []float32 {
	times, err := Timesteps(DefaultSteps)
	if err != nil {
		panic(err) // they are known
	}
	return times
}

func layerPrefix(i int) string { return fmt.Sprintf("transformer_blocks.%d.", i) }
func textPrefix(i int) string  { return fmt.Sprintf("text_embed.text_blocks.%d.", i) }

// Names of the tensors of the finite block, without their prefix.
const (
	timeFirst      = "time_embed.time_mlp.0"
	timeSecond     = "time_embed.time_mlp.2"
	lastModulation = "norm_out.linear"
)

func modulationOf(layer int) string { return layerPrefix(layer) + "attn_norm.linear" }

// params collects declarations.
type params struct {
	prefix string
	list   []loader.Param
}

func (p *params) add(name string, shape ...int) {
	p.list = append(p.list, loader.Param{Name: p.prefix + name, Shape: shape, DTypes: []tensor.DType{tensor.F32}})
}

// linear declares a weight [out, in] and a bias.
func (p *params) linear(at string, out, in int) {
	p.add(at+".weight", out, in)
	p.add(at+".bias", out)
}

// Params lists the checkpoint's tensors: time, text, what enters, layers, what
// leaves, and the tensors that the model does not read.
func (b *Blueprint) Params() []loader.Param {
	c := &b.cfg
	p := &params{prefix: b.prefix}
	p.linear(timeFirst, c.Dim, timeWidth)
	p.linear(timeSecond, c.Dim, c.Dim)
	p.add(textTable, c.TextEmbeds+1, c.TextDim)
	for i := range c.ConvLayers {
		at := textPrefix(i)
		p.add(at+"dwconv.weight", c.TextDim, 1, textKernel)
		p.add(at+"dwconv.bias", c.TextDim)
		p.add(at+"norm.weight", c.TextDim)
		p.add(at+"norm.bias", c.TextDim)
		p.linear(at+"pwconv1", textMult*c.TextDim, c.TextDim)
		p.add(at+"grn.gamma", 1, 1, textMult*c.TextDim)
		p.add(at+"grn.beta", 1, 1, textMult*c.TextDim)
		p.linear(at+"pwconv2", c.TextDim, textMult*c.TextDim)
	}
	p.linear(enterProjection, c.Dim, c.mixed())
	for _, at := range positionConvs {
		p.add(at+".weight", c.Dim, c.Dim/positionGroups, positionKernel)
		p.add(at+".bias", c.Dim)
	}
	p.add(rotaryFrequencies, c.HeadDim/2)
	for i := range c.Depth {
		at := layerPrefix(i)
		p.linear(modulationOf(i), 6*c.Dim, c.Dim)
		for _, name := range []string{"to_q", "to_k", "to_v"} {
			p.linear(at+"attn."+name, c.inner(), c.Dim)
		}
		if c.QKNorm {
			p.add(at+"attn.q_norm.weight", c.HeadDim)
			p.add(at+"attn.k_norm.weight", c.HeadDim)
		}
		p.linear(at+"attn.to_out.0", c.Dim, c.inner())
		p.linear(at+"ff.ff.0.0", c.FFMult*c.Dim, c.Dim)
		p.linear(at+"ff.ff.2", c.Dim, c.FFMult*c.Dim)
	}
	if c.LongSkip {
		p.add(longSkip+".weight", c.Dim, 2*c.Dim)
	}
	p.linear(lastModulation, 2*c.Dim, c.Dim)
	p.linear(lastProjection, c.MelDim, c.Dim)
	for _, name := range bookkeeping {
		p.list = append(p.list, loader.Param{Name: name, Ignored: true})
	}
	return p.list
}

// Names of tensors outside the layers, without their prefix.
const (
	textTable         = "text_embed.text_embed.weight"
	enterProjection   = "input_embed.proj"
	rotaryFrequencies = "rotary_embed.inv_freq"
	longSkip          = "long_skip_connection"
	lastProjection    = "proj_out"
)

var positionConvs = []string{"input_embed.conv_pos_embed.conv1d.0", "input_embed.conv_pos_embed.conv1d.2"}

// removes lists the tensors that only the finite block reads.
func (b *Blueprint) removes() []string {
	linears := []string{timeFirst, timeSecond}
	for i := range b.cfg.Depth {
		linears = append(linears, modulationOf(i))
	}
	var names []string
	for _, l := range append(linears, lastModulation) {
		names = append(names, b.prefix+l+".weight", b.prefix+l+".bias")
	}
	return names
}

// outputs are the modulations of each layer, and the last ones.
func (c *Config) outputs() []nn.Output {
	var out []nn.Output
	for i := range c.Depth {
		out = append(out, nn.Output{Name: fmt.Sprintf("modulation.%d", i), Width: 6 * c.Dim, DType: tensor.F32})
	}
	return append(out, nn.Output{Name: "norm_out", Width: 2 * c.Dim, DType: tensor.F32})
}

// Blocks declares the modulations over the schedule; nothing without a schedule.
func (b *Blueprint) Blocks() []architectures.BlockSpec {
	if b.domain == nil {
		return nil
	}
	return []architectures.BlockSpec{{
		Path:           BlockPath,
		Contract:       architectures.ContractOf(b.domain),
		Domain:         b.domain,
		NumTokens:      b.domain.Size,
		EmbeddingWidth: timeWidth,
		Removes:        b.removes(),
		Outputs:        b.cfg.outputs(),
	}}
}

func (c *Config) slots(d *nn.Domain) run.Slots {
	if d == nil {
		return nil
	}
	return run.Slots{{Path: BlockPath, Tokens: d.Size, Domain: d, Outputs: c.outputs()}}
}

// Inputs says what the model takes. Without a schedule examples use some times.
func (b *Blueprint) Inputs() architectures.InputSpec {
	c := &b.cfg
	in := &architectures.FlowInput{Features: c.MelDim, Characters: c.TextEmbeds, Timesteps: []float32{0, 0.0625, 0.5, 0.96875}}
	if c.ConvLayers > 0 {
		in.MaxLength = maxTextRows
	}
	if b.domain != nil {
		in.Timesteps = b.domain.Values()
	}
	return architectures.InputSpec{Flow: in}
}

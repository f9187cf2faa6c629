package dit

import (
	"fmt"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/internal/run"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

func init() { architectures.Register(family{}) }

const (
	familyName = "dit"
	className  = "DiTTransformer2DModel"
)

// Checkpoint names outside the layers.
const (
	patchProjection = "pos_embed.proj"
	lastModulation  = "proj_out_1"
	lastProjection  = "proj_out_2"
)

// The outputs of a block.
const (
	modulation    = "modulation"
	outModulation = "out"
)

type family struct{}

func (family) Name() string { return familyName }

func (family) Matches(cfg architectures.Config) bool {
	return cfg.ModelType == "" && len(cfg.Architectures) == 0 && class(cfg) == className
}

func (family) New(cfg architectures.Config) (architectures.Blueprint, error) {
	c, err := ParseConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &Blueprint{cfg: *c}, nil
}

// Blueprint is a DiT model without weights, with or without a schedule. It is
// immutable and safe for concurrent use.
type Blueprint struct {
	cfg Config
	// domain is that of the declared pairs, nil without a schedule.
	domain *nn.Domain
}

// Config returns the settings that the blueprint was made from.
func (b *Blueprint) Config() Config { return b.cfg }

// Labels is the number of valid class labels; the last one is the null class.
func (b *Blueprint) Labels() int { return b.cfg.labels() }

// TimestepCast says how the model rounds a timestep.
func (b *Blueprint) TimestepCast() nn.Cast { return timestepCast }

var timestepCast = nn.Cast{DType: tensor.F32}

// WithTimesteps returns a blueprint whose layers' modulations are declared as
// finite blocks. d is a domain of timesteps, which goes with all classes, or one of
// pairs of timesteps and class labels. Its models refuse other timesteps and
// classes.
func (b *Blueprint) WithTimesteps(d *nn.Domain) (architectures.Blueprint, error) {
	if err := b.checkSchedule(d); err != nil {
		return nil, err
	}
	if d.Kind == nn.Timesteps {
		all, err := nn.AllTokens(b.cfg.labels())
		if err != nil {
			return nil, err
		}
		if d, err = nn.NewPairs(d, all); err != nil {
			return nil, err
		}
	}
	return &Blueprint{cfg: b.cfg, domain: d}, nil
}

func (b *Blueprint) checkSchedule(d *nn.Domain) error {
	if d == nil {
		return fmt.Errorf("%s: no timesteps are given", familyName)
	}
	if err := d.Validate(); err != nil {
		return err
	}
	steps := d
	if d.Kind == nn.Pairs {
		steps = &d.Factors[0]
		labels := &d.Factors[1]
		last := labels.Size - 1
		if n := len(labels.Keys); n > 0 {
			last = int(labels.Keys[n-1])
		}
		if labels.Kind != nn.TokenIDs || last >= b.cfg.labels() {
			return fmt.Errorf("%s: expected class labels from 0 to %d as the second factor, found %v up to %d", familyName, b.cfg.labels()-1, labels, last)
		}
	}
	if steps.Kind != nn.Timesteps || *steps.Cast != timestepCast {
		return fmt.Errorf("%s: expected timesteps of type F32, found %v", familyName, steps)
	}
	return nil
}

func layerPrefix(i int) string { return fmt.Sprintf("transformer_blocks.%d.", i) }

// BlockPath addresses the block of layer i.
func BlockPath(i int) string { return layerPrefix(i) + "norm1" }

// params collects declarations.
type params struct{ list []loader.Param }

func (p *params) add(name string, shape ...int) {
	p.list = append(p.list, loader.Param{Name: name, Shape: shape, DTypes: []tensor.DType{tensor.F32}})
}

// linear declares a weight [out, in] and a bias if there is one.
func (p *params) linear(at string, out, in int, bias bool) {
	p.add(at+".weight", out, in)
	if bias {
		p.add(at+".bias", out)
	}
}

// Params lists the checkpoint's tensors: patches, layers, and the last projection.
func (b *Blueprint) Params() []loader.Param {
	c := &b.cfg
	d := c.width()
	p := &params{}
	p.add(patchProjection+".weight", d, c.InChannels, c.PatchSize, c.PatchSize)
	p.add(patchProjection+".bias", d)
	for i := range c.Layers {
		at := layerPrefix(i)
		p.linear(at+"norm1.emb.timestep_embedder.linear_1", d, timeWidth, true)
		p.linear(at+"norm1.emb.timestep_embedder.linear_2", d, d, true)
		p.add(at+classTable, c.labels(), d)
		p.linear(at+"norm1.linear", 6*d, d, true)
		for _, name := range []string{"to_q", "to_k", "to_v"} {
			p.linear(at+"attn1."+name, d, d, c.AttentionBias)
		}
		p.linear(at+"attn1.to_out.0", d, d, true)
		p.linear(at+"ff.net.0.proj", 4*d, d, true)
		p.linear(at+"ff.net.2", d, 4*d, true)
	}
	p.linear(lastModulation, 2*d, d, true)
	p.linear(lastProjection, c.PatchSize*c.PatchSize*c.OutChannels, d, true)
	return p.list
}

// classTable is the name of a layer's class vectors within the layer.
const classTable = "norm1.emb.class_embedder.embedding_table.weight"

// removes lists the tensors that only the block of layer i reads.
func removes(i int) []string {
	at := BlockPath(i)
	names := []string{layerPrefix(i) + classTable}
	linears := []string{at + ".emb.timestep_embedder.linear_1", at + ".emb.timestep_embedder.linear_2", at + ".linear"}
	if i == 0 {
		linears = append(linears, lastModulation)
	}
	for _, l := range linears {
		names = append(names, l+".weight", l+".bias")
	}
	return names
}

func (c *Config) outputs(layer int) []nn.Output {
	out := []nn.Output{{Name: modulation, Width: 6 * c.width(), DType: tensor.F32}}
	if layer == 0 {
		out = append(out, nn.Output{Name: outModulation, Width: 2 * c.width(), DType: tensor.F32})
	}
	return out
}

// Blocks declares the modulations of each layer over the schedule's pairs;
// nothing without a schedule.
func (b *Blueprint) Blocks() []architectures.BlockSpec {
	if b.domain == nil {
		return nil
	}
	specs := make([]architectures.BlockSpec, b.cfg.Layers)
	for i := range specs {
		specs[i] = architectures.BlockSpec{
			Path:           BlockPath(i),
			Contract:       architectures.ContractOf(b.domain),
			Domain:         b.domain,
			NumTokens:      b.domain.Size,
			EmbeddingWidth: timeWidth,
			Removes:        removes(i),
			Outputs:        b.cfg.outputs(i),
		}
	}
	return specs
}

func (c *Config) slots(d *nn.Domain) run.Slots {
	if d == nil {
		return nil
	}
	s := make(run.Slots, c.Layers)
	for i := range s {
		s[i] = run.Slot{Path: BlockPath(i), Tokens: d.Size, Domain: d, Outputs: c.outputs(i)}
	}
	return s
}

// Inputs says what the model takes. Without a schedule examples use some timesteps.
func (b *Blueprint) Inputs() architectures.InputSpec {
	c := &b.cfg
	in := &architectures.LatentInput{
		Channels: c.InChannels, Size: c.SampleSize, Labels: c.labels(),
		Timesteps: []float32{0, 1, 20, 500.5, 980, 999},
	}
	if b.domain != nil {
		in.Timesteps = b.domain.Factors[0].Values()
		for _, key := range b.domain.Factors[1].Keys {
			in.LabelIDs = append(in.LabelIDs, int(key))
		}
	}
	return architectures.InputSpec{Latent: in}
}

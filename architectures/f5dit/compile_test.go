package f5dit_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/f5dit"
	"github.com/hfcompress/compress/architectures/internal/batch"
	"github.com/hfcompress/compress/architectures/internal/goldens"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/tensor"
	"github.com/hfcompress/compress/validation"
)

// schedule declares the published times of so many steps.
func schedule(t *testing.T, steps int) *nn.Domain {
	t.Helper()
	times, err := f5dit.Timesteps(steps)
	if err != nil {
		t.Fatal(err)
	}
	d, err := nn.NewTimesteps(nn.Cast{DType: tensor.F32}, times)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func scheduled(t *testing.T, b architectures.Blueprint, d *nn.Domain) architectures.Blueprint {
	t.Helper()
	b, err := b.(architectures.Scheduled).WithTimesteps(d)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// compiled is a model in its source form and as it is built from its table and from
// what is left of its weights.
type compiled struct {
	blueprint architectures.Blueprint
	source    architectures.Model
	rebuilt   architectures.Model
	result    *finitepass.Result
	examples  []validation.Example
}

func compile(t *testing.T, name, mode string, steps int) *compiled {
	t.Helper()
	ctx := context.Background()
	dev, err := nn.OpenCPU(nn.CPUOptions{Mode: mode})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	weights := goldens.Read(t, dir(name)+"/model.safetensors")
	var names []string
	for n := range weights {
		names = append(names, n)
	}
	c := &compiled{blueprint: scheduled(t, architectures.ForNames(goldens.Blueprint(t, dir(name), nil), names), schedule(t, steps))}
	if c.source, err = c.blueprint.Build(dev, weights, nil); err != nil {
		t.Fatal(err)
	}
	c.examples = validation.Generate(c.blueprint.Inputs(), validation.Options{MaxRows: 17, MaxPositions: 3000})
	c.result, err = finitepass.CompileModel(ctx, c.blueprint, c.source, weights, finitepass.ModelOptions{
		Options:  finitepass.Options{Contract: architectures.TokenIndicesOnly, Contracts: []string{architectures.DeclaredTimestepsOnly}, RequireBitwise: true},
		Examples: c.examples, Gate: validation.Gate{Bitwise: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.result.Report.Status != finitepass.Compressed || len(c.result.Lookups) != 1 || !c.result.Report.Gate.Bitwise {
		t.Fatalf("%s: %s; %d blocks", c.result.Report.Status, c.result.Report.Reason, len(c.result.Lookups))
	}
	blocks := map[string]nn.TokenBlock{}
	for _, spec := range c.blueprint.Blocks() {
		blocks[spec.Path] = c.result.Lookups[spec.Path]
		for _, tensor := range spec.Removes {
			delete(weights, tensor)
		}
	}
	if c.rebuilt, err = c.blueprint.Build(dev, weights, blocks); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCompile puts a table in place of all modulations, on both devices, and expects
// equal bits of the whole model, also of one that is built from what is left of the
// checkpoint.
func TestCompile(t *testing.T) {
	for _, mode := range []string{"", nn.ModeSplitK} {
		for _, name := range []string{"v1", "base", "defaults", "switches"} {
			t.Run(name+mode, func(t *testing.T) { testCompile(t, name, mode) })
		}
	}
}

func testCompile(t *testing.T, name, mode string) {
	ctx := context.Background()
	c := compile(t, name, mode, 7)
	cfg := c.source.(*f5dit.Model).Config()
	// The time's MLP and every modulation go; a table of 7 × (6·depth + 2)·dim comes,
	// on a device with regimes one for each route whose bits differ.
	d := cfg.Dim
	removed := 256*d + d + d*d + d + (6*cfg.Depth+2)*d*(d+1)
	comes := int64(7 * (6*cfg.Depth + 2) * d)
	if mode != "" {
		one := comes
		comes = 0
		for _, route := range c.result.Report.Blocks[0].Routes {
			comes += route.NewValues
		}
		if comes < 2*one {
			t.Errorf("%d values in the tables of all routes", comes)
		}
	}
	a := c.result.Report.Account
	if saved := a.Before.Values - a.AfterFull.Values; saved != int64(removed)-comes {
		t.Errorf("%d values saved, expected %d", saved, int64(removed)-comes)
	}
	report, err := validation.Run(ctx, c.source, c.rebuilt, c.examples, validation.Gate{Bitwise: true}, nil)
	if err != nil || !report.Accepted {
		t.Fatalf("rebuilt: %v", err)
	}
	in := architectures.Inputs{Tensors: map[string]*tensor.Tensor{}}
	for k, v := range c.examples[0].Inputs.Tensors {
		in.Tensors[k] = v
	}
	in.Tensors["time"] = floats(t, []int{1}, 0.5)
	if _, err := c.rebuilt.Forward(ctx, in); !errors.Is(err, batch.ErrInput) || !errors.Is(err, nn.ErrIndex) || !strings.Contains(err.Error(), "time of sequence 0: index out of range: timestep 0.5") {
		t.Errorf("undeclared time: %v", err)
	}
}

// TestDeclared expects the bits of the model without a schedule at declared times.
func TestDeclared(t *testing.T) {
	dev := goldens.OpenCPU(t)
	weights := goldens.Read(t, dir("v1")+"/model.safetensors")
	plain := goldens.Build(t, dev, dir("v1"), nil)
	b := scheduled(t, goldens.Blueprint(t, dir("v1"), nil), schedule(t, 32))
	declared, err := b.Build(dev, weights, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range validation.Generate(b.Inputs(), validation.Options{MaxPositions: 400}) {
		if !tensor.BitEqual(flow(t, declared, e.Inputs), flow(t, plain, e.Inputs)) {
			t.Errorf("%s differs", e.Name)
		}
	}
	if _, err := plain.WithBlock(f5dit.BlockPath, nil); err == nil || !strings.Contains(err.Error(), "declares no block") {
		t.Errorf("a block without a schedule: %v", err)
	}
	if _, err := declared.WithBlock(f5dit.BlockPath, nil); err == nil {
		t.Error("no block accepted")
	}
	block, err := declared.Block(f5dit.BlockPath)
	if err != nil || block.NumTokens() != 32 {
		t.Errorf("the block: %v", err)
	}
	if _, err := declared.Block("norm_out"); err == nil {
		t.Error("an unknown path")
	}
	view, err := declared.WithBlock(f5dit.BlockPath, block)
	if err != nil || view.Device() != dev {
		t.Errorf("its own block: %v", err)
	}
}

func TestScheduleRefused(t *testing.T) {
	s := goldens.Blueprint(t, dir("v1"), nil).(architectures.Scheduled)
	if s.Blocks() != nil {
		t.Error("blocks without a schedule")
	}
	half, err := nn.NewTimesteps(nn.Cast{DType: tensor.BF16}, []float32{1})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		d    *nn.Domain
		want string
	}{
		"nothing":      {nil, "no timesteps are given"},
		"another cast": {half, "expected timesteps of type F32, found 1 timesteps (BF16)"},
		"constant":     {nn.ConstantDomain(), "expected timesteps of type F32"},
		"broken":       {&nn.Domain{Kind: nn.Timesteps}, "0 elements"},
	} {
		if _, err := s.WithTimesteps(c.d); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

// sample is the published sampler's loop: Euler steps with guidance as often as
// there are times.
func sample(t *testing.T, m architectures.Model, golden goldens.Tensors, run string, times []float32) []*tensor.Tensor {
	t.Helper()
	trajectory := golden[run+".trajectory"]
	shape := trajectory.Shape()[1:]
	strength := golden[run+".strength"].Float32s()[0]
	n := trajectory.Len() / trajectory.Shape()[0]
	y := slices.Clone(trajectory.Float32s()[:n])
	states := []*tensor.Tensor{floats(t, shape, slices.Clone(y)...)}
	for i, at := range times {
		next := float32(1)
		if i+1 < len(times) {
			next = times[i+1]
		}
		in := architectures.Inputs{
			Tensors: map[string]*tensor.Tensor{
				"x": floats(t, shape, slices.Clone(y)...), "cond": golden[run+".cond"], "text": golden[run+".text"], "time": floats(t, nil, at),
			},
			Flags: map[string]bool{"cfg_infer": strength > 0},
		}
		if mask := golden[run+".mask"]; mask != nil {
			in.Tensors["mask"] = mask
		}
		predicted := flow(t, m, in).Float32s()
		for j := range y {
			v := predicted[j]
			if strength > 0 {
				v += float32((v - predicted[n+j]) * strength)
			}
			y[j] += float32((next - at) * v)
		}
		states = append(states, floats(t, shape, slices.Clone(y)...))
	}
	return states
}

// TestTrajectory runs the sampler's four steps with the source, with the published
// code's states beside it, and with the compressed model, which must give the same
// bits at every step.
func TestTrajectory(t *testing.T) {
	for _, name := range []string{"v1", "base"} {
		golden := goldens.Read(t, dir(name)+"/sample.safetensors")
		c := compile(t, name, "", 4)
		for _, run := range []string{"one", "batch", "unguided"} {
			times := golden[run+".time"].Float32s()
			source := sample(t, c.source, golden, run, times)
			rebuilt := sample(t, c.rebuilt, golden, run, times)
			if len(source) != 5 {
				t.Fatalf("%d states", len(source))
			}
			var tally goldens.Tally
			for i, state := range source {
				if !tensor.BitEqual(rebuilt[i], state) {
					t.Errorf("%s/%s, step %d: the compressed model leaves the source's trajectory", name, run, i)
				}
				n := len(state.Bytes())
				want, err := tensor.FromBytes(tensor.F32, state.Shape(), golden[run+".trajectory"].Bytes()[i*n:(i+1)*n])
				if err != nil {
					t.Fatal(err)
				}
				tally.Compare(t, name+"/"+run, state, want, nil)
			}
			t.Log(&tally)
		}
	}
}

// TestLongTrajectory: the default 32 steps end at the same bits.
func TestLongTrajectory(t *testing.T) {
	c := compile(t, "v1", "", f5dit.DefaultSteps)
	golden := goldens.Read(t, dir("v1")+"/sample.safetensors")
	times, err := f5dit.Timesteps(f5dit.DefaultSteps)
	if err != nil {
		t.Fatal(err)
	}
	source, rebuilt := sample(t, c.source, golden, "batch", times), sample(t, c.rebuilt, golden, "batch", times)
	for i := range source {
		if !tensor.BitEqual(rebuilt[i], source[i]) {
			t.Errorf("step %d differs", i)
		}
	}
}

// TestPublishedSizes counts the published model's values from its configuration.
func TestPublishedSizes(t *testing.T) {
	cfg, err := architectures.ParseConfig([]byte(`{"model_type": "f5_dit", "dim": 1024, "depth": 22, "heads": 16, "ff_mult": 2,
		"text_dim": 512, "text_num_embeds": 2545, "text_mask_padding": true, "qk_norm": null, "conv_layers": 4, "pe_attn_head": null}`))
	if err != nil {
		t.Fatal(err)
	}
	f, err := architectures.ForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b, err := f.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	sizes, whole := map[string]int{}, 0
	b = scheduled(t, b, schedule(t, f5dit.DefaultSteps))
	for _, p := range b.Params() {
		if p.Ignored {
			continue
		}
		n, err := p.Shape.Elements()
		if err != nil {
			t.Fatal(err)
		}
		sizes[p.Name] = n
		whole += n
	}
	removed, tables := 0, 0
	for _, spec := range b.Blocks() {
		for _, name := range spec.Removes {
			removed += sizes[name]
			delete(sizes, name)
		}
		for _, o := range spec.Outputs {
			tables += spec.NumTokens * o.Width
		}
	}
	if removed != 141_959_168 || tables != 32*137_216 || 4*(removed-tables) != 550_273_024 {
		t.Errorf("%d values go, %d come", removed, tables)
	}
	if share := 1000 * (removed - tables) / whole; share != 408 {
		t.Errorf("%d of %d values are saved: %d per mille", removed-tables, whole, share)
	}
	t.Logf("%d of %d values go, %d come", removed, whole, tables)
}

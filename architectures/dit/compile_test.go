package dit_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/dit"
	"github.com/hfcompress/compress/architectures/internal/goldens"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/tensor"
	"github.com/hfcompress/compress/validation"
)

// examples are calls with declared pairs, each pair alone and batches of them.
func examples(t *testing.T, cfg dit.Config, d *nn.Domain) []validation.Example {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 8))
	steps, labels := d.Factors[0].Values(), d.Factors[1].Keys
	var out []validation.Example
	add := func(pairs ...int) {
		image, err := tensor.New(tensor.F32, len(pairs), cfg.InChannels, cfg.SampleSize, cfg.SampleSize)
		if err != nil {
			t.Fatal(err)
		}
		for i := range image.Float32s() {
			image.Float32s()[i] = float32(r.NormFloat64())
		}
		times, err := tensor.New(tensor.F32, len(pairs))
		if err != nil {
			t.Fatal(err)
		}
		classes := make([]int64, len(pairs))
		for i, p := range pairs {
			times.Float32s()[i] = steps[p/len(labels)]
			classes[i] = int64(labels[p%len(labels)])
		}
		c, err := tensor.FromInt64s(classes, len(pairs))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, validation.Example{Name: fmt.Sprint(pairs), Inputs: architectures.Inputs{
			Tensors: map[string]*tensor.Tensor{"hidden_states": image, "timestep": times, "class_labels": c},
			Flags:   map[string]bool{"output_hidden_states": true},
		}})
	}
	for p := range d.Size {
		add(p)
	}
	for _, n := range []int{2, 3, 9, 17} {
		batch := make([]int, n)
		for i := range batch {
			batch[i] = r.IntN(d.Size)
		}
		add(batch...)
	}
	return out
}

// TestCompile puts tables in place of all modulations, on both devices, and
// expects equal bits of the whole model, and the same of one that is built from
// what is left of the checkpoint.
func TestCompile(t *testing.T) {
	for _, mode := range []string{"", nn.ModeSplitK} {
		for _, name := range []string{"plain", "published"} {
			t.Run(name+mode, func(t *testing.T) { compile(t, name, mode) })
		}
	}
}

func compile(t *testing.T, name, mode string) {
	ctx := context.Background()
	dev, err := nn.OpenCPU(nn.CPUOptions{Mode: mode})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	d := pairs(t, []float32{0, 0.5, 999}, 1, 3)
	b := scheduled(t, name, d)
	weights := goldens.Read(t, dir(name)+"/model.safetensors")
	m, err := b.Build(dev, weights, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := m.(*dit.Model).Config()
	cases := examples(t, cfg, d)
	options := finitepass.ModelOptions{
		Options:  finitepass.Options{Contract: architectures.TokenIndicesOnly, Contracts: []string{architectures.DeclaredPairsOnly}, RequireBitwise: true},
		Examples: cases, Gate: validation.Gate{Bitwise: true},
	}
	got, err := finitepass.CompileModel(ctx, b, m, weights, options)
	if err != nil {
		t.Fatal(err)
	}
	if got.Report.Status != finitepass.Compressed || len(got.Lookups) != cfg.Layers || !got.Report.Gate.Bitwise {
		t.Fatalf("%s: %s; %d blocks", got.Report.Status, got.Report.Reason, len(got.Lookups))
	}
	// A layer's embedders and modulation go; one table of 6 × 6·width comes, and 6 ×
	// 2·width for the last modulation.
	width, labels := cfg.Heads*cfg.HeadDim, cfg.Classes+1
	removed := cfg.Layers*(257*width+width*width+width+labels*width+6*width*(width+1)) + 2*width*(width+1)
	comes := d.Size * width * (6*cfg.Layers + 2)
	if mode != "" { // a table for each route whose bits differ
		stored := int64(0)
		for _, block := range got.Report.Blocks {
			for _, route := range block.Routes {
				stored += route.NewValues
			}
		}
		if stored < int64(2*comes) {
			t.Errorf("%d values in the tables of all routes", stored)
		}
		comes = int(stored)
	}
	a := got.Report.Account
	if saved := a.Before.Values - a.AfterFull.Values; saved != int64(removed-comes) {
		t.Errorf("%d values saved, expected %d", saved, removed-comes)
	}
	blocks := map[string]nn.TokenBlock{}
	for _, spec := range b.Blocks() {
		blocks[spec.Path] = got.Lookups[spec.Path]
		for _, tensor := range spec.Removes {
			delete(weights, tensor)
		}
	}
	rebuilt, err := b.Build(dev, weights, blocks)
	if err != nil {
		t.Fatal(err)
	}
	report, err := validation.Run(ctx, m, rebuilt, cases, validation.Gate{Bitwise: true}, nil)
	if err != nil || !report.Accepted {
		t.Fatalf("rebuilt: %v", err)
	}
	in := architectures.Inputs{Tensors: maps.Clone(cases[0].Inputs.Tensors)}
	if in.Tensors["timestep"], err = tensor.FromInt64s([]int64{20}, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := rebuilt.Forward(ctx, in); err == nil || !strings.Contains(err.Error(), "timestep 20") {
		t.Errorf("undeclared timestep: %v", err)
	}
	// Without the promise every block stays.
	options.Contracts = nil
	got, err = finitepass.CompileModel(ctx, b, m, goldens.Read(t, dir(name)+"/model.safetensors"), options)
	if err != nil {
		t.Fatal(err)
	}
	if r := got.Report.Blocks[0]; len(got.Lookups) != 0 || !strings.Contains(r.Reason, architectures.DeclaredPairsOnly) {
		t.Errorf("without the contract: %d blocks; %s", len(got.Lookups), r.Reason)
	}
}

package compress

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/declared"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/pack"
	"github.com/hfcompress/compress/tensor"
	"github.com/hfcompress/compress/validation"
)

// LoadOptions adjust [Load].
type LoadOptions struct {
	// Device is as in [Options]; empty is the one that the package was validated
	// on.
	Device  string
	Threads int
	// Limits bounds what the package may hold.
	Limits pack.Limits
}

// Loaded is an open package with a model that runs. It is safe for concurrent
// use.
type Loaded struct {
	architectures.Model
	// Validated says that the device keeps the bits of the one on which the package
	// was compared with its source, or that [Verify] has validated it on this one
	// since. On another device the model runs all the same, but what was proven was
	// proven elsewhere.
	Validated bool

	pkg    *pack.Package
	spec   architectures.InputSpec
	device nn.Device
}

// Load opens the package in dir, checks every byte of it, and builds its model.
func Load(ctx context.Context, dir string, o LoadOptions) (_ *Loaded, err error) {
	p, err := pack.Open(dir, o.Limits)
	if err != nil {
		return nil, err
	}
	l := &Loaded{pkg: p}
	defer func() {
		if err != nil {
			err = fmt.Errorf("package %s: %w", dir, errors.Join(err, l.Close()))
		}
	}()
	m := p.Manifest()
	d, err := packagedDesign(p)
	if err != nil {
		return nil, err
	}
	plan := d.plan
	l.spec = plan.Inputs()
	name := o.Device
	if name == "" {
		name = m.Device.Name
	}
	if l.device, err = OpenDevice(ctx, name, o.Threads); err != nil {
		return nil, err
	}
	if l.Validated, err = l.validated(); err != nil {
		return nil, err
	}
	total, err := m.RawBytes()
	if err != nil {
		return nil, err
	}
	if err := fits(l.device, total); err != nil {
		return nil, err
	}
	weights, err := openTables(p)
	if err != nil {
		return nil, err
	}
	blocks, err := openBlocks(p, weights, plan, l.device)
	if err != nil {
		return nil, err
	}
	for _, b := range blocks {
		if d := nn.DomainOf(b); d != nil && d.Kind == nn.TokenIDs {
			l.spec.IDs = l.spec.IDs[:0]
			for _, key := range d.Keys {
				l.spec.IDs = append(l.spec.IDs, int(key))
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.Model, err = plan.Build(l.device, weights, blocks)
	return l, err
}

// keepsBits says that the device has the arithmetic of the one on which the
// package was made.
func (l *Loaded) keepsBits() bool {
	return l.device.Info().Fingerprint == l.pkg.Manifest().Device.Fingerprint
}

// validated says whether the package was accepted on a device of this arithmetic,
// when it was made or since.
func (l *Loaded) validated() (bool, error) {
	if !l.pkg.Manifest().Gate.Accepted {
		return false, nil
	}
	if l.keepsBits() {
		return true, nil
	}
	since, err := l.pkg.Validations()
	return slices.ContainsFunc(since, func(v pack.Validation) bool {
		return v.Device.Fingerprint == l.device.Info().Fingerprint
	}), err
}

// packagedDesign reads what a package's model computes. Its manifest decides
// whether that is in an architecture file, whose digest it has.
func packagedDesign(p *pack.Package) (*design, error) {
	var archFile []byte
	var err error
	name := p.Manifest().Architecture
	if name == declared.Architecture {
		if archFile, err = p.File(pack.ArchName); err != nil {
			return nil, err
		}
	}
	config, configErr := p.File(pack.ConfigName)
	d, err := readDesign(name, archFile, config, configErr, pack.ConfigName)
	if err != nil {
		return nil, err
	}
	names := slices.Collect(maps.Keys(p.Manifest().Aliases))
	for _, t := range p.Manifest().Tensors {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	d.plan = architectures.ForNames(d.plan, names)
	d.plan, err = packagedSchedule(p, d.plan)
	return d, err
}

// openBlocks rebuilds the rewritten blocks of a package.
func openBlocks(p *pack.Package, weights architectures.Weights, plan architectures.Blueprint, dev nn.Device) (map[string]nn.TokenBlock, error) {
	specs := map[string]architectures.BlockSpec{}
	for _, s := range plan.Blocks() {
		specs[s.Path] = s
	}
	blocks := map[string]nn.TokenBlock{}
	for _, b := range p.Manifest().Blocks {
		spec, ok := specs[b.Path]
		if !ok {
			return nil, fmt.Errorf("block %q: the architecture declares no such block", b.Path)
		}
		lookup, err := openBlock(p, weights, b, spec, dev)
		if err != nil {
			return nil, fmt.Errorf("block %q: %w", b.Path, err)
		}
		blocks[b.Path] = lookup
	}
	return blocks, nil
}

func openBlock(p *pack.Package, weights architectures.Weights, b pack.Block, spec architectures.BlockSpec, dev nn.Device) (*finitepass.Lookup, error) {
	recipe, err := finitepass.ParseRecipe(b.Recipe)
	if err != nil {
		return nil, err
	}
	var embedding nn.Table
	if e := recipe.Embedding; e != nil {
		if e.Tensor != spec.Embedding {
			return nil, fmt.Errorf("the recipe reads the embedding %q, the architecture declares %q", e.Tensor, spec.Embedding)
		}
		rows, err := architectures.Rows(weights, spec.Embedding)
		if err != nil {
			return nil, err
		}
		if embedding, err = dev.UploadRows(rows); err != nil {
			return nil, err
		}
	}
	get := func(name string) (*tensor.Tensor, error) { return p.Tensor(b.Prefix + name) }
	return finitepass.Open(recipe, get, embedding, dev)
}

// Close frees the device and the package's files.
func (l *Loaded) Close() error {
	var errs []error
	if l.device != nil {
		errs = append(errs, l.device.Close())
	}
	return errors.Join(append(errs, l.pkg.Close())...)
}

// Manifest returns the package's manifest; callers must not change it.
func (l *Loaded) Manifest() *pack.Manifest { return l.pkg.Manifest() }

// Inputs says what the model takes.
func (l *Loaded) Inputs() architectures.InputSpec { return l.spec }

// File reads one of the package's other files, such as
// "files/tokenizer.json".
func (l *Loaded) File(name string) ([]byte, error) { return l.pkg.File(name) }

// Generate continues token sequences, for models that can.
func (l *Loaded) Generate(ctx context.Context, prompts [][]int, maxNew int) ([][]int, error) {
	g, ok := l.Model.(architectures.Generator)
	if !ok {
		return nil, fmt.Errorf("architecture %q does not generate", l.Manifest().Architecture)
	}
	return g.Generate(ctx, prompts, maxNew)
}

// Examples returns the inputs on which the package was validated.
func (l *Loaded) Examples() ([]validation.Example, error) {
	text, err := l.pkg.File(pack.ExamplesName)
	if err != nil {
		return nil, err
	}
	return validation.Parse(text, validation.Limits{Spec: l.spec})
}

// CheckReport is the outcome of [Loaded.Check].
type CheckReport struct {
	// Device is where the check ran, and Validated whether its bits are those of
	// the device on which the package was validated.
	Device    nn.Info `json:"device"`
	Validated bool    `json:"validated_device"`
	// Unlisted names files beside the package's own, which are never read.
	Unlisted []string `json:"unlisted,omitempty"`
	// Tensors were read and compared by digest; Outputs of Examples likewise.
	Tensors  int `json:"tensors"`
	Examples int `json:"examples"`
	Outputs  int `json:"outputs"`
	// Different lists outputs that do not have the recorded bytes.
	Different []DifferentOutput `json:"different"`
}

// DifferentOutput is an output whose bytes are not the recorded ones.
type DifferentOutput struct {
	Example string `json:"example"`
	Output  string `json:"output"`
}

// Check reads every tensor and runs the model on all examples of the package,
// and compares the outputs, by digest, with those of the validated model.
// progress may be nil.
func (l *Loaded) Check(ctx context.Context, progress func(done, total int, example string)) (*CheckReport, error) {
	report := &CheckReport{Device: l.device.Info(), Validated: l.Validated, Different: []DifferentOutput{}}
	for _, t := range l.Manifest().Tensors {
		if _, err := l.pkg.Tensor(t.Name); err != nil {
			return nil, err
		}
		report.Tensors++
	}
	var err error
	if report.Unlisted, err = l.pkg.Unlisted(); err != nil {
		return nil, err
	}
	examples, err := l.Examples()
	if err != nil {
		return nil, err
	}
	recorded, err := l.recordedOutputs(examples)
	if err != nil {
		return nil, err
	}
	got, err := record(ctx, l, examples, progress)
	if err != nil {
		return nil, err
	}
	for i, e := range examples {
		names := map[string]bool{}
		for name := range got[i].SHA256 {
			names[name] = true
		}
		for name := range recorded[i].SHA256 {
			names[name] = true
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			report.Outputs++
			if got[i].SHA256[name] != recorded[i].SHA256[name] {
				report.Different = append(report.Different, DifferentOutput{e.Name, name})
			}
		}
		report.Examples++
	}
	return report, nil
}

// recordedOutputs reads outputs.json, which has one entry per example in order.
func (l *Loaded) recordedOutputs(examples []validation.Example) ([]recordedOutputs, error) {
	text, err := l.pkg.File(pack.OutputsName)
	if err != nil {
		return nil, err
	}
	var recorded []recordedOutputs
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&recorded); err != nil {
		return nil, fmt.Errorf("%w: %s: %v", pack.ErrCorrupt, pack.OutputsName, err)
	}
	if len(recorded) != len(examples) {
		return nil, fmt.Errorf("%w: %s has %d entries for %d examples", pack.ErrCorrupt, pack.OutputsName, len(recorded), len(examples))
	}
	for i, e := range examples {
		if recorded[i].Example != e.Name || len(recorded[i].SHA256) == 0 {
			return nil, fmt.Errorf("%w: %s: entry %d is for %q, expected %q", pack.ErrCorrupt, pack.OutputsName, i, recorded[i].Example, e.Name)
		}
	}
	return recorded, nil
}

// IsPackage reports whether dir looks like a package.
func IsPackage(dir string) bool { return pathExists(filepath.Join(dir, pack.ManifestName)) }

func pathExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

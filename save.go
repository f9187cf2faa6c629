package compress

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/pack"
	"github.com/hfcompress/compress/validation"
)

// writePackage writes the package under a temporary name, opens it again,
// compares what it computes with what was validated, and publishes it with the
// report of all that.
func (r *road) writePackage(ctx context.Context, compiled *finitepass.Result) error {
	w, err := pack.Create(r.o.Out, pack.CreateOptions{Overwrite: r.o.Overwrite, Codec: r.o.Codec})
	if errors.Is(err, pack.ErrExists) && !r.o.Overwrite {
		return &ExistsError{Dir: r.o.Out}
	}
	if err != nil {
		return err
	}
	defer w.Abort()
	report := r.result.Report
	manifest := &pack.Manifest{
		Status: string(r.result.Status), Source: report.Source, Architecture: r.arch,
		Device: pack.Device{Name: r.device.Info().Name, Fingerprint: r.device.Info().Fingerprint},
		Gate: pack.GateSummary{
			Require: string(r.require), Accepted: report.Gate.Accepted,
			Exact: report.Gate.Exact, Bitwise: report.Gate.Bitwise, Examples: report.Gate.Compared,
		},
	}
	var temp string
	err = r.stage(StagePack, func() (err error) {
		if err := r.store(ctx, w, manifest, compiled); err != nil {
			return err
		}
		temp, err = w.Seal(manifest)
		return err
	})
	if err != nil {
		return err
	}
	if report.Bytes.Disk.After, err = diskBytes(temp, manifest); err != nil {
		return err
	}
	err = r.stage(StageReload, func() (err error) {
		report.Reload, err = r.reload(ctx, temp)
		return err
	})
	if err != nil {
		return err
	}
	if err := r.storeReport(w); err != nil {
		return err
	}
	if _, err := w.Seal(manifest); err != nil {
		return err
	}
	if err := w.Publish(); err != nil {
		return err
	}
	r.result.Dir = r.o.Out
	return nil
}

// diskBytes is what a model is loaded from: the weights and the manifest.
func diskBytes(dir string, m *pack.Manifest) (int64, error) {
	info, err := os.Stat(filepath.Join(dir, pack.ManifestName))
	if err != nil {
		return 0, err
	}
	return m.Weights.Size + info.Size(), nil
}

// blockPrefix stands before the names of a block's tensors in a package. The
// names of parameters cannot contain a slash in it by accident: a checkpoint's
// tensor of such a name would be refused as unexpected.
func blockPrefix(path string) string { return "blocks/" + path + "/" }

// removed are the tensors that the rewritten blocks do not need.
func (r *road) removed(compiled *finitepass.Result) map[string]bool {
	removed := map[string]bool{}
	for _, b := range compiled.Report.Blocks {
		if _, ok := compiled.Lookups[b.Path]; ok {
			for _, name := range b.Removes {
				removed[name] = true
			}
		}
	}
	return removed
}

// store adds everything but the report.
func (r *road) store(ctx context.Context, w *pack.Writer, manifest *pack.Manifest, compiled *finitepass.Result) error {
	removed := r.removed(compiled)
	for _, spec := range r.plan.Blocks() {
		if lookup, ok := compiled.Lookups[spec.Path]; ok {
			manifest.Blocks = append(manifest.Blocks, pack.Block{
				Path: spec.Path, Recipe: compact(lookup.RecipeJSON()), Prefix: blockPrefix(spec.Path),
			})
		}
	}
	if err := r.storeWeights(w, manifest, removed); err != nil {
		return err
	}
	for _, t := range r.storage.report.Tables {
		table := pack.Table{Tensor: t.Tensor, Recipe: t.recipe, Prefix: tablePrefix(t.Tensor)}
		manifest.Tables = append(manifest.Tables, table)
		for _, s := range t.tensors {
			if err := w.AddTensor(table.Prefix+s.Name, s.Tensor); err != nil {
				return err
			}
		}
	}
	for _, b := range manifest.Blocks {
		for _, t := range compiled.Lookups[b.Path].Tensors() {
			if err := w.AddTensor(b.Prefix+t.Name, t.Tensor); err != nil {
				return err
			}
		}
	}
	for _, f := range []struct {
		name string
		text []byte
	}{{pack.ConfigName, r.config.Raw}, {pack.ArchName, r.archFile}} {
		if f.text == nil {
			continue
		}
		if err := w.AddFile(f.name, bytes.NewReader(f.text)); err != nil {
			return err
		}
	}
	examples, err := validation.Format(r.examples)
	if err != nil {
		return err
	}
	if err := w.AddFile(pack.ExamplesName, bytes.NewReader(examples)); err != nil {
		return err
	}
	recorded := recordedBy(compiled.Report.Gate)
	if recorded == nil {
		if recorded, err = record(ctx, compiled.Model, r.examples, nil); err != nil {
			return err
		}
	}
	outputs, err := pack.EncodeJSON(recorded)
	if err != nil {
		return err
	}
	if err := w.AddFile(pack.OutputsName, bytes.NewReader(outputs)); err != nil {
		return err
	}
	return r.storeCompanions(w)
}

// storeWeights adds the checkpoint's tensors in its own order, each stored once;
// what is tied or equal becomes an alias, and what the rewritten blocks removed or
// a table holds in another form stays out.
func (r *road) storeWeights(w *pack.Writer, manifest *pack.Manifest, removed map[string]bool) error {
	needed := map[string]bool{}
	for _, name := range r.weights.Names() {
		if _, other := r.storage.find(name); other || removed[name] {
			continue
		}
		stored := r.weights.Source(name)
		if equal, ok := r.storage.aliases[stored]; ok {
			stored = r.weights.Source(equal)
		}
		needed[stored] = true
		if stored != name {
			if manifest.Aliases == nil {
				manifest.Aliases = map[string]string{}
			}
			manifest.Aliases[name] = stored
		}
	}
	done := int64(0)
	for _, name := range r.weights.Checkpoint().Names() {
		if !needed[name] {
			continue
		}
		t, err := r.weights.Checkpoint().Tensor(name)
		if err != nil {
			return err
		}
		if err := w.AddTensor(name, t); err != nil {
			return err
		}
		done++
		r.observe.send(Event{Stage: StagePack, Item: name, Done: done, Total: int64(len(needed)), Unit: "tensors"})
	}
	return nil
}

// storeCompanions copies the small files that came with the weights.
func (r *road) storeCompanions(w *pack.Writer) error {
	for _, name := range r.src.companions {
		base := path.Base(name)
		if base == pack.ConfigName {
			continue
		}
		f, err := r.src.files.Open(name)
		if err != nil {
			return err
		}
		err = w.AddFile("files/"+base, f)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// reload opens the package as a user would, with a device of its own, and runs
// every example: the outputs must have the digests of the validated model's.
func (r *road) reload(ctx context.Context, dir string) (*ReloadReport, error) {
	loaded, err := Load(ctx, dir, LoadOptions{Device: r.o.Device, Threads: r.o.Threads})
	if err != nil {
		return nil, fmt.Errorf("the package does not load again: %w", err)
	}
	defer loaded.Close()
	check, err := loaded.Check(ctx, func(done, total int, example string) {
		r.observe.send(Event{Stage: StageReload, Item: example, Done: int64(done), Total: int64(total), Unit: "examples"})
	})
	if err != nil {
		return nil, err
	}
	if len(check.Different) > 0 {
		d := check.Different[0]
		return nil, fmt.Errorf("the package computes something else: output %s of example %q differs", d.Output, d.Example)
	}
	return &ReloadReport{Examples: check.Examples, Outputs: check.Outputs, Bitwise: true, Tensors: len(loaded.Manifest().Tensors)}, nil
}

// storeReport adds report.json and report.html.
func (r *road) storeReport(w *pack.Writer) error {
	text, err := pack.EncodeJSON(r.result.Report)
	if err != nil {
		return err
	}
	if err := w.AddFile(pack.ReportName, bytes.NewReader(text)); err != nil {
		return err
	}
	var page bytes.Buffer
	if err := r.result.Report.WriteHTML(&page); err != nil {
		return err
	}
	return w.AddFile(pack.PageName, &page)
}

// report gathers what happened.
func (r *road) report(compiled *finitepass.Result) (*Report, error) {
	checkpoint := r.weights.Checkpoint()
	rep := &Report{
		Version: ReportVersion, Status: compiled.Report.Status, Reason: compiled.Report.Reason,
		Architecture: r.arch, Device: r.device.Info(), Contract: r.o.Contract,
		Blocks: compiled.Report.Blocks, Require: r.require, Gate: compiled.Report.Gate,
		FirstGate: compiled.Report.FirstGate, Margins: r.margins,
		Profiles: Profiles{Mode: r.o.ProfileMode, List: []finitepass.Profile{}},
		Load: LoadReport{
			Tensors: len(checkpoint.Names()), Bytes: checkpoint.TotalBytes(),
			Filled: r.weights.Filled(), Ignored: r.weights.Ignored(),
		},
	}
	for _, b := range rep.Blocks {
		if b.Status == finitepass.Compiled && len(b.Profiles) > len(rep.Profiles.List) {
			rep.Profiles.List = slices.Clone(b.Profiles)
		}
	}
	a := compiled.Report.Account
	rep.Values = Change{a.Before.Values, a.AfterFull.Values}
	rep.Bytes = Bytes{
		Logical:            Change{a.Before.LogicalBytes, a.After.LogicalBytes},
		Resident:           Change{a.Before.ResidentBytes, a.After.ResidentBytes},
		ResidentFullTables: a.AfterFull.ResidentBytes,
	}
	for _, f := range checkpoint.Files() {
		rep.Bytes.Disk.Before += f.Size
	}
	for _, name := range rep.Load.Ignored {
		info, err := checkpoint.Info(name)
		if err != nil {
			return nil, err
		}
		rep.Load.IgnoredBytes += info.Bytes()
	}
	if r.archFile != nil {
		sum := sha256.Sum256(r.archFile)
		rep.ArchFile = &pack.File{Name: pack.ArchName, Size: int64(len(r.archFile)), SHA256: hex.EncodeToString(sum[:])}
	}
	source, err := r.describeSource(checkpoint)
	if err != nil {
		return nil, err
	}
	rep.Source = source
	candidate := ""
	for _, spec := range r.plan.Blocks() {
		if lookup, ok := compiled.Lookups[spec.Path]; ok {
			candidate += spec.Path + "=" + lookup.Digest() + ";"
		}
	}
	rep.Gate.Bind(sourceIdentity(source), candidate+sourceIdentity(source))
	return rep, nil
}

// describeSource names the weight files and config.json by digest. A Hub
// snapshot's files were checked when they were downloaded; here they are read
// once more, so that the report speaks of the bytes that were used.
func (r *road) describeSource(checkpoint *loader.Checkpoint) (pack.Source, error) {
	s := pack.Source{Repo: r.src.repo, Revision: r.src.revision, Commit: r.src.commit}
	var names []string
	if r.config.Raw != nil {
		names = append(names, r.src.configFile())
	}
	for _, f := range checkpoint.Files() {
		names = append(names, path.Join(path.Dir(r.src.file), f.Name))
	}
	for _, name := range names {
		entry, err := r.src.digest(name)
		if err != nil {
			return s, err
		}
		s.Files = append(s.Files, entry)
	}
	return s, nil
}

// sourceIdentity is one string for all source files.
func sourceIdentity(s pack.Source) string {
	id := ""
	for _, f := range s.Files {
		id += f.Name + "=" + f.SHA256 + ";"
	}
	return id
}

// compact puts a recipe on one line, as the manifest's canonical form has it.
func compact(text []byte) json.RawMessage {
	var buf bytes.Buffer
	if err := json.Compact(&buf, text); err != nil {
		return text // the encoder will refuse it
	}
	return buf.Bytes()
}

package compress

import (
	"context"
	"fmt"

	"github.com/hfcompress/compress/architectures/declared"
	"github.com/hfcompress/compress/pack"
	"github.com/hfcompress/compress/validation"
)

// VerifyOptions adjust [Verify].
type VerifyOptions struct {
	LoadOptions
	// AgainstRepo and AgainstRevision, or AgainstDir, which may be an archive, name
	// a source to compare with; empty compares with the recorded outputs alone.
	AgainstRepo, AgainstRevision string
	AgainstDir                   string
	// Source configures how the source is fetched and loaded: Hub, File,
	// Architecture, Threads and Observe are used.
	Source Options
}

// VerifyReport is the outcome of [Verify].
type VerifyReport struct {
	// Dir is the package, and Status what its manifest says of it.
	Dir    string `json:"package"`
	Status string `json:"status"`
	// Verified says that everything asked for holds: every byte of the package,
	// the recorded outputs, and the comparison with the source if there was one.
	// Against a source on a device of other bits the recorded outputs are not
	// expected to recur, and the comparison alone decides.
	Verified bool        `json:"verified"`
	Check    CheckReport `json:"check"`
	// Against is the comparison with the source.
	Against *validation.Report `json:"against,omitempty"`
	// Recorded says that the package was validated by this on a device other than
	// those known before, and that this was written down beside it; NotRecorded is
	// why it could not be.
	Recorded    bool   `json:"recorded,omitempty"`
	NotRecorded string `json:"not_recorded,omitempty"`
}

// Verify opens a package, which checks every byte, runs all its examples again
// and compares the outputs with the recorded ones, and with those of a source
// when one is named. Where all holds on a device on which the package was not
// validated before, that is recorded beside the package, and [Load] counts the
// device as one of the validated from then on.
func Verify(ctx context.Context, dir string, o VerifyOptions) (*VerifyReport, error) {
	loaded, err := Load(ctx, dir, o.LoadOptions)
	if err != nil {
		return nil, err
	}
	defer loaded.Close()
	watch := &observer{f: o.Source.Observe}
	check, err := loaded.Check(ctx, func(done, total int, example string) {
		watch.send(Event{Stage: StageReload, Item: example, Done: int64(done), Total: int64(total), Unit: "examples"})
	})
	if err != nil {
		return nil, err
	}
	report := &VerifyReport{Dir: dir, Status: loaded.Manifest().Status, Check: *check, Verified: len(check.Different) == 0}
	if o.AgainstRepo != "" || o.AgainstDir != "" {
		if report.Against, err = against(ctx, loaded, o); err != nil {
			return nil, err
		}
		report.Verified = report.Against.Accepted && (report.Verified || !loaded.keepsBits())
	}
	if report.Verified && !loaded.Validated {
		report.record(loaded)
	}
	return report, nil
}

// record writes down that the package was validated on another device.
func (r *VerifyReport) record(loaded *Loaded) {
	gate := loaded.Manifest().Gate
	if !gate.Accepted {
		r.NotRecorded = "the package was never accepted"
		return
	}
	info := loaded.device.Info()
	v := pack.Validation{Device: pack.Device{Name: info.Name, Fingerprint: info.Fingerprint},
		Against: "recorded", Require: gate.Require, Bitwise: gate.Bitwise, Examples: r.Check.Examples, Outputs: r.Check.Outputs}
	if r.Against != nil {
		v.Against, v.Bitwise, v.Examples, v.Outputs = "source", r.Against.Bitwise, r.Against.Compared, r.Against.Outputs
	}
	if err := loaded.pkg.AddValidation(v); err != nil {
		r.NotRecorded = err.Error()
		return
	}
	r.Recorded = true
}

// against compares the package with its source on the same device.
func against(ctx context.Context, loaded *Loaded, o VerifyOptions) (*validation.Report, error) {
	so := o.Source
	so.Revision = o.AgainstRevision
	so.Device = loaded.device.Info().Name
	so.Out = ""
	so, err := so.check()
	if err != nil {
		return nil, err
	}
	r := newRoad(so)
	if loaded.Manifest().Architecture == declared.Architecture {
		if r.archFile, err = loaded.File(pack.ArchName); err != nil {
			return nil, err
		}
	}
	if o.AgainstDir != "" {
		r.src, err = localSnapshot(o.AgainstDir, so.File)
	} else {
		r.src, err = r.download(ctx, o.AgainstRepo)
	}
	if err != nil {
		return nil, err
	}
	defer r.result.Close()
	if err := r.stage(StageLoad, func() error { return r.load(ctx) }); err != nil {
		return nil, err
	}
	if r.arch != loaded.Manifest().Architecture {
		return nil, fmt.Errorf("the source is a %q model, the package a %q", r.arch, loaded.Manifest().Architecture)
	}
	examples, err := loaded.Examples()
	if err != nil {
		return nil, err
	}
	gate, _ := Require(loaded.Manifest().Gate.Require).gate(loaded.device.Info())
	var report *validation.Report
	err = r.stage(StageCompare, func() error {
		report, err = validation.Run(ctx, r.source, loaded, examples, gate, func(e validation.ExampleResult, done, total int) {
			r.observe.send(Event{Stage: StageCompare, Item: e.Example, Done: int64(done), Total: int64(total), Unit: "examples"})
		})
		return err
	})
	return report, err
}

package compress

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/hub"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/pack"
	"github.com/hfcompress/compress/validation"
)

// Result is the outcome of the road.
type Result struct {
	Status finitepass.Status
	// Model is the model to use: the compressed one, or the original when nothing
	// was gained or the comparison failed. It runs until Close.
	Model architectures.Model
	// Dir is the package's directory, empty when none was written.
	Dir     string
	Report  *Report
	Timings Timings

	close []func() error
}

// Close frees the model's device and files.
func (r *Result) Close() error {
	var errs []error
	for i := len(r.close) - 1; i >= 0; i-- {
		errs = append(errs, r.close[i]())
	}
	r.close = nil
	return errors.Join(errs...)
}

// HuggingFace takes repo ("org/name") at a revision through the whole road.
// What the cache holds is not downloaded again; with Hub.Offline the network is
// not used at all.
//
// A result is returned whenever the model could be loaded and judged, also when
// nothing was gained: Result.Status tells. An error means that nothing was
// written under the final name.
func HuggingFace(ctx context.Context, repo string, o Options) (*Result, error) {
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	if err := checkOut(o); err != nil {
		return nil, err
	}
	if err := checkDevice(ctx, o.Device); err != nil {
		return nil, err
	}
	r := newRoad(o)
	src, err := r.download(ctx, repo)
	if err != nil {
		return nil, err
	}
	return r.run(ctx, src)
}

// Local is [HuggingFace] for a directory or an archive (see package pack/archive)
// that holds config.json and safetensors files at its top. An archive is read
// where it lies and gives the package that its unpacked files would give; one that
// needs a base has to be unpacked first. Options.Revision and Options.Hub are not
// used.
func Local(ctx context.Context, path string, o Options) (*Result, error) {
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	if err := checkOut(o); err != nil {
		return nil, err
	}
	src, err := localSnapshot(path, o.File)
	if err != nil {
		return nil, err
	}
	return newRoad(o).run(ctx, src)
}

// checkOut refuses a destination that exists or cannot be written before any
// work is done for it. The package writer checks again when it publishes.
func checkOut(o Options) error {
	if o.Out == "" {
		return nil
	}
	err := pack.CheckDestination(o.Out, o.Overwrite)
	if errors.Is(err, pack.ErrExists) && !o.Overwrite {
		return &ExistsError{Dir: o.Out}
	}
	return err
}

// ExistsError refuses an output directory that exists.
type ExistsError struct{ Dir string }

func (e *ExistsError) Error() string {
	return fmt.Sprintf("output directory %s already exists", e.Dir)
}

// road is one run.
type road struct {
	o       Options
	observe *observer
	timings Timings
	result  *Result

	src *snapshot
	design
	weights  *loader.Weights
	gathered *gatherOnly
	storage  *storage
	device   nn.Device
	source   architectures.Model
	gate     validation.Gate
	require  Require
	examples []validation.Example
	// decisions are what the model decides, and margins what is known of those that
	// a rewritten block takes.
	decisions []architectures.Decision
	margins   []validation.Margins
}

func newRoad(o Options) *road {
	t := Timings{}
	return &road{o: o, observe: &observer{f: o.Observe}, timings: t, result: &Result{Timings: t}}
}

// stage times f as a stage.
func (r *road) stage(s Stage, f func() error) error {
	start := time.Now()
	r.observe.send(Event{Stage: s})
	err := f()
	r.timings[s] += time.Since(start).Seconds()
	return err
}

func (r *road) run(ctx context.Context, src *snapshot) (_ *Result, err error) {
	r.src = src
	defer func() {
		if err != nil {
			err = errors.Join(err, r.result.Close())
		}
	}()
	if err := r.stage(StageLoad, func() error { return r.load(ctx) }); err != nil {
		return nil, err
	}
	if err := r.stage(StageExamples, func() error { return r.makeExamples(ctx) }); err != nil {
		return nil, err
	}
	compiled, err := r.compileDecided(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.finish(ctx, compiled); err != nil {
		return nil, err
	}
	return r.result, nil
}

// download is the first stage of [HuggingFace].
func (r *road) download(ctx context.Context, repo string) (src *snapshot, err error) {
	err = r.stage(StageDownload, func() error {
		ref, err := hub.ParseRepo(repo)
		if err != nil {
			return err
		}
		options := r.o.Hub
		options.Progress = teeProgress(options.Progress, r.observe)
		client, err := hub.New(options)
		if err != nil {
			return err
		}
		defer client.CloseIdle()
		src, err = fetch(ctx, client, ref, r.o.Revision, r.o.File)
		return err
	})
	return src, err
}

// teeProgress translates the Hub client's events, and passes them on.
func teeProgress(next hub.Observer, o *observer) hub.Observer {
	return hub.ObserverFunc(func(e hub.Event) {
		if next != nil {
			next.Observe(e)
		}
		event := Event{Stage: StageDownload, Item: e.File, Done: e.Done, Total: e.Total, Unit: "bytes"}
		switch e.Kind {
		case hub.FileStarted, hub.FileProgress:
		case hub.FileDone:
			event.Done = e.Total
		case hub.Retrying:
			event.Total, event.Message = 0, about(e.File)+fmt.Sprintf("trying again in %s: %v", e.Wait.Round(100*time.Millisecond), e.Err)
		case hub.Waiting:
			event.Total, event.Message = 0, about(e.File)+fmt.Sprintf("waiting: %v", e.Err)
		default:
			return
		}
		o.send(event)
	})
}

// about begins a message about a file, if there is one.
func about(file string) string {
	if file == "" {
		return ""
	}
	return file + ": "
}

// load reads the configuration, holds the checkpoint against it, and places the
// weights on the device.
func (r *road) load(ctx context.Context) error {
	for _, name := range r.src.skipped {
		r.observe.send(Event{Stage: StageLoad, Item: name, Message: name + " is a link to a file elsewhere and is left out of the package"})
	}
	r.result.close = append(r.result.close, r.src.Close)
	archFile := r.archFile // a package's own, when its source is compared
	if archFile == nil {
		var err error
		if archFile, err = r.o.readArchFile(); err != nil {
			return err
		}
	}
	text, configErr := r.src.readConfig()
	d, err := readDesign(r.o.Architecture, archFile, text, configErr, r.src.configShown())
	if err != nil {
		return err
	}
	r.design = *d
	checkpoint, err := r.src.files.weights(r.src.file)
	if err != nil {
		return err
	}
	r.result.close = append(r.result.close, checkpoint.Close)
	if err := r.bind(checkpoint); err != nil {
		return err
	}
	if r.plan, err = r.o.schedule(r.arch, r.plan); err != nil {
		return err
	}
	if r.weights, err = loader.Strict(checkpoint, r.plan.Params(), loader.Policy{NonFinite: r.o.NonFinite}); err != nil {
		return err
	}
	if r.device, err = OpenDevice(ctx, r.o.Device, r.o.Threads); err != nil {
		return err
	}
	r.result.close = append(r.result.close, r.device.Close)
	held, err := finitepass.NewInventory(r.plan.Params(), r.weights)
	if err != nil {
		return err
	}
	if err := fits(r.device, held.Total().ResidentBytes); err != nil {
		return err
	}
	r.gate, r.require = r.o.Require.gate(r.device.Info())
	r.gathered = newGatherOnly(r.weights)
	r.source, err = r.plan.Build(r.device, r.gathered, nil)
	return err
}

// compile runs the passes and the whole-model gate. Automatic profiles promise
// the source's bits at every row count, and when the gate demands bits each
// block is held to that on its whole domain at once. Profiles that the caller
// chose promise nothing: there each block is held to the tolerance first, so
// that the gate can show what its differences do to the whole. If the gate then
// finds equal bytes on all examples though some block was not equal on its whole
// domain, the examples missed something, and the blocks are compiled again and
// held to their bytes too.
func (r *road) compile(ctx context.Context, plan architectures.Blueprint) (*finitepass.Result, error) {
	bitwise := r.require == RequireBitwise
	compiled, err := r.compileOnce(ctx, plan, bitwise && r.o.ProfileMode == finitepass.ProfilesAuto)
	if err != nil || !bitwise {
		return compiled, err
	}
	for _, b := range compiled.Report.Blocks {
		if b.Status == finitepass.Compiled && !b.Comparison.Bitwise {
			return r.compileOnce(ctx, plan, true)
		}
	}
	return compiled, nil
}

func (r *road) compileOnce(ctx context.Context, plan architectures.Blueprint, bitwise bool) (compiled *finitepass.Result, err error) {
	var comparing, started = time.Duration(0), time.Time{}
	err = r.stage(StageCompile, func() (err error) {
		compiled, err = finitepass.CompileModel(ctx, plan, r.source, r.weights, finitepass.ModelOptions{
			Options: finitepass.Options{
				Contract:       r.o.Contract,
				Contracts:      r.o.contracts(),
				ReachableIDs:   r.o.ReachableIDs,
				Profiles:       r.o.Profiles,
				RequireBitwise: bitwise,
				Hooks:          r.o.Hooks,
			},
			Mode:     r.o.ProfileMode,
			Probe:    finitepass.ProbeOptions{Strict: r.device.Info().Strict},
			Examples: r.examples,
			Gate:     r.gate,
			Observer: func(e finitepass.Event) {
				event := Event{Stage: StageCompile, Item: e.Path, Done: e.Done, Total: e.Total, Unit: "rows"}
				switch e.Step {
				case "gate", "bisect":
					if started.IsZero() {
						started = time.Now()
					}
					event.Stage, event.Unit = StageCompare, "examples"
				case "refused", "compiled", "rolled_back":
					event.Message = e.Path + " " + strings.ReplaceAll(e.Step, "_", " ")
					if e.Detail != "" {
						event.Message += ": " + e.Detail
					}
				}
				r.observe.send(event)
			},
		})
		if !started.IsZero() {
			comparing = time.Since(started)
		}
		return err
	})
	r.timings[StageCompile] -= comparing.Seconds()
	r.timings[StageCompare] += comparing.Seconds()
	return compiled, err
}

// finish records what the model computes, makes the report and, when asked for,
// the package.
func (r *road) finish(ctx context.Context, compiled *finitepass.Result) error {
	r.result.Status = compiled.Report.Status
	r.result.Model = compiled.Model
	report, err := r.report(compiled)
	if err != nil {
		return err
	}
	r.result.Report = report
	if r.o.Out == "" {
		return nil
	}
	if err := r.shrinkRest(ctx, compiled); err != nil {
		return err
	}
	return r.writePackage(ctx, compiled)
}

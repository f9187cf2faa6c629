package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	compress "github.com/hfcompress/compress"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/pack"
)

// summary is the JSON object of the main command: the report, where the package
// lies, and how long it took.
type summary struct {
	*compress.Report
	Package string           `json:"package"`
	HTML    string           `json:"report_html"`
	Timings compress.Timings `json:"timings_seconds"`
}

// compress runs the road and prints its outcome.
func (a *app) compress(ctx context.Context, f *compressFlags) error {
	o, err := a.options(f)
	if err != nil {
		return err
	}
	if o.Out == "" {
		name := f.repo
		if f.local != "" {
			if name, err = filepath.Abs(f.local); err != nil {
				return err
			}
			name = filepath.Base(name)
			if isArchive(f.local) {
				name = strings.TrimSuffix(name, filepath.Ext(name))
			}
		}
		o.Out = defaultOut(name)
	}
	return a.road(ctx, f, o)
}

func (a *app) road(ctx context.Context, f *compressFlags, o compress.Options) error {
	show := a.progress(f.quiet)
	o.Observe = show.observe
	start := time.Now()
	var result *compress.Result
	var err error
	if f.local != "" {
		result, err = compress.Local(ctx, f.local, o)
	} else {
		result, err = compress.HuggingFace(ctx, f.repo, o)
	}
	show.stop()
	if err != nil {
		return err
	}
	defer result.Close()
	if err := a.printResult(f, result, time.Since(start)); err != nil {
		return err
	}
	if f.strict && result.Status != finitepass.Compressed {
		return statusError(exitNoGain)
	}
	return nil
}

func (a *app) printResult(f *compressFlags, r *compress.Result, took time.Duration) error {
	dir, err := filepath.Abs(r.Dir)
	if err != nil {
		return err
	}
	html := filepath.Join(dir, pack.PageName)
	if f.json {
		return a.printJSON(summary{r.Report, dir, html, r.Timings})
	}
	rep := r.Report
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	if rep.Source.Repo != "" {
		line("source", "%s @ %s, commit %s", rep.Source.Repo, rep.Source.Revision, rep.Source.Commit)
	} else {
		line("source", "%s", f.local)
	}
	line("status", "%s", rep.Status)
	line("model", "%s, %s values in %d tensors, on %s", rep.Architecture, count(rep.Values.Before), rep.Load.Tensors, rep.Device.Name)
	if f := rep.ArchFile; f != nil {
		line("", "described by an architecture file, SHA-256 %s", f.SHA256)
	}
	if n := len(rep.Load.Ignored); n > 0 {
		line("left out", "%s of %s bytes that the model does not read: %s", plural(n, "tensor"), count(rep.Load.IgnoredBytes), few(rep.Load.Ignored))
	}
	for _, b := range rep.Blocks {
		line("block", "%s: %s", b.Path, b.Plan.Arithmetic)
	}
	line("profiles", "%s", compress.ProfileText(rep.Profiles))
	a.printFindings(line, rep)
	line("saved", "%s values; %s in memory; %s on disk", count(rep.Values.Saved()), change(rep.Bytes.Resident), change(rep.Bytes.Disk))
	if full := rep.Bytes.ResidentFullTables; full != rep.Bytes.Resident.After {
		line("", "with full tables instead of differences: %s in memory", change(compress.Change{Before: rep.Bytes.Resident.Before, After: full}))
	}
	if s := rep.Storage; s != nil {
		for _, sentence := range s.Sentences() {
			line("stored", "%s", sentence)
		}
	}
	if rep.Reload != nil {
		line("reloaded", "%d tensors and %s outputs of the written package, bitwise equal: %s", rep.Reload.Tensors, count(int64(rep.Reload.Outputs)), yes(rep.Reload.Bitwise))
	}
	line("took", "%s", took.Round(time.Millisecond))
	line("package", "%s", dir)
	line("report", "%s", html)
	return w.Flush()
}

// printFindings says what was compared: first what became of each block, then
// what holds for the model that the package has.
func (a *app) printFindings(line func(name, format string, args ...any), rep *compress.Report) {
	for _, b := range rep.Blocks {
		switch c := b.Comparison; {
		case b.Status == finitepass.Compiled:
			line("verified", "every one of %d tokens in %s calls of the block, bitwise equal: %s", c.Tokens, count(int64(c.Calls)), yes(c.Bitwise))
		case b.Status == finitepass.RolledBack:
			line("rejected", "%s", b.Reason)
		default:
			line("refused", "%s", b.Reason)
		}
	}
	for _, m := range rep.Margins {
		line("margins", "block %s: %s", m.Block, m.String())
	}
	what := "the whole model"
	if rep.Status != finitepass.Compressed {
		what = "the original model, which the package holds,"
	}
	line(verb(rep.Gate.Accepted), "%s outputs of %d examples of %s (gate: %s), bitwise equal: %s",
		count(int64(rep.Gate.Outputs)), rep.Gate.Compared, what, rep.Require, yes(rep.Gate.Bitwise))
}

// printJSON writes one object.
func (a *app) printJSON(v any) error {
	text, err := pack.EncodeJSON(v)
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(text)
	return err
}

func (a *app) warn(text string) { fmt.Fprintf(a.stderr, "hfcompress: warning: %s\n", text) }

// progress chooses how to show events.
func (a *app) progress(quiet bool) progress {
	if quiet {
		return silence{}
	}
	return newProgress(a.stderr, a.terminal)
}

type silence struct{}

func (silence) observe(compress.Event) {}
func (silence) stop()                  {}

// few writes at most three names.
func few(names []string) string {
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	}
	return strings.Join(names, ", ")
}

func count(n int64) string { return compress.Digits(n) }

func change(c compress.Change) string {
	if c.Before == 0 {
		return "–"
	}
	// The sign is the one that count writes.
	share := strings.Replace(fmt.Sprintf("%.2f", 100*float64(c.Saved())/float64(c.Before)), "-", "−", 1)
	return fmt.Sprintf("%s of %s bytes (%s %%)", count(c.Saved()), count(c.Before), share)
}

// verb is what may be said of a comparison.
func verb(accepted bool) string {
	if accepted {
		return "verified"
	}
	return "compared"
}

func yes(ok bool) string {
	if ok {
		return "yes"
	}
	return "no"
}

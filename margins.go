package compress

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/validation"
)

// measureMargins looks, for every decision that a rewritten block takes with
// scores that have not the source's bits, at the margins over the whole domain.
// It returns the paths of blocks that leave a choice undecided.
func (r *road) measureMargins(ctx context.Context, compiled *finitepass.Result) (undecided []string, err error) {
	r.margins = nil
	for _, d := range r.decisions {
		lookup, ok := compiled.Lookups[d.Block]
		if !ok {
			continue
		}
		report := blockReport(compiled.Report.Blocks, d.Block)
		if report == nil || report.Comparison == nil || report.Comparison.Bitwise {
			continue
		}
		m, err := validation.DomainMargins(ctx, r.device,
			validation.Choice{Block: lookup, Output: d.BlockOutput, Top: d.Top, IDs: r.o.ReachableIDs, Rows: routeRows(report.Profiles)},
			outputBound(report.Comparison, d))
		if err != nil {
			return nil, fmt.Errorf("block %q: %w", d.Block, err)
		}
		m.Block = d.Block
		r.margins = append(r.margins, *m)
		if !m.Decided() && !slices.Contains(undecided, d.Block) {
			undecided = append(undecided, d.Block)
		}
	}
	return undecided, nil
}

// outputBound is the largest difference that the comparison over the whole domain
// found in the scores.
func outputBound(c *finitepass.Comparison, d architectures.Decision) float64 {
	for _, o := range c.Outputs {
		if o.Name == d.BlockOutput {
			return o.MaxAbs
		}
	}
	return 0
}

// routeRows lists a row count for each table of a lookup, bulk last.
func routeRows(profiles []finitepass.Profile) []int {
	var rows []int
	bulk := 256
	for _, p := range profiles {
		rows = append(rows, p.MaxRows)
		bulk = max(bulk, p.MaxRows+1)
	}
	return append(rows, bulk)
}

func blockReport(blocks []finitepass.BlockReport, path string) *finitepass.BlockReport {
	for i := range blocks {
		if blocks[i].Path == path {
			return &blocks[i]
		}
	}
	return nil
}

// compileDecided compiles, and again without the blocks that leave a choice
// undecided when the options reject those.
func (r *road) compileDecided(ctx context.Context) (*finitepass.Result, error) {
	compiled, err := r.compile(ctx, r.plan)
	if err != nil {
		return nil, err
	}
	undecided, err := r.measureMargins(ctx, compiled)
	if err != nil || len(undecided) == 0 || r.o.Margins != MarginsReject {
		return compiled, err
	}
	margins := r.margins
	again, err := r.compile(ctx, without{r.plan, undecided})
	if err != nil {
		return nil, err
	}
	if _, err := r.measureMargins(ctx, again); err != nil {
		return nil, err
	}
	r.margins = append(r.margins, slices.DeleteFunc(margins, func(m validation.Margins) bool { return m.Decided() })...)
	r.reject(compiled, again, undecided)
	return again, nil
}

// without is a blueprint of the same model that declares fewer blocks.
type without struct {
	architectures.Blueprint
	paths []string
}

func (w without) Blocks() []architectures.BlockSpec {
	return slices.DeleteFunc(w.Blueprint.Blocks(), func(b architectures.BlockSpec) bool { return slices.Contains(w.paths, b.Path) })
}

// reject enters the reports of rejected blocks, in the order of declaration.
func (r *road) reject(first, again *finitepass.Result, undecided []string) {
	var blocks []finitepass.BlockReport
	for _, spec := range r.plan.Blocks() {
		if b := blockReport(again.Report.Blocks, spec.Path); b != nil {
			blocks = append(blocks, *b)
			continue
		}
		b := blockReport(first.Report.Blocks, spec.Path)
		if b == nil {
			continue
		}
		rejected := *b
		rejected.Status = finitepass.Refused
		for _, m := range r.margins {
			if m.Block == spec.Path && !m.Decided() {
				rejected.Reason = "margins: " + m.String()
			}
		}
		r.observe.send(Event{Stage: StageCompile, Item: spec.Path, Message: spec.Path + " refused: " + rejected.Reason})
		blocks = append(blocks, rejected)
	}
	again.Report.Blocks = blocks
	if len(again.Lookups) == 0 && again.Report.Status == finitepass.NoReduction {
		again.Report.Reason = "no block is left whose table decides as the source: " + strings.Join(undecided, ", ")
	}
}

package compress

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/internal/page"
	"github.com/hfcompress/compress/internal/thousands"
	"github.com/hfcompress/compress/pack"
	"github.com/hfcompress/compress/validation"
)

// WriteHTML writes the report as one page for people. It needs no network to be
// read.
func (r *Report) WriteHTML(w io.Writer) error {
	p := &page.Page{
		Title:    sourceTitle(r.Source.Repo, r.Source.Revision),
		Subtitle: "hfcompress report",
		Verdict:  r.Verdict(),
		Good:     r.Gate != nil && r.Gate.Accepted && r.Status != finitepass.RolledBack,
		Facts: []page.Fact{
			{Name: "Status", Value: string(r.Status)},
			{Name: "Architecture", Value: r.Architecture},
			{Name: "Commit", Value: orDash(r.Source.Commit)},
			{Name: "Device", Value: r.Device.Name + " (" + r.Device.Fingerprint + ")"},
			{Name: "Values saved", Value: Digits(r.Values.Saved()) + " of " + Digits(r.Values.Before)},
			{Name: "Row-count profiles", Value: ProfileText(r.Profiles)},
			{Name: "Gate", Value: string(r.Require)},
			{Name: "Examples compared", Value: strconv.Itoa(r.examplesCompared())},
		},
	}
	p.Sections = append(p.Sections, r.sizes(), r.whereBytesWent())
	p.Sections = append(p.Sections, r.blockSections()...)
	if r.Storage != nil {
		p.Sections = append(p.Sections, page.Section{Title: "How the rest is held", Text: strings.Join(r.Storage.Sentences(), ". ") + "."})
	}
	p.Sections = append(p.Sections, r.gateSections()...)
	p.Sections = append(p.Sections, r.filesSection())
	return page.Write(w, p)
}

// Verdict says in a sentence or two what happened and what was proven.
func (r *Report) Verdict() string {
	var b strings.Builder
	switch r.Status {
	case finitepass.Compressed:
		fmt.Fprintf(&b, "%s in memory", lessText(r.Bytes.Resident))
		if r.Bytes.Disk.After > 0 {
			fmt.Fprintf(&b, ", %s on disk", lessText(r.Bytes.Disk))
		}
		b.WriteString(". ")
	case finitepass.NoReduction:
		fmt.Fprintf(&b, "Nothing was gained: %s. ", r.Reason)
	case finitepass.RolledBack:
		fmt.Fprintf(&b, "The rewrite failed the whole-model comparison and was rolled back: %s. ", r.Reason)
	}
	if g := r.Gate; g != nil {
		switch {
		case g.Bitwise:
			fmt.Fprintf(&b, "All %s outputs of %d examples have the source's bytes.", Digits(int64(g.Outputs)), g.Compared)
		case g.Accepted:
			fmt.Fprintf(&b, "All %s outputs of %d examples lie within the tolerance; they are not equal in every byte.", Digits(int64(g.Outputs)), g.Compared)
		default:
			fmt.Fprintf(&b, "The comparison failed.")
		}
	}
	if r.Reload != nil && r.Reload.Bitwise {
		b.WriteString(" The package was opened again and gives the same bytes.")
	}
	return b.String()
}

func (r *Report) examplesCompared() int {
	if r.Gate == nil {
		return 0
	}
	return r.Gate.Compared
}

// sizes draws the model before and after.
func (r *Report) sizes() page.Section {
	bar := func(label string, n int64) page.Bar {
		return page.Bar{Label: label, Parts: []page.Part{{Value: float64(n)}}}
	}
	bars := &page.Bars{Format: func(v float64) string { return BytesText(int64(v)) }}
	bars.Items = append(bars.Items, bar("in memory, before", r.Bytes.Resident.Before), bar("in memory, after", r.Bytes.Resident.After))
	if r.Bytes.Disk.After > 0 {
		bars.Items = append(bars.Items, bar("on disk, before", r.Bytes.Disk.Before), bar("on disk, after", r.Bytes.Disk.After))
	}
	return page.Section{
		Title: "Sizes",
		Text: "In memory every distinct storage counts once, with tables, indices and padding. " +
			"On disk the source's weight files stand against the package's weights and manifest, losslessly coded.",
		Bars: bars,
	}
}

// whereBytesWent splits the memory of the model into what was touched and what
// was not.
func (r *Report) whereBytesWent() page.Section {
	before := page.Bar{Label: "before"}
	after := page.Bar{Label: "after"}
	rest := float64(r.Bytes.Resident.Before)
	var parts, tables []page.Part
	if s := r.Storage; s != nil {
		parts, tables = s.parts()
		for _, p := range parts {
			rest -= p.Value
		}
	}
	for _, b := range r.Blocks {
		if b.Status != finitepass.Compiled {
			continue
		}
		removed := float64(b.Plan.Removed.ResidentBytes)
		rest -= removed
		parts = append(parts, page.Part{Name: "removed from " + b.Path, Value: removed})
		for _, t := range b.Tables {
			tables = append(tables, page.Part{Name: tableLabel(t, len(b.Tables)), Value: float64(t.StoredBytes)})
		}
	}
	before.Parts = append(before.Parts, page.Part{Name: "kept as it is", Value: rest})
	before.Parts = append(before.Parts, parts...)
	after.Parts = append(after.Parts, page.Part{Name: "kept as it is", Value: rest})
	after.Parts = append(after.Parts, tables...)
	s := page.Section{Title: "Where the bytes went", Bars: &page.Bars{
		Format: func(v float64) string { return BytesText(int64(v)) },
		Items:  []page.Bar{before, after},
	}}
	if len(parts) == 0 {
		s.Bars, s.Text = nil, "Nothing was rewritten."
		return s
	}
	if full := r.Bytes.ResidentFullTables; full > r.Bytes.Resident.After {
		s.Text = fmt.Sprintf("Tables of different row counts differ in few bits. Stored as differences they take %s bytes less than as full tables.",
			Digits(full-r.Bytes.Resident.After))
		s.Bars.Items = append(s.Bars.Items, page.Bar{Label: "after, full tables", Parts: []page.Part{
			{Name: "kept as it is", Value: rest}, {Name: "full tables", Value: float64(full) - rest}}})
	}
	return s
}

// parts are what the storage forms replace, and what they hold instead.
func (s *StorageReport) parts() (before, after []page.Part) {
	if s.SharedBytes > 0 {
		before = append(before, page.Part{Name: "equal tensors", Value: float64(s.SharedBytes)})
	}
	for _, t := range s.Tables {
		before = append(before, page.Part{Name: t.Tensor, Value: float64(t.FullBytes)})
		after = append(after, page.Part{Name: t.Tensor, Value: float64(t.StoredBytes)})
	}
	return before, after
}

// blockSections lists the declared blocks, and the tables of those rewritten.
func (r *Report) blockSections() []page.Section {
	blocks := page.Section{Title: "Blocks", Table: &page.Table{Head: []string{"Block", "Status", "Arithmetic", "Reason"}}}
	sections := []page.Section{}
	for _, b := range r.Blocks {
		mark := page.Plain
		switch b.Status {
		case finitepass.Compiled:
			mark = page.Yes
		case finitepass.RolledBack:
			mark = page.No
		}
		blocks.Table.Rows = append(blocks.Table.Rows, []page.Cell{{Text: b.Path}, {Text: string(b.Status), Mark: mark}, {Text: b.Plan.Arithmetic}, {Text: orDash(b.Reason)}})
		if c := b.Comparison; c != nil {
			t := page.Section{
				Title: "Full domain of " + b.Path,
				Text: fmt.Sprintf("All %d tokens, %s calls, %s rows compared with the source block. Bitwise equal: %s.",
					c.Tokens, Digits(int64(c.Calls)), Digits(c.Rows), yesNo(c.Bitwise)),
				Table: &page.Table{Head: []string{"Row count", "Evaluated in calls of", "Numbers that differ from the first line's", "Full", "Stored"}},
			}
			for _, route := range b.Routes {
				t.Table.Rows = append(t.Table.Rows, []page.Cell{{Text: route.Rows}, {Text: strconv.Itoa(route.EvaluatedRows)},
					{Text: Digits(route.DiffersFromBulk)}, {Text: Digits(route.FullBytes) + " B"}, {Text: Digits(route.StoredBytes) + " B"}})
			}
			sections = append(sections, t)
		}
	}
	return append([]page.Section{blocks}, sections...)
}

// gateSections shows the whole-model comparison example by example.
func (r *Report) gateSections() []page.Section {
	var out []page.Section
	add := func(title string, g *validation.Report) {
		if g == nil {
			return
		}
		s := page.Section{Title: title, Folded: g.Accepted, Table: &page.Table{Head: []string{"Example", "Bitwise", "Exact", "Max abs", "Relative L2", "Smallest margin", "Finding"}}}
		s.Text = fmt.Sprintf("%d examples, %s outputs, %s numbers.", g.Compared, Digits(int64(g.Outputs)), Digits(g.Elements))
		if f := g.FirstFailure; f != nil {
			s.Text += " Shown are the examples that failed."
			s.Text += fmt.Sprintf(" First failure: output %s of example %q: %s.", orDash(f.Output), f.Example, f.Reason)
		}
		for _, e := range g.Results {
			if !g.Accepted && e.Accepted {
				continue
			}
			margin := "–"
			if e.MinMargin != nil {
				margin = short(*e.MinMargin)
			}
			finding := e.Reason
			for _, f := range e.Failed {
				finding = join(finding, f.Output+": "+f.Reason)
				if len(finding) > 160 {
					finding = join(finding, "…")
					break
				}
			}
			s.Table.Rows = append(s.Table.Rows, []page.Cell{{Text: e.Example}, verdictCell(e.Bitwise), verdictCell(e.Exact),
				{Text: short(e.MaxAbs)}, {Text: short(e.RelL2)}, {Text: margin}, {Text: orDash(finding)}})
		}
		out = append(out, s)
	}
	add("Whole-model comparison", r.Gate)
	add("Comparison that was rolled back", r.FirstGate)
	out = append(out, r.marginSections()...)
	if r.Gate != nil {
		h := &page.Histogram{Label: "examples by smallest margin"}
		for _, e := range r.Gate.Results {
			if e.MinMargin != nil {
				h.Values = append(h.Values, *e.MinMargin)
			}
		}
		if len(h.Values) > 0 {
			out = append(out, page.Section{
				Title: "Margins of decisions",
				Text: "How far the best choice of an example lies above the second best, at its narrowest. Small margins are where a last bit " +
					"could turn a decision; examples with small ones are searched for. A margin of exactly 0 means that two choices were equal, as after a " +
					"padding token alone.",
				Histogram: h,
			})
		}
	}
	return out
}

// marginSections shows what a bound on the scores' error leaves undecided.
func (r *Report) marginSections() []page.Section {
	if len(r.Margins) == 0 {
		return nil
	}
	s := page.Section{
		Title: "Decisions over the whole domain",
		Text: "Scores of these blocks choose something, and the table has not the source's bits. Where the margin of a choice is more than twice " +
			"the largest error, no call can choose otherwise; the others are undecided.",
		Table: &page.Table{Head: []string{"Block", "Scores", "Chosen", "Domain", "Largest error", "Smallest margin", "Undecided"}},
	}
	for _, m := range r.Margins {
		s.Table.Rows = append(s.Table.Rows, []page.Cell{{Text: m.Block}, {Text: m.Output}, {Text: strconv.Itoa(m.Top)}, {Text: strconv.Itoa(m.Elements)},
			{Text: short(m.Bound)}, {Text: short(m.Smallest)}, {Text: strconv.Itoa(m.Undecided)}})
	}
	return []page.Section{s}
}

// filesSection names what was read.
func (r *Report) filesSection() page.Section {
	s := page.Section{Title: "Source files", Folded: true, Table: &page.Table{Head: []string{"File", "Bytes", "SHA-256"}}}
	if n := len(r.Load.Ignored); n > 0 {
		s.Text = fmt.Sprintf("Not in the package, since the model does not read them: %d tensors of %s bytes: %s.", n, Digits(r.Load.IgnoredBytes), some(r.Load.Ignored))
	}
	for _, f := range append(r.archFiles(), r.Source.Files...) {
		s.Table.Rows = append(s.Table.Rows, []page.Cell{{Text: f.Name}, {Text: Digits(f.Size)}, {Text: f.SHA256}})
	}
	return s
}

// archFiles is the architecture file, if there is one.
func (r *Report) archFiles() []pack.File {
	if r.ArchFile == nil {
		return nil
	}
	return []pack.File{*r.ArchFile}
}

// tableLabel names a table for people.
func tableLabel(t finitepass.TableReport, tables int) string {
	label := "lookup table"
	if tables > 1 {
		label += " " + strings.TrimPrefix(t.Name, "group_")
	}
	switch t.Coding {
	case "full":
		return label
	case "base":
		return label + ", base of the others"
	}
	return label + ", as differences"
}

func sourceTitle(repo, revision string) string {
	if repo == "" {
		return "local model"
	}
	return repo + " @ " + revision
}

// ProfileText names the row counts that have a table each.
func ProfileText(p Profiles) string {
	if len(p.List) == 0 {
		return "one table for all row counts (" + string(p.Mode) + ")"
	}
	last, parts := 0, []string{}
	for _, x := range p.List {
		if x.MaxRows == last+1 {
			parts = append(parts, strconv.Itoa(x.MaxRows))
		} else {
			parts = append(parts, fmt.Sprintf("%d–%d", last+1, x.MaxRows))
		}
		last = x.MaxRows
	}
	return fmt.Sprintf("%s, %d+ (%s)", strings.Join(parts, ", "), last+1, p.Mode)
}

func verdictCell(ok bool) page.Cell {
	if ok {
		return page.Cell{Text: "yes", Mark: page.Yes}
	}
	return page.Cell{Text: "no", Mark: page.No}
}

func yesNo(ok bool) string { return verdictCell(ok).Text }

func orDash(s string) string { return cmp.Or(s, "–") }

func join(a, b string) string {
	return strings.Join(slices.DeleteFunc([]string{a, b}, func(s string) bool { return s == "" }), "; ")
}

func short(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

// lessText says how many bytes less a change is, or how many more: packages of
// tiny models are larger on disk than their source.
func lessText(c Change) string {
	if c.Saved() < 0 {
		c.Before, c.After = c.After, c.Before
		return fmt.Sprintf("%s bytes more (%.2f %%)", Digits(c.Saved()), 100*float64(c.Saved())/float64(max(c.After, 1)))
	}
	return fmt.Sprintf("%s bytes less (%s)", Digits(c.Saved()), percent(c))
}

func percent(c Change) string {
	if c.Before == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.2f %%", 100*float64(c.Saved())/float64(c.Before))
}

// Digits writes n with its thousands set apart.
func Digits(n int64) string {
	return strings.Replace(thousands.Group(n), "-", "−", 1)
}

// BytesText writes a size in decimal units, as disks and downloads are sold.
func BytesText(n int64) string {
	const unit = 1000
	if max(n, -n) < unit {
		return fmt.Sprintf("%d B", n)
	}
	v, suffix := float64(n), ""
	for _, s := range []string{"kB", "MB", "GB", "TB", "PB"} {
		v /= unit
		suffix = s
		if max(v, -v) < unit {
			break
		}
	}
	return fmt.Sprintf("%.2f %s", v, suffix)
}

package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/internal/thousands"
)

// Limits of the options: a plan for more is a mistake, and products of sizes
// must not overflow.
const (
	maxProfiles  = 64
	maxTimesteps = 1 << 24
)

// Make plans every checkpoint. An error says which of them makes no sense; an
// unknown family is none.
func Make(checkpoints []Checkpoint, o Options) (*Report, error) {
	if o.Profiles < 0 || o.Profiles > maxProfiles {
		return nil, fmt.Errorf("profiles: %d, expected 0 to %d", o.Profiles, maxProfiles)
	}
	if o.Timesteps < 0 || o.Timesteps > maxTimesteps {
		return nil, fmt.Errorf("timesteps: %d, expected 1 to %d", o.Timesteps, maxTimesteps)
	}
	if o.Blueprint != nil && len(checkpoints) > 1 {
		return nil, fmt.Errorf("an architecture file describes one checkpoint, and there are %d: name one of them", len(checkpoints))
	}
	r := &Report{Version: Version, Profiles: o.Profiles, Timesteps: o.Timesteps, Checkpoints: []Plan{}}
	for _, c := range checkpoints {
		p, err := makePlan(c, o)
		if err != nil && c.Name != "" {
			err = fmt.Errorf("%s: %w", c.Name, err)
		}
		if err != nil {
			return nil, err
		}
		r.Checkpoints = append(r.Checkpoints, *p)
	}
	return r, nil
}

func makePlan(c Checkpoint, o Options) (*Plan, error) {
	m, err := newModel(c)
	if err != nil {
		return nil, err
	}
	p := &Plan{
		Name: c.Name, Files: c.Files, Tensors: len(c.Tensors), Stored: m.total,
		DTypes: countTypes(c.Tensors), Passes: []Pass{},
	}
	if p.Files == nil {
		p.Files = []File{}
	}
	f := recognise(m)
	declared := false
	switch {
	case o.Blueprint != nil:
		if err := given(m, p, o); err != nil {
			return nil, err
		}
		declared = true
	case !o.declared:
		declared = registered(m, p, o)
	}
	if f != nil {
		p.Family = f.name
		if f.note != "" {
			p.Notes = append(p.Notes, f.note)
		}
		for i := range f.passes {
			if declared && f.passes[i].fromBlueprint() {
				m.lend(&f.passes[i], p.Passes)
				continue
			}
			if q, ok := m.pass(&f.passes[i], o); ok {
				p.Passes = append(p.Passes, q)
			}
		}
	} else if p.Architecture != "" {
		p.Family = p.Architecture
	} else {
		p.unknown(m)
	}
	p.Total = p.total(func(q *Pass) bool { return q.Verdict == Saves && q.Contract != reachable })
	p.Listed = p.total(func(q *Pass) bool { return q.Verdict == Saves })
	p.Possible = p.total(func(q *Pass) bool { return q.Verdict != Refused })
	return p, nil
}

// lend gives the conditions that are declared of a pass to the blueprint's block
// that changes the same tensors.
func (m *model) lend(d *pass, blocks []Pass) {
	removes := m.find(d.removes...)
	for i := range blocks {
		if blocks[i].Needs == nil && slices.Equal(blocks[i].touched, removes) {
			blocks[i].Needs = d.needs
		}
	}
}

// pass counts one declared pass; false leaves it out of the report.
func (m *model) pass(d *pass, o Options) (Pass, bool) {
	p := Pass{Kind: string(d.kind), Title: titles[d.kind], Block: d.block, Contract: d.contract, Needs: d.needs, Changes: []Change{}}
	var missing []string
	for _, pattern := range d.removes {
		at := m.match(pattern)
		if len(at) == 0 && !strings.HasSuffix(pattern, ".bias") {
			missing = append(missing, pattern)
			continue
		}
		if len(at) > 0 {
			p.touched = append(p.touched, at...)
			p.Changes = append(p.Changes, Change{pattern, len(at), m.sum(at)})
		}
	}
	if d.optional && len(p.touched) == 0 || d.kind == kindLookup && d.listed > 0 && m.rowsOf(d.embedding) <= d.listed {
		return p, false
	}
	slices.Sort(p.touched)
	p.touched = slices.Compact(p.touched)
	if len(missing) > 0 {
		return p.refuse("the file has no tensor %s", missing[0]), true
	}
	switch d.kind {
	case kindShared:
		m.shared(&p)
	case kindUnread, kindComputed, kindFold:
		p.Before = m.sum(p.touched)
		p.Arithmetic = fmt.Sprintf("removes %s with %s values in %s bytes; nothing is added", plural(len(p.touched), "tensor"), thousands.Group(p.Before.Values), thousands.Group(p.Before.Bytes))
	case kindTrim:
		if !m.trim(&p, d) {
			return p, false
		}
	default:
		if reason := m.table(&p, d, o); reason != "" {
			return p.refuse("%s", reason), true
		}
	}
	p.Saved = p.Before.minus(p.After)
	if m.total.Bytes > 0 {
		p.Share = float64(p.Saved.Bytes) / float64(m.total.Bytes)
	}
	p.decide(m, d)
	return p, true
}

func (p Pass) refuse(format string, args ...any) Pass {
	p.Verdict, p.Reason = Refused, fmt.Sprintf(format, args...)
	return p
}

// decide gives the verdict.
func (p *Pass) decide(m *model, d *pass) {
	if d.refuse != nil {
		if reason := d.refuse(m); reason != "" {
			p.Verdict, p.Reason = Refused, reason
			return
		}
	}
	p.weigh()
	if p.Verdict == Saves && d.bytes != "" {
		p.Verdict, p.Reason = Possible, "needs the bytes: "+d.bytes
	}
}

// weigh refuses what does not save.
func (p *Pass) weigh() {
	switch one := p.After.Bytes / max(p.Tables, 1); {
	case p.Saved.Bytes > 0:
		p.Verdict = Saves
	case p.Tables > 1 && one < p.Before.Bytes:
		*p = p.refuse("%d full tables of %s bytes are not smaller than the %s bytes that they replace; one would save %s",
			p.Tables, thousands.Group(one), thousands.Group(p.Before.Bytes), thousands.Group(p.Before.Bytes-one))
	default:
		*p = p.refuse("one table of %s bytes is not smaller than the %s bytes that it replaces", thousands.Group(one), thousands.Group(p.Before.Bytes))
	}
}

// table counts a pass that puts a table in the place of tensors.
func (m *model) table(p *Pass, d *pass, o Options) string {
	var row Amount
	var first int64
	var words []string
	tensors := 0
	for _, pattern := range d.columns {
		at := m.match(pattern)
		if len(at) == 0 {
			return "the file has no tensor " + pattern
		}
		tensors += len(at)
		for _, i := range at {
			t := &m.tensors[i]
			bytes := size(t.DType)
			if bytes == 0 || len(t.Shape) == 0 || t.Shape[0] < 1 {
				return fmt.Sprintf("tensor %s is %s%v, and a table holds F16, BF16, F32 or F64", t.Name, t.DType, t.Shape)
			}
			first = cmp.Or(first, bytes)
			n := int64(t.Shape[0])
			row = row.plus(Amount{n, n * bytes})
			words = append(words, thousands.Group(n))
		}
	}
	if d.more != nil {
		if n := d.more(m); n > 0 {
			if first == 0 {
				first = m.elementSize(p.touched)
			}
			row = row.plus(Amount{n, n * first})
			words = append(words, thousands.Group(n))
		}
	}
	if row.Values == 0 || row.Bytes == 0 {
		return "nothing shows the width of a table"
	}
	row = row.times(cmp.Or(d.times, 1))
	if row.Values > math.MaxInt32 {
		return fmt.Sprintf("a row of %s values is too wide", thousands.Group(row.Values))
	}
	rows, unit, reason := m.domain(d, o)
	if reason != "" {
		return reason
	}
	p.Rows, p.Columns, p.Tables = rows, row.Values, int64(o.Profiles)+1
	if rows > math.MaxInt64/row.Bytes/p.Tables {
		return fmt.Sprintf("%s rows are too many", thousands.Group(rows))
	}
	p.Before = m.sum(p.touched)
	p.After = row.times(rows).times(p.Tables)
	p.BreakEven = breakEven(unit, p.Before.Bytes, row.Bytes, rows, p.Tables, cmp.Or(d.each, 1))
	p.Arithmetic = tableWords(p, columnWords(words, row.Values, cmp.Or(d.times, 1)), d.unitWord())
	return ""
}

// columnWords writes the widths of a table's parts.
func columnWords(words []string, all, times int64) string {
	if len(words) > 4 {
		return fmt.Sprintf("%s columns, the outputs of %d tensors", thousands.Group(all), len(words))
	}
	s := "(" + strings.Join(words, " + ") + ")"
	if len(words) == 1 {
		s = words[0]
	}
	if times > 1 {
		return fmt.Sprintf("%d × %s columns", times, s)
	}
	return s + " columns"
}

func tableWords(p *Pass, columns, unit string) string {
	tables := ""
	if p.Tables > 1 {
		tables = fmt.Sprintf(", in %d tables,", p.Tables)
	}
	verb, diff := "saves", p.Before.minus(p.After)
	if diff.Bytes < 0 {
		verb, diff = "costs", p.After.minus(p.Before)
	}
	return fmt.Sprintf("%s %s × %s%s = %s values; removes %s values; %s %s values, %s bytes",
		thousands.Group(p.Rows), unit, columns, tables, thousands.Group(p.After.Values), thousands.Group(p.Before.Values), verb, thousands.Group(diff.Values), thousands.Group(diff.Bytes))
}

func (d *pass) unitWord() string {
	switch d.kind {
	case kindTimesteps, kindUniversal:
		return "timesteps"
	case kindPairs:
		return "pairs"
	case kindConstant:
		return "row"
	}
	return "ids"
}

// domain returns the number of elements and the unit of a break-even.
func (m *model) domain(d *pass, o Options) (rows int64, unit, reason string) {
	steps := d.steps
	if o.Timesteps > 0 {
		steps = int64(o.Timesteps)
	}
	switch d.kind {
	case kindConstant:
		return 1, "", ""
	case kindTimesteps:
		if d.rows != nil {
			return d.rows(m), "timesteps", ""
		}
		return steps * cmp.Or(d.each, 1), "timesteps", ""
	case kindPairs:
		if d.rows != nil {
			return d.rows(m), "pairs", ""
		}
		return steps * cmp.Or(d.each, 1), "pairs", ""
	case kindUniversal:
		if len(d.columns) > 0 {
			if t := &m.tensors[m.match(d.columns[0])[0]]; t.DType != "BF16" {
				return 0, "", fmt.Sprintf("only BF16 has few enough timesteps, and tensor %s is %s", t.Name, t.DType)
			}
		}
		return d.rows(m), "timesteps", ""
	}
	if d.rows != nil {
		return d.rows(m), "ids", ""
	}
	at := m.match(d.embedding)
	if len(at) != 1 || len(m.tensors[at[0]].Shape) != 2 {
		return 0, "", fmt.Sprintf("the file has no one embedding %s of two axes", d.embedding)
	}
	rows = int64(m.tensors[at[0]].Shape[0])
	if d.listed > 0 {
		rows = min(rows, d.listed)
	}
	unit = "ids"
	if slices.Contains(m.find(d.removes...), at[0]) {
		unit = "tables" // with more rows, more goes too
	}
	return rows + d.extra, unit, ""
}

// rowsOf is the length of the first axis of the one tensor that a pattern
// matches, or 0.
func (m *model) rowsOf(pattern string) int64 {
	at := m.match(pattern)
	if len(at) != 1 || len(m.tensors[at[0]].Shape) == 0 {
		return 0
	}
	return int64(m.tensors[at[0]].Shape[0])
}

// breakEven returns up to where a saving lasts.
func breakEven(unit string, before, row, rows, tables, each int64) *BreakEven {
	switch unit {
	case "":
		return nil
	case "tables":
		return &BreakEven{unit, max(0, before-1) / max(row*rows, 1)}
	case "timesteps":
		return &BreakEven{unit, max(0, before-1) / (row * tables * each)}
	}
	return &BreakEven{unit, max(0, before-1) / (row * tables)}
}

// trim counts an embedding of which only listed rows are kept.
func (m *model) trim(p *Pass, d *pass) bool {
	at := m.match(d.embedding)
	if len(at) != 1 || len(m.tensors[at[0]].Shape) != 2 || int64(m.tensors[at[0]].Shape[0]) <= d.listed {
		return false
	}
	t := &m.tensors[at[0]]
	p.touched = at
	p.Changes = []Change{{d.embedding, 1, m.sum(at)}}
	rows := int64(t.Shape[0])
	p.Before = m.sum(at)
	p.After = Amount{p.Before.Values / rows * d.listed, p.Before.Bytes / rows * d.listed}
	p.Rows, p.Columns = d.listed, int64(t.Shape[1])
	p.Arithmetic = fmt.Sprintf("%s of %s rows × %s columns stay; saves %s values, %s bytes", thousands.Group(d.listed), thousands.Group(rows), thousands.Group(p.Columns),
		thousands.Group(p.Before.Values-p.After.Values), thousands.Group(p.Before.Bytes-p.After.Bytes))
	return true
}

// shared counts tensors of which equal ones are stored once: within each pattern
// those of the same type and shape.
func (m *model) shared(p *Pass) {
	all := p.touched
	p.touched = nil
	var words []string
	for i := range p.Changes {
		seen := map[string]bool{}
		for _, at := range m.match(p.Changes[i].Tensors) {
			t := &m.tensors[at]
			key := fmt.Sprint(t.DType, t.Shape)
			if !seen[key] {
				seen[key] = true
				p.After = p.After.plus(m.amount(at))
				continue
			}
			p.touched = append(p.touched, at)
		}
		words = append(words, fmt.Sprintf("%d → %d", p.Changes[i].Count, len(seen)))
	}
	p.Before = m.sum(all)
	p.Arithmetic = fmt.Sprintf("tensors stored: %s; saves %s values, %s bytes", strings.Join(words, ", "),
		thousands.Group(p.Before.Values-p.After.Values), thousands.Group(p.Before.Bytes-p.After.Bytes))
}

// elementSize is the size of the elements of the first of some tensors that a
// table can hold.
func (m *model) elementSize(at []int) int64 {
	for _, i := range at {
		if n := size(m.tensors[i].DType); n > 0 {
			return n
		}
	}
	return 0
}

// total adds the passes that are acceptable, the largest first, leaving out
// those that remove what another one removes already.
func (p *Plan) total(ok func(*Pass) bool) Total {
	order := make([]int, len(p.Passes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.Passes[b].Saved.Bytes, p.Passes[a].Saved.Bytes) })
	t := Total{Passes: []int{}, Before: p.Stored.Bytes, Contracts: []string{}}
	gone := map[int]bool{}
	for _, i := range order {
		q := &p.Passes[i]
		if !ok(q) || slices.ContainsFunc(q.touched, func(at int) bool { return gone[at] }) {
			continue
		}
		for _, at := range q.touched {
			gone[at] = true
		}
		t.Passes = append(t.Passes, i)
		t.Saved += q.Saved.Bytes
		if q.Contract != "" {
			t.Contracts = append(t.Contracts, q.Contract)
		}
	}
	slices.Sort(t.Passes)
	slices.Sort(t.Contracts)
	t.Contracts = slices.Compact(t.Contracts)
	t.After = t.Before - t.Saved
	if t.Before > 0 {
		t.Share = float64(t.Saved) / float64(t.Before)
	}
	return t
}

// universalKeys is the number of BF16 timesteps between 1 and 1,000 after the
// division by 1,000 in BF16, and binades a bound for models that cast once: BF16
// has 128 numbers in each factor of two, and a schedule of a thousand steps
// spans less than ten factors, with its end and none besides.
var (
	universalKeys = int64(nn.UniversalTimesteps().Size)
	binades       = int64(10*128 + 1)
)

// contracts, by the names that the compiler uses.
const (
	tokensOnly   = architectures.TokenIndicesOnly
	reachable    = architectures.ReachableIDsOnly
	stepsOnly    = architectures.DeclaredTimestepsOnly
	pairsOnly    = architectures.DeclaredPairsOnly
	constantOnly = architectures.ConstantInputOnly
)

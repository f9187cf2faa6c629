package finitepass

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/pack/xortable"
	"github.com/hfcompress/compress/tensor"
)

// built is a lookup before it is opened.
type built struct {
	recipe  *Recipe
	tensors map[string]*tensor.Tensor
}

func (b *built) get(name string) (*tensor.Tensor, error) { return b.tensors[name], nil }

// unique is a distinct output table.
type unique struct {
	rows   *tensor.Tensor // [elements, width], or [1, width] when constant
	routes []int          // that use it, in order
	owner  int            // the first output that uses it
	// live marks a table that equals the embedding, which is read instead.
	live  bool
	group int
	start int
}

// group is a stored table: unique tables side by side.
type group struct {
	dtype   tensor.DType
	rows    int
	width   int
	routes  []int
	pattern []int
	members []*unique
	data    *tensor.Tensor
}

// store turns the tables of all routes into as few stored bytes as it can.
type store struct {
	src     *sourceBlock
	routes  [][]*tensor.Tensor
	alloc   func(d tensor.DType, shape ...int) (*tensor.Tensor, error)
	uniques []*unique
	of      [][]*unique // by route and output
	groups  []*group
}

// build stores equal tables once, constant ones as one row, and related ones as
// XOR families where counted bytes say so. It fills the report's tables, routes
// and account.
func build(src *sourceBlock, routes [][]*tensor.Tensor, o Options, report *BlockReport) (*built, error) {
	s := &store{src: src, routes: routes, alloc: o.Alloc}
	if err := s.dedupe(); err != nil {
		return nil, err
	}
	if err := s.arrange(); err != nil {
		return nil, err
	}
	b := &built{recipe: s.recipe(o.Profiles), tensors: map[string]*tensor.Tensor{}}
	if err := s.pack(b, o, report); err != nil {
		return nil, err
	}
	if err := b.recipe.Validate(); err != nil {
		return nil, err
	}
	return b, s.account(b, o, report)
}

// dedupe finds the distinct tables over all routes and outputs.
func (s *store) dedupe() error {
	live, err := s.embeddingDigest()
	if err != nil {
		return err
	}
	byDigest := map[[sha256.Size]byte][]*unique{}
	for r, tables := range s.routes {
		of := make([]*unique, len(tables))
		for i, t := range tables {
			sum := tableDigest(t)
			for _, u := range byDigest[sum] {
				if tensor.BitEqual(u.rows, t) {
					of[i] = u
				}
			}
			if of[i] == nil {
				of[i] = &unique{rows: t, owner: i, live: live != nil && sum == *live}
				byDigest[sum] = append(byDigest[sum], of[i])
				s.uniques = append(s.uniques, of[i])
			}
			if !slices.Contains(of[i].routes, r) {
				of[i].routes = append(of[i].routes, r)
			}
		}
		s.of = append(s.of, of)
	}
	for _, u := range s.uniques {
		if u.live || u.rows.Shape()[0] == 1 || sameRows(u.rows) >= 0 {
			continue
		}
		// Constant: keep row 0 in storage of its own.
		row, err := tensor.FromBytes(u.rows.DType(), tensor.Shape{1, u.rows.Shape()[1]}, bytes.Clone(u.rows.Row(0)))
		if err != nil {
			return err
		}
		u.rows = row
	}
	return nil
}

func tableDigest(t *tensor.Tensor) [sha256.Size]byte {
	h := sha256.New()
	h.Write([]byte(t.String()))
	h.Write(t.Bytes())
	return [sha256.Size]byte(h.Sum(nil))
}

// embeddingDigest is the digest of the embedding as a table, where the lookup
// may read it.
func (s *store) embeddingDigest() (*[sha256.Size]byte, error) {
	if s.src.embedding() == nil {
		return nil, nil
	}
	if s.src.ids != nil {
		return nil, nil // the tables have fewer rows
	}
	rows := s.src.fanout.EmbeddingSource
	width := rows.Width()
	if !slices.ContainsFunc(s.src.branches, func(b nn.Output) bool { return b.Width == width && b.DType == rows.DType() }) {
		return nil, nil // no output could equal it
	}
	h := sha256.New()
	h.Write([]byte(rows.DType().String() + tensor.Shape{rows.NumRows(), width}.String()))
	row := make([]byte, width*rows.DType().Size())
	for i := range rows.NumRows() {
		if err := rows.DecodeRow(row, i); err != nil {
			return nil, fmt.Errorf("embedding %q: %w", s.src.spec.Embedding, err)
		}
		h.Write(row)
	}
	sum := [sha256.Size]byte(h.Sum(nil))
	return &sum, nil
}

// arrange puts unique tables side by side. Tables share a group when their
// element type and stored rows agree, when the same routes read them, so that no
// route gathers columns that only others need, and when their outputs change
// from route to route in the same pattern, so that the groups of different
// routes line up for XOR.
func (s *store) arrange() error {
	byKey := map[string]int{}
	for _, u := range s.uniques {
		if u.live {
			continue
		}
		pattern := s.pattern(u.owner)
		key := fmt.Sprint(u.rows.DType(), u.rows.Shape()[0], u.routes, pattern)
		at, ok := byKey[key]
		if !ok {
			at = len(s.groups)
			byKey[key] = at
			s.groups = append(s.groups, &group{
				dtype: u.rows.DType(), rows: u.rows.Shape()[0], routes: u.routes, pattern: pattern,
			})
		}
		g := s.groups[at]
		u.group, u.start = at, g.width
		g.width += u.rows.Shape()[1]
		g.members = append(g.members, u)
	}
	for _, g := range s.groups {
		if len(g.members) == 1 {
			g.data = g.members[0].rows
			continue
		}
		var err error
		if g.data, err = s.alloc(g.dtype, g.rows, g.width); err != nil {
			return err
		}
		size := g.dtype.Size()
		for _, u := range g.members {
			for i := range g.rows {
				copy(g.data.Row(i)[u.start*size:], u.rows.Row(i))
			}
		}
	}
	return nil
}

// pattern says for each route which is the first route with the same table of
// this output.
func (s *store) pattern(output int) []int {
	p := make([]int, len(s.of))
	for r := range s.of {
		for p[r] = 0; s.of[p[r]][output] != s.of[r][output]; p[r]++ {
		}
	}
	return p
}

func groupName(i int) string { return "group_" + strconv.Itoa(i) }

func (s *store) recipe(profiles []Profile) *Recipe {
	r := &Recipe{
		Kind: RecipeKind, InputContract: contractFor(s.src.spec),
		NumTokens: s.src.spec.NumTokens, Domain: s.src.spec.Domain,
		Tables: []TableRecipe{}, Outputs: s.locations(0),
	}
	for i, g := range s.groups {
		r.Tables = append(r.Tables, TableRecipe{Name: groupName(i), DType: g.dtype, Rows: g.rows, Width: g.width})
	}
	for i, p := range profiles {
		r.Profiles = append(r.Profiles, ProfileRecipe{p.MaxRows, p.EvaluationRows, s.locations(i + 1)})
	}
	for _, l := range allLocations(r) {
		if l.Table == EmbeddingTable {
			e := s.src.fanout.Embedding
			r.Embedding = &EmbeddingRecipe{s.src.spec.Embedding, e.DType(), e.Width()}
			break
		}
	}
	return r
}

func allLocations(r *Recipe) []Location {
	all := slices.Clone(r.Outputs)
	for _, p := range r.Profiles {
		all = append(all, p.Outputs...)
	}
	return all
}

func (s *store) locations(route int) []Location {
	var out []Location
	for i, b := range s.src.branches {
		u := s.of[route][i]
		l := Location{Output: b.Name, Table: EmbeddingTable, Width: b.Width}
		if !u.live {
			l.Table, l.Start = groupName(u.group), u.start
		}
		out = append(out, l)
	}
	if f := s.src.fanout; s.src.liveResidual() {
		out = append(out, Location{Output: f.Residual, Table: EmbeddingTable, Width: f.Embedding.Width()})
	}
	return out
}

// pack decides which groups become XOR families and fills the tensors.
func (s *store) pack(b *built, o Options, report *BlockReport) error {
	tables := make([]TableReport, len(s.groups))
	for i, g := range s.groups {
		n := int64(len(g.data.Bytes()))
		tables[i] = TableReport{
			Name: groupName(i), DType: g.dtype, Rows: g.rows, Width: g.width,
			Coding: "full", FullBytes: n, StoredBytes: n, Routes: g.routes,
		}
	}
	for _, family := range s.families() {
		if o.NoXOR {
			break
		}
		if err := s.packFamily(family, b, o, tables); err != nil {
			return err
		}
	}
	for i, g := range s.groups {
		if b.recipe.Tables[i].Set == nil {
			if err := storeTable(&b.recipe.Tables[i], &tables[i], g.data, b.tensors); err != nil {
				return err
			}
		}
	}
	b.recipe.settleVersion()
	report.Tables = tables
	return nil
}

// families lists the groups that hold the same outputs for different routes.
func (s *store) families() [][]int {
	var out [][]int
	index := map[string]int{}
	for i, g := range s.groups {
		owners := make([]int, len(g.members))
		for j, u := range g.members {
			owners[j] = u.owner
		}
		key := fmt.Sprint(g.dtype, g.rows, g.width, g.pattern, owners)
		at, ok := index[key]
		if !ok {
			at = len(out)
			index[key] = at
			out = append(out, nil)
		}
		out[at] = append(out[at], i)
	}
	return slices.DeleteFunc(out, func(f []int) bool { return len(f) < 2 })
}

func (s *store) packFamily(family []int, b *built, o Options, tables []TableReport) error {
	base := 0
	if o.XORBase < 0 {
		base = xortable.BaseAuto
	}
	data := make([]*tensor.Tensor, len(family))
	var full int64
	for i, at := range family {
		g := s.groups[at]
		data[i] = g.data
		full += int64(len(g.data.Bytes()))
		if slices.Contains(g.routes, o.XORBase) {
			base = i
		}
	}
	set, err := xortable.Encode(data, xortable.Options{Base: base})
	if err != nil {
		return fmt.Errorf("XOR family of %s: %w", groupName(family[0]), err)
	}
	facts := set.Report()
	if facts.TotalBytes+facts.RecipeBytes >= full {
		return nil
	}
	name := "set_" + strconv.Itoa(len(b.recipe.Sets))
	b.recipe.Sets = append(b.recipe.Sets, SetRecipe{name, set.Recipe()})
	for _, t := range set.Tensors() {
		b.tensors[setTensor(name, t.Name)] = t.Tensor
	}
	for i, at := range family {
		b.recipe.Tables[at].Set = &SetRoute{name, i}
		tables[at].Coding = "xor " + string(facts.Routes[i].Mode)
		tables[at].StoredBytes = facts.Routes[i].Bytes
		if i == facts.Base {
			tables[at].Coding, tables[at].StoredBytes = "base", facts.BaseBytes
		}
	}
	return nil
}

// account counts everything that is stored and fills the report.
func (s *store) account(b *built, o Options, report *BlockReport) error {
	removed, err := o.Inventory.Of(s.src.spec.Removes)
	if err != nil {
		return err
	}
	if s.src.spec.Embedding != "" && !s.src.removesEmbedding() {
		if s.src.stays, err = o.Inventory.Of([]string{s.src.spec.Embedding}); err != nil {
			return err
		}
	}
	var stored, full Amount
	for _, t := range b.tensors {
		n := int64(len(t.Bytes()))
		stored.LogicalBytes += n
		stored.ResidentBytes += n
	}
	for _, g := range s.groups {
		n := int64(len(g.data.Bytes()))
		full = full.Plus(Amount{int64(g.rows) * int64(g.width), n, n})
	}
	stored.Values = full.Values
	text, err := b.recipe.Encode()
	if err != nil {
		return err
	}
	a := account(s.src.stays.Plus(removed), s.src.stays.Plus(stored), s.src.stays.Plus(full), int64(len(text)))
	report.Account = &a
	for _, u := range s.uniques {
		if u.live {
			continue
		}
		report.UniqueTables++
		if u.rows.Shape()[0] == 1 && s.src.elements > 1 {
			report.ConstantTables++
		}
	}
	s.reportRoutes(o, report)
	return nil
}

func (s *store) reportRoutes(o Options, report *BlockReport) {
	for r := range s.routes {
		rr := RouteReport{EvaluatedRows: bulkChunk(s.src.elements, o), Tables: []string{}}
		rr.Rows = fmt.Sprintf("%d and more", bulkRows(o.Profiles))
		if r > 0 {
			p := o.Profiles[r-1]
			rr.EvaluatedRows = p.EvaluationRows
			low := 1
			if r > 1 {
				low = o.Profiles[r-2].MaxRows + 1
			}
			rr.Rows = strconv.Itoa(low)
			if low < p.MaxRows {
				rr.Rows = fmt.Sprintf("%d–%d", low, p.MaxRows)
			}
		}
		for i, g := range s.groups {
			if !slices.Contains(g.routes, r) {
				continue
			}
			rr.Tables = append(rr.Tables, groupName(i))
			if g.routes[0] == r {
				rr.NewValues += int64(g.rows) * int64(g.width)
				rr.FullBytes += report.Tables[i].FullBytes
				rr.StoredBytes += report.Tables[i].StoredBytes
			}
		}
		for i, t := range s.routes[r] {
			rr.DiffersFromBulk += differentWords(s.routes[0][i], t)
		}
		report.Routes = append(report.Routes, rr)
	}
}

func differentWords(a, b *tensor.Tensor) int64 {
	var n int64
	size := a.DType().Size()
	x, y := a.Bytes(), b.Bytes()
	for i := range a.Len() {
		if word(x, i, size) != word(y, i, size) {
			n++
		}
	}
	return n
}

var _ nn.RowSource = (*xortable.Route)(nil)

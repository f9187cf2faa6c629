package finitepass

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/pack/xortable"
	"github.com/hfcompress/compress/tensor"
)

// Lookup is a compiled block: it gives the rows of its tables where the source
// computed them. It implements [nn.TokenBlock]. A Lookup is immutable and safe
// for concurrent use, as long as its device is open.
type Lookup struct {
	recipe    *Recipe
	text      []byte
	device    nn.Device
	embedding nn.Table
	stored    []StoredTensor
	tables    []table
	outputs   []nn.Output
	profiles  []Profile
	routes    []routePlan
	digest    string
}

// StoredTensor is a tensor that a package keeps for a lookup.
type StoredTensor struct {
	Name   string
	Tensor *tensor.Tensor
}

type table struct {
	TableRecipe
	rows     nn.RowSource
	uploaded nn.Table
}

// routePlan is what a call of one route does: gather the tables, then cut the
// outputs.
type routePlan struct {
	gathers []int // indices of tables, −1 for the embedding
	outputs []cut
}

type cut struct {
	gather int // index into gathers
	start  int
	width  int
	whole  bool // the only reader of all the columns
}

var _ nn.Keyed = (*Lookup)(nil)

// Open builds a lookup from a recipe and the tensors that get hands out by the
// names of [Lookup.Tensors], and uploads the tables to dev. embedding is the
// model's own table; it may be nil only when no output reads it. All shapes,
// element types, XOR codes and offsets are checked before anything is uploaded.
// The lookup keeps the tensors. Errors wrap [ErrRecipe], or are those of get and
// dev.
//
// A lookup from Open has been compared with nothing: see
// [BlockReport.Describes].
func Open(recipe *Recipe, get func(name string) (*tensor.Tensor, error), embedding nn.Table, dev nn.Device) (*Lookup, error) {
	if err := recipe.Validate(); err != nil {
		return nil, err
	}
	text, err := recipe.Encode()
	if err != nil {
		return nil, err
	}
	if recipe, err = ParseRecipe(text); err != nil { // detaches it from the caller's
		return nil, err
	}
	if e := recipe.Embedding; e != nil {
		if embedding == nil {
			return nil, fmt.Errorf("%w: the embedding %q is not given", ErrRecipe, e.Tensor)
		}
		if embedding.NumRows() != recipe.NumTokens || embedding.Width() != e.Width || embedding.DType() != e.DType {
			return nil, fmt.Errorf("%w: embedding %q is %v[%d,%d], expected %v[%d,%d]", ErrRecipe, e.Tensor,
				embedding.DType(), embedding.NumRows(), embedding.Width(), e.DType, recipe.NumTokens, e.Width)
		}
	}
	l := &Lookup{
		recipe: recipe, text: text, device: dev, embedding: embedding,
		outputs: recipe.outputs(), profiles: recipe.profiles(),
	}
	if err := l.load(get); err != nil {
		return nil, err
	}
	l.plan()
	for _, p := range l.routes {
		for _, at := range p.gathers {
			if at < 0 || l.tables[at].uploaded != nil {
				continue
			}
			if l.tables[at].uploaded, err = dev.UploadRows(l.tables[at].rows); err != nil {
				return nil, fmt.Errorf("upload table %q: %w", l.tables[at].Name, err)
			}
		}
	}
	l.digest = l.hash()
	return l, nil
}

func (l *Lookup) load(get func(name string) (*tensor.Tensor, error)) error {
	take := func(name string) (*tensor.Tensor, error) {
		t, err := get(name)
		if err != nil {
			return nil, err
		}
		if t != nil {
			l.stored = append(l.stored, StoredTensor{name, t})
		}
		return t, nil
	}
	sets := map[string]*xortable.Set{}
	for _, s := range l.recipe.Sets {
		set, err := xortable.Open(s.Recipe, func(name string) (*tensor.Tensor, error) {
			return take(setTensor(s.Name, name))
		})
		if err != nil {
			return fmt.Errorf("%w: set %q: %w", ErrRecipe, s.Name, err)
		}
		sets[s.Name] = set
	}
	want := func(name string, d tensor.DType, shape ...int) (*tensor.Tensor, error) {
		t, err := take(name)
		switch {
		case err != nil:
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		case t == nil:
			return nil, fmt.Errorf("%w: tensor %q is missing", ErrRecipe, name)
		case t.DType() != d || !t.Shape().Equal(shape):
			return nil, fmt.Errorf("%w: tensor %q is %v, expected %v%v", ErrRecipe, name, t, d, tensor.Shape(shape))
		}
		return t, nil
	}
	opened := &openedTables{want: want, sets: sets, plain: map[string]*tensor.Tensor{}, parts: map[string]*tensor.Tensor{}}
	for _, r := range l.recipe.Tables {
		if r.Projection == nil {
			if err := opened.open(r); err != nil {
				return err
			}
		}
	}
	for _, r := range l.recipe.Tables {
		rows := opened.rows[r.Name]
		if r.Projection != nil {
			var err error
			if rows, err = opened.project(r); err != nil {
				return err
			}
		}
		l.tables = append(l.tables, table{TableRecipe: r, rows: rows})
	}
	slices.SortFunc(l.stored, func(a, b StoredTensor) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

func tableTensor(table string) string       { return "tables." + table }
func indexTensor(table string) string       { return tableTensor(table) + ".index" }
func normsTensor(table string) string       { return tableTensor(table) + ".norms" }
func biasTensor(table string) string        { return tableTensor(table) + ".bias" }
func setTensor(set, tensorIn string) string { return "sets." + set + "." + tensorIn }

// plan resolves names to indices once.
func (l *Lookup) plan() {
	index := map[string]int{EmbeddingTable: -1}
	for i, t := range l.tables {
		index[t.Name] = i
	}
	widthOf := func(at int) int {
		if at < 0 {
			return l.embedding.Width()
		}
		return l.tables[at].Width
	}
	add := func(locations []Location) {
		var p routePlan
		readers := map[int]int{}
		for _, o := range locations {
			at := index[o.Table]
			g := slices.Index(p.gathers, at)
			if g < 0 {
				g = len(p.gathers)
				p.gathers = append(p.gathers, at)
			}
			readers[g]++
			p.outputs = append(p.outputs, cut{g, o.Start, o.Width, false})
		}
		for i, c := range p.outputs {
			p.outputs[i].whole = readers[c.gather] == 1 && c.width == widthOf(p.gathers[c.gather])
		}
		l.routes = append(l.routes, p)
	}
	add(l.recipe.Outputs)
	for _, p := range l.recipe.Profiles {
		add(p.Outputs)
	}
}

// NumTokens bounds the indices that Forward takes. It is the size of the domain,
// except for listed token ids, which lie below it.
func (l *Lookup) NumTokens() int { return l.recipe.NumTokens }

// Domain says what indices mean; nil means token ids. Callers must not change it.
func (l *Lookup) Domain() *nn.Domain { return l.recipe.Domain }

// Outputs lists the results in order; callers must not change the list.
func (l *Lookup) Outputs() []nn.Output { return l.outputs }

// Profiles returns the row-count profiles, in order; empty when one table serves
// all calls.
func (l *Lookup) Profiles() []Profile { return slices.Clone(l.profiles) }

// Route returns which tables serve a call of n rows: 0 for bulk, i for profile
// i−1. Zero rows take the first profile.
func (l *Lookup) Route(n int) int { return route(l.profiles, n) }

// Forward returns the rows of ids. Each table that the route needs is gathered
// once, and every result is an array of its own. An id outside the domain is a
// failure of the session that names it.
func (l *Lookup) Forward(s nn.Session, ids []int) []nn.Array {
	p := l.routes[l.Route(len(ids))]
	elements, err := l.elements(ids)
	if err != nil {
		bad := nn.Refuse(s, l.gatherTable(p.gathers[0]), err)
		out := make([]nn.Array, len(p.outputs))
		for i := range out {
			out[i] = bad
		}
		return out
	}
	rows := make([]nn.Array, len(p.gathers))
	for i, at := range p.gathers {
		switch {
		case at < 0:
			rows[i] = s.Gather(l.embedding, ids)
		case l.tables[at].Rows == 1:
			rows[i] = s.Gather(l.tables[at].uploaded, make([]int, len(ids)))
		default:
			rows[i] = s.Gather(l.tables[at].uploaded, elements)
		}
	}
	out := make([]nn.Array, len(p.outputs))
	for i, c := range p.outputs {
		if c.whole {
			out[i] = rows[c.gather]
			continue
		}
		out[i] = s.Columns(rows[c.gather], c.start, c.width)
	}
	return out
}

// elements returns the table rows of ids.
func (l *Lookup) elements(ids []int) ([]int, error) {
	for _, id := range ids {
		if id < 0 || id >= l.recipe.NumTokens {
			return nil, fmt.Errorf("%w: id %d is outside 0..%d", nn.ErrIndex, id, l.recipe.NumTokens-1)
		}
	}
	if !listed(l.recipe.Domain) {
		return ids, nil
	}
	out := make([]int, len(ids))
	for i, id := range ids {
		var err error
		if out[i], err = l.recipe.Domain.Index(uint64(id)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (l *Lookup) gatherTable(at int) nn.Table {
	if at < 0 {
		return l.embedding
	}
	return l.tables[at].uploaded
}

// Recipe returns a copy of the recipe.
func (l *Lookup) Recipe() *Recipe {
	r, err := ParseRecipe(l.text)
	if err != nil { // Open parsed the same text
		panic(err)
	}
	return r
}

// RecipeJSON returns the JSON form of the recipe.
func (l *Lookup) RecipeJSON() []byte { return bytes.Clone(l.text) }

// Tensors lists what has to be stored, ordered by name. Callers must not write
// to the tensors; [Lookup.WithFlippedBit] gives a changed copy.
func (l *Lookup) Tensors() []StoredTensor { return slices.Clone(l.stored) }

// Digest is the SHA-256 of the recipe and of the stored tensors, as hexadecimal
// text. Any change of a threshold, a location or a stored bit changes it. The
// embedding belongs to the model and is not part of it.
func (l *Lookup) Digest() string { return l.digest }

func (l *Lookup) hash() string {
	h := sha256.New()
	part := func(b []byte) {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	part(l.text)
	for _, t := range l.stored {
		part([]byte(t.Name))
		part([]byte(t.Tensor.String()))
		part(t.Tensor.Bytes())
	}
	return hex.EncodeToString(h.Sum(nil))
}

// WithFlippedBit returns a lookup in which one bit of a stored tensor is
// flipped: bit 0 to 7 of the given byte. It exists so that tests and drills can
// prove that damage is noticed.
func (l *Lookup) WithFlippedBit(name string, offset int, bit uint) (*Lookup, error) {
	var changed *tensor.Tensor
	for _, t := range l.stored {
		if t.Name == name {
			changed = t.Tensor.Clone()
		}
	}
	if changed == nil {
		return nil, fmt.Errorf("%w: no stored tensor %s", ErrOptions, quoteShort(name))
	}
	if offset < 0 || offset >= len(changed.Bytes()) || bit > 7 {
		return nil, fmt.Errorf("%w: bit %d of byte %d; %q has %d bytes", ErrOptions, bit, offset, name, len(changed.Bytes()))
	}
	changed.Bytes()[offset] ^= 1 << bit
	return Open(l.recipe, func(want string) (*tensor.Tensor, error) {
		if want == name {
			return changed, nil
		}
		for _, t := range l.stored {
			if t.Name == want {
				return t.Tensor, nil
			}
		}
		return nil, nil
	}, l.embedding, l.device)
}

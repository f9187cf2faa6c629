package nn

import (
	"fmt"

	"github.com/hfcompress/compress/tensor"
)

// RowLocal is a layer whose output row depends on its input row alone, so that
// a finite set of input rows has a finite set of output rows. Layers that mix
// rows (attention, batch norm, softmax over an outer axis) must not implement
// it.
type RowLocal interface {
	// Forward maps x [rows, in] to [rows, OutWidth(in)].
	Forward(s Session, x Array) Array
	// OutWidth returns the width of the result for rows of width in, or an error
	// when the layer does not take that width.
	OutWidth(in int) (int, error)
	// ParamNames lists the checkpoint tensors that the layer reads.
	ParamNames() []string
	// Describe names the layer in reports, such as "rmsnorm" or "linear".
	Describe() string
}

// Output names one result of a token block.
type Output struct {
	Name  string       `json:"name"`
	Width int          `json:"width"`
	DType tensor.DType `json:"dtype"`
}

// Typed is implemented by row-local layers whose result is not F32 whatever the
// element type of their input, such as casts and layers that compute in half
// precision.
type Typed interface {
	// OutDType returns the element type of the result for an input of type in.
	OutDType(in tensor.DType) tensor.DType
}

// TokenBlock is a function on a finite set: it maps indices to named rows. A
// model calls its declared blocks through this interface, so that a pass can put
// a lookup in place of the source computation. Indices are token ids unless the
// block is [Keyed].
type TokenBlock interface {
	// NumTokens is the size of the domain: valid ids are 0 ≤ id < NumTokens.
	NumTokens() int
	// Outputs lists the results in the order in which Forward returns them.
	Outputs() []Output
	// Forward returns one array [len(ids), width] per output. The rows of all ids
	// of the call count as its row count.
	Forward(s Session, ids []int) []Array
}

// Keyed is implemented by blocks that may have a domain other than all token
// ids.
type Keyed interface {
	TokenBlock
	// Domain says what the indices mean; nil means token ids.
	Domain() *Domain
}

// Branch is one named use of a fanout's shared prefix.
type Branch struct {
	Name   string
	Layers []RowLocal
}

// Fanout is the source form of a finite block: rows for every element of a
// domain, a shared prefix of row-local layers, named branches, and optionally
// the embedding row itself as a live residual.
//
//	outputs[name]     = branch(prefix(embedding[i]))
//	outputs[Residual] = embedding[i]
//
// A plain lookup is a fanout with one branch and no residual.
type Fanout struct {
	// Embedding is the table of rows as uploaded, and EmbeddingSource the same rows
	// on the host; EmbeddingName is its tensor in the checkpoint. The name is empty
	// when the rows are computed, as those of timesteps are: then no tensor of the
	// model goes or stays with them, and there can be no residual.
	Embedding       Table
	EmbeddingSource RowSource
	EmbeddingName   string

	// Over is the domain whose element i has row i; nil means token ids.
	Over *Domain
	// Pair, when not nil, makes the domain a product: see [Pair].
	Pair *Pair

	Prefix   []RowLocal
	Branches []Branch
	// Residual names the output that carries the embedding row; empty for none.
	// It comes last in Outputs.
	Residual string
}

// Pair is the second factor of a fanout over pairs, such as (step, class). With
// J rows in Embedding, index i·J + j means row i of the fanout's own embedding
// and row j of this one. What the prefix reads is
//
//	join(FirstLayers(first[i]), Layers(Embedding[j]))
type Pair struct {
	// Embedding, EmbeddingSource and EmbeddingName are as in [Fanout].
	Embedding       Table
	EmbeddingSource RowSource
	EmbeddingName   string

	FirstLayers, Layers []RowLocal
	Join                Join
}

// Join says how the two rows of a pair become one.
type Join uint8

const (
	// Sum adds the rows, which have one width and one type: first + second.
	Sum Join = iota
	// Concat puts the second row behind the first.
	Concat
)

// Domain returns f.Over.
func (f *Fanout) Domain() *Domain { return f.Over }

// NumTokens returns the size of the domain: the number of rows of the
// embedding, times that of the second one for pairs.
func (f *Fanout) NumTokens() int {
	n := f.Embedding.NumRows()
	if f.Pair != nil {
		n *= f.Pair.Embedding.NumRows()
	}
	return n
}

// Outputs lists the branches in order and then the residual.
func (f *Fanout) Outputs() []Output {
	in, err := f.input()
	if err != nil {
		panic(err) // Validate reports it
	}
	var out []Output
	for _, b := range f.Branches {
		k, err := in.through("branch "+b.Name, b.Layers)
		if err != nil {
			panic(err)
		}
		out = append(out, Output{b.Name, k.width, k.dtype})
	}
	if f.Residual != "" {
		out = append(out, Output{f.Residual, f.Embedding.Width(), f.Embedding.DType()})
	}
	return out
}

// rowKind is what a row looks like between layers.
type rowKind struct {
	width int
	dtype tensor.DType
}

func (k rowKind) through(where string, layers []RowLocal) (rowKind, error) {
	for _, layer := range layers {
		w, err := layer.OutWidth(k.width)
		if err != nil {
			return k, fmt.Errorf("%s, %s: %w", where, layer.Describe(), err)
		}
		d := tensor.F32
		if t, ok := layer.(Typed); ok {
			d = t.OutDType(k.dtype)
		}
		k = rowKind{w, d}
	}
	return k, nil
}

// input returns what the branches read.
func (f *Fanout) input() (rowKind, error) {
	k := rowKind{f.Embedding.Width(), f.Embedding.DType()}
	if p := f.Pair; p != nil {
		first, err := k.through("first of the pair", p.FirstLayers)
		if err != nil {
			return k, err
		}
		second, err := rowKind{p.Embedding.Width(), p.Embedding.DType()}.through("second of the pair", p.Layers)
		if err != nil {
			return k, err
		}
		if k, err = p.Join.kind(first, second); err != nil {
			return k, err
		}
	}
	return k.through("prefix", f.Prefix)
}

func (j Join) kind(a, b rowKind) (rowKind, error) {
	switch {
	case j == Concat && a.dtype == b.dtype:
		return rowKind{a.width + b.width, a.dtype}, nil
	case j == Sum && a == b:
		return a, nil
	case j > Concat:
		return a, fmt.Errorf("unknown join %d", j)
	}
	return a, fmt.Errorf("%w: the rows of the pair are %v of width %d and %v of width %d", tensor.ErrShape, a.dtype, a.width, b.dtype, b.width)
}

// Forward evaluates the declared computation.
func (f *Fanout) Forward(s Session, ids []int) []Array {
	var e, x Array
	if f.Pair != nil {
		x = f.Pair.forward(s, f.Embedding, ids)
	} else {
		e = s.Gather(f.Embedding, ids)
		x = e
	}
	x = run(s, x, f.Prefix)
	var out []Array
	for _, b := range f.Branches {
		out = append(out, run(s, x, b.Layers))
	}
	if f.Residual != "" {
		out = append(out, e)
	}
	return out
}

func run(s Session, x Array, layers []RowLocal) Array {
	for _, layer := range layers {
		x = layer.Forward(s, x)
	}
	return x
}

func (p *Pair) forward(s Session, first Table, ids []int) Array {
	n := p.Embedding.NumRows()
	i, j := make([]int, len(ids)), make([]int, len(ids))
	for k, id := range ids {
		if id < 0 || n == 0 {
			i[k], j[k] = id, id // the device names it
			continue
		}
		i[k], j[k] = id/n, id%n
	}
	a := run(s, s.Gather(first, i), p.FirstLayers)
	b := run(s, s.Gather(p.Embedding, j), p.Layers)
	if p.Join == Sum {
		return s.Add(a, b)
	}
	return concat(s, a, b)
}

// concat joins rows on the host: sessions have no operation for it, and a copy
// keeps all bits. Blocks over pairs run once per step of a loop.
func concat(s Session, a, b Array) Array {
	x, y := s.ToHost(a), s.ToHost(b)
	if x == nil || y == nil {
		return a // the session has failed
	}
	rows := x.Shape()[0]
	out, err := tensor.New(x.DType(), rows, x.Shape()[1]+y.Shape()[1])
	if err != nil {
		panic(err) // both parts exist, so their sum does
	}
	for r := range rows {
		n := copy(out.Row(r), x.Row(r))
		copy(out.Row(r)[n:], y.Row(r))
	}
	return s.FromHost(out)
}

// Validate checks that widths and element types chain, that names are distinct
// and not empty, and that the rows are those of the domain.
func (f *Fanout) Validate() error {
	in, err := f.input()
	if err != nil {
		return err
	}
	if f.Residual != "" && (f.EmbeddingName == "" || f.Pair != nil) {
		return fmt.Errorf("residual %q: computed rows and pairs have none; declare a branch without layers", f.Residual)
	}
	if f.Over != nil {
		if err := f.Over.Validate(); err != nil {
			return err
		}
		if f.Over.Size != f.NumTokens() {
			return fmt.Errorf("%w: the %s domain has %d elements, there are rows for %d", tensor.ErrShape, f.Over.Kind, f.Over.Size, f.NumTokens())
		}
		if f.Over.Kind == TokenIDs && f.Over.Keys != nil {
			return fmt.Errorf("a source has rows for all token ids, the domain lists %d", len(f.Over.Keys))
		}
	}
	if len(f.Branches) == 0 {
		return fmt.Errorf("a fanout needs at least one branch")
	}
	seen := map[string]bool{}
	if f.Residual != "" {
		seen[f.Residual] = true
	}
	for _, b := range f.Branches {
		if b.Name == "" || seen[b.Name] {
			return fmt.Errorf("output name %q is empty or used twice", b.Name)
		}
		seen[b.Name] = true
		if _, err := in.through("branch "+b.Name, b.Layers); err != nil {
			return err
		}
	}
	return nil
}

// DomainOf returns the domain of block; nil means token ids.
func DomainOf(block TokenBlock) *Domain {
	if k, ok := block.(Keyed); ok {
		return k.Domain()
	}
	return nil
}

// CheckBlock compares a block that is to be put in a declared place with the
// declaration: the size of its index range, its domain and its outputs, the
// residual included. A lookup that serves some token ids only fits a place for
// all of them: it refuses the others when it is called.
func CheckBlock(block TokenBlock, size int, domain *Domain, outputs []Output) error {
	if block == nil {
		return fmt.Errorf("no block is given")
	}
	if n := block.NumTokens(); n != size {
		return fmt.Errorf("expected %d elements, found %d", size, n)
	}
	if have := DomainOf(block); !have.fits(domain) {
		return fmt.Errorf("expected the domain %v, found %v", domain, have)
	}
	have := block.Outputs()
	if len(have) != len(outputs) {
		return fmt.Errorf("expected outputs %v, found %v", outputs, have)
	}
	for i, o := range outputs {
		if have[i] != o {
			return fmt.Errorf("expected outputs %v, found %v", outputs, have)
		}
	}
	return nil
}

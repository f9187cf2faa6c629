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

// TokenBlock maps token ids to named rows. A model calls its declared blocks
// through this interface, so that a pass can put a lookup in place of the
// source computation.
type TokenBlock interface {
	// NumTokens is the size of the domain: valid ids are 0 ≤ id < NumTokens.
	NumTokens() int
	// Outputs lists the results in the order in which Forward returns them.
	Outputs() []Output
	// Forward returns one array [len(ids), width] per output. The rows of all ids
	// of the call count as its row count.
	Forward(s Session, ids []int) []Array
}

// Branch is one named use of a fanout's shared prefix.
type Branch struct {
	Name   string
	Layers []RowLocal
}

// Fanout is the source form of a finite token block: an embedding, a shared
// prefix of row-local layers, named branches, and optionally the embedding row
// itself as a live residual.
//
//	outputs[name]     = branch(prefix(embedding[id]))
//	outputs[Residual] = embedding[id]
type Fanout struct {
	// Embedding is the token table as uploaded, and EmbeddingSource the same rows
	// on the host; EmbeddingName is its tensor in the checkpoint.
	Embedding       Table
	EmbeddingSource RowSource
	EmbeddingName   string

	Prefix   []RowLocal
	Branches []Branch
	// Residual names the output that carries the embedding row; empty for none.
	// It comes last in Outputs.
	Residual string
}

// NumTokens returns the number of rows of the embedding.
func (f *Fanout) NumTokens() int { return f.Embedding.NumRows() }

// Outputs lists the branches in order and then the residual.
func (f *Fanout) Outputs() []Output {
	width := f.Embedding.Width()
	for _, layer := range f.Prefix {
		width = mustWidth(layer, width)
	}
	var out []Output
	for _, b := range f.Branches {
		w := width
		for _, layer := range b.Layers {
			w = mustWidth(layer, w)
		}
		out = append(out, Output{b.Name, w, tensor.F32})
	}
	if f.Residual != "" {
		out = append(out, Output{f.Residual, f.Embedding.Width(), f.Embedding.DType()})
	}
	return out
}

// Forward evaluates the declared computation.
func (f *Fanout) Forward(s Session, ids []int) []Array {
	e := s.Gather(f.Embedding, ids)
	x := e
	for _, layer := range f.Prefix {
		x = layer.Forward(s, x)
	}
	var out []Array
	for _, b := range f.Branches {
		y := x
		for _, layer := range b.Layers {
			y = layer.Forward(s, y)
		}
		out = append(out, y)
	}
	if f.Residual != "" {
		out = append(out, e)
	}
	return out
}

// Validate checks that widths chain and names are distinct and not empty.
func (f *Fanout) Validate() error {
	width := f.Embedding.Width()
	for _, layer := range f.Prefix {
		w, err := layer.OutWidth(width)
		if err != nil {
			return fmt.Errorf("prefix %s: %w", layer.Describe(), err)
		}
		width = w
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
		w := width
		for _, layer := range b.Layers {
			next, err := layer.OutWidth(w)
			if err != nil {
				return fmt.Errorf("branch %s, %s: %w", b.Name, layer.Describe(), err)
			}
			w = next
		}
	}
	return nil
}

// mustWidth is for fanouts that passed Validate.
func mustWidth(layer RowLocal, in int) int {
	w, err := layer.OutWidth(in)
	if err != nil {
		panic(err)
	}
	return w
}

// TensorRows presents a tensor of shape [rows, width] as a [RowSource].
func TensorRows(t *tensor.Tensor) (RowSource, error) {
	if len(t.Shape()) != 2 || t.DType().Size() == 0 {
		return nil, fmt.Errorf("%w: a row table needs two axes and whole-byte elements, have %v", tensor.ErrShape, t)
	}
	return tensorRows{t}, nil
}

type tensorRows struct{ t *tensor.Tensor }

func (r tensorRows) NumRows() int        { return r.t.Shape()[0] }
func (r tensorRows) Width() int          { return r.t.Shape()[1] }
func (r tensorRows) DType() tensor.DType { return r.t.DType() }

func (r tensorRows) DecodeRow(dst []byte, i int) error {
	if i < 0 || i >= r.NumRows() {
		return fmt.Errorf("row %d of a table with %d rows", i, r.NumRows())
	}
	copy(dst, r.t.Row(i))
	return nil
}

package finitepass

import (
	"bytes"
	"fmt"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// EqualRowsKind is the kind of an [EqualRowsRecipe].
const EqualRowsKind = "equal_rows"

// EqualRows is an embedding whose equal rows are stored once, with an index that
// says for each row which one it is; without one when all rows are equal. It is
// a row source, immutable and safe for concurrent use.
type EqualRows struct {
	nn.RowSource
	recipe EqualRowsRecipe
	stored []StoredTensor
}

// EqualRowsRecipe describes the stored tensors: "rows" [distinct, width], and
// "index" [rows] of type Index.
type EqualRowsRecipe struct {
	Kind    string `json:"kind"`
	Version int    `json:"version"`
	// Tensor is the embedding that it stands for.
	Tensor string       `json:"tensor"`
	DType  tensor.DType `json:"dtype"`
	Rows   int          `json:"rows"`
	Width  int          `json:"width"`
	// Distinct is the number of stored rows. Index is the type of the index, U8,
	// U16 or U32, whichever is the narrowest that serves; left out when Distinct
	// is 1.
	Distinct int          `json:"distinct"`
	Index    tensor.DType `json:"index,omitzero"`
}

// EqualRowsReport counts an [EqualRows].
type EqualRowsReport struct {
	Rows, Distinct int
	// FullBytes is the whole tensor; StoredBytes are the distinct rows and the
	// index, and RecipeBytes the recipe.
	FullBytes, StoredBytes, RecipeBytes int64
}

// Saves reports whether fewer bytes are stored, the recipe included.
func (r EqualRowsReport) Saves() bool { return r.StoredBytes+r.RecipeBytes < r.FullBytes }

// Names of the stored tensors.
const (
	equalRowsRows  = "rows"
	equalRowsIndex = "index"
)

// StoreEqualRows stores the rows of t [rows, width] that are equal in every byte
// once. Every row of the result has been compared with t. The result is nil when
// it would not be smaller.
func StoreEqualRows(name string, t *tensor.Tensor) (*EqualRows, EqualRowsReport, error) {
	if len(t.Shape()) != 2 || t.DType().Size() == 0 || t.Shape()[0] == 0 || t.Shape()[1] == 0 {
		return nil, EqualRowsReport{}, fmt.Errorf("equal rows of %q: %w: %v", name, tensor.ErrShape, t)
	}
	full := int64(len(t.Bytes()))
	distinct, index := distinctRows(t)
	report := EqualRowsReport{Rows: t.Shape()[0], Distinct: len(distinct), FullBytes: full}
	if distinct == nil {
		report.Distinct, report.StoredBytes = report.Rows, full
		return nil, report, nil
	}
	recipe := EqualRowsRecipe{
		Kind: EqualRowsKind, Version: 1, Tensor: name, DType: t.DType(),
		Rows: t.Shape()[0], Width: t.Shape()[1], Distinct: len(distinct),
	}
	if len(distinct) > 1 {
		recipe.Index = indexType(len(distinct))
	}
	rows, positions, err := storeIndexed(t, distinct, index, indexType(len(distinct)))
	if err != nil {
		return nil, report, err
	}
	e, err := OpenEqualRows(recipe, func(want string) (*tensor.Tensor, error) {
		if want == equalRowsIndex {
			return positions, nil
		}
		return rows, nil
	})
	if err != nil {
		return nil, report, err
	}
	text, err := encodeRecipe(recipe)
	if err != nil {
		return nil, report, err
	}
	report.RecipeBytes = int64(len(text))
	for _, s := range e.stored {
		report.StoredBytes += int64(len(s.Tensor.Bytes()))
	}
	if !report.Saves() {
		return nil, report, nil
	}
	return e, report, e.Verify(t)
}

// OpenEqualRows builds the rows from a recipe and the stored tensors. Errors wrap
// [ErrRecipe], or are those of get.
func OpenEqualRows(recipe EqualRowsRecipe, get func(name string) (*tensor.Tensor, error)) (*EqualRows, error) {
	if err := recipe.Validate(); err != nil {
		return nil, err
	}
	e := &EqualRows{recipe: recipe}
	take := func(name string, d tensor.DType, shape ...int) (*tensor.Tensor, error) {
		t, err := get(name)
		switch {
		case err != nil:
			return nil, err
		case t == nil:
			return nil, fmt.Errorf("%w: %q: tensor %q is missing", ErrRecipe, recipe.Tensor, name)
		case t.DType() != d || !t.Shape().Equal(shape):
			return nil, fmt.Errorf("%w: %q: tensor %q is %v, expected %v%v", ErrRecipe, recipe.Tensor, name, t, d, tensor.Shape(shape))
		}
		e.stored = append(e.stored, StoredTensor{name, t})
		return t, nil
	}
	rows, err := take(equalRowsRows, recipe.DType, recipe.Distinct, recipe.Width)
	if err != nil {
		return nil, err
	}
	distinct, err := nn.TensorRows(rows)
	if err != nil {
		return nil, err
	}
	if recipe.Distinct == 1 {
		e.RowSource = constantRows{distinct, recipe.Rows}
		return e, nil
	}
	index, err := take(equalRowsIndex, recipe.Index, recipe.Rows)
	if err != nil {
		return nil, err
	}
	if e.RowSource, err = newIndexedRows(distinct, index); err != nil {
		return nil, fmt.Errorf("%w: %q: %w", ErrRecipe, recipe.Tensor, err)
	}
	return e, nil
}

// Recipe returns what [OpenEqualRows] needs besides the tensors.
func (e *EqualRows) Recipe() EqualRowsRecipe { return e.recipe }

// Tensors lists what has to be stored. Callers must not write to the tensors.
func (e *EqualRows) Tensors() []StoredTensor { return e.stored }

// Verify compares every row with t.
func (e *EqualRows) Verify(t *tensor.Tensor) error { return sameAsTensor(e, t) }

// sameAsTensor compares all rows of a source with a tensor, byte by byte.
func sameAsTensor(rows nn.RowSource, t *tensor.Tensor) error {
	if rows.DType() != t.DType() || !t.Shape().Equal(tensor.Shape{rows.NumRows(), rows.Width()}) {
		return fmt.Errorf("%w: rows are %v[%d,%d], the tensor %v", tensor.ErrShape, rows.DType(), rows.NumRows(), rows.Width(), t)
	}
	row := make([]byte, rows.Width()*rows.DType().Size())
	for i := range rows.NumRows() {
		if err := rows.DecodeRow(row, i); err != nil {
			return err
		}
		if !bytes.Equal(row, t.Row(i)) {
			return fmt.Errorf("row %d differs from the tensor's", i)
		}
	}
	return nil
}

// Validate checks what the recipe alone can show. Errors wrap [ErrRecipe].
func (r EqualRowsRecipe) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s: %s", ErrRecipe, quoteShort(r.Tensor), fmt.Sprintf(format, args...))
	}
	if r.Kind != EqualRowsKind || r.Version != 1 {
		return bad("kind %s, version %d, expected %q and 1", quoteShort(r.Kind), r.Version, EqualRowsKind)
	}
	if err := checkText("tensor name", r.Tensor); err != nil {
		return fmt.Errorf("%w: %w", ErrRecipe, err)
	}
	if _, err := (tensor.Shape{r.Rows, r.Width}).Bytes(r.DType); err != nil || r.DType.Size() == 0 || r.Rows < 1 || r.Width < 1 {
		return bad("%v[%d,%d]", r.DType, r.Rows, r.Width)
	}
	if r.Distinct < 1 || r.Distinct > r.Rows {
		return bad("%d distinct rows of %d", r.Distinct, r.Rows)
	}
	want := tensor.Invalid
	if r.Distinct > 1 {
		want = indexType(r.Distinct)
	}
	if r.Index != want {
		return bad("index %v, expected %v", r.Index, want)
	}
	return nil
}

// Encode writes the JSON form.
func (r EqualRowsRecipe) Encode() ([]byte, error) { return encodeRecipe(r) }

// ParseEqualRows reads the JSON form of a recipe, which must be exactly what
// [EqualRowsRecipe.Encode] writes, up to white space and the order of keys.
// Errors wrap [ErrRecipe].
func ParseEqualRows(data []byte) (EqualRowsRecipe, error) {
	r := &EqualRowsRecipe{}
	err := parseRecipe(data, r)
	return *r, err
}

// constantRows gives one row for every index.
type constantRows struct {
	nn.RowSource
	rows int
}

func (r constantRows) NumRows() int { return r.rows }

func (r constantRows) DecodeRow(dst []byte, i int) error {
	if i < 0 || i >= r.rows {
		return fmt.Errorf("row %d of a table with %d rows", i, r.rows)
	}
	return r.RowSource.DecodeRow(dst, 0)
}

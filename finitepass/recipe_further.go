package finitepass

import (
	"fmt"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// IndexRecipe is a table whose equal rows are stored once: the tensor
// "tables.<name>" has Distinct rows, and "tables.<name>.index", with elements of
// type DType (U8, U16 or U32), says for every row which of them it is.
type IndexRecipe struct {
	Distinct int          `json:"distinct"`
	DType    tensor.DType `json:"dtype"`
}

// ProjectionRecipe is a table whose row i is computed from row i of the table
// Of: divided by element i of "tables.<of>.norms" if Normalised, and with
// "tables.<of>.bias" added if Bias. All are F32.
type ProjectionRecipe struct {
	Of         string `json:"of"`
	Normalised bool   `json:"normalised"`
	Bias       bool   `json:"bias"`
}

// elements is the number of rows of a table that is not constant.
func (r *Recipe) elements() int {
	if r.Domain != nil {
		return r.Domain.Size
	}
	return r.NumTokens
}

// contract is what a recipe with this domain must carry.
func (r *Recipe) contract() string {
	if listed(r.Domain) {
		return architectures.ReachableIDsOnly
	}
	return architectures.ContractOf(r.Domain)
}

// listed reports whether d has some token ids only.
func listed(d *nn.Domain) bool { return d != nil && d.Kind == nn.TokenIDs && d.Keys != nil }

// further reports whether the recipe holds what versions 1 and 2 do not know.
func (r *Recipe) further() bool {
	if r.Domain != nil {
		return true
	}
	for _, t := range r.Tables {
		if t.Index != nil || t.Projection != nil {
			return true
		}
	}
	return false
}

func (r *Recipe) validateDomain() error {
	d := r.Domain
	if d == nil {
		return nil
	}
	if err := d.Validate(); err != nil {
		return err
	}
	switch {
	case listed(d):
		if last := d.Keys[d.Size-1]; last >= uint64(r.NumTokens) {
			return fmt.Errorf("token id %d is outside 0..%d", last, r.NumTokens-1)
		}
	case d.Kind == nn.TokenIDs:
		return fmt.Errorf("all token ids need no domain")
	case d.Size != r.NumTokens:
		return fmt.Errorf("num_tokens is %d, the domain has %d elements", r.NumTokens, d.Size)
	}
	return nil
}

// validateCoding checks what a table's own coding says.
func (t TableRecipe) validateCoding() error {
	codings := 0
	for _, used := range []bool{t.Set != nil, t.Index != nil, t.Projection != nil} {
		if used {
			codings++
		}
	}
	if codings > 1 {
		return fmt.Errorf("table %q has %d codings", t.Name, codings)
	}
	if x := t.Index; x != nil {
		if x.Distinct < 1 || x.Distinct >= t.Rows || x.DType != indexType(x.Distinct) {
			return fmt.Errorf("table %q has %d rows, %d distinct ones and an index of %v", t.Name, t.Rows, x.Distinct, x.DType)
		}
	}
	if p := t.Projection; p != nil && (t.DType != tensor.F32 || !p.Normalised && !p.Bias) {
		return fmt.Errorf("table %q is a projection of %v, expected F32 and something to compute", t.Name, t.DType)
	}
	return nil
}

// indexType is the narrowest type that numbers n rows.
func indexType(n int) tensor.DType {
	switch {
	case n <= 1<<8:
		return tensor.U8
	case n <= 1<<16:
		return tensor.U16
	}
	return tensor.U32
}

// validateProjections checks that projections read stored tables of their own
// shape, and enters those as read.
func (r *Recipe) validateProjections(tables map[string]TableRecipe, read map[string]bool) error {
	for _, t := range r.Tables {
		p := t.Projection
		if p == nil {
			continue
		}
		of, ok := tables[p.Of]
		if !ok || of.Set != nil || of.Index != nil || of.Projection != nil {
			return fmt.Errorf("table %q is computed from %s, which is no plain table", t.Name, quoteShort(p.Of))
		}
		if of.DType != t.DType || of.Rows != t.Rows || of.Width != t.Width {
			return fmt.Errorf("table %q is %v[%d,%d], the table that it is computed from %v[%d,%d]",
				t.Name, t.DType, t.Rows, t.Width, of.DType, of.Rows, of.Width)
		}
		read[p.Of] = read[p.Of] || read[t.Name]
	}
	return nil
}

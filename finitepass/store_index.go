package finitepass

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"

	"github.com/hfcompress/compress/tensor"
)

// settleVersion sets the version that a recipe's contents call for.
func (r *Recipe) settleVersion() {
	switch {
	case r.further():
		r.Version = recipeFurther
	case len(r.Profiles) > 0:
		r.Version = recipeProfiles
	default:
		r.Version = recipePlain
	}
}

// indexRecipeBytes bounds what an index adds to the recipe.
const indexRecipeBytes = 64

// storeTable stores one table whole, or its distinct rows with an index where
// that takes fewer bytes.
func storeTable(r *TableRecipe, report *TableReport, data *tensor.Tensor, tensors map[string]*tensor.Tensor) error {
	distinct, index := distinctRows(data)
	if distinct != nil {
		d := indexType(len(distinct))
		n := int64(len(distinct))*int64(len(data.Row(0))) + int64(len(index))*int64(d.Size())
		if n+indexRecipeBytes < int64(len(data.Bytes())) {
			rows, positions, err := storeIndexed(data, distinct, index, d)
			if err != nil {
				return err
			}
			r.Index = &IndexRecipe{Distinct: len(distinct), DType: d}
			tensors[tableTensor(r.Name)], tensors[indexTensor(r.Name)] = rows, positions
			report.Coding, report.StoredBytes = "equal rows once", n
			return nil
		}
	}
	tensors[tableTensor(r.Name)] = data
	return nil
}

// distinctRows returns the first of all rows that are equal, in order, and for
// every row which of them it is. Both are nil when no two rows are
// equal.
func distinctRows(t *tensor.Tensor) (distinct, index []int) {
	rows := t.Shape()[0]
	seed := maphash.MakeSeed()
	first := make(map[uint64][]int, rows) // positions within distinct
	index = make([]int, rows)
	for i := range rows {
		sum := maphash.Bytes(seed, t.Row(i))
		at := -1
		for _, k := range first[sum] {
			if bytes.Equal(t.Row(distinct[k]), t.Row(i)) {
				at = k
				break
			}
		}
		if at < 0 {
			at = len(distinct)
			distinct = append(distinct, i)
			first[sum] = append(first[sum], at)
		}
		index[i] = at
	}
	if len(distinct) == rows {
		return nil, nil
	}
	return distinct, index
}

func storeIndexed(t *tensor.Tensor, distinct, index []int, d tensor.DType) (rows, positions *tensor.Tensor, err error) {
	if rows, err = tensor.New(t.DType(), len(distinct), t.Shape()[1]); err != nil {
		return nil, nil, err
	}
	for k, i := range distinct {
		copy(rows.Row(k), t.Row(i))
	}
	if positions, err = tensor.New(d, len(index)); err != nil {
		return nil, nil, err
	}
	b := positions.Bytes()
	for i, at := range index {
		switch d {
		case tensor.U8:
			b[i] = byte(at)
		case tensor.U16:
			binary.LittleEndian.PutUint16(b[2*i:], uint16(at))
		default:
			binary.LittleEndian.PutUint32(b[4*i:], uint32(at))
		}
	}
	return rows, positions, nil
}

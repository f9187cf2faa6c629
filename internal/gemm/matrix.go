package gemm

import "fmt"

// PanelWidth is the number of outputs that one panel holds side by side.
const PanelWidth = 16

// Matrix is the weight of a linear map, stored in panels of 16 outputs: element
// (n, k) lies at panels[n/16·16·K + k·16 + n%16]. The last panel is padded with
// zeros. A Matrix is immutable and safe for concurrent use.
type Matrix struct {
	n, k   int
	panels []float32
	// narrow holds the panels of a weight in a 16-bit type instead; widen gives
	// their values.
	narrow []uint16
	widen  Widen
}

// Widen sets dst to the values of as many elements of a 16-bit type.
type Widen func(dst []float32, src []uint16)

// Pack copies w, row-major [n, k], into panels.
func Pack(w []float32, n, k int) *Matrix {
	if n < 0 || k < 0 || len(w) != n*k {
		panic(fmt.Sprintf("gemm: %d values for a matrix [%d,%d]", len(w), n, k))
	}
	m := &Matrix{n: n, k: k}
	m.panels = pack(m, w)
	return m
}

// PackNarrow copies w, row-major [n, k], into panels of its 16-bit type. Products
// widen them a stripe at a time, so the matrix takes half the memory of its
// float32 form and gives the same results.
func PackNarrow(w []uint16, n, k int, widen Widen) *Matrix {
	if n < 0 || k < 0 || len(w) != n*k {
		panic(fmt.Sprintf("gemm: %d values for a matrix [%d,%d]", len(w), n, k))
	}
	m := &Matrix{n: n, k: k, widen: widen}
	m.narrow = pack(m, w)
	return m
}

func pack[T float32 | uint16](m *Matrix, w []T) []T {
	panels := make([]T, (m.n+PanelWidth-1)/PanelWidth*PanelWidth*m.k)
	for row := range m.n {
		first := m.first(row)
		for i, v := range w[row*m.k : (row+1)*m.k] {
			panels[first+i*PanelWidth] = v
		}
	}
	return panels
}

// stripe returns the values of panels lo … hi−1. The result is valid until room,
// which must hold as many values, is used again.
func (m *Matrix) stripe(lo, hi int, room []float32) []float32 {
	lo, hi = lo*PanelWidth*m.k, hi*PanelWidth*m.k
	if m.narrow == nil {
		return m.panels[lo:hi]
	}
	m.widen(room[:hi-lo], m.narrow[lo:hi])
	return room[:hi-lo]
}

// first is the index of a row's first value.
func (m *Matrix) first(row int) int {
	return row/PanelWidth*PanelWidth*m.k + row%PanelWidth
}

// Outputs returns the number of rows of the packed matrix.
func (m *Matrix) Outputs() int { return m.n }

// Inputs returns the number of columns.
func (m *Matrix) Inputs() int { return m.k }

// Row copies row i of the matrix to dst, of length [Matrix.Inputs].
func (m *Matrix) Row(dst []float32, i int) {
	first := m.first(i)
	if m.narrow != nil {
		for k := range dst[:m.k] {
			m.widen(dst[k:k+1], m.narrow[first+k*PanelWidth:][:1])
		}
		return
	}
	for k := range dst[:m.k] {
		dst[k] = m.panels[first+k*PanelWidth]
	}
}

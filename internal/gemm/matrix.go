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
}

// Pack copies w, row-major [n, k], into panels.
func Pack(w []float32, n, k int) *Matrix {
	if n < 0 || k < 0 || len(w) != n*k {
		panic(fmt.Sprintf("gemm: %d values for a matrix [%d,%d]", len(w), n, k))
	}
	m := &Matrix{n, k, make([]float32, (n+PanelWidth-1)/PanelWidth*PanelWidth*k)}
	for row := range n {
		first := m.first(row)
		for i, v := range w[row*k : (row+1)*k] {
			m.panels[first+i*PanelWidth] = v
		}
	}
	return m
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
	for k := range dst[:m.k] {
		dst[k] = m.panels[first+k*PanelWidth]
	}
}

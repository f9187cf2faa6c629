package gemm

import (
	"fmt"
	"math"
	"runtime"
)

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
	// pairs holds those of bfloat16 weights: columns 2i and 2i+1 of an output in
	// the upper and lower half of what would be column i, the last one padded with
	// a zero. spans has the exponents of each stripe of [maxTilePanels] panels.
	pairs []uint32
	spans []exponents
}

// Widen sets dst to the values of as many elements of a 16-bit type.
type Widen func(dst []float32, src []uint16)

// Pack copies w, row-major [n, k], into panels.
func Pack(w []float32, n, k int) *Matrix {
	if n < 0 || k < 0 || len(w) != n*k {
		panic(fmt.Sprintf("gemm: %d values for a matrix [%d,%d]", len(w), n, k))
	}
	m := &Matrix{n: n, k: k}
	m.panels = allocate[float32](m, (n+PanelWidth-1)/PanelWidth*PanelWidth*k)
	whole := n / PanelWidth * PanelWidth
	for row := 0; row < whole; row += PanelWidth {
		interleave(m.panels[row*k:(row+PanelWidth)*k], w[row*k:], PanelWidth, k, k)
	}
	scatter(m.panels, w, whole, n, k)
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
	m.narrow = allocate[uint16](m, (n+PanelWidth-1)/PanelWidth*PanelWidth*k)
	scatter(m.narrow, w, 0, n, k)
	return m
}

// scatter puts rows lo … n−1 of w into panels.
func scatter[T float32 | uint16](panels, w []T, lo, n, k int) {
	for row := lo; row < n; row++ {
		first := row/PanelWidth*PanelWidth*k + row%PanelWidth
		for i, v := range w[row*k : (row+1)*k] {
			panels[first+i*PanelWidth] = v
		}
	}
}

// wide reports whether the panels are stored as float32.
func (m *Matrix) wide() bool { return m.narrow == nil && m.pairs == nil }

// panelSize is the number of values of one panel that [Matrix.stripe] returns.
func (m *Matrix) panelSize() int {
	if m.pairs != nil {
		return (m.k + 1) / 2 * 2 * PanelWidth
	}
	return m.k * PanelWidth
}

// stripe returns the values of panels lo … hi−1. The result is valid until room,
// which must hold as many values unless the matrix is wide, is used again.
func (m *Matrix) stripe(lo, hi int, room []float32) []float32 {
	size := m.panelSize()
	lo, hi = lo*size, hi*size
	switch {
	case m.pairs != nil:
		widenPairs(room[:hi-lo], m.pairs[lo/2:hi/2])
	case m.narrow != nil:
		m.widen(room[:hi-lo], m.narrow[lo:hi])
	default:
		return m.panels[lo:hi]
	}
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
	defer runtime.KeepAlive(m) // panels live as long
	first := m.first(i)
	for k := range dst[:m.k] {
		switch {
		case m.pairs != nil:
			pair := m.pairs[i/PanelWidth*m.panelSize()/2+k/2*PanelWidth+i%PanelWidth]
			dst[k] = math.Float32frombits(pair << (k % 2 * 16) &^ 0xffff)
		case m.narrow != nil:
			m.widen(dst[k:k+1], m.narrow[first+k*PanelWidth:][:1])
		default:
			dst[k] = m.panels[first+k*PanelWidth]
		}
	}
}

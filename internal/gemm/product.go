package gemm

// Product is a matrix product over operands that lie in a caller's own arrays,
// always in sequential order. Attention uses it: keys and values are multiplied
// where the cache keeps them.
//
//	C[r, j] = Σ_i A[r, i] · B(i, j)
type Product struct {
	Rows, Cols, K int
	// A is row-major; row r starts at r·LDA.
	A   []float32
	LDA int
	// B holds column j of step i at (j/16)·BPanel + i·BStep + j%16. Whole panels of
	// 16 columns are read, so B must be readable up to there; columns past Cols may
	// hold anything.
	B             []float32
	BStep, BPanel int
	// C is row-major; row r starts at r·LDC, and only Cols values of it are
	// written.
	C   []float32
	LDC int
}

// Run computes the product in the calling goroutine.
func (p *Product) Run() {
	if p.Rows == 0 || p.Cols == 0 {
		return
	}
	if p.K == 0 {
		for r := range p.Rows {
			clear(p.C[r*p.LDC:][:p.Cols])
		}
		return
	}
	blocks := (p.Rows + active.rows - 1) / active.rows
	var a []float32
	if p.Rows > 1 {
		buf := getBuffer(min(p.Rows, active.rows) * p.K)
		defer putBuffer(buf)
		a = *buf
	}
	t := new(tile[float32])
	for b := range blocks {
		lo, hi := block(p.Rows, blocks, b)
		*t = tile[float32]{rows: hi - lo, k: p.K, aStep: hi - lo, bStep: p.BStep, bPanel: p.BPanel}
		if t.rows == 1 {
			t.a = p.A[lo*p.LDA:][:p.K]
		} else {
			t.a = a[:t.rows*p.K]
			interleave(t.a, p.A[lo*p.LDA:], t.rows, p.K, p.LDA)
		}
		panels := (p.Cols + PanelWidth - 1) / PanelWidth
		t.strip(panels, p.Cols, active.panels[t.rows], p.B, p.C[lo*p.LDC:], p.LDC, active.run)
	}
}

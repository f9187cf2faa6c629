//go:build (amd64 || arm64) && !noasm

package gemm

//go:generate go run gen.go

// kernelTable holds assembly kernels by panels and rows. Steps and distances are
// in bytes.
type kernelTable[T element] [maxTilePanels + 1][maxTileRows + 1]func(k int, a *T, aStep int, b *T, bStep int, bPanel int, c *float32, ldc int)

func set(name string, rows int, f *kernelTable[float32]) *kernels {
	s := &kernels{name: name, rows: rows, run: f.run}
	for r := 1; r <= rows; r++ {
		for p := 1; p <= maxTilePanels; p *= 2 {
			if f[p][r] != nil {
				s.panels[r] = p
			}
		}
	}
	return s
}

// run computes a tile of at least one step.
func (f *kernelTable[T]) run(t *tile[T]) {
	// The kernels read and write up to here.
	_ = t.a[(t.k-1)*t.aStep+t.rows-1]
	_ = t.b[(t.panels-1)*t.bPanel+(t.k-1)*t.bStep+PanelWidth-1]
	_ = t.c[(t.rows-1)*t.ldc+t.panels*PanelWidth-1]
	f[t.panels][t.rows](t.k, &t.a[0], 4*t.aStep, &t.b[0], 4*t.bStep, 4*t.bPanel, &t.c[0], 4*t.ldc)
}

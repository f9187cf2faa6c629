package gemm

import (
	"math"
	"sync"
)

const (
	maxTileRows   = 12
	maxTilePanels = 4
)

// element is what one step of a kernel multiplies: float32 numbers, or pairs of
// bfloat16 numbers.
type element interface{ float32 | uint32 }

// tile is a block of outputs: rows × (panels·16), for k steps each.
type tile[T element] struct {
	rows, panels, k int
	// a holds the left operand: row r at step i is a[i·aStep + r].
	a     []T
	aStep int
	// b holds the panels: panel p starts at p·bPanel, its 16 columns at step i at
	// i·bStep.
	b             []T
	bStep, bPanel int
	// c receives the result; row r starts at r·ldc.
	c   []float32
	ldc int
}

// partials is room for the partial sums of one tile.
type partials [8][maxTileRows * maxTilePanels * PanelWidth]float32

var partialsPool = sync.Pool{New: func() any { return new(partials) }}

// strip computes a block of rows against panels of b, with cols ≤ panels·16
// columns written to c, at most so many panels at a time.
func (t *tile[T]) strip(panels, cols, most int, b []T, c []float32, ldc int, run func(*tile[T])) {
	for p := 0; p < panels; p += t.panels {
		t.panels = most
		for t.panels > panels-p {
			t.panels /= 2
		}
		t.b = b[p*t.bPanel:]
		first := p * PanelWidth
		if left := cols - first; left < t.panels*PanelWidth { // would write past the row
			edge := getBuffer(maxTileRows * maxTilePanels * PanelWidth)
			t.c, t.ldc = *edge, maxTilePanels*PanelWidth
			run(t)
			for r := range t.rows {
				copy(c[r*ldc+first:][:left], t.c[r*t.ldc:])
			}
			putBuffer(edge)
			continue
		}
		t.c, t.ldc = c[first:], ldc
		run(t)
	}
}

// summation returns what fills a tile in the given order. All orders but
// [Sequential] need room for partial sums.
func summation(order Order, part *partials) func(*tile[float32]) {
	switch order {
	case Chunks4:
		return func(t *tile[float32]) {
			size := (t.k + 3) / 4
			for i := range 4 {
				lo := min(t.k, i*size)
				p := *t
				p.k = min(t.k, lo+size) - lo
				p.a, p.b = t.a[lo*t.aStep:], t.b[min(len(t.b), lo*t.bStep):]
				part.add(i, &p)
			}
			part.combine(t, func(y []float32, p [8][]float32) {
				for j := range y {
					y[j] = canonical(((p[0][j] + p[1][j]) + p[2][j]) + p[3][j])
				}
			})
		}
	case Lanes8:
		return func(t *tile[float32]) {
			for i := range 8 {
				p := *t
				p.k = (t.k - i + 7) / 8
				if p.k > 0 {
					p.a, p.b = t.a[i*t.aStep:], t.b[i*t.bStep:]
				}
				p.aStep, p.bStep = t.aStep*8, t.bStep*8
				part.add(i, &p)
			}
			part.combine(t, func(y []float32, p [8][]float32) {
				for j := range y {
					y[j] = canonical(((p[0][j] + p[1][j]) + (p[2][j] + p[3][j])) + ((p[4][j] + p[5][j]) + (p[6][j] + p[7][j])))
				}
			})
		}
	}
	return active.run
}

// panelsOf is the number of panels that a tile of so many rows takes at a time.
func panelsOf(rows int, order Order) int {
	if order == Lanes8 { // lanes pass over the panels again and again
		return min(2, active.panels[rows])
	}
	return active.panels[rows]
}

// add computes the tile as partial sum i, which may be of no products.
func (part *partials) add(i int, t *tile[float32]) {
	t.c, t.ldc = part[i][:], t.panels*PanelWidth
	if t.k == 0 {
		clear(t.c[:t.rows*t.ldc])
		return
	}
	active.run(t)
}

// combine writes what sum makes of each row's partial sums.
func (part *partials) combine(t *tile[float32], sum func(y []float32, p [8][]float32)) {
	width := t.panels * PanelWidth
	for r := range t.rows {
		var p [8][]float32
		for i := range p {
			p[i] = part[i][r*width : (r+1)*width]
		}
		sum(t.c[r*t.ldc:][:width], p)
	}
}

// twin is the portable kernel: every other one gives the same bits.
func twin(t *tile[float32]) {
	for p := range t.panels {
		b := t.b[p*t.bPanel:]
		c := t.c[p*PanelWidth:]
		r := 0
		for ; r+2 <= t.rows; r += 2 {
			for j := 0; j < PanelWidth; j += 4 {
				twin2x4(t, r, b[min(j, len(b)):], c[r*t.ldc+j:])
			}
		}
		if r < t.rows {
			for j := 0; j < PanelWidth; j += 4 {
				twin1x4(t, r, b[min(j, len(b)):], c[r*t.ldc+j:])
			}
		}
	}
}

func twin2x4(t *tile[float32], r int, b, c []float32) {
	var s00, s01, s02, s03, s10, s11, s12, s13 float32
	for k, i, j := 0, r, 0; k < t.k; k, i, j = k+1, i+t.aStep, j+t.bStep {
		w := (*[4]float32)(b[j:])
		x, y := t.a[i], t.a[i+1]
		s00 += float32(x * w[0])
		s01 += float32(x * w[1])
		s02 += float32(x * w[2])
		s03 += float32(x * w[3])
		s10 += float32(y * w[0])
		s11 += float32(y * w[1])
		s12 += float32(y * w[2])
		s13 += float32(y * w[3])
	}
	c[0], c[1], c[2], c[3] = canonical(s00), canonical(s01), canonical(s02), canonical(s03)
	c = c[t.ldc:]
	c[0], c[1], c[2], c[3] = canonical(s10), canonical(s11), canonical(s12), canonical(s13)
}

func twin1x4(t *tile[float32], r int, b, c []float32) {
	var s0, s1, s2, s3 float32
	for k, i, j := 0, r, 0; k < t.k; k, i, j = k+1, i+t.aStep, j+t.bStep {
		w := (*[4]float32)(b[j:])
		x := t.a[i]
		s0 += float32(x * w[0])
		s1 += float32(x * w[1])
		s2 += float32(x * w[2])
		s3 += float32(x * w[3])
	}
	c[0], c[1], c[2], c[3] = canonical(s0), canonical(s1), canonical(s2), canonical(s3)
}

func canonical(x float32) float32 {
	if x != x {
		return math.Float32frombits(0x7fc00000)
	}
	return x
}

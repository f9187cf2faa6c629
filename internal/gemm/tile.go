package gemm

import "math"

const (
	maxTileRows   = 12
	maxTilePanels = 4
)

// tile is a block of outputs: rows × (panels·16), for k products each.
type tile struct {
	rows, panels, k int
	// a holds the left operand: row r at step i is a[i·aStep + r].
	a     []float32
	aStep int
	// b holds the panels: panel p starts at p·bPanel, its 16 columns at step i at
	// i·bStep.
	b             []float32
	bStep, bPanel int
	// c receives the result; row r starts at r·ldc.
	c   []float32
	ldc int
}

// compute fills the tile in the given order of summation.
func (t *tile) compute(order Order) {
	switch order {
	case Sequential:
		active.run(t)
	case Chunks4:
		size := (t.k + 3) / 4
		t.parts(4, func(part int, p *tile) {
			lo := min(t.k, part*size)
			p.k = min(t.k, lo+size) - lo
			p.a, p.b = t.a[lo*t.aStep:], t.b[lo*t.bStep:]
		}, func(v *[8]float32) float32 { return ((v[0] + v[1]) + v[2]) + v[3] })
	case Lanes8:
		t.parts(8, func(part int, p *tile) {
			p.k = (t.k - part + 7) / 8
			if p.k > 0 {
				p.a, p.b = t.a[part*t.aStep:], t.b[part*t.bStep:]
			}
			p.aStep, p.bStep = t.aStep*8, t.bStep*8
		}, func(v *[8]float32) float32 {
			return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]))
		})
	}
}

// parts computes partial sums and combines them.
func (t *tile) parts(n int, set func(part int, p *tile), combine func(*[8]float32) float32) {
	const ldc = maxTilePanels * PanelWidth
	var partial [8][maxTileRows * ldc]float32
	for i := range n {
		p := *t
		p.c, p.ldc = partial[i][:], ldc
		set(i, &p)
		active.run(&p)
	}
	for r := range t.rows {
		row := t.c[r*t.ldc : r*t.ldc+t.panels*PanelWidth]
		for j := range row {
			var v [8]float32
			for i := range n {
				v[i] = partial[i][r*ldc+j]
			}
			row[j] = canonical(combine(&v))
		}
	}
}

// twin is the portable kernel: every other one gives the same bits.
func (t *tile) twin() {
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

func twin2x4(t *tile, r int, b, c []float32) {
	var s00, s01, s02, s03, s10, s11, s12, s13 float32
	for k, i, j := 0, r, 0; k < t.k; k, i, j = k+1, i+t.aStep, j+t.bStep {
		w := b[j : j+4 : j+4]
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

func twin1x4(t *tile, r int, b, c []float32) {
	var s0, s1, s2, s3 float32
	for k, i, j := 0, r, 0; k < t.k; k, i, j = k+1, i+t.aStep, j+t.bStep {
		w := b[j : j+4 : j+4]
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

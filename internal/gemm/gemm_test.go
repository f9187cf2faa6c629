package gemm

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
)

// naive is the definition of each order, written as plainly as possible.
func naive(x, w []float32, rows, n, k int, order Order) []float32 {
	y := make([]float32, rows*n)
	for r := range rows {
		for j := range n {
			var part [8]float32
			for i := range k {
				p := 0
				switch order {
				case Chunks4:
					p = i / ((k + 3) / 4)
				case Lanes8:
					p = i % 8
				}
				part[p] += float32(x[r*k+i] * w[j*k+i])
			}
			s := part[0]
			switch order {
			case Chunks4:
				s = ((part[0] + part[1]) + part[2]) + part[3]
			case Lanes8:
				s = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]))
			}
			y[r*n+j] = canonical(s)
		}
	}
	return y
}

var specials = []float32{
	0, float32(math.Copysign(0, -1)), 1, -1, math.MaxFloat32, -math.MaxFloat32,
	math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 0x1p-126, 0x1p-64, -0x1p-75,
	float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.Float32frombits(0xffc12345),
}

// values fills a slice; one in rare values is special, none when rare is 0.
func values(rng *rand.Rand, n, rare int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
		if rare > 0 && rng.IntN(rare) == 0 {
			v[i] = specials[rng.IntN(len(specials))]
		}
	}
	return v
}

func concurrent(n int, task func(int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { task(i) })
	}
	wg.Wait()
}

func firstDifference(a, b []float32) int {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return i
		}
	}
	return -1
}

// withKernels runs a test with each set of kernels that this processor has.
func withKernels(t *testing.T, f func(t *testing.T)) {
	best := active
	defer func() { active = best }()
	for _, k := range available() {
		active = k
		t.Run(k.name, f)
	}
}

func TestMulIsTheNaiveLoop(t *testing.T) { withKernels(t, testMul) }

func testMul(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	sizes := []int{0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 47, 64, 65, 130}
	check := func(rows, n, k, rare int) {
		x, w := values(rng, rows*k, rare), values(rng, n*k, rare*5)
		m := Pack(w, n, k)
		for _, order := range []Order{Sequential, Chunks4, Lanes8} {
			want := naive(x, w, rows, n, k, order)
			for name, run := range map[string]Runner{"inline": nil, "concurrent": concurrent} {
				got := values(rng, rows*n, 2)
				m.Mul(got, x, rows, order, run)
				if i := firstDifference(got, want); i >= 0 {
					t.Fatalf("%s order %d, %d rows of [%d,%d], rare %d: element %d is %x, want %x", name, order,
						rows, n, k, rare, i, math.Float32bits(got[i]), math.Float32bits(want[i]))
				}
			}
		}
	}
	for rows := 0; rows <= 40; rows++ {
		for range 6 {
			check(rows, sizes[rng.IntN(len(sizes))], sizes[rng.IntN(len(sizes))], []int{0, 3, 40}[rng.IntN(3)])
		}
	}
	check(1, 520, 300, 100)
	check(96, 200, 700, 0) // several row tasks
}

func TestRowReturnsWhatWasPacked(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	w := values(rng, 35*9, 4)
	m := Pack(w, 35, 9)
	row := make([]float32, 9)
	for i := range 35 {
		m.Row(row, i)
		if j := firstDifference(row, w[i*9:(i+1)*9]); j >= 0 {
			t.Errorf("row %d differs at %d", i, j)
		}
	}
	if m.Outputs() != 35 || m.Inputs() != 9 {
		t.Errorf("shape [%d,%d]", m.Outputs(), m.Inputs())
	}
}

func TestProductIsTheNaiveLoop(t *testing.T) { withKernels(t, testProduct) }

// testProduct multiplies operands that lie in larger arrays, as attention does:
// a head's columns of the values, and panels of keys.
func testProduct(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		rows, cols, k := rng.IntN(30), rng.IntN(70), rng.IntN(50)
		lda, ldc := k+rng.IntN(5), cols+rng.IntN(5)
		p := Product{Rows: rows, Cols: cols, K: k, LDA: lda, LDC: ldc}
		if rng.IntN(2) == 0 { // row-major: step i is a row
			p.BStep, p.BPanel = cols+rng.IntN(9), PanelWidth
		} else { // panels
			p.BStep = PanelWidth
			p.BPanel = PanelWidth * (k + rng.IntN(3))
		}
		panels := (cols + PanelWidth - 1) / PanelWidth
		p.A = values(rng, rows*lda+k, 50)
		p.B = values(rng, panels*p.BPanel+k*p.BStep+PanelWidth, 50)
		p.C = values(rng, rows*ldc+cols, 0)
		want := append([]float32(nil), p.C...)
		for r := range rows {
			for j := range cols {
				var s float32
				for i := range k {
					s += float32(p.A[r*lda+i] * p.B[j/PanelWidth*p.BPanel+i*p.BStep+j%PanelWidth])
				}
				want[r*ldc+j] = canonical(s)
			}
		}
		p.Run()
		if i := firstDifference(p.C, want); i >= 0 {
			t.Fatalf("%d rows, %d columns, k %d: value %d is %v, want %v", rows, cols, k, i, p.C[i], want[i])
		}
	}
}

func TestShapesAreChecked(t *testing.T) {
	m := Pack(make([]float32, 6), 2, 3)
	for name, f := range map[string]func(){
		"pack":  func() { Pack(make([]float32, 5), 2, 3) },
		"x":     func() { m.Mul(make([]float32, 2), make([]float32, 2), 1, Sequential, nil) },
		"y":     func() { m.Mul(make([]float32, 3), make([]float32, 3), 1, Sequential, nil) },
		"rows":  func() { m.Mul(nil, nil, -1, Sequential, nil) },
		"lanes": func() { m.Mul(make([]float32, 4), make([]float32, 3), 2, Lanes8, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

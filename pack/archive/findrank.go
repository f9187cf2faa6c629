package archive

import (
	"math"

	"github.com/hfcompress/compress/pack/floatcodec"
)

// A product is found by projecting the differences onto a few random directions,
// twice, and rotating what was found so that its first directions hold the most.
// The sums are in double precision, each product rounded before it is added, in a
// fixed order: an archive does not depend on the machine.

// directions is how many are looked at: as many as the largest rank.
const directions = topRank

// shortest side of a matrix whose product is smaller than what it saves.
const leastSide = 64

// mostSides bounds rows and columns together, for which memory is needed.
const mostSides = 1 << 17

// rankFinder reads the differences of a matrix, a part at a time.
type rankFinder struct {
	src         source
	base        *Reader
	stream      int
	width       int
	rows, cols  int
	raw, other  []byte
	sum, grains float64 // of the squares of differences, and of the steps between numbers
	counted     bool
}

// findProduct returns a product that brings the base nearer to a segment, or nil
// if none promises to save more than it takes.
func (w *Writer) findProduct(seg *segment, src source, stream int) (*product, error) {
	if !hasProducts(seg.dtype) || len(seg.shape) < 2 {
		return nil, nil
	}
	width := seg.dtype.Size()
	elements := src.size / int64(width)
	rows := int64(seg.shape[0])
	if rows < leastSide || elements/rows < leastSide || elements%rows != 0 || rows+elements/rows > mostSides {
		return nil, nil
	}
	f := &rankFinder{src: src, base: w.opts.Base, stream: stream, width: width, rows: int(rows), cols: int(elements / rows)}
	// From the columns to the rows and back, and once more.
	right := make([]float64, f.cols*directions)
	state := uint64(1)
	for i := range right {
		state = state*6364136223846793005 + 1442695040888963407
		right[i] = float64(int64(state)>>40) / (1 << 23)
	}
	left := make([]float64, f.rows*directions)
	for range 2 {
		clear(left)
		if err := f.pass(left, right, false); err != nil {
			return nil, err
		}
		if f.sum == 0 {
			return nil, nil
		}
		orthonormalise(left)
		clear(right)
		if err := f.pass(left, right, true); err != nil {
			return nil, err
		}
	}
	strength := rotate(left, right)
	rank, bytes := f.chooseRank(strength)
	if rank == 0 {
		return nil, nil
	}
	p := &product{rank: rank, cols: f.cols, bytes: bytes, a: make([]float32, f.rows*rank), b: make([]float32, f.cols*rank)}
	for k := range rank {
		scale := math.Sqrt(math.Sqrt(strength[k])) // shared by both sides
		for i := range f.rows {
			p.a[i*rank+k] = rounded(left[i*directions+k]*scale, p.bytes)
		}
		for j := range f.cols {
			p.b[k*f.cols+j] = rounded(right[j*directions+k]/scale, p.bytes)
		}
	}
	return p, nil
}

// pass adds to left the differences times right, or to right their transpose times
// left.
func (f *rankFinder) pass(left, right []float64, back bool) error {
	const step = floatcodec.ChunkElements
	total := int64(f.rows) * int64(f.cols)
	for first := int64(0); first < total; first += step {
		n := int(min(step, total-first))
		f.raw, f.other = resize(f.raw, n*f.width), resize(f.other, n*f.width)
		if err := f.src.readAt(f.raw, first*int64(f.width)); err != nil {
			return err
		}
		if err := f.base.readStream(f.stream, first*int64(f.width), f.other, 1); err != nil {
			return err
		}
		row, col := int(first/int64(f.cols)), int(first%int64(f.cols))
		for i := range n {
			d := f.difference(i)
			if d != 0 {
				x := (*[directions]float64)(left[row*directions:])
				y := (*[directions]float64)(right[col*directions:])
				if back {
					x, y = y, x
				}
				for k := range x {
					x[k] += float64(d * y[k])
				}
			}
			if col++; col == f.cols {
				row, col = row+1, 0
			}
		}
	}
	f.counted = true
	return nil
}

// difference of element i; 0 if it is not a finite number.
func (f *rankFinder) difference(i int) float64 {
	const exponent = 0x7f80_0000
	a, b := number(f.raw[i*f.width:], f.width), number(f.other[i*f.width:], f.width)
	if a&exponent == exponent || b&exponent == exponent {
		return 0
	}
	d := float64(math.Float32frombits(a)) - float64(math.Float32frombits(b))
	if !f.counted {
		grain := math.Float32frombits(a&exponent) / (1 << 23)
		if f.width == 2 {
			grain *= 1 << 16
		}
		f.sum += float64(d * d)
		f.grains += float64(float64(grain) * float64(grain))
	}
	return d
}

// chooseRank returns the rank that saves the most, 0 if none does, and the bytes of
// a number, which only have to be precise where nearly nothing is left. Differences that
// are spread normally take half a bit for each halving of their mean square, down
// to about the step between numbers.
func (f *rankFinder) chooseRank(strength []float64) (rank, bytes int) {
	n := float64(f.rows) * float64(f.cols)
	grain := f.grains / n
	saved, left := 0.0, f.sum
	for k, s := range strength {
		left = max(left-s, 0)
		each := 2
		if f.width == 4 && left/n < 64*grain {
			each = 4
		}
		gain := n / 2 * (log2(1+f.sum/n/grain) - log2(1+left/n/grain))
		if gain -= float64((k + 1) * (f.rows + f.cols) * 8 * each); gain > saved {
			rank, bytes, saved = k+1, each, gain
		}
	}
	return rank, bytes
}

// log2 is a logarithm that has the same bits on every machine; x is positive.
func log2(x float64) float64 {
	m, e := math.Frexp(x) // at least half
	out, bit := float64(e), 1.0
	for range 20 {
		bit /= 2
		if m *= m; m < 0.5 {
			m *= 2
			out -= bit
		}
	}
	return out
}

// orthonormalise replaces the columns of m, directions of them, by ones that span
// the same and are orthogonal and of length one, by Gram and Schmidt, twice.
// Columns that depend on others become zero.
func orthonormalise(m []float64) {
	for k := range directions {
		before := math.Sqrt(dot(m, k, k))
		for range 2 {
			for l := range k {
				p := dot(m, k, l)
				for i := 0; i < len(m); i += directions {
					m[i+k] -= float64(p * m[i+l])
				}
			}
		}
		length := math.Sqrt(dot(m, k, k))
		scale := 0.0
		if length > before*1e-9 {
			scale = 1 / length
		}
		for i := 0; i < len(m); i += directions {
			m[i+k] *= scale
		}
	}
}

func dot(m []float64, k, l int) (sum float64) {
	for i := 0; i < len(m); i += directions {
		sum += float64(m[i+k] * m[i+l])
	}
	return sum
}

// rotate turns both sides, of which left is orthonormal, so that the columns of
// right are orthogonal, the longest first. It returns the squares of their lengths.
// The rotations are those of Jacobi.
func rotate(left, right []float64) []float64 {
	for range 12 {
		for p := range directions {
			for q := p + 1; q < directions; q++ {
				a, b, c := dot(right, p, p), dot(right, q, q), dot(right, p, q)
				if c*c <= 1e-24*a*b || c == 0 {
					continue
				}
				t := (b - a) / (2 * c)
				t = 1 / (math.Abs(t) + math.Sqrt(1+float64(t*t))) * math.Copysign(1, t)
				cos := 1 / math.Sqrt(1+float64(t*t))
				sin := t * cos
				turn(left, p, q, cos, sin)
				turn(right, p, q, cos, sin)
			}
		}
	}
	strength := make([]float64, directions)
	for k := range strength {
		strength[k] = dot(right, k, k)
	}
	for k := range strength { // few enough to sort by hand, with their columns
		top := k
		for l := k + 1; l < directions; l++ {
			if strength[l] > strength[top] {
				top = l
			}
		}
		strength[k], strength[top] = strength[top], strength[k]
		for _, m := range [][]float64{left, right} {
			for i := 0; i < len(m); i += directions {
				m[i+k], m[i+top] = m[i+top], m[i+k]
			}
		}
	}
	return strength
}

func turn(m []float64, p, q int, cos, sin float64) {
	for i := 0; i < len(m); i += directions {
		x, y := m[i+p], m[i+q]
		m[i+p] = float64(cos*x) - float64(sin*y)
		m[i+q] = float64(sin*x) + float64(cos*y)
	}
}

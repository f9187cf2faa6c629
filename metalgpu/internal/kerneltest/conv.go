package kerneltest

import (
	"fmt"
	"math"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/tensor"
)

// convolutions makes cases of the kernels of convolutions and of Mish.
func convolutions(g *gen) []Case {
	list := []Case{g.taps()}
	for number, t := range types {
		list = append(list, g.depthwise(number, t), g.mish(number, t))
	}
	return list
}

func (g *gen) mish(number int, t tensor.DType) Case {
	x := g.floats(g.between(1, 400), spice(g.IntN(3)), t)
	if g.coin() {
		for i := range x {
			x[i] = rounded(9*x[i], t)
		}
	}
	want := onCPU(func(s nn.Session) []nn.Array { return []nn.Array{s.Map(nn.Mish, s.FromHost(host(x, t, 1, len(x))))} })[0]
	return Case{
		Name:    fmt.Sprintf("mish %s of %d", typeNames[number], len(x)),
		Buffers: [][]uint32{words(x), blank(len(x))},
		Steps:   []Step{step("mish", []int{0, 1}, len(x), number)},
		Want:    map[int][]uint32{1: want},
	}
}

// window is the extents of a convolution.
type window struct{ batch, steps, taps, dilation, left int }

func (g *gen) window() window {
	w := window{g.between(1, 3), g.between(1, 20), g.between(1, 6), g.between(1, 4), 0}
	w.left = g.IntN((w.taps-1)*w.dilation + 1)
	return w
}

func (w window) String() string {
	return fmt.Sprintf("%d×%d, %d taps %d apart, %d to the left", w.batch, w.steps, w.taps, w.dilation, w.left)
}

func (g *gen) depthwise(number int, t tensor.DType) Case {
	w, width, s, bias := g.window(), g.between(1, 40), g.spice(), g.coin()
	rows := w.batch * w.steps
	x, taps, b := g.floats(rows*width, s, t), g.floats(w.taps*width, s, t), g.floats(width, s, t)
	want := onCPU(func(sn nn.Session) []nn.Array {
		in := nn.Convolution{Batch: w.batch, Kernel: w.taps, Dilation: w.dilation, Left: w.left,
			Taps: upload(host(taps, t, w.taps*width), nn.AsVector)}
		if bias {
			in.Bias = upload(host(b, t, width), nn.AsVector)
		}
		return []nn.Array{sn.(nn.Convolver).Convolve(sn.FromHost(host(x, t, rows, width)), in)}
	})[0]
	return Case{
		Name:    fmt.Sprintf("conv_depthwise %s %v, width %d, bias %t", typeNames[number], w, width, bias),
		Buffers: [][]uint32{words(x), words(taps), words(b), blank(len(x))},
		Steps:   []Step{step("conv_depthwise", []int{0, 1, 2, 3}, rows, w.steps, width, w.taps, w.dilation, w.left, bias, number)},
		Want:    map[int][]uint32{3: want},
	}
}

// taps lays some rows' taps of a group of channels side by side.
func (g *gen) taps() Case {
	w, width := g.window(), g.between(1, 30)
	x := g.floats(w.batch*w.steps*width, wild, tensor.F32)
	channels := g.between(1, width)
	from := g.IntN(width - channels + 1)
	first := g.IntN(w.batch * w.steps)
	rows := g.between(1, w.batch*w.steps-first)
	var want []float32
	for r := first; r < first+rows; r++ {
		for j := range w.taps {
			t := r%w.steps - w.left + j*w.dilation
			for c := range channels {
				v := float32(0)
				if t >= 0 && t < w.steps {
					v = x[(r/w.steps*w.steps+t)*width+from+c]
				}
				want = append(want, v)
			}
		}
	}
	return Case{
		Name:    fmt.Sprintf("conv_taps %v, rows %d+%d, channels %d+%d of %d", w, first, rows, from, channels, width),
		Buffers: [][]uint32{words(x), blank(len(want))},
		Steps:   []Step{step("conv_taps", []int{0, 1}, rows, first, w.steps, width, from, channels, w.taps, w.dilation, w.left)},
		Want:    map[int][]uint32{1: words(want)},
	}
}

// long makes cases of the kernels of long convolutions. What is complex or wide is
// held against plain loops in float64.
func long(g *gen) []Case {
	list := []Case{g.sine(), g.decay(), g.direct(), g.sums(), g.received()}
	for _, f := range []bool{false, true} {
		list = append(list, g.load(f), g.butterflies(f))
	}
	return list
}

func (g *gen) sine() Case {
	rows, width := g.between(1, 20), g.between(1, 40)
	x, w := g.floats(rows*width, spice(g.IntN(3)), tensor.F32), g.floats(width, g.spice(), tensor.F32)
	want := onCPU(func(s nn.Session) []nn.Array {
		return []nn.Array{s.(nn.LongConvolver).Sine(s.FromHost(host(x, tensor.F32, rows, width)), upload(host(w, tensor.F32, width), nn.AsVector))}
	})[0]
	return Case{
		Name:    fmt.Sprintf("sine %d×%d", rows, width),
		Buffers: [][]uint32{words(x), words(w), blank(len(x))},
		Steps:   []Step{step("sine", []int{0, 1, 2}, rows, width)},
		Want:    map[int][]uint32{2: want},
	}
}

func (g *gen) decay() Case {
	rows, width, s := g.between(1, 20), g.between(1, 40), spice(g.IntN(3))
	x, t, rate := g.floats(rows*width, s, tensor.F32), g.floats(rows, s, tensor.F32), g.floats(width, s, tensor.F32)
	shift := g.floats(1, varied, tensor.F32)[0]
	want := onCPU(func(s nn.Session) []nn.Array {
		return []nn.Array{s.(nn.LongConvolver).Decay(s.FromHost(host(x, tensor.F32, rows, width)), s.FromHost(host(t, tensor.F32, rows, 1)),
			upload(host(rate, tensor.F32, width), nn.AsVector), shift)}
	})[0]
	return Case{
		Name:    fmt.Sprintf("decay %d×%d", rows, width),
		Buffers: [][]uint32{words(x), words(t), words(rate), blank(len(x))},
		Steps:   []Step{step("decay", []int{0, 1, 2, 3}, rows, width, shift)},
		Want:    map[int][]uint32{3: want},
	}
}

// series is the extents of columns of sequences.
type series struct{ batch, steps, width, first, columns int }

func (g *gen) series(steps int) series {
	s := series{batch: g.between(1, 2), steps: steps, width: g.between(1, 5)}
	s.first = g.IntN(s.width)
	s.columns = g.between(1, s.width-s.first)
	return s
}

func (s series) count() int { return s.batch * s.columns }

// at is the place of row t of a series in the sequences.
func (s series) at(i, t int) int { return (i/s.columns*s.steps+t)*s.width + s.first + i%s.columns }

func (s series) String() string {
	return fmt.Sprintf("%d×%d, columns %d+%d of %d", s.batch, s.steps, s.first, s.columns, s.width)
}

// wides draws float64 numbers as sums of products of float32 numbers have them.
func (g *gen) wides(n int) []float64 {
	x := make([]float64, n)
	for i, v := range g.floats(n, g.spice(), tensor.F32) {
		x[i] = float64(v) * (1 + g.Float64())
	}
	return x
}

func (g *gen) complexes(n int) []complex128 {
	x := make([]complex128, n)
	for i := range x {
		v := g.wides(2)
		x[i] = complex(v[0], v[1])
	}
	return x
}

// wideWords are the bits of float64 numbers as kernels hold them.
func wideWords(x []float64) []uint32 {
	var out []uint32
	for _, v := range x {
		b := math.Float64bits(v)
		if v != v {
			b = 0x7ff80000 << 32
		}
		out = append(out, uint32(b), uint32(b>>32))
	}
	return out
}

func complexWords(x []complex128) []uint32 {
	var out []uint32
	for _, z := range x {
		out = append(out, wideWords([]float64{real(z), imag(z)})...)
	}
	return out
}

// product multiplies complex numbers with each operation rounded.
func product(a, b complex128) complex128 {
	return complex(float64(real(a)*real(b))-float64(imag(a)*imag(b)), float64(real(a)*imag(b))+float64(imag(a)*real(b)))
}

func (g *gen) direct() Case {
	s := g.series(g.between(1, 150))
	taps := g.between(1, 100)
	sp := g.spice()
	x, k := g.floats(s.batch*s.steps*s.width, sp, tensor.F32), g.floats(taps*s.width, sp, tensor.F32)
	var want []float64
	for i := range s.count() {
		for t := range s.steps {
			v := 0.0
			for j := t / 64 * 64; j <= t; j++ {
				w := 0.0
				if t-j < taps {
					w = float64(k[(t-j)*s.width+s.first+i%s.columns])
				}
				v += float64(float64(x[s.at(i, j)]) * w)
			}
			want = append(want, v)
		}
	}
	return Case{
		Name:    fmt.Sprintf("long_direct %v, %d taps", s, taps),
		Buffers: [][]uint32{words(x), words(k), blank(2 * len(want))},
		Steps:   []Step{step("long_direct", []int{0, 1, 2}, s.count(), s.columns, s.steps, s.width, s.first, taps)},
		Want:    map[int][]uint32{2: wideWords(want)},
	}
}

func (g *gen) load(pairs bool) Case {
	s := g.series(g.between(1, 60))
	x := g.floats(s.batch*s.steps*s.width, varied, tensor.F32)
	size, blocks := 1<<g.IntN(6), g.between(1, 4)
	var want []complex128
	for i := range s.count() {
		value := func(t int) float64 {
			if t >= s.steps {
				return 0
			}
			return float64(x[s.at(i, t)])
		}
		for t := range blocks * size {
			z := complex(value(t), 0)
			if pairs {
				z = complex(value(t), value(t+size))
			}
			want = append(want, z)
		}
	}
	return Case{
		Name:    fmt.Sprintf("long_load %v, %d blocks of %d, pairs %t", s, blocks, size, pairs),
		Buffers: [][]uint32{words(x), blank(4 * len(want))},
		Steps:   []Step{step("long_load", []int{0, 1}, s.count(), s.columns, s.steps, s.width, s.first, size, blocks, pairs)},
		Want:    map[int][]uint32{1: complexWords(want)},
	}
}

// butterflies is a step of some transforms, or of their inverses.
func (g *gen) butterflies(back bool) Case {
	part, parts, count := 1<<g.IntN(5), 1<<g.IntN(4), g.between(1, 3)
	n := 2 * part * parts
	x, roots := g.complexes(count*n), g.complexes(2*parts)
	want := append([]complex128(nil), x...)
	for i := 0; i < len(x); i += 2 * part {
		z := roots[parts+i/(2*part)%parts]
		for j := i; j < i+part; j++ {
			a, b := x[j], x[j+part]
			if back {
				want[j] = a + b
				want[j+part] = product(complex(real(z), -imag(z)), a-b)
				continue
			}
			b = product(z, b)
			want[j], want[j+part] = a+b, a-b
		}
	}
	name := "long_forward"
	if back {
		name = "long_backward"
	}
	return Case{
		Name:    fmt.Sprintf("%s %d×%d, parts of %d", name, count, n, part),
		Buffers: [][]uint32{complexWords(x), complexWords(roots)},
		Steps:   []Step{step(name, []int{0, 1}, count*n/2, part, parts)},
		Want:    map[int][]uint32{0: complexWords(want)},
	}
}

func (g *gen) received() Case {
	s := g.series(1)
	size, blocks := 1<<g.IntN(4), g.between(1, 35)
	parts := min(15, blocks)
	x, filter := g.complexes(s.count()*blocks*size), g.complexes(s.columns*parts*size)
	var want []complex128
	for i := range s.count() {
		for b := 1; b <= blocks; b++ {
			for e := range size {
				var z complex128
				for from := b / 16 * 16; from < b; from++ {
					p := product(x[(i*blocks+from)*size+e], filter[(i%s.columns*parts+b-from-1)*size+e])
					z = complex(real(z)+real(p), imag(z)+imag(p))
				}
				want = append(want, z)
			}
		}
	}
	return Case{
		Name:    fmt.Sprintf("long_multiply %v, %d blocks of %d", s, blocks, size),
		Buffers: [][]uint32{complexWords(x), complexWords(filter), blank(4 * len(want))},
		Steps:   []Step{step("long_multiply", []int{0, 1, 2}, s.count(), s.columns, size, blocks, parts)},
		Want:    map[int][]uint32{2: complexWords(want)},
	}
}

// sums adds what blocks received, and finishes.
func (g *gen) sums() Case {
	size := 1 << g.IntN(4)
	s := g.series(size*g.between(1, 35) + g.between(1, size))
	blocks := (s.steps - 1) / size
	z, sums := g.complexes(s.count()*blocks*size), g.wides(s.count()*s.steps)
	x, skip := g.floats(s.batch*s.steps*s.width, g.spice(), tensor.F32), g.floats(s.width, tame, tensor.F32)
	y := blank(len(x))
	want, after := append([]uint32(nil), y...), append([]float64(nil), sums...)
	for i := range s.count() {
		for t := range s.steps {
			v := &after[i*s.steps+t]
			if b := t / size; b%16 != 0 {
				*v += float64(imag(z[(i*blocks+b-1)*size+t%size]) / float64(size))
			}
			r := float32(*v + float64(float64(skip[s.first+i%s.columns])*float64(x[s.at(i, t)])))
			if r != r {
				r = fmath.NaN()
			}
			want[s.at(i, t)] = math.Float32bits(r)
		}
	}
	scale := math.Float64bits(1 / float64(size))
	return Case{
		Name:    fmt.Sprintf("long_add and long_finish %v, %d blocks of %d", s, blocks, size),
		Buffers: [][]uint32{complexWords(z), wideWords(sums), words(x), words(skip), y},
		Steps: []Step{
			step("long_add", []int{0, 1}, s.count(), s.steps, size, blocks, uint32(scale>>32)),
			step("long_finish", []int{1, 2, 3, 4}, s.count(), s.columns, s.steps, s.width, s.first),
		},
		Want: map[int][]uint32{1: wideWords(after), 4: want},
	}
}

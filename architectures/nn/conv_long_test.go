package nn_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/tensor"
)

// long evaluates an operation of [nn.LongConvolver] on host values.
func long(t *testing.T, dev nn.Device, f func(s nn.Session, l nn.LongConvolver) nn.Array) *tensor.Tensor {
	t.Helper()
	s := dev.Begin(context.Background())
	defer s.Close()
	y := s.ToHost(f(s, s.(nn.LongConvolver)))
	if y == nil {
		t.Fatal(s.Err())
	}
	return y
}

func convolveLong(t *testing.T, dev nn.Device, u, filter, skip *tensor.Tensor, batch int) *tensor.Tensor {
	t.Helper()
	d := upload(t, dev, skip, nn.AsVector)
	return long(t, dev, func(s nn.Session, l nn.LongConvolver) nn.Array {
		return l.ConvolveLong(s.FromHost(u), nn.LongConvolution{Batch: batch, Filter: s.FromHost(filter), Skip: d})
	})
}

// TestConvolveLong compares with the definition in float64, with what the rows of a
// sequence give without those after them and without the other sequences, and with
// other numbers of threads; and with a digest that every processor must give.
func TestConvolveLong(t *testing.T) {
	const width = 19
	rng := rand.New(rand.NewPCG(3, 5))
	dev := open(t, nn.CPUOptions{})
	sum := sha256.New()
	for _, c := range [][2]int{{1, 1}, {3, 7}, {2, 64}, {1, 65}, {2, 300}, {1, 1100}} {
		batch, length := c[0], c[1]
		u := f32(t, exactValues(rng, batch*length*width), batch*length, width)
		filter := f32(t, exactValues(rng, nn.LongFilterRows(length)*width), nn.LongFilterRows(length), width)
		skip := f32(t, exactValues(rng, width), width)
		got := convolveLong(t, dev, u, filter, skip, batch)
		sum.Write(got.Bytes())

		x, k, d := u.Float32s(), filter.Float32s(), skip.Float32s()
		for b := range batch {
			for _, at := range []int{0, length / 3, length - 1} {
				for ch := range width {
					row := (b*length + at) * width
					want, scale := float64(d[ch])*float64(x[row+ch]), 0.0
					for i := range at + 1 {
						p := float64(x[(b*length+i)*width+ch]) * float64(k[(at-i)*width+ch])
						want += p
						scale += math.Abs(p)
					}
					if v := float64(got.Float32s()[row+ch]); !(math.Abs(v-want) <= 6.1e-8*math.Abs(want)+1e-13*scale+1e-45) {
						t.Errorf("%v: sequence %d, row %d, column %d is %v, want %v", c, b, at, ch, v, want)
					}
				}
			}
		}
		for _, options := range []nn.CPUOptions{{Threads: 1}, {Threads: 3}, {Mode: nn.ModeSplitK}} {
			if other := convolveLong(t, open(t, options), u, filter, skip, batch); !tensor.BitEqual(other, got) {
				t.Errorf("%v, %+v: differs", c, options)
			}
		}
		// The first rows of the last sequence alone, with a filter that ends later.
		part := 1 + length/2
		first := (batch - 1) * length * width
		alone := convolveLong(t, dev, f32(t, x[first:first+part*width], part, width), filter, skip, 1)
		if !tensor.BitEqual(alone, f32(t, got.Float32s()[first:first+part*width], part, width)) {
			t.Errorf("%v: the first %d rows alone differ", c, part)
		}
	}
	// No rows, and a filter without any.
	empty, none := f32(t, nil, 0, width), f32(t, make([]float32, width), width)
	if got := convolveLong(t, dev, empty, f32(t, make([]float32, width), 1, width), none, 1); got.Len() != 0 {
		t.Errorf("of no rows: %v", got)
	}
	ones := f32(t, slices.Repeat([]float32{1}, 2*width), 2, width)
	if got := convolveLong(t, dev, ones, empty, f32(t, slices.Repeat([]float32{3}, width), width), 2); !slices.Equal(got.Float32s(), slices.Repeat([]float32{3}, 2*width)) {
		t.Errorf("with no filter: %v", got.Float32s())
	}
	if got := hex.EncodeToString(sum.Sum(nil)[:8]); got != "030c6a9c7b7a914d" {
		t.Errorf("digest %s", got)
	}
}

// TestConvolveLongSpecialValues: what is infinite or no number reaches no earlier
// row and no other column or sequence.
func TestConvolveLongSpecialValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 5))
	dev := open(t, nn.CPUOptions{})
	const length, width, at = 150, 3, 70
	values := exactValues(rng, 2*length*width)
	filter := f32(t, exactValues(rng, length*width), length, width)
	skip := f32(t, make([]float32, width), width)
	want := convolveLong(t, dev, f32(t, values, 2*length, width), filter, skip, 2).Float32s()
	values[at*width+1] = float32(math.NaN())
	got := convolveLong(t, dev, f32(t, values, 2*length, width), filter, skip, 2).Float32s()
	for i, v := range got {
		touched := i%width == 1 && i/width >= at && i/width < length
		if touched && math.Float32bits(v) != 0x7fc00000 || !touched && v != want[i] {
			t.Errorf("row %d, column %d is %v", i/width, i%width, v)
		}
	}
}

func TestSineAndDecay(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 5))
	const rows, width = 70, 33
	x, w, now := exactValues(rng, rows*width), exactValues(rng, width), exactValues(rng, rows)
	x[5] = float32(math.Inf(1))
	const shift = float32(0.05)
	var sines, decays []float32
	for i, v := range x {
		sines = append(sines, fmath.Sin(w[i%width]*v))
		rate := float32(math.Abs(float64(w[i%width])))
		d := v * (fmath.Exp(-now[i/width]*rate) + shift)
		if d != d {
			d = fmath.NaN()
		}
		decays = append(decays, d)
	}
	for _, options := range []nn.CPUOptions{{Threads: 1}, {Threads: 3}} {
		dev := open(t, options)
		v := upload(t, dev, f32(t, w, width), nn.AsVector)
		got := long(t, dev, func(s nn.Session, l nn.LongConvolver) nn.Array { return l.Sine(s.FromHost(f32(t, x, rows, width)), v) })
		if !tensor.BitEqual(got, f32(t, sines, rows, width)) {
			t.Errorf("%+v: sines differ", options)
		}
		got = long(t, dev, func(s nn.Session, l nn.LongConvolver) nn.Array {
			return l.Decay(s.FromHost(f32(t, x, rows, width)), s.FromHost(f32(t, now, rows, 1)), v, shift)
		})
		if !tensor.BitEqual(got, f32(t, decays, rows, width)) {
			t.Errorf("%+v: decays differ", options)
		}
	}
}

func TestLongConvolverRefuses(t *testing.T) {
	dev := open(t, nn.CPUOptions{})
	vector := func(n int) nn.Array { return upload(t, dev, f32(t, make([]float32, n), n), nn.AsVector) }
	two, three := vector(2), vector(3)
	host := func(s nn.Session, rows, width int) nn.Array {
		return s.FromHost(f32(t, make([]float32, rows*width), rows, width))
	}
	convolution := func(batch, rows, width int, skip nn.Array) func(s nn.Session, l nn.LongConvolver) {
		return func(s nn.Session, l nn.LongConvolver) {
			l.ConvolveLong(host(s, 6, 3), nn.LongConvolution{Batch: batch, Filter: host(s, rows, width), Skip: skip})
		}
	}
	for name, c := range map[string]struct {
		f    func(s nn.Session, l nn.LongConvolver)
		is   error
		want string
	}{
		"batch":    {convolution(4, 6, 3, three), tensor.ErrShape, "u [6,3] does not divide into 4 sequences"},
		"no batch": {convolution(0, 6, 3, three), tensor.ErrShape, "into 0 sequences"},
		"filter":   {convolution(1, 6, 2, three), tensor.ErrShape, "the filter [6,2] does not fit u [6,3]"},
		"skip":     {convolution(1, 6, 3, two), tensor.ErrShape, "the skip must be [3], is [2]"},
		"type": {func(s nn.Session, l nn.LongConvolver) {
			l.ConvolveLong(s.Cast(host(s, 6, 3), tensor.BF16), nn.LongConvolution{Batch: 1, Filter: host(s, 6, 3), Skip: three})
		}, tensor.ErrDType, "u must be F32"},
		"sine":  {func(s nn.Session, l nn.LongConvolver) { l.Sine(host(s, 2, 3), two) }, tensor.ErrShape, "w must be [3], is [2]"},
		"times": {func(s nn.Session, l nn.LongConvolver) { l.Decay(host(s, 2, 3), host(s, 3, 1), three, 0) }, tensor.ErrShape, "t must be [2,1], is [3,1]"},
		"rate":  {func(s nn.Session, l nn.LongConvolver) { l.Decay(host(s, 2, 3), host(s, 2, 1), two, 0) }, tensor.ErrShape, "the rate must be [3], is [2]"},
		"none":  {func(s nn.Session, l nn.LongConvolver) { l.Sine(nil, three) }, nn.ErrOperand, "x is no array of the cpu device"},
	} {
		s := dev.Begin(context.Background())
		c.f(s, s.(nn.LongConvolver))
		if err := s.Close(); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	if err := nn.CanConvolveLong(dev); err != nil {
		t.Error(err)
	}
	if err := nn.CanConvolveLong(plain{dev}); !errors.Is(err, nn.ErrNoLongConvolution) || !strings.HasPrefix(err.Error(), "cpu: ") {
		t.Errorf("a device without long convolutions: %v", err)
	}
}

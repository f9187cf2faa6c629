package metalgpu

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

// convolveLongOn runs one long convolution on a device from a seed, with a few
// infinite and NaN values where they are asked for.
func convolveLongOn(t *testing.T, d nn.Device, batch, steps, rows, width int, special bool) *tensor.Tensor {
	t.Helper()
	e := &env{Rand: rand.New(rand.NewPCG(uint64(steps), uint64(rows))), device: d, s: d.Begin(context.Background()), dtype: tensor.F32}
	values := e.normal(tensor.F32, batch*steps*width)
	if special {
		values[len(values)*2/3] = float32(math.Inf(1))
		values[len(values)*5/6] = float32(math.NaN())
	}
	x := e.s.FromHost(e.tensor(tensor.F32, values, batch*steps, width))
	y := e.s.(nn.LongConvolver).ConvolveLong(x, nn.LongConvolution{
		Batch: batch, Filter: e.array(rows, width), Skip: e.upload(nn.AsVector, width),
	})
	out := e.s.ToHost(y)
	if err := e.s.Close(); err != nil || e.err != nil {
		t.Fatal(err, e.err)
	}
	return out
}

// TestLongConvolutions goes through all sizes of blocks, at their edges: results
// have the CPU device's bits, the first time and the second.
func TestLongConvolutions(t *testing.T) {
	cases := []struct {
		batch, steps, rows, width int
		special, large            bool
	}{
		{2, 1, 1, 3, false, false},
		{1, 64, 64, 2, true, false},
		{2, 65, 128, 2, false, false},
		{1, 150, 150, 2, false, false},
		{1, 300, 17, 1, false, false}, // a filter that is shorter
		{2, 1024, 1024, 1, true, false},
		{1, 1025, 2048, 1, false, false},
		{1, 2500, 2500, 1, true, true},
		{2, 16385, 32768, 1, false, true},
		{1, 40_000, 40_000, 1, true, true},
		{1, 262_300, 262_300, 1, false, true},
	}
	want := make([]*tensor.Tensor, len(cases))
	eachDevice(t, func(t *testing.T, o Options) {
		d, cpu := openTest(t, o), openCPU(t)
		for i, c := range cases {
			if c.large && (testing.Short() || o.API == "go") {
				continue
			}
			if want[i] == nil {
				want[i] = convolveLongOn(t, cpu, c.batch, c.steps, c.rows, c.width, c.special)
			}
			for turn := range 2 {
				if turn > 0 && c.steps > 100_000 {
					break
				}
				if got := convolveLongOn(t, d, c.batch, c.steps, c.rows, c.width, c.special); !tensor.BitEqual(got, want[i]) {
					t.Errorf("%d times %d rows of %d: other bits", c.batch, c.steps, c.width)
				}
			}
		}
	})
}

// Columns are convolved by and by where buffers cannot hold them all.
func TestLongConvolutionsInParts(t *testing.T) {
	eachDevice(t, func(t *testing.T, o Options) {
		const batch, steps, width = 2, 200, 5
		want := convolveLongOn(t, openCPU(t), batch, steps, steps, width, false)
		d := openTest(t, o)
		d.memory.bufferLimit = 2 * 2 * steps * complexBytes // two columns
		if got := convolveLongOn(t, d, batch, steps, steps, width, false); !tensor.BitEqual(got, want) {
			t.Error("other bits")
		}
	})
}

// TestConvolvesEverywhere: the sessions of all drivers convolve.
func TestConvolvesEverywhere(t *testing.T) {
	eachDevice(t, func(t *testing.T, o Options) {
		d := openTest(t, o)
		if err := nn.CanConvolve(d); err != nil {
			t.Error(err)
		}
		if err := nn.CanConvolveLong(d); err != nil {
			t.Error(err)
		}
	})
}

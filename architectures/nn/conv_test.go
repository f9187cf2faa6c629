package nn_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/tensor"
)

// kernel is a convolution with its weights on the host, in PyTorch's layout.
type kernel struct {
	groups, in, out, taps int // in and out of all groups together
	dilation, left        int
	weight, bias          []float32 // [out, in/groups, taps]; no bias if nil
}

func randomKernel(rng *rand.Rand, groups, in, out, taps, dilation, left int, bias bool) kernel {
	k := kernel{groups: groups, in: in, out: out, taps: taps, dilation: dilation, left: left}
	k.weight = exactValues(rng, out*in/groups*taps)
	if bias {
		k.bias = exactValues(rng, out)
	}
	return k
}

// upload gives the operands, grouped even where one channel makes a group when
// depthwise is false.
func (k *kernel) upload(t *testing.T, dev nn.Device, batch int, depthwise bool) nn.Convolution {
	t.Helper()
	c := nn.Convolution{Batch: batch, Kernel: k.taps, Dilation: k.dilation, Left: k.left}
	in, out := k.in/k.groups, k.out/k.groups
	if depthwise {
		taps := make([]float32, k.taps*k.in)
		for ch := range k.in {
			for j := range k.taps {
				taps[j*k.in+ch] = k.weight[ch*k.taps+j]
			}
		}
		c.Taps = upload(t, dev, f32(t, taps, len(taps)), nn.AsVector)
	} else {
		for g := range k.groups {
			m := make([]float32, 0, out*k.taps*in)
			for o := range out {
				for j := range k.taps {
					for ch := range in {
						m = append(m, k.weight[((g*out+o)*in+ch)*k.taps+j])
					}
				}
			}
			c.Groups = append(c.Groups, upload(t, dev, f32(t, m, out, k.taps*in), nn.AsMatrix))
		}
	}
	if k.bias != nil {
		c.Bias = upload(t, dev, f32(t, k.bias, len(k.bias)), nn.AsVector)
	}
	return c
}

// apply is the definition, one value at a time.
func (k *kernel) apply(x []float32, batch int) []float32 {
	length := len(x) / k.in / batch
	in, out := k.in/k.groups, k.out/k.groups
	var y []float32
	for b := range batch {
		for t := range length {
			for o := range k.out {
				sum := float32(0)
				for j := range k.taps {
					for ch := range in {
						v := float32(0)
						if at := t - k.left + j*max(k.dilation, 1); at >= 0 && at < length {
							v = x[(b*length+at)*k.in+o/out*in+ch]
						}
						sum += float32(v * k.weight[(o*in+ch)*k.taps+j])
					}
				}
				if k.bias != nil {
					sum += k.bias[o]
				}
				if sum != sum {
					sum = fmath.NaN()
				}
				y = append(y, sum)
			}
		}
	}
	return y
}

func convolve(t *testing.T, dev nn.Device, x *tensor.Tensor, c nn.Convolution) *tensor.Tensor {
	t.Helper()
	s := dev.Begin(context.Background())
	defer s.Close()
	y := s.ToHost(s.(nn.Convolver).Convolve(s.FromHost(x), c))
	if y == nil {
		t.Fatal(s.Err())
	}
	return y
}

// convolutionCases have odd sizes, several groups, dilation, zeros on one side
// alone, and sequences that are shorter than the kernel or longer than a stripe.
func convolutionCases(rng *rand.Rand) map[string]kernel {
	return map[string]kernel{
		"grouped":        randomKernel(rng, 3, 9, 15, 5, 0, 2, true),
		"wide group":     randomKernel(rng, 1, 33, 17, 3, 1, 1, false),
		"31 taps":        randomKernel(rng, 16, 32, 32, 31, 1, 15, true),
		"causal":         randomKernel(rng, 2, 8, 8, 4, 3, 9, true),
		"depthwise":      randomKernel(rng, 21, 21, 21, 7, 1, 3, true),
		"depthwise wide": randomKernel(rng, 12, 12, 12, 3, 2, 0, false),
	}
}

// TestConvolve compares with the definition bit by bit, on both devices, with any
// number of threads and as grouped and depthwise operands.
func TestConvolve(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var all []byte
	cases := convolutionCases(rng)
	for _, name := range []string{"grouped", "wide group", "31 taps", "causal", "depthwise", "depthwise wide"} {
		k := cases[name]
		for _, shape := range [][2]int{{1, 1}, {1, 2}, {3, 20}, {2, 130}} {
			batch, length := shape[0], shape[1]
			x := f32(t, exactValues(rng, batch*length*k.in), batch*length, k.in)
			want := f32(t, k.apply(x.Float32s(), batch), batch*length, k.out)
			all = append(all, want.Bytes()...)
			for _, options := range []nn.CPUOptions{{Threads: 1}, {Threads: 3}, {Mode: nn.ModeSplitK}} {
				dev := open(t, options)
				for _, depthwise := range []bool{false, k.groups == k.in && k.in == k.out} {
					got := convolve(t, dev, x, k.upload(t, dev, batch, depthwise))
					if !tensor.BitEqual(got, want) {
						t.Errorf("%s, %d sequences of %d, %+v: differs", name, batch, length, options)
					}
				}
			}
		}
	}
	sum := sha256.Sum256(all)
	if got := hex.EncodeToString(sum[:8]); got != "21555b98cc8dbbde" {
		t.Errorf("digest %s", got)
	}
}

// TestConvolveSpecialValues: what is not a number stays within reach of the kernel
// and is canonical.
func TestConvolveSpecialValues(t *testing.T) {
	dev := open(t, nn.CPUOptions{})
	rng := rand.New(rand.NewPCG(5, 6))
	for name, k := range convolutionCases(rng) {
		values := exactValues(rng, 40*k.in)
		inf := float32(1e38)
		values[20*k.in] = inf * inf
		values[21*k.in+1] = inf*inf - inf*inf
		x := f32(t, values, 40, k.in)
		want := f32(t, k.apply(values, 2), 40, k.out)
		got := convolve(t, dev, x, k.upload(t, dev, 2, k.groups == k.in && k.in == k.out))
		if !tensor.BitEqual(got, want) {
			t.Errorf("%s differs", name)
		}
	}
}

// In 16-bit types the sum with the bias is rounded once.
func TestConvolveHalf(t *testing.T) {
	dev := open(t, nn.CPUOptions{})
	rng := rand.New(rand.NewPCG(8, 9))
	for _, d := range []tensor.DType{tensor.BF16, tensor.F16} {
		k := randomKernel(rng, 2, 6, 4, 3, 1, 1, true)
		half := func(v []float32, shape ...int) *tensor.Tensor {
			x := newHalf(t, d, v, shape...)
			copy(v, widened(x))
			return x
		}
		values := exactValues(rng, 10*6)
		x := half(values, 10, 6)
		half(k.weight, len(k.weight))
		c := nn.Convolution{Batch: 2, Kernel: 3, Left: 1, Bias: upload(t, dev, half(k.bias, 4), nn.AsVector)}
		for g := range 2 {
			m := make([]float32, 0, 2*9)
			for o := range 2 {
				for j := range 3 {
					for ch := range 3 {
						m = append(m, k.weight[((g*2+o)*3+ch)*3+j])
					}
				}
			}
			c.Groups = append(c.Groups, upload(t, dev, half(m, 2, 9), nn.AsMatrix))
		}
		got := convolve(t, dev, x, c)
		if want := half(k.apply(values, 2), 10, 4); !tensor.BitEqual(got, want) {
			t.Errorf("%v differs", d)
		}
	}
}

func newHalf(t *testing.T, d tensor.DType, v []float32, shape ...int) *tensor.Tensor {
	t.Helper()
	x, err := tensor.New(d, shape...)
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range v {
		if d == tensor.BF16 {
			x.Uint16s()[i] = fmath.BF16Bits(fmath.RoundBF16(w))
		} else {
			x.Uint16s()[i] = fmath.F16Bits(fmath.RoundF16(w))
		}
	}
	return x
}

func widened(x *tensor.Tensor) []float32 {
	v := make([]float32, x.Len())
	if x.DType() == tensor.BF16 {
		fmath.WidenBF16(v, x.Uint16s())
	} else {
		fmath.WidenF16(v, x.Uint16s())
	}
	return v
}

func TestConvolveRefused(t *testing.T) {
	dev := open(t, nn.CPUOptions{})
	rng := rand.New(rand.NewPCG(1, 2))
	grouped, wide := randomKernel(rng, 2, 6, 4, 3, 1, 1, true), randomKernel(rng, 1, 3, 2, 3, 1, 1, false)
	deep := randomKernel(rng, 6, 6, 6, 3, 1, 1, true)
	x := f32(t, exactValues(rng, 10*6), 10, 6)
	good := grouped.upload(t, dev, 2, false)
	for name, c := range map[string]struct {
		change func(*nn.Convolution)
		is     error
		want   string
	}{
		"batch":         {func(c *nn.Convolution) { c.Batch = 3 }, tensor.ErrShape, "x [10,6] does not divide into 3 sequences"},
		"no batch":      {func(c *nn.Convolution) { c.Batch = 0 }, tensor.ErrShape, "into 0 sequences"},
		"left":          {func(c *nn.Convolution) { c.Left = 3 }, tensor.ErrShape, "3 taps, dilation 1, 3 of them to the left"},
		"dilation":      {func(c *nn.Convolution) { c.Dilation = -1 }, tensor.ErrShape, "dilation -1"},
		"no weights":    {func(c *nn.Convolution) { c.Groups = nil }, nn.ErrOperand, "expected either groups or taps"},
		"both":          {func(c *nn.Convolution) { c.Taps = c.Bias }, nn.ErrOperand, "expected either groups or taps"},
		"groups differ": {func(c *nn.Convolution) { c.Groups = wide.upload(t, dev, 1, false).Groups }, tensor.ErrShape, "group 0 of 1, [2,9], does not fit x [10,6] and 3 taps"},
		"vectors":       {func(c *nn.Convolution) { c.Groups = []nn.Array{c.Bias, c.Bias} }, nn.ErrOperand, "group 0 was not uploaded as a matrix"},
		"bias":          {func(c *nn.Convolution) { c.Bias = deep.upload(t, dev, 1, true).Bias }, tensor.ErrShape, "the bias must be [4], is [6]"},
		"taps": {func(c *nn.Convolution) {
			*c = deep.upload(t, dev, 2, true)
			c.Kernel = 2
		}, tensor.ErrShape, "the taps must be [12], is [18]"},
	} {
		in := good
		c.change(&in)
		s := dev.Begin(context.Background())
		s.(nn.Convolver).Convolve(s.FromHost(x), in)
		if err := s.Close(); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

// plain is a device whose sessions do not convolve.
type plain struct{ nn.Device }

type plainSession struct{ nn.Session }

func (p plain) Begin(ctx context.Context) nn.Session { return plainSession{p.Device.Begin(ctx)} }

func TestConv1D(t *testing.T) {
	dev := open(t, nn.CPUOptions{})
	rng := rand.New(rand.NewPCG(2, 2))
	for _, c := range []struct{ groups, in, out, taps int }{{2, 6, 4, 5}, {6, 6, 6, 7}, {1, 3, 5, 1}} {
		k := randomKernel(rng, c.groups, c.in, c.out, c.taps, 1, c.taps/2, true)
		weights := map[string]*tensor.Tensor{"w": f32(t, k.weight, c.out, c.in/c.groups, c.taps), "b": f32(t, k.bias, c.out)}
		get := func(name string) (*tensor.Tensor, error) { return weights[name], nil }
		conv, err := nn.NewConv1D(dev, get, "w", "b", c.groups)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(conv.ParamNames()); got != "[w b]" {
			t.Errorf("parameters %s", got)
		}
		x := f32(t, exactValues(rng, 24*c.in), 24, c.in)
		s := dev.Begin(context.Background())
		y, err := conv.Forward(s, s.FromHost(x), 2)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.ToHost(y); !tensor.BitEqual(got, f32(t, k.apply(x.Float32s(), 2), 24, c.out)) {
			t.Errorf("%+v differs", c)
		}
		if _, err := conv.Forward(plainSession{s}, y, 2); !errors.Is(err, nn.ErrNoConvolution) {
			t.Errorf("a session that does not convolve: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := nn.NewConv1D(plain{dev}, get, "w", "b", c.groups); !errors.Is(err, nn.ErrNoConvolution) || !strings.HasPrefix(err.Error(), "cpu: ") {
			t.Errorf("a device that does not convolve: %v", err)
		}
		weights["b"] = f32(t, []float32{1}, 1)
		if _, err := nn.NewConv1D(dev, get, "w", "b", c.groups); !errors.Is(err, tensor.ErrShape) {
			t.Errorf("a short bias: %v", err)
		}
		weights["w"] = f32(t, exactValues(rng, 12), 3, 1, 4)
		if _, err := nn.NewConv1D(dev, get, "w", "b", 1); !errors.Is(err, tensor.ErrShape) || !strings.Contains(err.Error(), "odd kernel") {
			t.Errorf("an even kernel: %v", err)
		}
	}
}

// TestMishMap: the activation of convolutional embeddings, rounded once in every
// type.
func TestMishMap(t *testing.T) {
	dev := open(t, nn.CPUOptions{Threads: 2})
	rng := rand.New(rand.NewPCG(4, 4))
	x := f32(t, exactValues(rng, 900), 9, 100)
	s := dev.Begin(context.Background())
	defer s.Close()
	if nn.Mish.String() != "mish" {
		t.Error(nn.Mish)
	}
	got := s.ToHost(s.Map(nn.Mish, s.FromHost(x)))
	half := s.ToHost(s.Map(nn.Mish, s.Cast(s.FromHost(x), tensor.BF16)))
	for i, v := range x.Float32s() {
		if got.Float32s()[i] != fmath.Mish(v) {
			t.Fatalf("mish(%g) = %g", v, got.Float32s()[i])
		}
		if want := fmath.RoundBF16(fmath.Mish(fmath.RoundBF16(v))); fmath.BF16(half.Uint16s()[i]) != want {
			t.Fatalf("mish(%g) in BF16 = %g", v, fmath.BF16(half.Uint16s()[i]))
		}
	}
}

package finitepass_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/tensor"
)

// encoder is Linear 17→32, layer norm, SiLU on a device whose rows round
// otherwise when they are few.
func encoder(t testing.TB, dev nn.Device) []nn.RowLocal {
	t.Helper()
	r := rand.New(rand.NewPCG(5, 6))
	w := weights{
		"w": randomTensor(t, r, 0.3, 32, 17), "b": randomTensor(t, r, 1, 32),
		"g": randomTensor(t, r, 1, 32), "h": randomTensor(t, r, 1, 32),
	}
	linear, err := nn.NewLinear(dev, w.Tensor, "w", "b")
	if err != nil {
		t.Fatal(err)
	}
	norm, err := nn.NewLayerNorm(dev, w.Tensor, "g", "h", 1e-5)
	if err != nil {
		t.Fatal(err)
	}
	return []nn.RowLocal{linear, norm, nn.Activation{Function: nn.SiLU}}
}

func constants(t testing.TB, n int) []*tensor.Tensor {
	r := rand.New(rand.NewPCG(8, 9))
	out := make([]*tensor.Tensor, n)
	for i := range out {
		out[i] = randomTensor(t, r, 1, 17)
	}
	return out
}

func assign(rows []int, values []*tensor.Tensor) []finitepass.Assignment {
	out := make([]finitepass.Assignment, len(rows))
	for i, r := range rows {
		out[i] = finitepass.Assignment{Row: r, Value: values[i]}
	}
	return out
}

func constantRows(t testing.TB, dev nn.Device, layers []nn.RowLocal, o finitepass.ConstantRowsOptions) *finitepass.ConstantRows {
	t.Helper()
	c, err := finitepass.NewConstantRows(dev, layers, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustRows(t testing.TB, c *finitepass.ConstantRows, shape tensor.Shape, at []finitepass.Assignment) *tensor.Tensor {
	t.Helper()
	x, err := c.Rows(context.Background(), shape, at)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func wantStats(t testing.TB, c *finitepass.ConstantRows, hits, misses, entries int) {
	t.Helper()
	if s := c.Stats(); s.Hits != hits || s.Misses != misses || s.Entries != entries {
		t.Errorf("%+v, expected %d hits, %d misses, %d entries", s, hits, misses, entries)
	}
}

// SC-1, SC-7: exactly the rows of a real batch of that shape, on a device where
// a row alone comes out otherwise; the second call is a hit that the first
// caller cannot have spoilt.
func TestConstantRowsMatchTheirShape(t *testing.T) {
	dev := openCPU(t, nn.ModeSplitK)
	layers := encoder(t, dev)
	values := constants(t, 4)
	for _, shape := range []tensor.Shape{{17}, {2, 11, 17}, {2, 3, 5, 17}} {
		n, _ := shape[:len(shape)-1].Elements()
		positions := []int{0, 10, 11, 21}
		switch n {
		case 1:
			positions = positions[:1]
		case 30:
			positions[3] = 29
		}
		c := constantRows(t, dev, layers, finitepass.ConstantRowsOptions{})
		at := assign(positions, values)
		got := mustRows(t, c, shape, at)
		// A real batch has other rows beside the constants.
		batch := randomTensor(t, rand.New(rand.NewPCG(1, 1)), 1, n, 17)
		for _, a := range at {
			copy(batch.Row(a.Row), a.Value.Bytes())
		}
		s := dev.Begin(context.Background())
		x := s.FromHost(batch)
		for _, l := range layers {
			x = l.Forward(s, x)
		}
		whole := s.ToHost(x)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for i, a := range at {
			if string(got.Row(i)) != string(whole.Row(a.Row)) {
				t.Errorf("%v: constant %d differs from the batch", shape, i)
			}
		}
		clear(got.Bytes())
		again := mustRows(t, c, shape, at)
		if string(again.Row(0)) != string(whole.Row(at[0].Row)) {
			t.Error("a kept result was changed by its caller")
		}
		wantStats(t, c, 1, 1, 1)
		if s := c.Stats(); s.Bytes != int64(len(at)*32*4) {
			t.Errorf("%d bytes kept", s.Bytes)
		}
	}
	// Alone, the same row has other bits on this device: the shape matters.
	c := constantRows(t, dev, layers, finitepass.ConstantRowsOptions{})
	alone := mustRows(t, c, tensor.Shape{17}, assign([]int{0}, values))
	inside := mustRows(t, c, tensor.Shape{30, 17}, assign([]int{0}, values))
	if tensor.BitEqual(alone, inside) {
		t.Error("this device does not tell the shapes apart, so the test shows nothing")
	}
}

// SC-2, SC-8: whatever decides a result is part of what it is kept under.
func TestConstantRowsAreInvalidated(t *testing.T) {
	dev := openCPU(t, "")
	layers := encoder(t, dev)
	values := constants(t, 2)
	c := constantRows(t, dev, layers, finitepass.ConstantRowsOptions{})
	shape := tensor.Shape{5, 17}
	misses := 0
	call := func(name string, miss bool) *tensor.Tensor {
		t.Helper()
		x := mustRows(t, c, shape, assign([]int{3}, values))
		if miss {
			misses++
		}
		if s := c.Stats(); s.Misses != misses {
			t.Errorf("%s: %+v, expected %d misses", name, s, misses)
		}
		return x
	}
	first := call("first", true)
	call("same", false)
	other := encoder(t, dev)[0].(*nn.Linear)
	linear := layers[0].(*nn.Linear)
	old := linear.Bias
	zero, _ := tensor.New(tensor.F32, 32)
	bias, err := dev.Upload(zero, nn.AsVector)
	if err != nil {
		t.Fatal(err)
	}
	linear.Bias = bias
	if tensor.BitEqual(first, call("bias", true)) {
		t.Error("the old bias was used")
	}
	linear.Bias = old
	if !tensor.BitEqual(first, call("bias restored", true)) {
		t.Error("the new bias was used")
	}
	weight := linear.Weight
	linear.Weight = other.Weight
	call("weight replaced by an equal one", true)
	linear.Weight = weight
	call("weight restored", true)
	layers[1].(*nn.LayerNorm).Eps = 1e-3
	call("eps", true)
	values[0] = values[1]
	call("another constant", true)
	values[0].Float32s()[0]++
	call("constant changed in place", true)
	shape = tensor.Shape{6, 17}
	call("shape", true)
	call("same again", false)
}

// SC-3, SC-11: both bounds hold, and the least recently used goes first.
func TestConstantRowsBounds(t *testing.T) {
	dev := openCPU(t, "")
	layers := encoder(t, dev)
	values := constants(t, 3)
	one := func(c *finitepass.ConstantRows, rows int) {
		t.Helper()
		mustRows(t, c, tensor.Shape{rows, 17}, assign([]int{0}, values))
	}
	c := constantRows(t, dev, layers, finitepass.ConstantRowsOptions{MaxEntries: 2})
	one(c, 1)
	one(c, 2)
	one(c, 1)
	one(c, 3) // drops 2
	one(c, 1)
	wantStats(t, c, 2, 3, 2)
	one(c, 2)
	wantStats(t, c, 2, 4, 2)
	c = constantRows(t, dev, layers, finitepass.ConstantRowsOptions{MaxBytes: 256})
	for n := range 3 {
		one(c, n+1)
	}
	wantStats(t, c, 0, 3, 2)
	mustRows(t, c, tensor.Shape{9, 17}, assign([]int{0, 1, 2}, values)) // 384 bytes
	wantStats(t, c, 0, 4, 2)
	c.Clear()
	wantStats(t, c, 0, 0, 0)
	for _, o := range []finitepass.ConstantRowsOptions{{MaxEntries: -1}, {MaxBytes: -1}} {
		c = constantRows(t, dev, layers, o)
		one(c, 1)
		one(c, 1)
		wantStats(t, c, 0, 2, 0)
	}
}

// SC-10: malformed calls.
func TestConstantRowsRefuse(t *testing.T) {
	dev := openCPU(t, "")
	layers := encoder(t, dev)
	values := constants(t, 2)
	c := constantRows(t, dev, layers, finitepass.ConstantRowsOptions{})
	half, _ := tensor.New(tensor.F16, 17)
	short, _ := tensor.New(tensor.F32, 16)
	infinite, _ := tensor.New(tensor.F32, 17)
	infinite.Float32s()[3] = float32(math.Inf(1))
	for name, call := range map[string]struct {
		shape tensor.Shape
		at    []finitepass.Assignment
		want  error
	}{
		"no axes":        {tensor.Shape{}, assign([]int{0}, values), tensor.ErrShape},
		"no rows":        {tensor.Shape{0, 17}, assign([]int{0}, values), finitepass.ErrOptions},
		"another width":  {tensor.Shape{3, 16}, assign([]int{0}, values), tensor.ErrShape},
		"huge":           {tensor.Shape{1 << 40, 17}, assign([]int{0}, values), tensor.ErrShape},
		"nothing":        {tensor.Shape{3, 17}, nil, finitepass.ErrOptions},
		"row twice":      {tensor.Shape{3, 17}, assign([]int{1, 1}, values), finitepass.ErrOptions},
		"row 3 of 3":     {tensor.Shape{3, 17}, assign([]int{3}, values), finitepass.ErrOptions},
		"negative row":   {tensor.Shape{3, 17}, assign([]int{-1}, values), finitepass.ErrOptions},
		"half constant":  {tensor.Shape{3, 17}, assign([]int{0}, []*tensor.Tensor{half}), tensor.ErrShape},
		"short constant": {tensor.Shape{3, 17}, assign([]int{0}, []*tensor.Tensor{short}), tensor.ErrShape},
		"nil constant":   {tensor.Shape{3, 17}, assign([]int{0}, []*tensor.Tensor{nil}), tensor.ErrShape},
		"infinite":       {tensor.Shape{3, 17}, assign([]int{0}, []*tensor.Tensor{infinite}), finitepass.ErrNonFinite},
	} {
		if _, err := c.Rows(context.Background(), call.shape, call.at); !errors.Is(err, call.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := finitepass.NewConstantRows(dev, nil, finitepass.ConstantRowsOptions{}); !errors.Is(err, finitepass.ErrOptions) {
		t.Errorf("no layers: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Rows(ctx, tensor.Shape{3, 17}, assign([]int{0}, values)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if s := c.Stats(); s.Entries != 0 {
		t.Errorf("a failure was kept: %+v", s)
	}
}

func TestConstantRowsConcurrently(t *testing.T) {
	dev := openCPU(t, "")
	c := constantRows(t, dev, encoder(t, dev), finitepass.ConstantRowsOptions{MaxEntries: 3})
	values := constants(t, 1)
	want := mustRows(t, c, tensor.Shape{4, 17}, assign([]int{2}, values))
	var wait sync.WaitGroup
	for k := range 8 {
		wait.Go(func() {
			for i := range 20 {
				rows := 4 + (i+k)%5
				x, err := c.Rows(context.Background(), tensor.Shape{rows, 17}, assign([]int{2}, values))
				if err != nil || !tensor.BitEqual(x, want) { // this device has one regime
					t.Errorf("%d rows: %v", rows, err)
					return
				}
			}
		})
	}
	wait.Wait()
}

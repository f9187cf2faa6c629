package nn_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/tensor"
)

// near compares with a float64 reference.
func near(t *testing.T, what string, got *tensor.Tensor, want []float64, tolerance float64) {
	t.Helper()
	if got == nil {
		t.Fatalf("%s: no result", what)
	}
	worst := 0.0
	for i, v := range got.Float32s() {
		worst = math.Max(worst, math.Abs(float64(v)-want[i])/math.Max(1, math.Abs(want[i])))
	}
	if !(worst <= tolerance) {
		t.Errorf("%s: off by %g, tolerance %g", what, worst, tolerance)
	}
}

func TestNormsAgainstFloat64(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	dev := open(t, nn.CPUOptions{})
	for _, width := range []int{1, 2, 7, 8, 9, 64, 515, 4096} {
		const rows = 3
		x, w, b := normal(rng, rows*width), normal(rng, width), normal(rng, width)
		for i := range x {
			x[i] = x[i]*3 + 1
		}
		const eps = 1e-3
		var rms, layer, plain, unit []float64
		for r := range rows {
			var sum, squares, variance float64
			row := x[r*width : (r+1)*width]
			for _, v := range row {
				sum += float64(v)
				squares += float64(v) * float64(v)
			}
			mean := sum / float64(width)
			for _, v := range row {
				variance += (float64(v) - mean) * (float64(v) - mean)
			}
			for i, v := range row {
				d := (float64(v) - mean) / math.Sqrt(variance/float64(width)+float64(float32(eps)))
				plain = append(plain, d)
				layer = append(layer, d*float64(w[i])+float64(b[i]))
				rms = append(rms, float64(w[i])*float64(v)/math.Sqrt(squares/float64(width)+float64(float32(eps))))
				unit = append(unit, float64(v)/math.Sqrt(squares))
			}
		}
		s := dev.Begin(context.Background())
		a := s.FromHost(f32(t, x, rows, width))
		weight, bias := upload(t, dev, f32(t, w, width), nn.AsVector), upload(t, dev, f32(t, b, width), nn.AsVector)
		near(t, "rmsnorm", s.ToHost(s.RMSNorm(a, weight, eps)), rms, 1e-6)
		near(t, "layernorm", s.ToHost(s.LayerNorm(a, weight, bias, eps)), layer, 3e-6)
		near(t, "layernorm without weight", s.ToHost(s.LayerNorm(a, nil, nil, eps)), plain, 3e-6)
		near(t, "row normalize", s.ToHost(s.RowNormalize(a, 1e-12)), unit, 1e-6)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSoftmaxAgainstFloat64(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	dev := open(t, nn.CPUOptions{})
	const queries, keys, size = 5, 300, 16
	q, k := normal(rng, queries*size), normal(rng, keys*size)
	var want []float64
	for i := range queries {
		var row []float64
		total := 0.0
		for j := range keys {
			dot := 0.0
			for d := range size {
				dot += float64(q[i*size+d]) * float64(k[j*size+d])
			}
			row = append(row, math.Exp(0.5*dot))
			total += row[j]
		}
		for _, v := range row {
			want = append(want, v/total)
		}
	}
	s := dev.Begin(context.Background())
	defer s.Close()
	kv := s.FromHost(f32(t, k, keys, size))
	out := s.Attention(nn.AttentionInput{Q: s.FromHost(f32(t, q, queries, size)), K: kv, V: kv,
		Batch: 1, Heads: 1, KVHeads: 1, HeadDim: size, Scale: 0.5, Weights: true})
	near(t, "softmax", s.ToHost(out.Weights), want, 2e-6)
}

func TestElementwise(t *testing.T) {
	dev := open(t, nn.CPUOptions{})
	s := dev.Begin(context.Background())
	defer s.Close()
	inf, negZero := float32(math.Inf(1)), float32(math.Copysign(0, -1))
	x := []float32{1, -2, negZero, inf, math.Float32frombits(0xffc00001), 1e-45}
	y := []float32{0.5, 2, negZero, -inf, 1, 2}
	a, b := s.FromHost(f32(t, x, 2, 3)), s.FromHost(f32(t, y, 2, 3))
	check(t, "add", s.ToHost(s.Add(a, b)), []float32{1.5, 0, negZero, fmath.NaN(), fmath.NaN(), 2}, 2, 3)
	check(t, "mul", s.ToHost(s.Mul(a, b)), []float32{0.5, -4, 0, -inf, fmath.NaN(), 3e-45}, 2, 3)
	check(t, "scale", s.ToHost(s.Scale(a, -2)), []float32{-2, 4, 0, -inf, fmath.NaN(), -3e-45}, 2, 3)
	check(t, "relu", s.ToHost(s.Map(nn.ReLU, a)), []float32{1, 0, 0, inf, fmath.NaN(), 1e-45}, 2, 3)
	check(t, "columns", s.ToHost(s.Columns(a, 1, 2)), []float32{-2, negZero, x[4], 1e-45}, 2, 2)
	check(t, "operand", s.ToHost(a), x, 2, 3)
	for f, g := range map[nn.Unary]func(float32) float32{nn.SiLU: fmath.SiLU, nn.GELU: fmath.GELU, nn.GELUTanh: fmath.GELUTanh, nn.Tanh: fmath.Tanh, nn.Sigmoid: fmath.Sigmoid} {
		var want []float32
		for _, v := range x {
			want = append(want, g(v))
		}
		check(t, f.String(), s.ToHost(s.Map(f, a)), want, 2, 3)
	}
}

func TestRotary(t *testing.T) {
	dev := open(t, nn.CPUOptions{})
	s := dev.Begin(context.Background())
	defer s.Close()
	x := s.FromHost(f32(t, []float32{1, 2, 3, 4, 5, 10, 20, 30, 40, 50}, 1, 10))
	cos, sin := s.FromHost(f32(t, []float32{0.5, 0.25}, 1, 2)), s.FromHost(f32(t, []float32{2, 4}, 1, 2))
	// Two heads of five elements, of which four rotate.
	check(t, "halves", s.ToHost(s.Rotary(x, cos, sin, 2, nn.RotateHalves)),
		[]float32{0.5 - 6, 0.5 - 16, 1.5 + 2, 1 + 8, 5, 5 - 60, 5 - 160, 15 + 20, 10 + 80, 50}, 1, 10)
	check(t, "pairs", s.ToHost(s.Rotary(x, cos, sin, 2, nn.RotatePairs)),
		[]float32{0.5 - 4, 1 + 2, 0.75 - 16, 1 + 12, 5, 5 - 40, 10 + 20, 7.5 - 160, 10 + 120, 50}, 1, 10)
}

func TestGatherKeepsBitsOfAnyType(t *testing.T) {
	dev := open(t, nn.CPUOptions{})
	s := dev.Begin(context.Background())
	defer s.Close()
	for _, d := range []tensor.DType{tensor.BF16, tensor.F32, tensor.I64} {
		src, err := tensor.New(d, 7, 3)
		if err != nil {
			t.Fatal(err)
		}
		for i := range src.Bytes() {
			src.Bytes()[i] = byte(i*37 + 255)
		}
		rows, err := nn.TensorRows(src)
		if err != nil {
			t.Fatal(err)
		}
		table, err := dev.UploadRows(rows)
		if err != nil {
			t.Fatal(err)
		}
		ids := []int{6, 0, 6, 3}
		got := s.ToHost(s.Gather(table, ids))
		if got == nil || got.DType() != d || !got.Shape().Equal(tensor.Shape{4, 3}) {
			t.Fatalf("%v: %v, %v", d, got, s.Err())
		}
		for i, id := range ids {
			if string(got.Row(i)) != string(src.Row(id)) {
				t.Errorf("%v: row %d differs", d, i)
			}
		}
		if none := s.ToHost(s.Gather(table, nil)); none == nil || !none.Shape().Equal(tensor.Shape{0, 3}) {
			t.Errorf("no ids: %v", none)
		}
	}
}

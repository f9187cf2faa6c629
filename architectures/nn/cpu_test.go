package nn_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/tensor"
)

func open(t testing.TB, opt nn.CPUOptions) nn.Device {
	t.Helper()
	d, err := nn.OpenCPU(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func f32(t testing.TB, v []float32, shape ...int) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromFloat32s(v, shape...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func normal(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}

func upload(t testing.TB, d nn.Device, x *tensor.Tensor, use nn.Use) nn.Array {
	t.Helper()
	a, err := d.Upload(x, use)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// check compares bits.
func check(t *testing.T, what string, got *tensor.Tensor, want []float32, shape ...int) {
	t.Helper()
	if got == nil {
		t.Fatalf("%s: no result", what)
	}
	if !got.Shape().Equal(shape) {
		t.Fatalf("%s: shape %v, want %v", what, got.Shape(), tensor.Shape(shape))
	}
	for i, v := range got.Float32s() {
		if math.Float32bits(v) != math.Float32bits(want[i]) {
			t.Fatalf("%s: element %d is %v (%08x), want %v (%08x)", what, i, v, math.Float32bits(v), want[i], math.Float32bits(want[i]))
		}
	}
}

func TestLinear(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	dev := open(t, nn.CPUOptions{})
	for _, rows := range []int{0, 1, 2, 5, 15, 16, 33} {
		const in, out = 37, 50
		x, w, b := normal(rng, rows*in), normal(rng, out*in), normal(rng, out)
		want := make([]float32, rows*out)
		for r := range rows {
			for j := range out {
				var s float32
				for k := range in {
					s += float32(x[r*in+k] * w[j*in+k])
				}
				want[r*out+j] = s + b[j]
			}
		}
		s := dev.Begin(context.Background())
		weight, bias := upload(t, dev, f32(t, w, out, in), nn.AsMatrix), upload(t, dev, f32(t, b, out), nn.AsVector)
		y := s.Linear(s.FromHost(f32(t, x, rows, in)), weight, bias)
		check(t, "linear", s.ToHost(y), want, rows, out)
		check(t, "weight", s.ToHost(weight), w, out, in)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// attend is the definition of attention, one query at a time.
func attend(q, k, v []float32, in nn.AttentionInput, queries, keys int, bias []float32) (context, weights []float32) {
	size, group := in.HeadDim, in.Heads/in.KVHeads
	for b := range in.Batch {
		for t := range queries {
			for h := range in.Heads {
				qr := q[((b*queries+t)*in.Heads+h)*size:][:size]
				shown := make([]bool, keys)
				p := make([]float32, keys)
				highest, blind := float32(math.Inf(-1)), true
				for i := range keys {
					shown[i] = (!in.Causal || i <= keys-queries+t) && (in.Mask == nil || in.Mask[b*keys+i])
					if !shown[i] {
						continue
					}
					blind = false
					kr := k[((b*keys+i)*in.KVHeads+h/group)*size:][:size]
					for d := range size {
						p[i] += float32(qr[d] * kr[d])
					}
					p[i] = float32(p[i] * in.Scale)
					if bias != nil {
						p[i] += bias[(h*queries+t)*keys+i]
					}
					if in.KeyBias != nil {
						p[i] += in.KeyBias[b*keys+i]
					}
					highest = max(highest, p[i])
				}
				var total float32
				for i := range p {
					switch {
					case blind:
						p[i], total, shown[i] = 1, float32(keys), true
					case shown[i]:
						p[i] = fmath.Exp(p[i] - highest)
						total += p[i]
					}
				}
				row := make([]float32, size)
				for i := range p {
					p[i] /= total
					if !shown[i] {
						continue
					}
					vr := v[((b*keys+i)*in.KVHeads+h/group)*size:][:size]
					for d := range row {
						row[d] += float32(p[i] * vr[d])
					}
				}
				context = append(context, row...)
				weights = append(weights, p...)
			}
		}
	}
	return context, weights
}

// byHead reorders weights from (sequence, query, head) to (sequence, head, query).
func byHead(w []float32, batch, queries, heads, keys int) []float32 {
	out := make([]float32, len(w))
	for b := range batch {
		for t := range queries {
			for h := range heads {
				copy(out[((b*heads+h)*queries+t)*keys:][:keys], w[((b*queries+t)*heads+h)*keys:])
			}
		}
	}
	return out
}

func TestAttention(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	dev := open(t, nn.CPUOptions{Threads: 3})
	for i := range 150 {
		in := nn.AttentionInput{
			Batch: 1 + rng.IntN(3), KVHeads: 1 + rng.IntN(2), HeadDim: []int{1, 4, 16, 17, 24}[rng.IntN(5)],
			Scale: 0.3, Causal: rng.IntN(2) == 0, Weights: rng.IntN(2) == 0,
		}
		in.Heads = in.KVHeads * (1 + rng.IntN(3))
		keys := 1 + rng.IntN(40)
		queries := []int{keys, 1, rng.IntN(keys + 1), keys + 2}[rng.IntN(4)]
		q := normal(rng, in.Batch*queries*in.Heads*in.HeadDim)
		k, v := normal(rng, in.Batch*keys*in.KVHeads*in.HeadDim), normal(rng, in.Batch*keys*in.KVHeads*in.HeadDim)
		if rng.IntN(2) == 0 {
			in.Mask = make([]bool, in.Batch*keys)
			for j := range in.Mask {
				in.Mask[j] = rng.IntN(3) > 0
			}
			if rng.IntN(3) == 0 {
				clear(in.Mask[:keys])
			}
		}
		if rng.IntN(4) == 0 {
			v[rng.IntN(len(v))] = float32(math.Inf(1))
		}
		var bias []float32
		s := dev.Begin(context.Background())
		if rng.IntN(2) == 0 {
			bias = normal(rng, in.Heads*queries*keys)
			in.Bias = s.FromHost(f32(t, bias, in.Heads, queries*keys))
		}
		if rng.IntN(3) == 0 {
			in.KeyBias = normal(rng, in.Batch*keys)
		}
		context, weights := attend(q, k, v, in, queries, keys, bias)
		for j, x := range context {
			if x != x {
				context[j] = fmath.NaN()
			}
		}

		width := in.KVHeads * in.HeadDim
		in.Q = s.FromHost(f32(t, q, in.Batch*queries, in.Heads*in.HeadDim))
		in.K, in.V = s.FromHost(f32(t, k, in.Batch*keys, width)), s.FromHost(f32(t, v, in.Batch*keys, width))
		direct := s.Attention(in)
		in.Cache = fill(t, dev, s, rng, k, v, in.Batch, keys, width)
		in.K, in.V = nil, nil
		cached := s.Attention(in)
		for name, out := range map[string]nn.AttentionOutput{"direct": direct, "cached": cached} {
			check(t, name, s.ToHost(out.Context), context, in.Batch*queries, in.Heads*in.HeadDim)
			if in.Weights {
				want := byHead(weights, in.Batch, queries, in.Heads, keys)
				check(t, name+" weights", s.ToHost(out.Weights), want, in.Batch*in.Heads*queries, keys)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatalf("case %d: %v", i, err)
		}
	}
}

// fill appends the positions of k and v in runs of random length, and now and
// then drops some and appends them again.
func fill(t *testing.T, dev nn.Device, s nn.Session, rng *rand.Rand, k, v []float32, batch, keys, width int) nn.KVCache {
	t.Helper()
	c, err := dev.NewKVCache(batch, width, keys)
	if err != nil {
		t.Fatal(err)
	}
	for c.Len() < keys {
		n := 1 + rng.IntN(keys-c.Len())
		var kk, vv []float32
		for b := range batch {
			at := (b*keys + c.Len()) * width
			kk, vv = append(kk, k[at:at+n*width]...), append(vv, v[at:at+n*width]...)
		}
		s.Append(c, s.FromHost(f32(t, kk, batch*n, width)), s.FromHost(f32(t, vv, batch*n, width)))
		if rng.IntN(4) == 0 {
			c.Truncate(c.Len() - 1)
		}
		if s.Err() != nil {
			t.Fatal(s.Err())
		}
	}
	return c
}

func TestFailuresNameTheOperandAndStick(t *testing.T) {
	dev, other := open(t, nn.CPUOptions{}), open(t, nn.CPUOptions{})
	host := func(rows, width int) *tensor.Tensor { return f32(t, make([]float32, rows*width), rows, width) }
	w := upload(t, dev, host(3, 4), nn.AsMatrix)
	vec := upload(t, dev, f32(t, make([]float32, 4), 4), nn.AsVector)
	rows, err := nn.TensorRows(host(84, 4))
	if err != nil {
		t.Fatal(err)
	}
	table, err := dev.UploadRows(rows)
	if err != nil {
		t.Fatal(err)
	}
	half, err := tensor.New(tensor.BF16, 2, 4)
	if err != nil {
		t.Fatal(err)
	}
	integers, err := tensor.New(tensor.I16, 2, 4)
	if err != nil {
		t.Fatal(err)
	}
	stale := dev.Begin(context.Background())
	old := stale.FromHost(host(2, 4))
	stale.Close()
	for _, c := range []struct {
		name, want string
		is         error
		do         func(s nn.Session, x nn.Array)
	}{
		{"id", "token id 84 is outside 0..83", nn.ErrIndex, func(s nn.Session, x nn.Array) { s.Gather(table, []int{0, 84}) }},
		{"negative id", "token id -1 is outside 0..83", nn.ErrIndex, func(s nn.Session, x nn.Array) { s.Gather(table, []int{-1}) }},
		{"linear shape", "linear: bad shape: x [2,5] does not fit w [3,4]", tensor.ErrShape, func(s nn.Session, x nn.Array) { s.Linear(s.FromHost(host(2, 5)), w, nil) }},
		{"linear use", "w was not uploaded", nn.ErrOperand, func(s nn.Session, x nn.Array) { s.Linear(x, vec, nil) }},
		{"bias", "b must be [3], is [4]", tensor.ErrShape, func(s nn.Session, x nn.Array) { s.Linear(x, w, vec) }},
		{"dtype", "I16", tensor.ErrDType, func(s nn.Session, x nn.Array) { s.Map(nn.SiLU, s.FromHost(integers)) }},
		{"two dtypes", "y is BF16, x is F32", tensor.ErrDType, func(s nn.Session, x nn.Array) { s.Add(x, s.FromHost(half)) }},
		{"weight dtype", "w is F32, x is BF16", tensor.ErrDType, func(s nn.Session, x nn.Array) { s.Linear(s.FromHost(half), w, nil) }},
		{"cast", "expected F32, BF16 or F16", tensor.ErrDType, func(s nn.Session, x nn.Array) { s.Cast(x, tensor.I64) }},
		{"groups", "does not divide into 3 groups", tensor.ErrShape, func(s nn.Session, x nn.Array) { s.GroupColumns(x, 3, 0, 1) }},
		{"group columns", "columns 1 to 3 of each of 2 groups", tensor.ErrShape, func(s nn.Session, x nn.Array) { s.GroupColumns(x, 2, 1, 2) }},
		{"add", "x [2,4] and y [1,4] differ", tensor.ErrShape, func(s nn.Session, x nn.Array) { s.Add(x, s.FromHost(host(1, 4))) }},
		{"matrix as x", "x was uploaded as the weight", nn.ErrOperand, func(s nn.Session, x nn.Array) { s.Scale(w, 2) }},
		{"columns", "columns 3 to 5", tensor.ErrShape, func(s nn.Session, x nn.Array) { s.Columns(x, 3, 2) }},
		{"heads", "3 heads", tensor.ErrShape, func(s nn.Session, x nn.Array) { s.Rotary(x, x, x, 3, nn.RotateHalves) }},
		{"device", "another device", nn.ErrOperand, func(s nn.Session, x nn.Array) {
			o := other.Begin(context.Background())
			defer o.Close()
			s.Add(x, o.FromHost(host(2, 4)))
		}},
		{"session", "another session", nn.ErrOperand, func(s nn.Session, x nn.Array) { s.Add(x, old) }},
		{"nil", "x is no array", nn.ErrOperand, func(s nn.Session, x nn.Array) { s.Scale(nil, 1) }},
		{"cache", "2 positions more do not fit a cache that holds 0 of 1", tensor.ErrShape, func(s nn.Session, x nn.Array) {
			c, err := dev.NewKVCache(1, 4, 1)
			if err != nil {
				t.Fatal(err)
			}
			s.Append(c, x, x)
		}},
		{"attention", "q [2,4] does not fit batch 1 and 2 heads of size 3", tensor.ErrShape, func(s nn.Session, x nn.Array) {
			s.Attention(nn.AttentionInput{Q: x, K: x, V: x, Batch: 1, Heads: 2, KVHeads: 2, HeadDim: 3})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := dev.Begin(context.Background())
			x := s.FromHost(host(2, 4))
			c.do(s, x)
			if err := s.Err(); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			first := s.Err()
			if y := s.Add(x, x); s.ToHost(y) != nil {
				t.Error("a result after a failure")
			}
			if err := s.Close(); err != first {
				t.Errorf("the failure did not stick: %v", err)
			}
		})
	}
}

func TestCancelledSession(t *testing.T) {
	dev := open(t, nn.CPUOptions{})
	ctx, cancel := context.WithCancel(context.Background())
	s := dev.Begin(ctx)
	x := s.FromHost(f32(t, []float32{1}, 1, 1))
	cancel()
	s.Add(x, x)
	if err := s.Close(); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

package nn_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/internal/fmath"
	"github.com/hfcompress/compress/tensor"
)

// half is one of the 16-bit types.
type half struct {
	d     tensor.DType
	round func(float32) float32
	bits  func(float32) uint16
	value func(uint16) float32
}

var halves = []half{
	{tensor.BF16, fmath.RoundBF16, fmath.BF16Bits, fmath.BF16},
	{tensor.F16, fmath.RoundF16, fmath.F16Bits, fmath.F16},
}

// random makes a tensor of type h.d, and the same values in F32.
func (h half) random(t testing.TB, rng *rand.Rand, shape ...int) (narrow, wide *tensor.Tensor) {
	t.Helper()
	narrow, err := tensor.New(h.d, shape...)
	if err != nil {
		t.Fatal(err)
	}
	v := normal(rng, narrow.Len())
	for i := range v {
		v[i] = h.round(v[i])
		narrow.Uint16s()[i] = h.bits(v[i])
	}
	return narrow, f32(t, v, shape...)
}

// TestHalfRoundsOnce compares operations that round their result once with the
// same operation in F32, rounded.
func TestHalfRoundsOnce(t *testing.T) {
	for _, h := range halves {
		for _, mode := range []string{"", nn.ModeSplitK} {
			dev := open(t, nn.CPUOptions{Mode: mode})
			rng := rand.New(rand.NewPCG(5, 6))
			x, wideX := h.random(t, rng, 9, 30)
			y, wideY := h.random(t, rng, 9, 30)
			w, wideW := h.random(t, rng, 17, 30)
			tr, wideT := h.random(t, rng, 30, 17)
			b, wideB := h.random(t, rng, 17)
			n, wideN := h.random(t, rng, 30)
			angle, _ := h.random(t, rng, 9, 5)
			f32angle := h.widened(t, angle)
			for name, f := range map[string]func(s nn.Session, x, y, w, tr, b, n nn.Array) nn.Array{
				"linear":     func(s nn.Session, x, y, w, tr, b, n nn.Array) nn.Array { return s.Linear(x, w, b) },
				"transposed": func(s nn.Session, x, y, w, tr, b, n nn.Array) nn.Array { return s.Linear(x, tr, nil) },
				"layernorm":  func(s nn.Session, x, y, w, tr, b, n nn.Array) nn.Array { return s.LayerNorm(x, n, n, 1e-5) },
				"add":        func(s nn.Session, x, y, w, tr, b, n nn.Array) nn.Array { return s.Add(x, y) },
				"mul":        func(s nn.Session, x, y, w, tr, b, n nn.Array) nn.Array { return s.Mul(x, y) },
				"scale":      func(s nn.Session, x, y, w, tr, b, n nn.Array) nn.Array { return s.Scale(x, 0.88) },
				"silu":       func(s nn.Session, x, y, w, tr, b, n nn.Array) nn.Array { return s.Map(nn.SiLU, x) },
				"gelu":       func(s nn.Session, x, y, w, tr, b, n nn.Array) nn.Array { return s.Map(nn.GELU, x) },
				"columns":    func(s nn.Session, x, y, w, tr, b, n nn.Array) nn.Array { return s.GroupColumns(x, 3, 2, 5) },
				"rotary": func(s nn.Session, x, y, w, tr, b, n nn.Array) nn.Array {
					return s.Rotary(x, s.FromHost(f32angle), s.FromHost(f32angle), 3, nn.RotatePairs)
				},
			} {
				s := dev.Begin(context.Background())
				up := func(m *tensor.Tensor, use nn.Use) nn.Array { return upload(t, dev, m, use) }
				got := s.ToHost(f(s, s.FromHost(x), s.FromHost(y), up(w, nn.AsMatrix), up(tr, nn.AsTransposed), up(b, nn.AsVector), up(n, nn.AsVector)))
				want := s.ToHost(s.Cast(f(s, s.FromHost(wideX), s.FromHost(wideY), up(wideW, nn.AsMatrix), up(wideT, nn.AsTransposed), up(wideB, nn.AsVector), up(wideN, nn.AsVector)), h.d))
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if got.DType() != h.d || !tensor.BitEqual(got, want) {
					t.Errorf("%v %s on %q: %v is not the rounded result in F32", h.d, name, mode, got)
				}
			}
		}
	}
}

func (h half) widened(t testing.TB, x *tensor.Tensor) *tensor.Tensor {
	v := make([]float32, x.Len())
	for i, b := range x.Uint16s() {
		v[i] = h.value(b)
	}
	return f32(t, v, x.Shape()...)
}

// TestHalfSteps spells out the operations that round in between.
func TestHalfSteps(t *testing.T) {
	for _, h := range halves {
		dev := open(t, nn.CPUOptions{})
		rng := rand.New(rand.NewPCG(7, 8))
		x, wide := h.random(t, rng, 3, 8)
		w, wideW := h.random(t, rng, 8)
		cos, wideC := h.random(t, rng, 3, 2)
		sin, wideS := h.random(t, rng, 3, 2)
		s := dev.Begin(context.Background())
		a := s.FromHost(x)
		norm := s.ToHost(s.RMSNorm(a, upload(t, dev, w, nn.AsVector), 1e-6))
		unweighted := s.ToHost(s.RMSNorm(s.FromHost(wide), upload(t, dev, f32(t, []float32{1, 1, 1, 1, 1, 1, 1, 1}, 8), nn.AsVector), 1e-6)).Float32s()
		turned := s.ToHost(s.Rotary(a, s.FromHost(cos), s.FromHost(sin), 2, nn.RotateHalves))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		r := h.round
		for i, v := range wide.Float32s() {
			row, col := i/8, i%8
			if got, want := norm.Uint16s()[i], h.bits(r(wideW.Float32s()[col]*r(unweighted[i]))); got != want {
				t.Errorf("%v rmsnorm %d: %04x, want %04x", h.d, i, got, want)
			}
			c, sn := wideC.Float32s()[row*2+col%2], wideS.Float32s()[row*2+col%2]
			partner, sign := i+2, float32(-1)
			if col%4 >= 2 {
				partner, sign = i-2, 1
			}
			want := r(r(v*c) + sign*r(wide.Float32s()[partner]*sn))
			if got := turned.Uint16s()[i]; got != h.bits(want) {
				t.Errorf("%v rotary %d: %04x, want %04x", h.d, i, got, h.bits(want))
			}
		}
	}
}

// TestHalfAttention spells out where scores, weights and contexts are rounded,
// with a window, a mask, a bias and values that are infinite where they are
// hidden.
func TestHalfAttention(t *testing.T) {
	const queries, keys, size, window = 3, 7, 4, 4
	for _, h := range halves {
		for _, wideScores := range []bool{false, true} {
			dev := open(t, nn.CPUOptions{})
			rng := rand.New(rand.NewPCG(9, 10))
			q, wideQ := h.random(t, rng, queries, size)
			k, wideK := h.random(t, rng, keys, size)
			v, wideV := h.random(t, rng, keys, size)
			bias, wideB := h.random(t, rng, 1, queries*keys)
			mask := []bool{true, false, true, true, false, true, true}
			for range 2 { // the second time with an infinite hidden value
				s := dev.Begin(context.Background())
				out := s.Attention(nn.AttentionInput{
					Q: s.FromHost(q), K: s.FromHost(k), V: s.FromHost(v), Batch: 1, Heads: 1, KVHeads: 1, HeadDim: size,
					Scale: 0.3, Causal: true, Window: window, Wide: wideScores, Mask: mask, Bias: s.FromHost(bias), Weights: true,
				})
				weights, ctx := s.ToHost(out.Weights), s.ToHost(out.Context)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				r := h.round
				score := r
				if wideScores {
					score = func(x float32) float32 { return x }
				}
				for i := range queries {
					at := keys - queries + i
					var p [keys]float32
					highest := float32(-1e30)
					seen := func(j int) bool { return j <= at && j > at-window && mask[j] }
					for j := range p {
						var dot float32
						for c := range size {
							dot += float32(wideQ.Float32s()[i*size+c] * wideK.Float32s()[j*size+c])
						}
						p[j] = score(score(float32(score(dot)*0.3)) + wideB.Float32s()[i*keys+j])
						if seen(j) {
							highest = max(highest, p[j])
						}
					}
					var total float32
					for j := range p {
						if p[j] -= highest; seen(j) {
							p[j] = fmath.Exp(p[j])
							total += p[j]
						} else {
							p[j] = 0
						}
					}
					var want [size]float32
					for j := range p {
						p[j] = r(p[j] / total)
						if got := weights.Uint16s()[i*keys+j]; got != h.bits(p[j]) {
							t.Errorf("%v wide %t weight %d %d: %04x, want %04x", h.d, wideScores, i, j, got, h.bits(p[j]))
						}
						for c := range want {
							if seen(j) {
								want[c] += float32(p[j] * wideV.Float32s()[j*size+c])
							}
						}
					}
					for c := range want {
						if got := ctx.Uint16s()[i*size+c]; got != h.bits(r(want[c])) {
							t.Errorf("%v wide %t context %d %d: %04x, want %04x", h.d, wideScores, i, c, got, h.bits(r(want[c])))
						}
					}
				}
				v.Uint16s()[1*size] = h.bits(h.round(3e38)) // hidden: infinite in F16, huge in BF16
			}
		}
	}
}

// TestHalfKeepsBits: moving values changes no pattern, NaNs included.
func TestHalfKeepsBits(t *testing.T) {
	for _, h := range halves {
		dev := open(t, nn.CPUOptions{})
		all, err := tensor.New(h.d, 256, 256)
		if err != nil {
			t.Fatal(err)
		}
		ids := make([]int, 256)
		for i := range all.Uint16s() {
			all.Uint16s()[i] = uint16(i)
			ids[i>>8] = i >> 8
		}
		rows, err := nn.TensorRows(all)
		if err != nil {
			t.Fatal(err)
		}
		table, err := dev.UploadRows(rows)
		if err != nil {
			t.Fatal(err)
		}
		matrix := upload(t, dev, all, nn.AsMatrix)
		s := dev.Begin(context.Background())
		for name, a := range map[string]nn.Array{"host": s.FromHost(all), "gather": s.Gather(table, ids), "columns": s.Columns(s.FromHost(all), 0, 256), "matrix": matrix} {
			if got := s.ToHost(a); got == nil || !tensor.BitEqual(got, all) {
				t.Errorf("%v %s: bits changed", h.d, name)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

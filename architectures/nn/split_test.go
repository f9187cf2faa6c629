package nn_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/hfcompress/compress/architectures/nn"
)

// splitDot is one output of a linear map on the device cpu:split-k.
func splitDot(x, w []float32, rows int) float32 {
	var l [8]float32
	lane := func(k int) int { return 0 }
	switch {
	case rows == 1:
		lane = func(k int) int { return k % 8 }
	case rows < 16:
		lane = func(k int) int { return k / ((len(x) + 3) / 4) }
	}
	for k := range x {
		l[lane(k)] += float32(x[k] * w[k])
	}
	switch {
	case rows == 1:
		return ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]))
	case rows < 16:
		return ((l[0] + l[1]) + l[2]) + l[3]
	}
	return l[0]
}

func TestSplitKFollowsItsPublishedRegimes(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	dev := open(t, nn.CPUOptions{Mode: nn.ModeSplitK})
	const in, out = 300, 40
	w := normal(rng, out*in)
	weight := upload(t, dev, f32(t, w, out, in), nn.AsMatrix)
	row := normal(rng, in)
	s := dev.Begin(context.Background())
	defer s.Close()
	distinct := map[string]bool{} // the result for the same row in each regime
	next := 1
	for _, r := range dev.Info().Regimes {
		if r.MinRows != next {
			t.Fatalf("regime %+v does not begin at %d", r, next)
		}
		last := r.MaxRows
		if last == 0 {
			last = r.MinRows + 20
		}
		next = last + 1
		for rows := r.MinRows; rows <= last; rows++ {
			var x []float32
			for range rows {
				x = append(x, row...)
			}
			y := s.ToHost(s.Linear(s.FromHost(f32(t, x, rows, in)), weight, nil)).Float32s()
			for i := range y {
				j := i % out
				if want := splitDot(row, w[j*in:(j+1)*in], rows); y[i] != want {
					t.Fatalf("%d rows, element %d: %v, want %v", rows, i, y[i], want)
				}
			}
			distinct[fmt.Sprint(y[:out])] = true
		}
	}
	if len(distinct) != 3 {
		t.Error("the regimes give the same bits: nothing is tested")
	}
	if dev.Info().Name != "cpu:split-k" || dev.Info().Fingerprint == open(t, nn.CPUOptions{}).Info().Fingerprint {
		t.Errorf("info %+v", dev.Info())
	}
}

func TestDefaultDeviceHasOneRegime(t *testing.T) {
	info := open(t, nn.CPUOptions{}).Info()
	if info.Name != "cpu" || !info.Strict || len(info.Regimes) != 1 || info.Regimes[0].MinRows != 1 || info.Regimes[0].MaxRows != 0 {
		t.Errorf("info %+v", info)
	}
	if _, err := nn.OpenCPU(nn.CPUOptions{Mode: "fast"}); !errors.Is(err, nn.ErrMode) {
		t.Errorf("unknown mode: %v", err)
	}
	if _, err := nn.OpenCPU(nn.CPUOptions{Threads: -1}); err == nil {
		t.Error("−1 threads accepted")
	}
}

// TestRowsAreIndependent checks the numeric contract of the default device: what
// a row gives does not depend on the rows around it.
func TestRowsAreIndependent(t *testing.T) {
	dev := open(t, nn.CPUOptions{})
	rapid.Check(t, func(r *rapid.T) {
		rows, in, out := rapid.IntRange(1, 50).Draw(r, "rows"), rapid.IntRange(1, 70).Draw(r, "in"), rapid.IntRange(1, 70).Draw(r, "out")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 1))
		x := normal(rng, rows*in)
		weight := upload(t, dev, f32(t, normal(rng, out*in), out, in), nn.AsMatrix)
		bias := upload(t, dev, f32(t, normal(rng, out), out), nn.AsVector)
		norm := upload(t, dev, f32(t, normal(rng, in), in), nn.AsVector)
		s := dev.Begin(context.Background())
		defer s.Close()
		compute := func(rows int, x []float32) []float32 {
			a := s.FromHost(f32(t, x, rows, in))
			a = s.Linear(s.LayerNorm(s.RMSNorm(a, norm, 1e-6), nil, norm, 1e-5), weight, bias)
			return s.ToHost(s.RowNormalize(s.Map(nn.GELU, a), 1e-12)).Float32s()
		}
		all := compute(rows, x)
		i := rapid.IntRange(0, rows-1).Draw(r, "row")
		check(t, "row alone", s.ToHost(s.FromHost(f32(t, compute(1, x[i*in:(i+1)*in]), 1, out))), all[i*out:(i+1)*out], 1, out)
	})
}

// TestDecodingStepByStepIsPrefill checks that a key/value cache changes no bit:
// causal attention over all positions at once gives what one query at a time
// gives.
func TestDecodingStepByStepIsPrefill(t *testing.T) {
	dev := open(t, nn.CPUOptions{})
	rapid.Check(t, func(r *rapid.T) {
		keys, size := rapid.IntRange(1, 60).Draw(r, "keys"), rapid.IntRange(1, 40).Draw(r, "size")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 2))
		q, k, v := normal(rng, keys*2*size), normal(rng, keys*size), normal(rng, keys*size)
		in := nn.AttentionInput{Batch: 1, Heads: 2, KVHeads: 1, HeadDim: size, Scale: 0.2, Causal: true}
		s := dev.Begin(context.Background())
		defer s.Close()
		whole := in
		whole.Q, whole.K, whole.V = s.FromHost(f32(t, q, keys, 2*size)), s.FromHost(f32(t, k, keys, size)), s.FromHost(f32(t, v, keys, size))
		want := s.ToHost(s.Attention(whole).Context).Float32s()
		cache, err := dev.NewKVCache(1, size, keys)
		if err != nil {
			t.Fatal(err)
		}
		in.Cache = cache
		for i := range keys {
			s.Append(cache, s.FromHost(f32(t, k[i*size:(i+1)*size], 1, size)), s.FromHost(f32(t, v[i*size:(i+1)*size], 1, size)))
			in.Q = s.FromHost(f32(t, q[i*2*size:(i+1)*2*size], 1, 2*size))
			check(t, "step", s.ToHost(s.Attention(in).Context), want[i*2*size:(i+1)*2*size], 1, 2*size)
		}
	})
}

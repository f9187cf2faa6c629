package nn_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/tensor"
)

var update = flag.Bool("update", false, "write testdata/golden.json instead of comparing with it")

// exactValues makes inputs with integer operations and one exact scaling, so
// that they are the same on every machine.
func exactValues(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(int32(rng.Uint32())>>8) * 0x1p-22
		switch rng.IntN(97) {
		case 0:
			v[i] = math.Float32frombits(rng.Uint32() & 0x807fffff) // subnormal
		case 1:
			v[i] = float32(math.Copysign(0, float64(v[i])))
		}
	}
	return v
}

// goldenResults evaluates every operation on fixed inputs.
func goldenResults(t *testing.T, dev nn.Device) map[string]*tensor.Tensor {
	rng := rand.New(rand.NewPCG(7, 11))
	s := dev.Begin(context.Background())
	results := map[string]nn.Array{}
	host := func(rows, width int) nn.Array { return s.FromHost(f32(t, exactValues(rng, rows*width), rows, width)) }
	vector := func(n int) nn.Array { return upload(t, dev, f32(t, exactValues(rng, n), n), nn.AsVector) }

	for _, c := range []struct {
		name         string
		rows, in, on int
	}{{"1x129x70", 1, 129, 70}, {"2x64x33", 2, 64, 33}, {"15x5x17", 15, 5, 17}, {"16x200x48", 16, 200, 48}, {"40x77x100", 40, 77, 100}} {
		w := upload(t, dev, f32(t, exactValues(rng, c.on*c.in), c.on, c.in), nn.AsMatrix)
		results["linear "+c.name] = s.Linear(host(c.rows, c.in), w, vector(c.on))
	}
	x := host(5, 83)
	results["rmsnorm"] = s.RMSNorm(x, vector(83), 1e-6)
	results["layernorm"] = s.LayerNorm(x, vector(83), vector(83), 1e-5)
	results["layernorm plain"] = s.LayerNorm(x, nil, nil, 1e-5)
	results["row normalize"] = s.RowNormalize(x, 1e-12)
	results["add"], results["mul"], results["scale"] = s.Add(x, host(5, 83)), s.Mul(x, host(5, 83)), s.Scale(x, 0.88)
	wide := s.Scale(host(20, 211), 6)
	for f := nn.SiLU; f <= nn.Sigmoid; f++ {
		results["map "+f.String()] = s.Map(f, wide)
	}
	special := s.FromHost(f32(t, []float32{float32(math.NaN()), math.Float32frombits(0xffc00001), float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32, 0}, 1, 6))
	results["nan sum"] = s.Add(special, s.Scale(special, -1))

	freq, err := nn.Rope{Theta: 500000, Dim: 16, Scaling: nn.RopeLlama3, Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4, OriginalPositions: 8192}.InverseFrequencies()
	if err != nil {
		t.Fatal(err)
	}
	cos, sin, err := nn.RotaryTables(freq, []int{0, 1, 77, 4095, 131071, 999999})
	if err != nil {
		t.Fatal(err)
	}
	results["rotary cos"], results["rotary sin"] = s.FromHost(cos), s.FromHost(sin)
	q := host(6, 60)
	results["rotary halves"] = s.Rotary(q, s.FromHost(cos), s.FromHost(sin), 3, nn.RotateHalves)
	results["rotary pairs"] = s.Rotary(q, s.FromHost(cos), s.FromHost(sin), 3, nn.RotatePairs)

	mask := make([]bool, 2*50)
	for i := range mask {
		mask[i] = rng.IntN(4) > 0
	}
	clear(mask[:30])
	out := s.Attention(nn.AttentionInput{
		Q: host(2*29, 4*20), K: host(2*50, 2*20), V: host(2*50, 2*20), Batch: 2, Heads: 4, KVHeads: 2, HeadDim: 20,
		Scale: 0.25, Causal: true, Mask: mask, Bias: host(4, 29*50), Weights: true,
	})
	results["attention"], results["attention weights"] = out.Context, out.Weights

	for _, d := range []tensor.DType{tensor.BF16, tensor.F16} {
		narrow := func(rows, width int) nn.Array { return s.Cast(host(rows, width), d) }
		weight := func(use nn.Use, shape ...int) nn.Array {
			x, err := tensor.New(d, shape...)
			if err != nil {
				t.Fatal(err)
			}
			for i := range x.Uint16s() {
				x.Uint16s()[i] = uint16(rng.Uint32()) & 0xbbff // finite in both types
			}
			return upload(t, dev, x, use)
		}
		name := d.String() + " "
		x := narrow(5, 70)
		results[name+"linear"] = s.Linear(x, weight(nn.AsMatrix, 33, 70), weight(nn.AsVector, 33))
		results[name+"linear transposed"] = s.Linear(x, weight(nn.AsTransposed, 70, 33), nil)
		results[name+"rmsnorm"] = s.RMSNorm(x, weight(nn.AsVector, 70), 1e-6)
		results[name+"layernorm"] = s.LayerNorm(x, weight(nn.AsVector, 70), weight(nn.AsVector, 70), 1e-5)
		results[name+"row normalize"] = s.RowNormalize(x, 1e-12)
		results[name+"add"], results[name+"mul"], results[name+"scale"] = s.Add(x, narrow(5, 70)), s.Mul(x, x), s.Scale(x, 0.88)
		for f := nn.SiLU; f <= nn.GELUTanhStepwise; f++ {
			results[name+"map "+f.String()] = s.Map(f, x)
		}
		angles := narrow(5, 7)
		results[name+"rotary"] = s.Rotary(x, angles, angles, 5, nn.RotateHalves)
		results[name+"group columns"] = s.GroupColumns(x, 7, 2, 5)
		out := s.Attention(nn.AttentionInput{
			Q: narrow(29, 40), K: narrow(50, 20), V: narrow(50, 20), Batch: 1, Heads: 4, KVHeads: 2, HeadDim: 10,
			Scale: 0.25, Causal: true, Window: 9, Weights: true,
		})
		results[name+"attention"], results[name+"attention weights"] = out.Context, out.Weights
	}

	host0 := map[string]*tensor.Tensor{}
	for name, a := range results {
		host0[name] = s.ToHost(a)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return host0
}

// TestGolden compares SHA-256 digests of results with those that every machine
// must give: amd64 at each GOAMD64 level, arm64, with and without assembly.
func TestGolden(t *testing.T) {
	got := map[string]string{}
	for _, mode := range []string{"", nn.ModeSplitK} {
		dev := open(t, nn.CPUOptions{Mode: mode})
		for name, r := range goldenResults(t, dev) {
			sum := sha256.Sum256(r.Bytes())
			got[dev.Info().Name+": "+name] = hex.EncodeToString(sum[:])
		}
	}
	path := filepath.Join("testdata", "golden.json")
	if *update {
		data, err := json.MarshalIndent(got, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]string
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	if len(want) != len(got) {
		t.Errorf("%d results, %d in %s", len(got), len(want), path)
	}
	for name, digest := range got {
		if want[name] != digest {
			t.Errorf("%s: %s, want %s", name, digest, want[name])
		}
	}
}

// TestThreadsAndRepetitions checks that a result depends neither on the number of
// threads nor on what ran before.
func TestThreadsAndRepetitions(t *testing.T) {
	for _, mode := range []string{"", nn.ModeSplitK} {
		want := goldenResults(t, open(t, nn.CPUOptions{Mode: mode, Threads: 1}))
		for _, threads := range []int{2, 3, 16} {
			dev := open(t, nn.CPUOptions{Mode: mode, Threads: threads})
			for range 2 { // the second session gets the storage of the first
				for name, r := range goldenResults(t, dev) {
					if !tensor.BitEqual(r, want[name]) {
						t.Errorf("%q, %d threads: %s differs", mode, threads, name)
					}
				}
			}
		}
	}
}

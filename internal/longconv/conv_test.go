package longconv

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// exact makes values with integer operations and one exact scaling, so that they
// are the same on every machine.
func exact(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(int32(rng.Uint32())>>8) * 0x1p-22
	}
	return v
}

// convolve is the whole of the package in one call.
func convolve(u, k []float32, skip float32) []float32 {
	var c Channel
	c.SetFilter(k, len(u))
	y := make([]float32, len(u))
	c.Convolve(y, u, skip)
	return y
}

// TestDefinition compares with the sum of the definition, in float64: lengths around
// each size of block, and filters that are shorter, and longer, than the sequence.
func TestDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	most := 0.0
	for _, c := range []struct{ length, filter int }{
		{0, 0}, {1, 1}, {1, 0}, {2, 2}, {3, 1}, {63, 63}, {64, 64}, {65, 65}, {65, 128}, {127, 40}, {128, 128}, {129, 500},
		{191, 192}, {1000, 1000}, {1023, 1024}, {1024, 1024}, {1025, 1025}, {1025, 2048}, {1100, 7}, {2049, 3072}, {5003, 5003},
		{16384, 16384}, {16385, 16390}, {20011, 30000},
	} {
		u, k := exact(rng, c.length), exact(rng, c.filter)
		got := convolve(u, k, 0.7)
		step := 1 + c.length/3000*7 // every result of short sequences
		for at := 0; at < c.length; at += step {
			want, scale := float64(float32(0.7))*float64(u[at]), 0.0
			for i := range at + 1 {
				if at-i < len(k) {
					p := float64(u[i]) * float64(k[at-i])
					want += p
					scale += p * p
				}
			}
			ulp := math.Abs(float64(math.Nextafter32(float32(want), math.MaxFloat32)) - float64(float32(want)))
			d := math.Abs(float64(got[at]) - want)
			if !(d <= 0.5001*ulp+1e-13*math.Sqrt(scale)) {
				t.Fatalf("%d positions, filter of %d: result %d is %v, want %v", c.length, c.filter, at, got[at], want)
			}
			if scale > 0 {
				most = max(most, (d-ulp/2)/math.Sqrt(scale))
			}
		}
	}
	t.Logf("largest error beyond half a unit in the last place: %.2g of the products' norm", most)
}

// TestPrefix: a result is a function of what is not after it, to the bit, whatever
// follows; and of FilterLength values of the filter.
func TestPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
		length := rapid.OneOf(rapid.IntRange(1, 300), rapid.IntRange(1000, 4000)).Draw(t, "length")
		cut := rapid.IntRange(1, length).Draw(t, "cut")
		u, k := exact(rng, length), exact(rng, FilterLength(length)+rapid.IntRange(0, 70).Draw(t, "more"))
		short := convolve(u[:cut], k[:FilterLength(cut)], 2)
		switch rapid.IntRange(0, 2).Draw(t, "tail") {
		case 1:
			for i := cut; i < length; i++ {
				u[i] = float32(math.Inf(1))
			}
		case 2:
			for i := cut; i < length; i++ {
				u[i] *= 1e30
			}
		}
		long := convolve(u, k, 2)
		for i, v := range short {
			if math.Float32bits(v) != math.Float32bits(long[i]) {
				t.Fatalf("%d positions: result %d is %v, alone it is %v", length, i, long[i], v)
			}
		}
	})
}

// TestReuse: neither earlier calls nor the destination matter.
func TestReuse(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var c Channel
	for _, n := range []int{3000, 10, 0, 1500, 70, 3000} {
		u, k := exact(rng, n), exact(rng, FilterLength(n))
		c.SetFilter(k, n)
		want := convolve(u, k, 1)
		c.Convolve(u, u, 1)
		if !slices.Equal(u, want) {
			t.Errorf("%d positions: results differ", n)
		}
	}
}

func TestFilterLength(t *testing.T) {
	for positions, want := range map[int]int{
		0: 0, 1: 1, 63: 63, 64: 64, 65: 128, 128: 128, 129: 192, 1024: 1024, 1025: 2048, 2048: 2048, 2049: 3072,
		16384: 16384, 16385: 32768, 262144: 262144, 262145: 524288, 1000002: 1048576, MaxLength: MaxLength,
	} {
		if got := FilterLength(positions); got != want {
			t.Errorf("FilterLength(%d) = %d, want %d", positions, got, want)
		}
	}
}

func TestLimits(t *testing.T) {
	for name, f := range map[string]func(c *Channel){
		"long":        func(c *Channel) { c.SetFilter(nil, MaxLength+1) },
		"negative":    func(c *Channel) { c.SetFilter(nil, -1) },
		"unprepared":  func(c *Channel) { c.Convolve(make([]float32, 3), make([]float32, 3), 0) },
		"destination": func(c *Channel) { c.SetFilter(nil, 3); c.Convolve(make([]float32, 2), make([]float32, 3), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f(&Channel{})
		})
	}
}

// TestGoldenBits compares with digests that every processor must give.
func TestGoldenBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	for _, c := range []struct {
		length int
		want   string
	}{
		{50, "47870bfcd21e3072690b8667bafb46ec645a81a09e146a5e28a34de011c3792e"},
		{777, "137e12765be192f5e66e9b98e8af6bd4814b88fb0830ccf25e4075eb022bac68"},
		{1200, "5070ce20c479b424b5af83b7e201b0d0d8f56255ad4033ee3c98571243546c93"},
		{17000, "3f2a42324810e1df56446976e43eb2208c41097bf993f64039258821a4efb62a"},
	} {
		u, k := exact(rng, c.length), exact(rng, FilterLength(c.length))
		sum := sha256.New()
		binary.Write(sum, binary.LittleEndian, convolve(u, k, 0.3))
		if got := hex.EncodeToString(sum.Sum(nil)); got != c.want {
			t.Errorf("%d positions: %s, want %s", c.length, got, c.want)
		}
	}
}

func BenchmarkConvolve(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	for name, n := range map[string]int{"1k": 1 << 10, "32k": 1 << 15, "1M": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			u, k, y := exact(rng, n), exact(rng, n), make([]float32, n)
			var c Channel
			b.SetBytes(int64(4 * n))
			for b.Loop() {
				c.SetFilter(k, n)
				c.Convolve(y, u, 1)
			}
		})
	}
}

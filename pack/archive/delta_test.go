package archive_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/hfcompress/compress/pack/archive"
	"github.com/hfcompress/compress/pack/floatcodec"
	"github.com/hfcompress/compress/tensor"
)

// tuned returns values as of a matrix and of the same after some training: every
// value of the master copy moved a little.
func tuned(rng *rand.Rand, n int, step float64, put func([]byte, float32) []byte) (base, next []byte) {
	for range n {
		v := rng.NormFloat64() * 0.02
		base = put(base, float32(v))
		next = put(next, float32(v+rng.NormFloat64()*step))
	}
	return base, next
}

func putBF16(b []byte, v float32) []byte {
	bits := math.Float32bits(v)
	return binary.LittleEndian.AppendUint16(b, uint16((bits+0x7fff+bits>>16&1)>>16)) // to nearest, ties to even
}

func putF32(b []byte, v float32) []byte {
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
}

// bitx is what a delta is compared with: XOR, bytes grouped by significance,
// Zstandard.
func bitx(t *testing.T, base, next []byte, width int) int {
	t.Helper()
	n := len(base) / width
	planes := make([]byte, 0, len(base))
	for p := range width {
		for i := range n {
			planes = append(planes, base[i*width+p]^next[i*width+p])
		}
	}
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		t.Fatal(err)
	}
	return len(e.EncodeAll(planes, nil))
}

func TestDelta(t *testing.T) {
	const n = 400_000
	for _, tc := range []struct {
		name    string
		dtype   tensor.DType
		width   int
		step    float64
		put     func([]byte, float32) []byte
		smaller float64 // than bitx, in percent
	}{
		{"bf16 tiny steps", tensor.BF16, 2, 1e-6, putBF16, 25},
		{"bf16 small steps", tensor.BF16, 2, 2e-5, putBF16, 25},
		{"bf16 steps", tensor.BF16, 2, 2e-4, putBF16, 25},
		{"f32 tiny steps", tensor.F32, 4, 1e-7, putF32, 10},
		{"f32 steps", tensor.F32, 4, 1e-5, putF32, 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			base, next := tuned(rand.New(rand.NewPCG(5, 6)), n, tc.step, tc.put)
			file := func(data []byte) map[string][]byte {
				return map[string][]byte{"m.safetensors": safetensors([]part{{name: "w", dtype: tc.dtype, shape: []int{n / 100, 100}, data: data}}, nil)}
			}
			b := open(t, packTree(t, file(base), archive.Options{}), archive.ReadOptions{})
			packed := packTree(t, file(next), archive.Options{Base: b})
			r := open(t, packed, archive.ReadOptions{Base: b})
			wantFiles(t, r, file(next))
			alone := mustLookup(t, open(t, packTree(t, file(next), archive.Options{}), archive.ReadOptions{}), "w").Stored
			info := mustLookup(t, r, "w")
			other := bitx(t, base, next, tc.width)
			gain := 100 * (1 - float64(info.Stored)/float64(other))
			bits := func(size int64) float64 { return float64(size) * 8 / n }
			t.Logf("%s: %.2f bits, alone %.2f, XOR planes and zstd %.2f: %.1f %% smaller", info.Method, bits(info.Stored), bits(alone), bits(int64(other)), gain)
			if gain < tc.smaller {
				t.Errorf("%.1f %% smaller than XOR planes and zstd, want %.0f %%", gain, tc.smaller)
			}
		})
	}
}

// Every element type takes the road of differences, every pattern of bits comes
// back, and so do the forms in which a stream may lie in the base.
func TestDeltaTypes(t *testing.T) {
	for d := tensor.Bool; d <= tensor.C64; d++ {
		for _, level := range []floatcodec.Level{floatcodec.Fast, floatcodec.Max} {
			if level == floatcodec.Max && d != tensor.BF16 && d != tensor.F32 {
				continue
			}
			rng := rand.New(rand.NewPCG(uint64(d), 7))
			const n = 24 * 12_000
			base := random(rng, n)
			next := bytes.Clone(base)
			for range n / 50 {
				next[rng.IntN(n)] ^= byte(1 + rng.IntN(255))
			}
			file := func(data []byte) map[string][]byte {
				return map[string][]byte{"m.safetensors": safetensors([]part{
					{name: "w", dtype: d, shape: []int{n * 8 / d.Bits()}, data: data},
					{name: "same", dtype: d, shape: []int{1536 * 8 / d.Bits()}, data: base[:1536]},
				}, []byte("end"))}
			}
			b := open(t, packTree(t, file(base), archive.Options{Level: level}), archive.ReadOptions{})
			r := open(t, packTree(t, file(next), archive.Options{Base: b, Level: level}), archive.ReadOptions{Base: b})
			wantFiles(t, r, file(next))
			if m := mustLookup(t, r, "w").Method; m != "xor" && m != "ulp" {
				t.Errorf("%v: stored as %q", d, m)
			}
			if m := mustLookup(t, r, "same").Method; m != "base" {
				t.Errorf("%v: equal tensor stored as %q", d, m)
			}
			// An archive made against that one: base of base.
			again := bytes.Clone(next)
			again[4321] ^= 1
			c := open(t, packTree(t, file(again), archive.Options{Base: r}), archive.ReadOptions{Base: r})
			wantFiles(t, c, file(again))
		}
	}
}

func TestWrongBase(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	base, next := tuned(rng, 100_000, 1e-5, putBF16)
	file := func(data []byte) map[string][]byte {
		return map[string][]byte{"m.safetensors": safetensors([]part{{name: "w", dtype: tensor.BF16, shape: []int{100_000}, data: data}}, nil)}
	}
	b := open(t, packTree(t, file(base), archive.Options{}), archive.ReadOptions{})
	other := open(t, packTree(t, file(next), archive.Options{}), archive.ReadOptions{})
	packed := packTree(t, file(next), archive.Options{Base: b})
	if _, err := archive.NewReader(bytes.NewReader(packed), int64(len(packed)), archive.ReadOptions{Base: other}); !errors.Is(err, archive.ErrBase) {
		t.Errorf("another base: %v", err)
	}
	r := open(t, packed, archive.ReadOptions{})
	if d, ok := r.Base(); !ok || d != b.Digest() {
		t.Error("the archive does not name its base")
	}
	if _, err := r.Tensor("w"); !errors.Is(err, archive.ErrBase) {
		t.Errorf("no base: %v", err)
	}
	if _, err := r.Verify(context.Background(), nil); !errors.Is(err, archive.ErrBase) {
		t.Errorf("no base: %v", err)
	}
	if err := r.Unpack(t.Context(), t.TempDir(), archive.UnpackOptions{}); !errors.Is(err, archive.ErrBase) {
		t.Errorf("no base: %v", err)
	}
	// A base that is not needed does no harm.
	open(t, packTree(t, file(base), archive.Options{}), archive.ReadOptions{Base: other})
}

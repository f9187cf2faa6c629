package archive_test

import (
	"bytes"
	"encoding/binary"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/hfcompress/compress/pack/archive"
	"github.com/hfcompress/compress/pack/floatcodec"
	"github.com/hfcompress/compress/tensor"
)

var update = flag.Bool("update", false, "write golden archives that are missing; those that are there never change")

// goldenFiles makes the content of the golden archives: what a generator with a
// fixed seed gives, in the forms that the format has.
func goldenFiles(seed uint64) map[string][]byte {
	rng := rand.New(rand.NewPCG(1, 100))
	w, next := tuned(rng, 3000, 1e-4, putBF16)
	x, moved := tuned(rng, 1500, 1e-5, putF32)
	if seed == 2 {
		w, x = next, moved
	}
	flags := random(rng, 4000) // some of which turn two of their bits
	if seed == 2 {
		for i := range flags {
			flags[i] ^= byte(rng.IntN(2) * 0x42)
		}
	}
	model := safetensors([]part{
		{name: "layer.weight", dtype: tensor.BF16, shape: []int{30, 100}, data: w},
		{name: "layer.bias", dtype: tensor.F32, shape: []int{1500}, data: x, gap: 5},
		{name: "layer.tied", dtype: tensor.BF16, shape: []int{30, 100}, data: w},
		{name: "flags", dtype: tensor.U8, shape: []int{4000}, data: flags},
		{name: "none", dtype: tensor.F16, shape: []int{0}},
		{name: "layer.scale", dtype: tensor.BF16, shape: []int{200}, data: bf16(rand.New(rand.NewPCG(seed, 100)), 200)},
	}, []byte("end"))
	return map[string][]byte{
		"model.safetensors": model,
		"sub/config.json":   bytes.Repeat([]byte(`{"layers": 1}`), 50),
		"sub/noise":         random(rand.New(rand.NewPCG(3, 100)), 300),
		"sub/empty":         {},
	}
}

// goldenMatrix is a matrix, or that plus a product of rank 1.
func goldenMatrix(moved bool) map[string][]byte {
	const rows, cols = 64, 80
	rng := rand.New(rand.NewPCG(4, 100))
	data := f32(rng, rows*cols)
	for i := range rows * cols {
		if moved {
			v := math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
			binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v+float32(float32((i/cols-31)*(i%cols-40))*0x1p-20)))
		}
	}
	return map[string][]byte{"m.safetensors": safetensors([]part{{name: "w", dtype: tensor.F32, shape: []int{rows, cols}, data: data}}, nil)}
}

// Archives of version 1 stay readable for ever. They were written when the
// version was made, by this test with -update; the expected content does not
// come from them.
func TestGolden(t *testing.T) {
	var base *archive.Reader
	for _, tc := range []struct {
		name  string
		seed  uint64
		level floatcodec.Level
		delta bool
	}{
		{"v1-fast.hfa", 1, floatcodec.Fast, false},
		{"v1-dense.hfa", 1, floatcodec.Dense, false},
		{"v1-max.hfa", 1, floatcodec.Max, false},
		{"v1-delta.hfa", 2, floatcodec.Fast, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o, ro := archive.Options{Level: tc.level}, archive.ReadOptions{}
			if tc.delta {
				o.Base, ro.Base = base, base
			}
			path := filepath.Join("testdata", "golden", tc.name)
			b, err := os.ReadFile(path)
			if os.IsNotExist(err) && *update {
				b = packTree(t, goldenFiles(tc.seed), o)
				err = os.WriteFile(path, b, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			r := open(t, b, ro)
			wantFiles(t, r, goldenFiles(tc.seed))
			used := map[string]bool{}
			for _, info := range r.Tensors() {
				used[info.Method] = true
			}
			if tc.delta && (!used["ulp"] || !used["xor"] || !used["base"] && !used["bytes"]) {
				t.Errorf("uses %v", used)
			}
			if base == nil {
				base = r
			}
		})
	}
}

// So do differences from a base plus a product.
func TestGoldenProduct(t *testing.T) {
	var base *archive.Reader
	for i, name := range []string{"v1-matrix.hfa", "v1-rank.hfa"} {
		path := filepath.Join("testdata", "golden", name)
		b, err := os.ReadFile(path)
		if os.IsNotExist(err) && *update {
			b = packTree(t, goldenMatrix(i == 1), archive.Options{Base: base})
			err = os.WriteFile(path, b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		r := open(t, b, archive.ReadOptions{Base: base})
		wantFiles(t, r, goldenMatrix(i == 1))
		if m := mustLookup(t, r, "w").Method; i == 1 && m != "rank" {
			t.Errorf("stored as %q", m)
		}
		base = r
	}
}

package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

func TestTakeApart(t *testing.T) {
	var raw []byte
	values := []float32{1, -2, 0.5, float32(math.Copysign(0, -1)), 3}
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	a, _ := anatomyOf(tensor.F32)
	f := takeApart(a, raw)
	if !slices.Equal(f.exp, []uint16{127, 128, 126, 0, 128}) || !slices.Equal(f.mant, []uint64{0, 0, 0, 0, 1 << 22}) || f.sign[0] != 0b01010000 {
		t.Errorf("%v %v %08b", f.exp, f.mant, f.sign)
	}
	if m, counts := f.grouped(); !slices.Equal(m, []uint64{0, 0, 0, 0, 1 << 22}) || len(counts) != 1024 || counts[4*128] != 2 {
		t.Errorf("%v %v", m, counts)
	}
	if p := f.plane(22); p[0] != 0b00001000 {
		t.Errorf("%08b", p)
	}
	if d := f.debiased(); !bytes.Equal(d[:4], []byte{0xff, 0xff, 0, 0}) { // 127 and 128 relative to 128
		t.Error(d)
	}
	if m := f.mantissas(f.mant); len(m) != 4*len(values) {
		t.Error(len(m))
	}
	e := f.entropies()
	if math.Abs(e.Sign-binaryEntropy(2, 5)) > 1e-12 || math.Abs(e.Exponent-1.9219280948873625) > 1e-12 || e.Planes[0] != binaryEntropy(1, 5) || e.Planes[1] != 0 {
		t.Errorf("%+v", e)
	}
	// The bit follows from the exponent here, save for those of 128.
	if math.Abs(e.Top-2.321928094887362) > 1e-12 || math.Abs(e.joint()-(e.Sign+e.Top)) > 1e-12 {
		t.Errorf("together %v, bound %v", e.Top, e.joint())
	}
}

// A comparison looks at no more than it was told to, and the page renders.
func TestCompareSamples(t *testing.T) {
	x, err := tensor.New(tensor.F32, 512, 64)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range x.Float32s() {
		x.Float32s()[i] = float32(i%997)*0.001 - v
	}
	ids, err := tensor.FromInt64s([]int64{1, 2, 3}, 3)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.safetensors")
	if err := loader.WriteFile(path, []loader.Entry{{Name: "w", Tensor: x}, {Name: "ids", Tensor: ids}}, loader.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	c, err := loader.Open(path, loader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, tc := range []struct{ budget, looked int64 }{{1 << 20, 512 * 64 * 4}, {40_000, 40_000 / 256 * 256}} {
		found, err := compareAll(t.Context(), c, tc.budget, silence{})
		if err != nil {
			t.Fatal(err)
		}
		if found.Looked != tc.looked || found.Other != 24 || found.Tensors != 1 || len(found.Methods) != 10 {
			t.Errorf("%+v", found)
		}
		if said := strings.Contains(found.sampleText(), "the same share"); said != (tc.looked < 512*64*4) {
			t.Error(found.sampleText())
		}
		var html bytes.Buffer
		if err := comparePage(&html, found); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"group_by_exp", "bitplane", "mantissa bit 22", "<svg"} {
			if !strings.Contains(html.String(), want) {
				t.Errorf("the page lacks %q", want)
			}
		}
	}
}

package loader_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	oracle "github.com/nlpodyssey/safetensors"

	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// ratio alternates ours and the library's work, so that both meet the same
// machine, and reports library time over ours.
func ratio(b *testing.B, ours, library func()) {
	var a, z time.Duration
	for b.Loop() {
		t0 := time.Now()
		ours()
		t1 := time.Now()
		library()
		z += time.Since(t1)
		a += t1.Sub(t0)
	}
	b.ReportMetric(float64(a.Nanoseconds())/float64(b.N), "ours-ns/op")
	b.ReportMetric(float64(z.Nanoseconds())/float64(a.Nanoseconds()), "library/ours")
}

// BenchmarkHeader10k scans a header of 10,000 tensors.
func BenchmarkHeader10k(b *testing.B) {
	var text strings.Builder
	text.WriteByte('{')
	for i := range 10_000 {
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(record(fmt.Sprintf("model.layers.%d.mlp.experts.%d.down_proj.weight", i/128, i%128), "U8", "[2,2]", 4*i, 4*i+4))
	}
	text.WriteByte('}')
	data := file(text.String(), 40_000)
	b.ReportAllocs()
	ratio(b, func() {
		if _, err := scan(data, loader.Limits{}); err != nil {
			b.Fatal(err)
		}
	}, func() {
		if _, err := oracle.Deserialize(data); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkOneTensorOfMany opens a file of 128 MiB and gets one tensor of 1 MiB.
// The library can only work on the file in memory.
func BenchmarkOneTensorOfMany(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x.safetensors")
	var entries []loader.Entry
	for i := range 128 {
		x, err := tensor.New(tensor.F32, 512, 512)
		if err != nil {
			b.Fatal(err)
		}
		entries = append(entries, loader.Entry{Name: fmt.Sprint("t", i), Tensor: x})
	}
	if err := loader.WriteFile(path, entries, loader.WriteOptions{}); err != nil {
		b.Fatal(err)
	}
	want := entries[64].Tensor.Bytes()
	entries = nil
	ratio(b, func() {
		c, err := loader.Open(path, loader.Options{})
		if err != nil {
			b.Fatal(err)
		}
		x, err := c.Tensor("t64")
		if err != nil || !bytes.Equal(x.Bytes(), want) {
			b.Fatal(err)
		}
		c.Close()
	}, func() {
		data, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		st, err := oracle.Deserialize(data)
		if err != nil {
			b.Fatal(err)
		}
		x, ok := st.Tensor("t64")
		if !ok || !bytes.Equal(x.Data(), want) {
			b.Fatal("another tensor")
		}
	})
}

// BenchmarkStrict loads 64 MiB of F32 strictly: every value is looked at.
func BenchmarkStrict(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x.safetensors")
	shape := tensor.Shape{1 << 24}
	x, err := tensor.New(tensor.F32, shape...)
	if err != nil {
		b.Fatal(err)
	}
	if err := loader.WriteFile(path, []loader.Entry{{Name: "x", Tensor: x}}, loader.WriteOptions{}); err != nil {
		b.Fatal(err)
	}
	c, err := loader.Open(path, loader.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	b.SetBytes(1 << 26)
	for b.Loop() {
		if _, err := loader.Strict(c, []loader.Param{{Name: "x", Shape: shape}}, loader.Policy{}); err != nil {
			b.Fatal(err)
		}
	}
}

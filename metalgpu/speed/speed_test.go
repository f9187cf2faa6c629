package speed

import (
	"context"
	"testing"

	"github.com/hfcompress/compress/metalgpu"
	"github.com/hfcompress/compress/metalgpu/internal/kernel"
)

// TestPeakModule counts the arithmetic of the committed module: all of it must be
// there, and none may be fused.
func TestPeakModule(t *testing.T) {
	words, err := code(Peak)
	if err != nil {
		t.Fatal(err)
	}
	n, err := kernel.Inspect(words)
	if want := 2*chains*steps + chains - 1; err != nil || n != want {
		t.Errorf("%d operations, want %d: %v", n, want, err)
	}
	k, ok := kernel.Lookup("add")
	if !ok {
		t.Fatal("there is no kernel add")
	}
	if _, err := code(k); err != nil {
		t.Errorf("the code of a kernel of the table: %v", err)
	}
}

func TestMeasure(t *testing.T) {
	r, err := Measure(context.Background(), metalgpu.Options{API: "go"}, Options{Size: 16, Repeat: 1})
	if err != nil {
		t.Fatal(err)
	}
	if r.CopyBytes <= 0 || r.Peak <= 0 || r.Submit <= 0 || len(r.Products) != 9 {
		t.Fatalf("measured %+v", r)
	}
	for _, p := range r.Products {
		if p.Seconds <= 0 || p.Operations != 2*float64(p.Rows*p.In*p.Out) || p.Bytes != float64(p.DType.Size()*p.In*p.Out) {
			t.Errorf("product %+v", p)
		}
	}
	if _, err := Measure(context.Background(), metalgpu.Options{API: "none"}, Options{}); err == nil {
		t.Error("a device that is not there was measured")
	}
}

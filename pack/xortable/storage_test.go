package xortable

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/hfcompress/compress/tensor"
)

// TestStorage finds the bytes of every stored tensor again in what a route shows.
func TestStorage(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const rows, width = 7, 130
	base := make([]float32, rows*width)
	for i := range base {
		base[i] = float32(r.NormFloat64())
	}
	other := make([]float32, len(base))
	copy(other, base)
	for range 40 {
		other[r.IntN(len(other))] *= 1.001
	}
	tables := make([]*tensor.Tensor, 2)
	for i, v := range [][]float32{base, other} {
		var err error
		if tables[i], err = tensor.FromFloat32s(v, rows, width); err != nil {
			t.Fatal(err)
		}
	}
	for _, mode := range []Mode{Packed, Low8, Low16, Full} {
		set, err := Encode(tables, Options{Modes: []Mode{mode}})
		if err != nil {
			t.Fatal(err)
		}
		s := set.Route(1).Storage()
		if s.Mode != set.Route(1).Mode() {
			t.Errorf("%s: the storage says %s", set.Route(1).Mode(), s.Mode)
		}
		stored := map[string][]byte{"base": s.Base}
		if s.Mode == Full {
			stored = map[string][]byte{"base": set.Route(0).Storage().Base, "routes.1.full": s.Base}
		}
		for name, b := range map[string][]byte{"codes": s.Codes, "offsets": s.Offsets, "low": s.Low, "columns": s.Columns, "high": s.High} {
			if len(b) > 0 {
				stored["routes.1."+name] = b
			}
		}
		if len(stored) != len(set.Tensors()) {
			t.Errorf("%s: %d of %d tensors", mode, len(stored), len(set.Tensors()))
		}
		for _, n := range set.Tensors() {
			if !bytes.Equal(stored[n.Name], n.Tensor.Bytes()) {
				t.Errorf("%s: %s differs", mode, n.Name)
			}
		}
		switch s.Mode {
		case Packed:
			if len(s.Offsets)*8 != (rows+1)*s.OffsetBits {
				t.Errorf("%d bytes of offsets of %d bits", len(s.Offsets), s.OffsetBits)
			}
		case Low8, Low16:
			if len(s.Low)*8 != rows*width*s.LowBits || len(s.Columns)*8 != rows*s.Slots*s.ColumnBits || len(s.High)*8 != rows*s.Slots*s.HighBits {
				t.Errorf("%s: sizes disagree: %+v", mode, s)
			}
		}
	}
}

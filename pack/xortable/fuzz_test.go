package xortable_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/hfcompress/compress/pack/xortable"
	"github.com/hfcompress/compress/tensor"
)

// FuzzOpen feeds recipes and storage that nobody made. What opens must decode
// every row without a panic, and mean the same when opened again.
func FuzzOpen(f *testing.F) {
	f32 := related(f, 13, 2, 3, 16, 70)
	for _, tables := range [][]*tensor.Tensor{f32, narrowed(f, tensor.BF16, f32), hardPair(f, 2, 70)} {
		for _, mode := range everyMode {
			set, err := xortable.Encode(tables, xortable.Options{Modes: []xortable.Mode{mode}})
			if err != nil {
				f.Fatal(err)
			}
			text, err := json.Marshal(set.Recipe())
			if err != nil {
				f.Fatal(err)
			}
			var payload []byte
			for _, n := range set.Tensors() {
				payload = append(payload, n.Tensor.Bytes()...)
			}
			f.Add(text, payload)
		}
	}
	f.Add([]byte(sampleRecipe), []byte{})
	f.Fuzz(func(t *testing.T, text, payload []byte) {
		recipe, err := xortable.ParseRecipe(text)
		if err != nil {
			return
		}
		// Tensors take their bytes from the payload in the order in which they are
		// asked for, as from a file.
		serve := func() func(string) (*tensor.Tensor, error) {
			rest := payload
			return func(name string) (*tensor.Tensor, error) {
				want := wanted(recipe, name)
				n, err := want.Shape.Bytes(want.DType)
				if err != nil {
					return nil, err
				}
				if n > len(rest) {
					return nil, bytes.ErrTooLarge
				}
				data := rest[:n:n]
				rest = rest[n:]
				return tensor.FromBytes(want.DType, want.Shape, data)
			}
		}
		set, err := xortable.Open(recipe, serve())
		if err != nil {
			return
		}
		again, err := xortable.Open(set.Recipe(), serve())
		if err != nil {
			t.Fatal(err)
		}
		for i := range set.NumRoutes() {
			r := set.Route(i)
			a, b := make([]byte, r.Width()*r.DType().Size()), make([]byte, r.Width()*r.DType().Size())
			for j := range r.NumRows() {
				if err := r.DecodeRow(a, j); err != nil {
					t.Fatal(err)
				}
				if err := again.Route(i).DecodeRow(b, j); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(a, b) {
					t.Fatalf("route %d, row %d decodes differently", i, j)
				}
			}
		}
	})
}

func wanted(r xortable.Recipe, name string) xortable.TensorRecipe {
	if name == "base" {
		return xortable.TensorRecipe{DType: r.DType, Shape: r.Shape}
	}
	for i, route := range r.Routes {
		for own, t := range route.Tensors {
			if name == "routes."+itoa(i)+"."+own {
				return t
			}
		}
	}
	return xortable.TensorRecipe{}
}

func itoa(i int) string {
	text, _ := json.Marshal(i) // an int always has a JSON form
	return string(text)
}

// FuzzRoundTrip encodes two tables of arbitrary bytes.
func FuzzRoundTrip(f *testing.F) {
	pair := hardPair(f, 2, 40)
	f.Add(pair[0].Bytes(), pair[1].Bytes(), uint8(2), uint8(2))
	f.Add([]byte{0, 0, 0, 0x80}, []byte{0, 0, 0, 0}, uint8(1), uint8(0))
	f.Fuzz(func(t *testing.T, a, b []byte, rows, kind uint8) {
		d := []tensor.DType{tensor.F16, tensor.BF16, tensor.F32, tensor.F64}[kind%4]
		r := int(rows%8) + 1
		width := min(len(a), len(b)) / d.Size() / r
		if width == 0 {
			return
		}
		n := r * width * d.Size()
		var tables []*tensor.Tensor
		for _, data := range [][]byte{a, b} {
			x, err := tensor.FromBytes(d, tensor.Shape{r, width}, data[:n:n])
			if err != nil {
				t.Fatal(err)
			}
			tables = append(tables, x)
		}
		for _, mode := range everyMode {
			if _, err := xortable.Encode(tables, xortable.Options{Modes: []xortable.Mode{mode}}); err != nil {
				t.Fatal(err) // Encode compares every byte itself
			}
		}
	})
}

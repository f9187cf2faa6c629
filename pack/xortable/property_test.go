package xortable_test

import (
	"encoding/binary"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/hfcompress/compress/pack/xortable"
	"github.com/hfcompress/compress/tensor"
)

// special bit patterns, as the top bits of any element width: zeros, infinities,
// NaNs with payloads, ones and subnormals of each type lie among these and their
// neighbours.
var special = []uint64{
	0, 1, 1 << 63, 1<<63 | 1, ^uint64(0),
	0x7f80000000000000, 0xff80000000000000, 0x7fc0000000000000, 0x7fa1230000000000,
	0x3f80000000000000, 0x3f7fffff00000000, 0x7c00000000000000, 0x7ff0000000000000, 0x0080000000000000,
}

// families draws tables that are related in all the ways that matter: equal,
// near, a sign apart, unrelated.
func families(t *rapid.T) []*tensor.Tensor {
	d := rapid.SampledFrom([]tensor.DType{tensor.F16, tensor.BF16, tensor.F32, tensor.F64}).Draw(t, "dtype")
	rows, width := rapid.IntRange(1, 5).Draw(t, "rows"), rapid.IntRange(1, 200).Draw(t, "width")
	count := rapid.IntRange(1, 4).Draw(t, "tables")
	seed := rapid.Uint64().Draw(t, "seed")
	next := func() uint64 { // splitmix64 keeps rapid's own stream short
		seed += 0x9e3779b97f4a7c15
		z := seed
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return z ^ z>>31
	}
	near := rapid.IntRange(0, 20).Draw(t, "bits")
	rare := rapid.Uint64Range(1, 40).Draw(t, "one in")
	bits := 8 * d.Size()
	base := make([]uint64, rows*width)
	for i := range base {
		if base[i] = next(); next()%4 == 0 {
			base[i] = special[next()%uint64(len(special))] >> (64 - bits)
		}
	}
	var tables []*tensor.Tensor
	for n := range count {
		x, err := tensor.New(d, rows, width)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range base {
			if n > 0 {
				delta := next() & (1<<near - 1)
				switch next() % 8 {
				case 0, 1, 2:
					v += delta
				case 3, 4:
					v -= delta
				case 5:
					v ^= delta
				}
				if next()%rare == 0 {
					v = next()
				}
				if n == 3 && i/width%2 == 0 {
					v = base[i] // whole rows equal
				}
			}
			var word [8]byte
			binary.LittleEndian.PutUint64(word[:], v)
			copy(x.Bytes()[i*d.Size():(i+1)*d.Size()], word[:])
		}
		tables = append(tables, x)
	}
	return tables
}

// TestAnyTablesSurvive states the contract: for any bits, every coding gives back
// the bytes, before and after storage, and never takes more than full tables.
func TestAnyTablesSurvive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tables := families(t)
		o := xortable.Options{Base: rapid.IntRange(xortable.BaseAuto, len(tables)-1).Draw(t, "base")}
		if rapid.Bool().Draw(t, "restrict") {
			o.Modes = []xortable.Mode{rapid.SampledFrom(everyMode).Draw(t, "mode")}
		}
		set, err := xortable.Encode(tables, o)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(set.Recipe())
		if err != nil {
			t.Fatal(err)
		}
		recipe, err := xortable.ParseRecipe(text)
		if err != nil {
			t.Fatal(err)
		}
		again, err := xortable.Open(recipe, getter(set.Tensors()))
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Verify(tables); err != nil {
			t.Fatal(err)
		}
		r := set.Report()
		if r.TotalBytes > r.FullBytes {
			t.Fatalf("%d bytes for tables of %d", r.TotalBytes, r.FullBytes)
		}
		for _, route := range r.Routes {
			for mode, bytes := range route.Considered {
				if bytes < route.Bytes {
					t.Fatalf("route %d: %s is %d bytes, %s would be %d", route.Route, route.Mode, route.Bytes, mode, bytes)
				}
			}
			if got := route.Considered[route.Mode]; got != route.Bytes {
				t.Fatalf("route %d: %s was to be %d bytes and is %d", route.Route, route.Mode, got, route.Bytes)
			}
		}
	})
}

package xortable_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/hfcompress/compress/pack/xortable"
	"github.com/hfcompress/compress/tensor"
)

const sampleRecipe = `{"kind":"xor_tables","version":1,"dtype":"F32","shape":[7,512],"base":0,"routes":[{"mode":"same"},` +
	`{"mode":"low8","tensors":{"columns":{"dtype":"U16","shape":[7,3]},"high":{"dtype":"U32","shape":[7,3]},"low":{"dtype":"U8","shape":[7,512]}}},` +
	`{"mode":"packed","tensors":{"codes":{"dtype":"U8","shape":[99]},"offsets":{"dtype":"U32","shape":[8]}}}]}`

// XT-13 and its like: recipes that are refused, each one change away from a good
// one.
func TestParseRecipeRefuses(t *testing.T) {
	if _, err := xortable.ParseRecipe([]byte(sampleRecipe)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, new, want string }{
		{"dtype as a number", `"dtype":"F32"`, `"dtype":7`, "dtype"},
		{"integer dtype", `"dtype":"F32"`, `"dtype":"I32"`, "not I32"},
		{"negative extent", `[7,512]`, `[7,-1]`, "both positive"},
		{"zero extent", `[7,512]`, `[0,512]`, "both positive"},
		{"overflow", `[7,512],"base"`, `[4611686018427387904,4],"base"`, "too many elements"},
		{"three axes", `[7,512],"base"`, `[7,512,1],"base"`, "both positive"},
		{"more slots than columns", `"U16","shape":[7,3]`, `"U16","shape":[7,513]`, "1 to 512"},
		{"slots differ", `"U32","shape":[7,3]`, `"U32","shape":[7,4]`, "high"},
		{"base is not same", `"base":0`, `"base":1`, "base route 1"},
		{"base out of range", `"base":0`, `"base":3`, "route 3 of 3"},
		{"negative base", `"base":0`, `"base":-1`, "route -1"},
		{"boolean base", `"base":0`, `"base":true`, "base"},
		{"fractional version", `"version":1`, `"version":1.5`, "version"},
		{"version 2", `"version":1`, `"version":2`, "version is 2"},
		{"kind", `xor_tables`, `xor_table`, "kind"},
		{"training", `"base":0`, `"base":0,"training":true`, "training"},
		{"extra route key", `{"mode":"same"}`, `{"mode":"same","note":"x"}`, "note"},
		{"same with storage", `{"mode":"same"}`, `{"mode":"same","tensors":{"low":{"dtype":"U8","shape":[7,512]}}}`, "no tensor"},
		{"unknown mode", `"low8"`, `"low9"`, "low9"},
		{"unknown tensor", `"high"`, `"height"`, "needs tensor"},
		{"missing tensor", `,"offsets":{"dtype":"U32","shape":[8]}`, ``, "offsets"},
		{"wide columns", `"dtype":"U16"`, `"dtype":"U32"`, "columns are U32, want U16"},
		{"low dtype", `"low":{"dtype":"U8"`, `"low":{"dtype":"I8"`, "low are I8"},
		{"offsets shape", `"shape":[8]`, `"shape":[7]`, "offsets"},
		{"no codes", `"shape":[99]`, `"shape":[0]`, "one positive extent"},
		{"repeated key", `"base":0`, `"base":0,"base":0`, "twice"},
		{"repeated nested key", `"mode":"low8"`, `"mode":"low8","mode":"low8"`, "twice"},
		{"case trick", `"base":0`, `"base":0,"Base":1`, "Base"},
		{"long s trick", `{"mode":"same"}`, `{"mode":"same","tenſors":{}}`, "tenſors"},
		{"text after", `[8]}}}]}`, `[8]}}}]} {}`, "after"},
		{"brace after", `[8]}}}]}`, `[8]}}}]}}`, "after"},
		{"cut", `[8]}}}]}`, `[8]}}}`, "EOF"},
		{"no routes", sampleRecipe[strings.Index(sampleRecipe, `[{"mode"`):], `[]}`, "0 routes"},
	} {
		text := strings.Replace(sampleRecipe, c.old, c.new, 1)
		if text == sampleRecipe {
			t.Fatalf("%s: nothing replaced", c.name)
		}
		_, err := xortable.ParseRecipe([]byte(text))
		if !errors.Is(err, xortable.ErrRecipe) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := xortable.ParseRecipe(make([]byte, 5<<20)); !errors.Is(err, xortable.ErrRecipe) {
		t.Errorf("a huge recipe: %v", err)
	}
}

// damaged opens set with one of its tensors changed.
func damaged(t *testing.T, set *xortable.Set, name string, change func(*tensor.Tensor)) error {
	t.Helper()
	stored := set.Tensors()
	for i, n := range stored {
		if n.Name == name {
			stored[i].Tensor = n.Tensor.Clone()
			change(stored[i].Tensor)
			_, err := xortable.Open(set.Recipe(), getter(stored))
			return err
		}
	}
	t.Fatalf("no tensor %q", name)
	return nil
}

// XT-14: payloads that describe no table.
func TestOpenRefusesDamagedRectangles(t *testing.T) {
	tables := hardPair(t, 7, 512)
	set, err := xortable.Encode(tables, xortable.Options{Modes: []xortable.Mode{xortable.Low8}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, tensor, want string
		change             func(*tensor.Tensor)
	}{
		{"column 512", "routes.1.columns", "column 512 of 512", func(x *tensor.Tensor) { x.Uint16s()[0] = 512 }},
		{"duplicate column", "routes.1.columns", "two exceptions in column", func(x *tensor.Tensor) { x.Uint16s()[1] = x.Uint16s()[0] }},
		{"high too wide", "routes.1.high", "wider than 24 bits", func(x *tensor.Tensor) { x.Uint32s()[0] |= 1 << 24 }},
		{"padding elsewhere", "routes.1.high", "padding names column", func(x *tensor.Tensor) { x.Uint32s()[2] = 0 }},
	} {
		err := damaged(t, set, c.tensor, c.change)
		if !errors.Is(err, xortable.ErrRecipe) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "route 1") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestOpenRefusesDamagedPackedRows(t *testing.T) {
	set, err := xortable.Encode(hardPair(t, 3, 70), xortable.Options{Modes: []xortable.Mode{xortable.Packed}})
	if err != nil {
		t.Fatal(err)
	}
	if set.Route(1).Mode() != xortable.Packed {
		t.Fatal("the packed mode is not in use")
	}
	offset := func(x *tensor.Tensor, i int, v uint32) { binary.LittleEndian.PutUint32(x.Bytes()[4*i:], v) }
	for _, c := range []struct {
		name, tensor, want string
		change             func(*tensor.Tensor)
	}{
		{"starts late", "routes.1.offsets", "starts at byte 1", func(x *tensor.Tensor) { offset(x, 0, 1) }},
		{"ends late", "routes.1.offsets", "ends at byte", func(x *tensor.Tensor) { offset(x, 3, 1<<31) }},
		{"goes back", "routes.1.offsets", "row 1", func(x *tensor.Tensor) { offset(x, 2, 1) }},
		{"width 33", "routes.1.codes", "code width", func(x *tensor.Tensor) { x.Bytes()[0] = 33 }},
		{"difference of width 0", "routes.1.codes", "code width", func(x *tensor.Tensor) { x.Bytes()[0] = 0x80 }},
		{"difference of full width", "routes.1.codes", "code width", func(x *tensor.Tensor) { x.Bytes()[0] = 0x80 | 32 }},
		{"codes too long", "routes.1.codes", "row 0", func(x *tensor.Tensor) { x.Bytes()[0] = 32 }},
	} {
		err := damaged(t, set, c.tensor, c.change)
		if !errors.Is(err, xortable.ErrRecipe) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := xortable.Open(set.Recipe(), func(string) (*tensor.Tensor, error) { return nil, nil }); !errors.Is(err, xortable.ErrRecipe) {
		t.Errorf("no tensors: %v", err)
	}
	gone := errors.New("gone")
	if _, err := xortable.Open(set.Recipe(), func(string) (*tensor.Tensor, error) { return nil, gone }); !errors.Is(err, gone) {
		t.Errorf("an error of get: %v", err)
	}
	other, err := tensor.New(tensor.F32, 3, 71)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := xortable.Open(set.Recipe(), func(string) (*tensor.Tensor, error) { return other, nil }); !errors.Is(err, xortable.ErrRecipe) {
		t.Errorf("a base of another shape: %v", err)
	}
}

// TestPackedRowRules opens rows written by hand: one row of 70 columns, so two
// groups, against a base of zeros but for column 1.
func TestPackedRowRules(t *testing.T) {
	entries := func(pairs ...byte) []byte { return append([]byte{0, 0}, pairs...) }
	word := func(heads [2]byte, words ...uint64) []byte {
		row := heads[:]
		for _, w := range words {
			row = binary.LittleEndian.AppendUint64(row, w)
		}
		return row
	}
	for _, c := range []struct {
		name string
		row  []byte
		want string // empty: opens
	}{
		{"one entry", entries(1, 1), ""},
		{"last column", entries(70, 1), ""},
		{"four bytes of one column", entries(1, 1, 0, 0, 0, 0, 0, 0x80), ""},
		{"difference down to zero", word([2]byte{0x83, 0}, 0x4<<0|0x3<<32, 0x4924_9249<<32, 0x2492_4924), "range"},
		{"heads only", entries()[:1], "group heads alone"},
		{"odd entries", entries(1), "not whole pairs"},
		{"column 70", entries(71, 1), "column 70 of 70"},
		{"column 74", entries(70, 1, 5, 1), "column 74 of 70"},
		{"starts by continuing", entries(0, 1), "continues none"},
		{"ends without a value", entries(1, 1, 2, 0), "without need"},
		{"continues without a value", entries(1, 1, 0, 0), "without need"},
		{"empty between others", entries(1, 1, 0, 0, 2, 1), "without need"},
		{"short bridge", entries(10, 0, 20, 5), "without need"},
		{"empty low byte", entries(10, 0, 0, 5), ""},
		{"five bytes of one column", entries(1, 1, 0, 0, 0, 0, 0, 0, 0, 1), "wider than 32 bits"},
		{"value across the top", append(word([2]byte{30, 0}, make([]uint64, 30)...), 1, 4), "wider than 32 bits"},
		{"value up to the top", append(word([2]byte{30, 0}, make([]uint64, 30)...), 1, 3), ""},
		{"words are missing", word([2]byte{2, 0}, 1), "its codes need 16"},
		{"bits beyond the last code", word([2]byte{0, 5}, 1<<15), "unused bits"},
		{"last bit of the last code", word([2]byte{0, 5}, 1<<14), ""},
		{"last bit of the other lane", word([2]byte{0, 5}, 1<<46), ""},
		{"beyond it in the other lane", word([2]byte{0, 5}, 1<<47), "unused bits"},
	} {
		base := make([]uint32, 70)
		base[1] = 9
		codes, err := tensor.FromBytes(tensor.U8, tensor.Shape{len(c.row)}, c.row)
		if err != nil {
			t.Fatal(err)
		}
		offsets := binary.LittleEndian.AppendUint32(make([]byte, 4), uint32(len(c.row)))
		ends, err := tensor.FromBytes(tensor.U32, tensor.Shape{2}, offsets)
		if err != nil {
			t.Fatal(err)
		}
		recipe := xortable.Recipe{
			Kind: xortable.RecipeKind, Version: xortable.RecipeVersion, DType: tensor.F32, Shape: tensor.Shape{1, 70},
			Routes: []xortable.RouteRecipe{{Mode: xortable.Same}, {Mode: xortable.Packed, Tensors: map[string]xortable.TensorRecipe{
				"codes": {DType: tensor.U8, Shape: codes.Shape()}, "offsets": {DType: tensor.U32, Shape: ends.Shape()},
			}}},
		}
		_, err = xortable.Open(recipe, getter([]xortable.Named{
			{Name: "base", Tensor: words(t, base, 1, 70)}, {Name: "routes.1.codes", Tensor: codes}, {Name: "routes.1.offsets", Tensor: ends},
		}))
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, xortable.ErrRecipe) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestEveryFlippedBitIsNoticed changes each bit of the storage in turn: opening
// must fail or the decoded tables must differ. No bit is without meaning.
func TestEveryFlippedBitIsNoticed(t *testing.T) {
	f32 := related(t, 21, 2, 3, 16, 70)
	for _, family := range [][]*tensor.Tensor{f32, narrowed(t, tensor.F16, f32), hardPair(t, 2, 70)} {
		for _, mode := range everyMode {
			set, err := xortable.Encode(family, xortable.Options{Modes: []xortable.Mode{mode}})
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range set.Tensors() {
				for bit := range 8 * len(n.Tensor.Bytes()) {
					stored := set.Tensors()
					for i := range stored {
						if stored[i].Name == n.Name {
							stored[i].Tensor = n.Tensor.Clone()
							stored[i].Tensor.Bytes()[bit/8] ^= 1 << (bit % 8)
						}
					}
					again, err := xortable.Open(set.Recipe(), getter(stored))
					if err == nil && again.Verify(family) == nil {
						t.Fatalf("%v %s: bit %d of %s has no meaning", family[0], set.Route(1).Mode(), bit, n.Name)
					}
				}
			}
		}
	}
}

func TestRecipeIsIndependent(t *testing.T) {
	set, err := xortable.Encode(related(t, 4, 2, 4, 32, 100), xortable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(set.Recipe())
	if err != nil {
		t.Fatal(err)
	}
	r := set.Recipe()
	r.Shape[0] = 99
	r.Routes[0].Mode = xortable.Full
	clear(r.Routes[1].Tensors)
	if after, err := json.Marshal(set.Recipe()); err != nil || string(after) != string(before) {
		t.Errorf("%v: %s became %s", err, before, after)
	}
}

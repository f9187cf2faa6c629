package finitepass_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/pack/floatcodec"
	"github.com/hfcompress/compress/tensor"
)

// CE-1 and the rows between: every row comes back, in every type, and fewer
// bytes are stored or nothing is done.
func TestEqualRows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := rapid.SampledFrom([]tensor.DType{tensor.F16, tensor.BF16, tensor.F32, tensor.F64, tensor.I64, tensor.U8}).Draw(rt, "type")
		rows := rapid.IntRange(1, 400).Draw(rt, "rows")
		width := rapid.IntRange(1, 24).Draw(rt, "width")
		distinct := rapid.IntRange(1, rows).Draw(rt, "distinct")
		x, err := tensor.New(d, rows, width)
		if err != nil {
			rt.Fatal(err)
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		for i := range rows {
			if i < distinct {
				for k := range x.Row(i) {
					x.Row(i)[k] = byte(r.Uint32())
				}
			} else {
				copy(x.Row(i), x.Row(r.IntN(distinct)))
			}
		}
		e, report, err := finitepass.StoreEqualRows("embed", x)
		if err != nil {
			rt.Fatal(err)
		}
		if e == nil {
			if report.Saves() {
				rt.Fatalf("not stored: %+v", report)
			}
			return
		}
		var stored int64
		for _, s := range e.Tensors() {
			stored += int64(len(s.Tensor.Bytes()))
		}
		text, err := e.Recipe().Encode()
		if err != nil || stored != report.StoredBytes || stored+int64(len(text)) >= report.FullBytes {
			rt.Fatalf("%+v, %d bytes: %v", report, stored, err)
		}
		recipe, err := finitepass.ParseEqualRows(text)
		if err != nil {
			rt.Fatal(err)
		}
		back, err := finitepass.OpenEqualRows(recipe, func(name string) (*tensor.Tensor, error) {
			for _, s := range e.Tensors() {
				if s.Name == name {
					return s.Tensor, nil
				}
			}
			return nil, nil
		})
		if err != nil || back.Verify(x) != nil {
			rt.Fatal(err)
		}
		if err := back.DecodeRow(make([]byte, len(x.Row(0))), rows); err == nil {
			rt.Fatal("a row outside")
		}
	})
}

// CE-4, CE-8: one byte makes two rows differ; damaged recipes and tensors.
func TestEqualRowsRefused(t *testing.T) {
	x, err := tensor.New(tensor.F32, 900, 4)
	if err != nil {
		t.Fatal(err)
	}
	e, report, err := finitepass.StoreEqualRows("zeros", x)
	if err != nil || e == nil || report.Distinct != 1 || report.StoredBytes != 16 || len(e.Tensors()) != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	x.Float32s()[77] = float32(math.Copysign(0, -1))
	if e.Verify(x) == nil {
		t.Error("−0 taken for +0")
	}
	two, report, err := finitepass.StoreEqualRows("zeros", x)
	if err != nil || report.Distinct != 2 || report.StoredBytes != 32+900 {
		t.Fatalf("%+v, %v", report, err)
	}
	get := func(name string) (*tensor.Tensor, error) {
		for _, s := range two.Tensors() {
			if s.Name == name {
				return s.Tensor, nil
			}
		}
		return nil, nil
	}
	for name, change := range map[string]func(r *finitepass.EqualRowsRecipe){
		"kind":     func(r *finitepass.EqualRowsRecipe) { r.Kind = "rows" },
		"version":  func(r *finitepass.EqualRowsRecipe) { r.Version = 2 },
		"nameless": func(r *finitepass.EqualRowsRecipe) { r.Tensor = "" },
		"type":     func(r *finitepass.EqualRowsRecipe) { r.DType = tensor.Invalid },
		"rows":     func(r *finitepass.EqualRowsRecipe) { r.Rows = 901 },
		"width":    func(r *finitepass.EqualRowsRecipe) { r.Width = 0 },
		"distinct": func(r *finitepass.EqualRowsRecipe) { r.Distinct = 3 },
		"none":     func(r *finitepass.EqualRowsRecipe) { r.Distinct = 0 },
		"index":    func(r *finitepass.EqualRowsRecipe) { r.Index = tensor.U16 },
		"no index": func(r *finitepass.EqualRowsRecipe) { r.Index = tensor.Invalid },
	} {
		r := two.Recipe()
		change(&r)
		if _, err := finitepass.OpenEqualRows(r, get); !errors.Is(err, finitepass.ErrRecipe) {
			t.Errorf("%s: %v", name, err)
		}
	}
	index, _ := get("index")
	index.Bytes()[5] = 2
	if _, err := finitepass.OpenEqualRows(two.Recipe(), get); !errors.Is(err, finitepass.ErrRecipe) {
		t.Errorf("%v", err)
	}
	if _, err := finitepass.OpenEqualRows(two.Recipe(), func(string) (*tensor.Tensor, error) { return nil, nil }); !errors.Is(err, finitepass.ErrRecipe) {
		t.Errorf("%v", err)
	}
	flat, _ := tensor.New(tensor.F32, 4)
	if _, _, err := finitepass.StoreEqualRows("flat", flat); !errors.Is(err, tensor.ErrShape) {
		t.Errorf("%v", err)
	}
}

// floatCodec codes rows with the package's float codec.
type floatCodec struct{}

func (floatCodec) Name() string { return "floatcodec/1" }

func (floatCodec) Encode(dst []byte, d tensor.DType, width int, raw []byte) ([]byte, error) {
	rows := len(raw) / (width * d.Size())
	return floatcodec.Encode(dst, d, tensor.Shape{rows, width}, raw, floatcodec.Options{})
}

func (floatCodec) Decode(dst, enc []byte, size int) ([]byte, error) {
	return floatcodec.Decode(dst, enc, floatcodec.Limits{MaxSize: int64(size)})
}

func opened(t testing.TB, p *finitepass.PackedRows, change func(name string, x *tensor.Tensor) *tensor.Tensor) (*finitepass.PackedRows, error) {
	t.Helper()
	text, err := p.Recipe().Encode()
	if err != nil {
		t.Fatal(err)
	}
	recipe, err := finitepass.ParsePackedRows(text)
	if err != nil {
		t.Fatal(err)
	}
	return finitepass.OpenPackedRows(recipe, floatCodec{}, func(name string) (*tensor.Tensor, error) {
		for _, s := range p.Tensors() {
			if s.Name == name {
				return change(name, s.Tensor), nil
			}
		}
		return nil, nil
	}, finitepass.PackOptions{})
}

// PE-1, PS-1: every bit pattern comes back at every block size, from a model
// that gathers from the packed rows, and fewer bytes are stored.
func TestPackedRows(t *testing.T) {
	dev := openCPU(t, "")
	for _, block := range []int{1, 4, 16} {
		x := randomTensor(t, rand.New(rand.NewPCG(2, 3)), 0.02, 35, 512)
		for i, bits := range []uint32{0, 1 << 31, 0x7fc0_1234, 0x7f80_0000, 0xff80_0000, 1} {
			x.Uint32s()[i*517] = bits
		}
		rows, err := nn.TensorRows(x)
		if err != nil {
			t.Fatal(err)
		}
		p, report, err := finitepass.PackRows(context.Background(), "embed", rows, floatCodec{}, finitepass.PackOptions{BlockRows: block})
		if err != nil {
			t.Fatal(err)
		}
		if p == nil || !report.Saves() {
			t.Fatalf("blocks of %d: %+v", block, report)
		}
		back, err := opened(t, p, func(_ string, x *tensor.Tensor) *tensor.Tensor { return x })
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []*finitepass.PackedRows{p, back} {
			if err := r.Verify(x); err != nil {
				t.Error(err)
			}
		}
		table, err := dev.UploadRows(back)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := dev.UploadRows(rows)
		if err != nil {
			t.Fatal(err)
		}
		s := dev.Begin(context.Background())
		ids := []int{34, 0, 0, 17, 3, 34}
		if !tensor.BitEqual(s.ToHost(s.Gather(table, ids)), s.ToHost(s.Gather(plain, ids))) {
			t.Error("gathered rows differ")
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := back.Measure(context.Background(), ids); err != nil {
			t.Error(err)
		}
		var wait sync.WaitGroup
		for k := range 4 {
			wait.Go(func() {
				row := make([]byte, len(x.Row(0)))
				for i := range 70 {
					at := (i*(k+3) + k) % 35
					if err := back.DecodeRow(row, at); err != nil || string(row) != string(x.Row(at)) {
						t.Errorf("row %d: %v", at, err)
						return
					}
				}
			})
		}
		wait.Wait()
		for _, at := range []int{-1, 35} {
			if back.DecodeRow(make([]byte, 2048), at) == nil {
				t.Errorf("row %d", at)
			}
		}
	}
}

// PE-2, PS-3, PS-4: whatever is damaged is refused when the rows are opened, or
// when a row of the damaged block is read.
func TestPackedRowsRefused(t *testing.T) {
	x := randomTensor(t, rand.New(rand.NewPCG(2, 3)), 0.02, 20, 256)
	rows, err := nn.TensorRows(x)
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := finitepass.PackRows(context.Background(), "embed", rows, floatCodec{}, finitepass.PackOptions{BlockRows: 8, CacheBlocks: -1})
	if err != nil {
		t.Fatal(err)
	}
	flip := func(which string, at int) func(string, *tensor.Tensor) *tensor.Tensor {
		return func(name string, x *tensor.Tensor) *tensor.Tensor {
			if name != which {
				return x
			}
			x = x.Clone()
			x.Bytes()[(at+len(x.Bytes()))%len(x.Bytes())] ^= 4
			return x
		}
	}
	for name, change := range map[string]func(string, *tensor.Tensor) *tensor.Tensor{
		"payload":     flip("payload", 100),
		"last byte":   flip("payload", -1),
		"first":       flip("offsets", 0),
		"offset":      flip("offsets", 8),
		"huge offset": flip("offsets", 15),
		"end":         flip("offsets", -8),
		"checksum":    flip("checks", 2),
		"missing":     func(string, *tensor.Tensor) *tensor.Tensor { return nil },
		"another type": func(_ string, x *tensor.Tensor) *tensor.Tensor {
			y, _ := tensor.FromBytes(tensor.I8, tensor.Shape{len(x.Bytes())}, x.Bytes())
			return y
		},
	} {
		if _, err := opened(t, p, change); !errors.Is(err, finitepass.ErrRecipe) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Damage after opening: rows of other blocks are still read.
	p.Tensors()[0].Tensor.Bytes()[10] ^= 1
	row := make([]byte, 1024)
	if err := p.DecodeRow(row, 3); !errors.Is(err, finitepass.ErrRecipe) {
		t.Errorf("%v", err)
	}
	if err := p.DecodeRow(row, 19); err != nil || string(row) != string(x.Row(19)) {
		t.Errorf("%v", err)
	}
	for name, change := range map[string]func(r *finitepass.PackedRowsRecipe){
		"kind":    func(r *finitepass.PackedRowsRecipe) { r.Kind = "rows" },
		"version": func(r *finitepass.PackedRowsRecipe) { r.Version = 99 },
		"codec":   func(r *finitepass.PackedRowsRecipe) { r.Codec = "other" },
		"rows":    func(r *finitepass.PackedRowsRecipe) { r.Rows = 1 << 60 },
		"blocks":  func(r *finitepass.PackedRowsRecipe) { r.BlockRows = 0 },
		"large":   func(r *finitepass.PackedRowsRecipe) { r.BlockRows = 1025 },
		"payload": func(r *finitepass.PackedRowsRecipe) { r.PayloadBytes = -1 },
		"type":    func(r *finitepass.PackedRowsRecipe) { r.DType = tensor.F4 },
	} {
		r := p.Recipe()
		change(&r)
		if _, err := finitepass.OpenPackedRows(r, floatCodec{}, func(string) (*tensor.Tensor, error) { return nil, nil }, finitepass.PackOptions{}); !errors.Is(err, finitepass.ErrRecipe) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Random bits do not shrink, so nothing is packed.
	noise, err := tensor.New(tensor.U8, 20, 256)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(4, 4))
	for i := range noise.Bytes() {
		noise.Bytes()[i] = byte(r.Uint32())
	}
	if rows, err = nn.TensorRows(noise); err != nil {
		t.Fatal(err)
	}
	if p, report, err := finitepass.PackRows(context.Background(), "noise", rows, floatCodec{}, finitepass.PackOptions{}); p != nil || err != nil || report.Saves() {
		t.Errorf("%+v, %v", report, err)
	}
	if _, _, err := finitepass.PackRows(context.Background(), "x", rows, floatCodec{}, finitepass.PackOptions{BlockRows: -1}); !errors.Is(err, finitepass.ErrRecipe) {
		t.Errorf("%v", err)
	}
}

// Weights with rows in another form give them to who asks for rows, and the
// tensor to who asks for that.
func TestWithRows(t *testing.T) {
	x, err := tensor.New(tensor.F32, 700, 8)
	if err != nil {
		t.Fatal(err)
	}
	e, _, err := finitepass.StoreEqualRows("embed", x)
	if err != nil {
		t.Fatal(err)
	}
	other := randomTensor(t, rand.New(rand.NewPCG(1, 1)), 1, 3, 3)
	w := finitepass.WithRows(weights{"embed": nil, "other": other}, map[string]nn.RowSource{"embed": e})
	have, err := w.Tensor("embed")
	if err != nil || !tensor.BitEqual(have, x) {
		t.Errorf("%v", err)
	}
	rows, err := architectures.Rows(w, "embed")
	if err != nil || rows.NumRows() != 700 {
		t.Errorf("%v", err)
	}
	if rows, err = architectures.Rows(w, "other"); err != nil || rows.NumRows() != 3 {
		t.Errorf("%v", err)
	}
	if _, err := architectures.Rows(w, "absent"); err == nil {
		t.Error("an absent tensor")
	}
	again := finitepass.WithRows(w, nil)
	if rows, err = architectures.Rows(again, "embed"); err != nil || rows.NumRows() != 700 {
		t.Errorf("%v", err)
	}
}

// Recipes of the storage passes: an error, or something that is written as it
// was read.
func FuzzStorageRecipes(f *testing.F) {
	f.Add([]byte(`{"kind":"equal_rows","version":1,"tensor":"e","dtype":"F32","rows":9,"width":2,"distinct":3,"index":"U8"}`))
	f.Add([]byte(`{"kind":"equal_rows","version":1,"tensor":"e","dtype":"F32","rows":9,"width":2,"distinct":1}`))
	f.Add([]byte(`{"kind":"packed_rows","version":1,"tensor":"e","codec":"c","dtype":"BF16","rows":9,"width":2,"block_rows":4,"payload_bytes":10}`))
	f.Add([]byte(`{"kind":"shared_tensors","version":1,"groups":[{"tensor":"a","sha256":"` + strings.Repeat("0a", 32) + `","names":["b"]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		check := func(text []byte, err, again error) {
			t.Helper()
			if err != nil || again != nil {
				t.Fatalf("%s: %v, %v", text, err, again)
			}
		}
		none := func(string) (*tensor.Tensor, error) { return nil, nil }
		if r, err := finitepass.ParseEqualRows(data); err == nil {
			text, err := r.Encode()
			_, again := finitepass.ParseEqualRows(text)
			check(text, err, again)
			if _, err := finitepass.OpenEqualRows(r, none); !errors.Is(err, finitepass.ErrRecipe) {
				t.Fatal(err)
			}
		} else if !errors.Is(err, finitepass.ErrRecipe) {
			t.Fatal(err)
		}
		if r, err := finitepass.ParsePackedRows(data); err == nil {
			text, err := r.Encode()
			_, again := finitepass.ParsePackedRows(text)
			check(text, err, again)
			if _, err := finitepass.OpenPackedRows(r, floatCodec{}, none, finitepass.PackOptions{}); !errors.Is(err, finitepass.ErrRecipe) {
				t.Fatal(err)
			}
		}
		if s, err := finitepass.ParseSharing(data); err == nil {
			text, err := s.Encode()
			_, again := finitepass.ParseSharing(text)
			check(text, err, again)
		}
	})
}

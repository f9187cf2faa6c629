package xortable_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hfcompress/compress/pack/xortable"
	"github.com/hfcompress/compress/tensor"
)

var everyMode = []xortable.Mode{xortable.Low8, xortable.Low16, xortable.Packed}

// words wraps bit patterns as an F32 table.
func words(t testing.TB, values []uint32, rows, width int) *tensor.Tensor {
	t.Helper()
	f := make([]float32, len(values))
	for i, v := range values {
		f[i] = math.Float32frombits(v)
	}
	table, err := tensor.New(tensor.F32, rows, width)
	if err != nil {
		t.Fatal(err)
	}
	copy(table.Uint32s(), values) // not through f: loading a signalling NaN may quiet it
	return table
}

// hardPair is a table of random words and a near copy of it with the changes
// that break careless codings.
func hardPair(t testing.TB, rows, width int) []*tensor.Tensor {
	rng := rand.New(rand.NewPCG(3, 4))
	a := make([]uint32, rows*width)
	for i := range a {
		a[i] = rng.Uint32()
	}
	copy(a, []uint32{0, 0x80000000, 0x3f800000, 0x7f800000, 0x7fc00001, 0xff800000, 1, 0x007fffff})
	b := append([]uint32(nil), a...)
	for i := range b {
		if rng.IntN(3) > 0 {
			b[i] ^= rng.Uint32() & 0x3f
		}
	}
	copy(b, []uint32{0x80000000, 0, 0x3f7fffff, 0x7fa00000, 0xffc12345, 0x7f800000, 0x80000001, 0x00800000})
	return []*tensor.Tensor{words(t, a, rows, width), words(t, b, rows, width)}
}

// reopen goes through JSON and Open, as a stored set does.
func reopen(t testing.TB, set *xortable.Set) *xortable.Set {
	t.Helper()
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
	return again
}

func getter(stored []xortable.Named) func(string) (*tensor.Tensor, error) {
	return func(name string) (*tensor.Tensor, error) {
		for _, n := range stored {
			if n.Name == name {
				return n.Tensor, nil
			}
		}
		return nil, errors.New("no such tensor")
	}
}

// XT-1: hard words, every mode, both routes, both bases.
func TestHardWordsAreByteExact(t *testing.T) {
	tables := hardPair(t, 7, 512)
	for base := range tables {
		for _, modes := range [][]xortable.Mode{{xortable.Low8}, {xortable.Low16}, {xortable.Packed}, nil} {
			set, err := xortable.Encode(tables, xortable.Options{Base: base, Modes: modes})
			if err != nil {
				t.Fatal(err)
			}
			again := reopen(t, set)
			for _, s := range []*xortable.Set{set, again} {
				if err := s.Verify(tables); err != nil {
					t.Errorf("base %d, modes %v: %v", base, modes, err)
				}
				for i, table := range tables {
					r := s.Route(i)
					row := make([]byte, 4*512)
					for j := range 7 {
						if err := r.DecodeRow(row, j); err != nil {
							t.Fatal(err)
						}
						if !bytes.Equal(row, table.Row(j)) {
							t.Errorf("route %d, row %d differs", i, j)
						}
					}
				}
			}
			report := set.Report()
			var stored int64
			for _, n := range set.Tensors() {
				stored += int64(len(n.Tensor.Bytes()))
			}
			if report.TotalBytes != stored || !report.Reduced || report.ComparedElements != 2*7*512 {
				t.Errorf("base %d, modes %v: %d bytes stored, report %+v", base, modes, stored, report)
			}
			text, err := json.Marshal(report)
			if err != nil || bytes.Contains(bytes.ToLower(text), []byte("param")) {
				t.Errorf("%v: %s", err, text)
			}
			if got := again.Report().Status; got != xortable.StatusOpened {
				t.Errorf("an opened set has status %q", got)
			}
		}
	}
}

// XT-3: aliased tables share memory already, so nothing is saved in residence.
func TestAliasedTablesSaveNothing(t *testing.T) {
	table := hardPair(t, 7, 512)[0]
	view, err := table.Reshape(7, 512)
	if err != nil {
		t.Fatal(err)
	}
	for _, tables := range [][]*tensor.Tensor{{table, table}, {table, view}} {
		set, err := xortable.Encode(tables, xortable.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := set.Report()
		if !r.LogicalReduced || r.ResidentReduced || r.Reduced || r.Routes[1].Mode != xortable.Same {
			t.Errorf("%+v", r)
		}
	}
}

// Overlapping views count their union once.
func TestOverlappingTables(t *testing.T) {
	whole := hardPair(t, 6, 32)[0]
	var tables []*tensor.Tensor
	for first := range 3 {
		view, err := tensor.FromBytes(tensor.F32, tensor.Shape{4, 32}, whole.Bytes()[first*128:(first+4)*128])
		if err != nil {
			t.Fatal(err)
		}
		tables = append(tables, view)
	}
	set, err := xortable.Encode(tables, xortable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r := set.Report(); r.SuppliedBytes != 6*128 || r.FullBytes != 3*512 {
		t.Errorf("%+v", r)
	}
}

// XT-4: a table that only shares rubbish with the base is kept whole.
func TestUnrelatedTableIsFull(t *testing.T) {
	a := hardPair(t, 4, 32)[0]
	rng := rand.New(rand.NewPCG(9, 9))
	b := make([]uint32, 4*32)
	for i := range b {
		b[i] = rng.Uint32()
	}
	set, err := xortable.Encode([]*tensor.Tensor{a, words(t, b, 4, 32)}, xortable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := set.Report()
	if r.Routes[0].Mode != xortable.Same || r.Routes[1].Mode != xortable.Full || r.Reduced || r.TotalBytes != r.FullBytes {
		t.Errorf("%+v", r)
	}
}

// A coding as large as the table itself is not used: low8 and low16 would both
// take 8 bytes here.
func TestTieGoesToFull(t *testing.T) {
	tables := []*tensor.Tensor{words(t, []uint32{1, 2}, 1, 2), words(t, []uint32{1 << 31, 2}, 1, 2)}
	set, err := xortable.Encode(tables, xortable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r := set.Report().Routes[1]; r.Mode != xortable.Full || r.Considered[xortable.Low8] != 8 || r.Considered[xortable.Low16] != 8 {
		t.Errorf("%+v", r)
	}
}

// XT-5: more columns than 16 bits can count.
func TestWideTable(t *testing.T) {
	const width = 1<<16 + 1
	a := make([]uint32, width)
	b := make([]uint32, width)
	b[width-1] = 0x80000000
	tables := []*tensor.Tensor{words(t, a, 1, width), words(t, b, 1, width)}
	for _, mode := range everyMode {
		set, err := xortable.Encode(tables, xortable.Options{Modes: []xortable.Mode{mode}})
		if err != nil {
			t.Fatal(err)
		}
		if got := set.Route(1).Mode(); got != mode {
			t.Errorf("mode %s, want %s", got, mode)
		}
		if columns, err := getter(set.Tensors())("routes.1.columns"); err == nil && columns.DType() != tensor.U32 {
			t.Errorf("columns are %v", columns)
		}
		if e := set.Report().Routes[1].Exceptions; e > 1 || mode != xortable.Packed && e != 1 {
			t.Errorf("%s: %d exceptions", mode, e)
		}
		if err := reopen(t, set).Verify(tables); err != nil {
			t.Error(err)
		}
	}
}

// XT-6: what cannot be encoded.
func TestEncodeRefuses(t *testing.T) {
	good := hardPair(t, 7, 16)[0]
	make2 := func(d tensor.DType, shape ...int) *tensor.Tensor {
		x, err := tensor.New(d, shape...)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	for _, c := range []struct {
		name   string
		tables []*tensor.Tensor
		o      xortable.Options
		want   string
		is     error
	}{
		{"no tables", nil, xortable.Options{}, "0 tables", xortable.ErrTables},
		{"nil table", []*tensor.Tensor{good, nil}, xortable.Options{}, "table 1 is nil", xortable.ErrTables},
		{"integers", []*tensor.Tensor{make2(tensor.I32, 2, 2)}, xortable.Options{}, "not I32", tensor.ErrDType},
		{"float8", []*tensor.Tensor{make2(tensor.F8E4M3, 2, 2)}, xortable.Options{}, "not F8_E4M3", tensor.ErrDType},
		{"no rows", []*tensor.Tensor{make2(tensor.F32, 0, 2)}, xortable.Options{}, "[0,2]", tensor.ErrShape},
		{"no columns", []*tensor.Tensor{make2(tensor.F32, 2, 0)}, xortable.Options{}, "[2,0]", tensor.ErrShape},
		{"three axes", []*tensor.Tensor{make2(tensor.F32, 2, 2, 2)}, xortable.Options{}, "[2,2,2]", tensor.ErrShape},
		{"other shape", []*tensor.Tensor{good, make2(tensor.F32, 7, 15)}, xortable.Options{}, "table 1 is F32[7,15]", xortable.ErrTables},
		{"other type", []*tensor.Tensor{good, make2(tensor.F16, 7, 16)}, xortable.Options{}, "table 1 is F16[7,16]", xortable.ErrTables},
		{"base too high", []*tensor.Tensor{good}, xortable.Options{Base: 1}, "base is route 1 of 1", xortable.ErrTables},
		{"base below auto", []*tensor.Tensor{good}, xortable.Options{Base: -2}, "base is route -2", xortable.ErrTables},
		{"unknown mode", []*tensor.Tensor{good}, xortable.Options{Modes: []xortable.Mode{"low9"}}, "low9", nil},
	} {
		_, err := xortable.Encode(c.tables, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// XT-7: calls that are refused.
func TestDecodeRowRefuses(t *testing.T) {
	set, err := xortable.Encode(hardPair(t, 7, 16), xortable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ bytes, row int }{{64, -1}, {64, 7}, {63, 0}, {65, 0}, {0, 0}} {
		if err := set.Route(1).DecodeRow(make([]byte, c.bytes), c.row); err == nil {
			t.Errorf("%+v was decoded", c)
		}
	}
	if err := set.Verify(hardPair(t, 7, 16)[:1]); !errors.Is(err, xortable.ErrTables) {
		t.Errorf("one table for two routes: %v", err)
	}
	if err := set.Verify(hardPair(t, 16, 7)); !errors.Is(err, xortable.ErrTables) {
		t.Errorf("tables of another shape: %v", err)
	}
	tables := hardPair(t, 7, 16)
	tables[1].Bytes()[4*(3*16+5)] ^= 1
	if err := set.Verify(tables); err == nil || !strings.Contains(err.Error(), "route 1, row 3, column 5") {
		t.Errorf("a changed table: %v", err)
	}
}

// XT-8, XT-12: after a change to the storage the comparison is history, and
// putting the bytes right is seen as such, since currency is a hash of them.
func TestCurrent(t *testing.T) {
	set, err := xortable.Encode(related(t, 2, 2, 4, 32, 100), xortable.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !set.Current() {
		t.Fatal("a fresh set is not current")
	}
	if reopen(t, set).Current() {
		t.Error("an opened set is current")
	}
	for _, n := range set.Tensors() {
		n.Tensor.Bytes()[0] ^= 1
		if set.Current() {
			t.Errorf("current after a change to %s", n.Name)
		}
		n.Tensor.Bytes()[0] ^= 1
	}
	if !set.Current() {
		t.Error("not current with the verified bytes")
	}
}

func TestDecodeRowAllocatesNothing(t *testing.T) {
	f32 := related(t, 5, 2, 4, 32, 300)
	for _, tables := range [][]*tensor.Tensor{f32, narrowed(t, tensor.BF16, f32), hardPair(t, 4, 300)} {
		for _, mode := range everyMode {
			set, err := xortable.Encode(tables, xortable.Options{Modes: []xortable.Mode{mode}})
			if err != nil {
				t.Fatal(err)
			}
			r := set.Route(1)
			row := make([]byte, r.Width()*r.DType().Size())
			if n := testing.AllocsPerRun(20, func() {
				if err := r.DecodeRow(row, 1); err != nil {
					t.Fatal(err)
				}
			}); n != 0 {
				t.Errorf("%v %s: %v allocations", r.DType(), r.Mode(), n)
			}
		}
	}
}

func TestBaseAutoIsTheSmallest(t *testing.T) {
	tables := related(t, 11, 3, 10, 64, 256)
	auto, err := xortable.Encode(tables, xortable.Options{Base: xortable.BaseAuto})
	if err != nil {
		t.Fatal(err)
	}
	smallest := int64(math.MaxInt64)
	for base := range tables {
		set, err := xortable.Encode(tables, xortable.Options{Base: base})
		if err != nil {
			t.Fatal(err)
		}
		smallest = min(smallest, set.Report().TotalBytes)
	}
	if got := auto.Report().TotalBytes; got != smallest {
		t.Errorf("auto needs %d bytes, the best base %d", got, smallest)
	}
}

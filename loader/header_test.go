package loader_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	oracle "github.com/nlpodyssey/safetensors"

	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// file puts a header's length before it and n bytes of data after it.
func file(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	for i := range n {
		b = append(b, byte(i))
	}
	return b
}

func scan(b []byte, limits loader.Limits) (*loader.Header, error) {
	return loader.ScanHeader(bytes.NewReader(b), int64(len(b)), limits)
}

// record spells one tensor's entry.
func record(name, dtype, shape string, start, end int) string {
	return fmt.Sprintf(`%q:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`, name, dtype, shape, start, end)
}

// hostile lists files that must be refused. Library says whether
// nlpodyssey/safetensors accepts them: docs/dependencies.md has the same table.
var hostile = []struct {
	name    string
	file    []byte
	library bool
	kind    error  // errors.Is, where there is one
	says    string // part of the message
}{
	{"no bytes", nil, false, io.ErrUnexpectedEOF, "expected at least 8 bytes, found 0"},
	{"length only in part", []byte{1, 2, 3}, false, io.ErrUnexpectedEOF, "found 3"},
	{"length beyond the file", file(`{}`, 0)[:9], false, io.ErrUnexpectedEOF, "truncated in the header"},
	{"length of all ones", []byte("\xff\xff\xff\xff\xff\xff\xff\xff{}"), false, loader.ErrLimit, "the limit is 100000000"},
	{"empty header", file("", 0), false, nil, "the shortest is {}"},
	{"null", file("null", 0), true, nil, `expected "{", found 'n'`},
	{"list", file("[]", 0), false, nil, `found '['`},
	{"leading blank", file(" {}", 0), true, nil, `found ' '`},
	{"byte order mark", file("\ufeff{}", 0), false, nil, `expected "{"`},
	{"cut object", file(`{"a":{"dtype":"U8"`, 0), false, nil, "found the end"},
	{"text after the object", file(`{} x`, 0), false, nil, "expected the end, found 'x'"},
	{"NUL padding", file("{}\x00", 0), false, nil, "expected the end"},
	{"second object", file(`{}{}`, 0), false, nil, "expected the end"},
	{"trailing comma", file(`{`+record("a", "U8", "[1]", 0, 1)+`,}`, 1), false, nil, `expected "\"", found '}'`},
	{"duplicate name", file(`{`+record("a", "U8", "[2]", 0, 2)+`,`+record("a", "U8", "[1]", 0, 1)+`}`, 1), true, nil, "duplicate name"},
	{"duplicate name by escape", file(`{`+record("a", "U8", "[2]", 0, 2)+`,"\u0061":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1), true, nil, "duplicate name"},
	{"duplicate key", file(`{"a":{"dtype":"F32","dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1), true, nil, `duplicate key "dtype"`},
	{"duplicate metadata", file(`{"__metadata__":{},"__metadata__":{}}`, 0), true, nil, `duplicate key "__metadata__"`},
	{"duplicate metadata key", file(`{"__metadata__":{"k":"1","k":"2"}}`, 0), true, nil, `duplicate key "k"`},
	{"metadata number", file(`{"__metadata__":{"k":1}}`, 0), false, nil, `key "k": expected a string, found '1'`},
	{"metadata null value", file(`{"__metadata__":{"k":null}}`, 0), false, nil, `expected a string, found 'n'`},
	{"metadata text", file(`{"__metadata__":"k"}`, 0), false, nil, `__metadata__: expected "{"`},
	{"unknown key", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":0}}`, 1), false, nil, `unknown key "x"`},
	{"missing key", file(`{"a":{"dtype":"U8","shape":[1]}}`, 0), false, nil, "found 2 of them"},
	{"unknown dtype", file(`{`+record("w", "F31", "[1]", 0, 4)+`}`, 4), false, tensor.ErrDType, `tensor "w": unsupported dtype "F31"`},
	{"dtype number", file(`{"a":{"dtype":1,"shape":[1],"data_offsets":[0,1]}}`, 1), false, nil, "dtype: expected a string"},
	{"negative extent", file(`{`+record("a", "U8", "[-1]", 0, 1)+`}`, 1), false, nil, "expected a non-negative integer, found '-'"},
	{"boolean extent", file(`{`+record("a", "U8", "[true]", 0, 1)+`}`, 1), false, nil, "expected a non-negative integer, found 't'"},
	{"fraction extent", file(`{`+record("a", "U8", "[1.0]", 0, 1)+`}`, 1), false, nil, "with a fraction or an exponent"},
	{"exponent extent", file(`{`+record("a", "U8", "[1e0]", 0, 1)+`}`, 1), false, nil, "with a fraction or an exponent"},
	{"leading zero", file(`{`+record("a", "U8", "[01]", 0, 1)+`}`, 1), false, nil, "leading zero"},
	{"extent of 10^100", file(`{`+record("a", "U8", "[1"+strings.Repeat("0", 100)+"]", 0, 1)+`}`, 1), false, nil, "does not fit 63 bits"},
	{"extent of 2^63", file(`{`+record("a", "U8", "[0,9223372036854775808]", 0, 0)+`}`, 0), true, nil, "does not fit 63 bits"},
	{"elements overflow", file(`{`+record("a", "U8", "[4294967296,4294967296]", 0, 0)+`}`, 0), false, tensor.ErrShape, "too many elements"},
	{"overflow before a zero", file(`{`+record("a", "U8", "[4294967296,4294967296,0]", 0, 0)+`}`, 0), false, tensor.ErrShape, "too many elements"},
	{"bytes overflow", file(`{`+record("a", "F64", "[2305843009213693952]", 0, 0)+`}`, 0), false, tensor.ErrShape, "too large"},
	{"half a byte", file(`{`+record("a", "F4", "[3]", 0, 1)+`}`, 1), false, tensor.ErrShape, "does not fill whole bytes"},
	{"too few bytes for the shape", file(`{`+record("a", "F32", "[2]", 0, 4)+`}`, 4), false, tensor.ErrShape, "F32[2] needs 8 bytes, data_offsets [0,4] hold 4"},
	{"too many bytes for the shape", file(`{`+record("a", "F32", "[0]", 0, 4)+`}`, 4), false, tensor.ErrShape, "needs 0 bytes"},
	{"rank 17", file(`{`+record("a", "U8", "["+strings.Repeat("1,", 16)+"1]", 0, 1)+`}`, 1), true, loader.ErrLimit, "rank above 16"},
	{"shape text", file(`{"a":{"dtype":"U8","shape":"1","data_offsets":[0,1]}}`, 1), false, nil, `shape: expected "["`},
	{"offsets reversed", file(`{`+record("a", "U8", "[1]", 1, 0)+`}`, 1), false, nil, "impossible data_offsets [1,0]"},
	{"one offset", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1]}}`, 1), false, nil, `expected ","`},
	{"three offsets", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}}`, 1), false, nil, `expected "]"`},
	{"offset near 2^63", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[9223372036854775806,9223372036854775807]}}`, 1), false, nil, "impossible data_offsets"},
	{"leading gap", file(`{`+record("a", "U8", "[1]", 1, 2)+`}`, 2), false, nil, `tensor "a": gap: expected to start at 0`},
	{"gap", file(`{`+record("a", "U8", "[1]", 0, 1)+`,`+record("b", "U8", "[1]", 2, 3)+`}`, 3), false, nil, `tensor "b": gap: expected to start at 1, after tensor "a"`},
	{"overlap", file(`{`+record("a", "U8", "[2]", 0, 2)+`,`+record("b", "U8", "[2]", 1, 3)+`}`, 3), false, nil, `tensor "b": overlap`},
	{"same bytes twice", file(`{`+record("a", "U8", "[2]", 0, 2)+`,`+record("b", "U8", "[2]", 0, 2)+`}`, 2), false, nil, "overlap"},
	{"empty tensor inside another", file(`{`+record("a", "U8", "[2]", 0, 2)+`,`+record("b", "U8", "[0]", 1, 1)+`}`, 2), false, nil, "overlap"},
	{"trailing bytes", file(`{`+record("a", "U8", "[1]", 0, 1)+`}`, 2), false, nil, "1 trailing bytes"},
	{"data cut", file(`{`+record("a", "U8", "[1]", 0, 1)+`,`+record("b", "U8", "[4]", 1, 5)+`}`, 3), false, io.ErrUnexpectedEOF, `truncated in tensor "b"`},
	{"invalid UTF-8", file("{\"\xff\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1), true, nil, "invalid UTF-8"},
	{"two names that repair to one", file("{\"\xff\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"\xfe\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1), true, nil, "invalid UTF-8"},
	{"overlong UTF-8", file("{\"\xc0\xaf\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1), true, nil, "invalid UTF-8"},
	{"lone high surrogate", file(`{"\ud800":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1), true, nil, "lone surrogate"},
	{"lone low surrogate", file(`{"\udc00":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1), true, nil, "lone surrogate"},
	{"control character", file("{\"a\nb\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1), false, nil, "control character 0x0a"},
	{"escape unknown", file(`{"\x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1), false, nil, "invalid escape"},
	{"long name", file(`{`+record(strings.Repeat("n", 4097), "U8", "[1]", 0, 1)+`}`, 1), true, loader.ErrLimit, "string of 4097 bytes, the limit is 4096"},
	{"deep nesting", file(`{"a":`+strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+`}`, 0), false, nil, `tensor "a": expected "{"`},
}

func TestHostileHeaders(t *testing.T) {
	for _, c := range hostile {
		t.Run(c.name, func(t *testing.T) {
			_, err := scan(c.file, loader.Limits{})
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %q does not say %q", err, c.says)
			}
			if c.kind != nil && !errors.Is(err, c.kind) {
				t.Errorf("error %q is not %q", err, c.kind)
			}
			var he *loader.HeaderError
			var te *loader.TruncatedError
			if !errors.As(err, &he) && !errors.As(err, &te) {
				t.Errorf("error of type %T", err)
			}
			if len(err.Error()) > 500 || strings.Contains(err.Error(), "\n") {
				t.Errorf("error of %d bytes or several lines", len(err.Error()))
			}
			if _, err := oracle.Deserialize(c.file); (err == nil) != c.library {
				t.Errorf("the library's verdict has changed: %v", err)
			}
		})
	}
}

func TestUnusualButValidHeaders(t *testing.T) {
	for _, c := range []struct {
		name, header string
		data         int
		names        []string
	}{
		{"no tensors", `{}`, 0, nil},
		{"metadata null", `{"__metadata__":null}`, 0, nil},
		{"metadata empty", `{"__metadata__":{}}`, 0, nil},
		{"white space", "{\n\t\"a\" : { \"shape\" : [ ] ,\r\n \"data_offsets\":[ 0 , 1 ], \"dtype\":\"U8\" } } \n", 1, []string{"a"}},
		{"file order is that of the bytes", `{` + record("b", "U8", "[1]", 1, 2) + `,` + record("a", "U8", "[1]", 0, 1) + `}`, 2, []string{"a", "b"}},
		{"empty tensors keep the header's order", `{` + record("z", "U8", "[0]", 0, 0) + `,` + record("y", "F64", "[0,5]", 0, 0) + `,` + record("x", "U8", "[1]", 0, 1) + `,` + record("w", "U8", "[0]", 1, 1) + `}`, 1, []string{"z", "y", "x", "w"}},
		{"zero before a huge extent", `{` + record("a", "F64", "[0,4294967296,4294967296]", 0, 0) + `}`, 0, []string{"a"}},
		{"surrogate pair", `{"\ud83e\udd17":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1, []string{"🤗"}},
		{"escapes", `{"\u0000\"\\\/\b\f\n\r\t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1, []string{"\x00\"\\/\b\f\n\r\t"}},
		{"escaped key", `{"a":{"\u0064type":"U8","shape":[1],"data_offsets":[0,1]}}`, 1, []string{"a"}},
		{"empty name", `{` + record("", "U8", "[1]", 0, 1) + `}`, 1, []string{""}},
		{"name like a path", `{` + record("../../x", "U8", "[1]", 0, 1) + `}`, 1, []string{"../../x"}},
		{"rank 16", `{` + record("a", "U8", "["+strings.Repeat("1,", 15)+"1]", 0, 1) + `}`, 1, []string{"a"}},
		{"every type", `{` + record("f4", "F4", "[2]", 0, 1) + `,` + record("f6", "F6_E2M3", "[4]", 1, 4) + `,` + record("c", "C64", "[1]", 4, 12) + `,` + record("f8", "F8_E8M0", "[1]", 12, 13) + `}`, 13, []string{"f4", "f6", "c", "f8"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := scan(file(c.header, c.data), loader.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if string(h.Raw()) != c.header {
				t.Errorf("raw header %q", h.Raw())
			}
			var names []string
			for i := range h.Tensors() {
				info := &h.Tensors()[i]
				names = append(names, info.Name)
				if h.Lookup(info.Name) != info {
					t.Errorf("Lookup(%q) gives another tensor", info.Name)
				}
			}
			if fmt.Sprintf("%q", names) != fmt.Sprintf("%q", c.names) {
				t.Errorf("names %q, want %q", names, c.names)
			}
		})
	}
}

func TestOpaqueDTypes(t *testing.T) {
	b := file(`{`+record("a", "F31", "[3,5]", 0, 7)+`,`+record("b", "U8", "[1]", 7, 8)+`}`, 8)
	h, err := scan(b, loader.Limits{OpaqueDTypes: true})
	if err != nil {
		t.Fatal(err)
	}
	if a := h.Lookup("a"); a.DType != tensor.Invalid || a.DTypeName != "F31" || a.Bytes() != 7 {
		t.Errorf("opaque tensor %+v", a)
	}
}

func TestLimits(t *testing.T) {
	two := file(`{`+record("aa", "U8", "[1,1]", 0, 1)+`,`+record("bb", "U8", "[1,1]", 1, 2)+`}`, 2)
	for _, c := range []struct {
		name   string
		limits loader.Limits
		ok     bool
	}{
		{"header at the limit", loader.Limits{HeaderBytes: int64(len(two) - 10)}, true},
		{"header above", loader.Limits{HeaderBytes: int64(len(two) - 11)}, false},
		{"tensors at the limit", loader.Limits{Tensors: 2}, true},
		{"tensors above", loader.Limits{Tensors: 1}, false},
		{"rank at the limit", loader.Limits{Rank: 2}, true},
		{"rank above", loader.Limits{Rank: 1}, false},
		{"names at the limit", loader.Limits{NameBytes: 2}, true},
		{"names above", loader.Limits{NameBytes: 1}, false},
	} {
		_, err := scan(two, c.limits)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, loader.ErrLimit) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A reader that has less than it said must be found out before memory is
// allocated for a header that is not there.
func TestSizeThatLies(t *testing.T) {
	b := file(`{}`, 0)
	binary.LittleEndian.PutUint64(b, 90_000_000)
	var err error
	got := allocated(func() { _, err = loader.ScanHeader(bytes.NewReader(b), 1<<40, loader.Limits{}) })
	var te *loader.TruncatedError
	if !errors.As(err, &te) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v", err)
	}
	if got > 1<<20 {
		t.Errorf("%d bytes allocated", got)
	}
}

// allocated returns the bytes that f allocates, whether freed or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// bombs are headers made to cost a reader much more memory than their length.
// All are of about 2 MB, so that the test stays quick; the ratios do not depend
// on it.
func bombs() map[string][]byte {
	const size = 2 << 20
	rank := `{"a":{"dtype":"U8","shape":[` + strings.Repeat("1,", size/2) + `1],"data_offsets":[0,1]}}`
	repeat := func(one func(i int) string) string {
		var b strings.Builder
		b.WriteByte('{')
		for i := 0; b.Len() < size; i++ {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(one(i))
		}
		b.WriteByte('}')
		return b.String()
	}
	return map[string][]byte{
		"rank":    file(rank, 1),
		"tensors": file(repeat(func(i int) string { return record(fmt.Sprint(i), "U8", "[0]", 0, 0) }), 0),
		"axes": file(repeat(func(i int) string {
			return record(fmt.Sprint(i), "U8", "[0"+strings.Repeat(",0", 15)+"]", 0, 0)
		}), 0),
		"metadata": file(`{"__metadata__":`+repeat(func(i int) string { return fmt.Sprintf(`"%x":""`, i) })+`}`, 0),
		"escapes":  file(`{"`+strings.Repeat(`\u0041`, size/6)+`":{}}`, 0),
		"lists":    file(`{"a":{"dtype":`+strings.Repeat("[", size)+`}}`, 0),
	}
}

func TestMemoryFollowsHeaderLength(t *testing.T) {
	for name, b := range bombs() {
		got := allocated(func() { scan(b, loader.Limits{}) })
		ratio := float64(got) / float64(len(b))
		library := allocated(func() { oracle.Deserialize(b) })
		t.Logf("%-8s header %d bytes: allocated %.1f times that; nlpodyssey/safetensors %.1f times", name, len(b), ratio, float64(library)/float64(len(b)))
		if ratio > 16 {
			t.Errorf("%s: %d bytes allocated for a header of %d", name, got, len(b))
		}
	}
}

var smallFile = file(`{"__metadata__":{"format":"pt"},`+record("a.weight", "F32", "[2,3]", 0, 24)+`,`+record("b", "BF16", "[]", 24, 26)+`}  `, 26)

func TestTruncationAtEveryByte(t *testing.T) {
	if _, err := scan(smallFile, loader.Limits{}); err != nil {
		t.Fatal(err)
	}
	for n := range smallFile {
		_, err := scan(smallFile[:n], loader.Limits{})
		var te *loader.TruncatedError
		if !errors.As(err, &te) || te.Found != int64(n) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
}

// A flipped bit must be refused, or lie in a name or in metadata: types, shapes
// and places of all tensors are as they were.
func TestEveryBitFlipOfTheHeader(t *testing.T) {
	h, err := scan(smallFile, loader.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	accepted := 0
	for bit := range 8 * (8 + len(h.Raw())) {
		flipped := bytes.Clone(smallFile)
		flipped[bit/8] ^= 1 << (bit % 8)
		g, err := scan(flipped, loader.Limits{})
		if err != nil {
			continue
		}
		accepted++
		if len(g.Tensors()) != len(h.Tensors()) {
			t.Errorf("bit %d changes the number of tensors: %q", bit, g.Raw())
			continue
		}
		for i, a := range h.Tensors() {
			b := g.Tensors()[i]
			sameWidth := a.DType.Bits() == b.DType.Bits() // BF16 and, say, F16
			if !sameWidth || !a.Shape.Equal(b.Shape) || a.Start != b.Start || a.End != b.End {
				t.Errorf("bit %d changes %v to %v", bit, a, b)
			}
		}
	}
	if accepted == 0 {
		t.Error("no flip was accepted, not even in a name")
	}
	t.Logf("%d of %d flips accepted", accepted, 8*(8+len(h.Raw())))
}

package lang_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/hfcompress/compress/metalgpu/internal/kernel"
	"github.com/hfcompress/compress/metalgpu/internal/soft/lang"
)

func TestTableParses(t *testing.T) {
	for _, k := range kernel.All() {
		p, err := lang.Parse(k)
		if err != nil {
			t.Errorf("kernel %s: %v", k.Name, err)
			continue
		}
		if len(p.Body.List) == 0 || len(p.Buffers) != len(k.Buffers) || len(p.Constants) != len(k.Push) {
			t.Errorf("kernel %s: %d statements", k.Name, len(p.Body.List))
		}
	}
}

// small is a kernel around a source.
func small(functions, body string) *kernel.Kernel {
	return &kernel.Kernel{
		Name: "small", Workgroup: [3]int{4, 1, 1},
		Buffers:   []kernel.Buffer{{Name: "x", Type: "float"}, {Name: "y", Type: "float", Writes: true}, {Name: "u", Type: "uint", Writes: true}},
		Push:      []string{"n", "c:float"},
		Shared:    []kernel.Shared{{Name: "s", Type: "uint", Elements: 4}},
		Functions: functions, Body: body,
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ functions, body, want string }{
		{"", "y[0u] = x[0u] / 2.0f;", "floats are not divided"},
		{"", "y[0u] = x[0];", "expected uint, found int"},
		{"", "y[0u] = 1;", "expected float, found int"},
		{"", "x[0u] = 1.0f;", "buffer x is not written"},
		{"", "y[0u] = y[0u] == 1.0f;", "operator == of float"},
		{"", "if (x[0u] != x[0u]) { return; }", "operator != of float"},
		{"", "if (p.n) { return; }", "expected bool"},
		{"", "uint i = i;", "unknown name i"},
		{"", "uint half = 1u;", "no name for something"},
		{"", "uint out = 1u;", "no name for something"},
		{"", "uint a = 1u; uint a = 2u;", "declared already"},
		{"", "uint y = 1u;", "declared already"},
		{"", "{ uint a = 1u; } u[a] = 1u;", "unknown name a"},
		{"", "y[0u] = exp(x[0u]);", "unknown name exp"},
		{"", "y[0u] = fma(x[0u], 1.0f, 2.0f);", "unknown name fma"},
		{"", "y[0u] = p.m;", "no push constant m"},
		{"", "u[0u] = gid.w;", "no such part"},
		{"", "u[0u] = 077u;", "number 077u"},
		{"", "u[0u] = 4294967296u;", "number"},
		{"", "u[0u] = 1u << 1.0f;", "operator <<"},
		{"", "u[0u] = uint(2u);", "conversion uint of uint"},
		{"", "break;", "outside a loop"},
		{"", "u[0u] = 1u", "expected ;"},
		{"", "u[0u] = (1u;", "expected )"},
		{"", "while (true) { u[0u] = 1u;", "expected a statement, found \"\""},
		{"", "u[0u] = ", "ends too early"},
		{"", "u[0u] = \"a\";", "character"},
		{"", "u[0u] = 1u ? 2u : 3u;", "character"},
		{"", "return 1u;", "expected ;"},
		{"", "1u = 2u;", "expected a statement"},
		{"", "s = 1u;", "expected ["},
		{"", "p.n = 1u;", "cannot be assigned to"},
		{"", strings.Repeat("{", 300) + strings.Repeat("}", 300), "nested too deeply"},
		{"", "u[0u] = " + strings.Repeat("(", 300) + "1u" + strings.Repeat(")", 300) + ";", "nested too deeply"},
		{"FN uint f() { BARRIER(); return 1u; }", "", "barrier in a function"},
		{"FN uint f(uint a) { if (a == 1u) { return 1u; } }", "", "may end without a result"},
		{"FN uint f(uint a) { return f(a); }", "", "unknown name f"},
		{"FN uint f(uint a) { return gid.x; }", "", "no such part"},
		{"FN uint f(uint a) { return p.n; }", "", "no push constant"},
		{"FN uint f(uint a) { return u[0u]; }", "", "unknown name u"},
		{"FN void f(INOUT(uint, a)) { a = 1u; }", "f(1u);", "needs a variable"},
		{"FN uint f(uint a) { return a; }", "u[0u] = f(1);", "expected uint"},
		{"FN uint f(uint a) { return a; }", "u[0u] = f(1u, 2u);", "expected )"},
		{"FN uint f(uint a) { return a; }\nFN uint f(uint a) { return a; }", "", "declared already"},
	} {
		_, err := lang.Parse(small(c.functions, c.body))
		if !errors.Is(err, lang.ErrSyntax) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, expected %q", c.functions, c.body, err, c.want)
		}
	}
	_, err := lang.Parse(small("", "\n\nu[0u] = 1;"))
	var e *lang.Error
	if !errors.As(err, &e) || e.Line != 3 || e.Part != "body" {
		t.Errorf("the place of an error: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"map", "linear_vector_bf16", "attention_softmax", "xor_codes", "topk"} {
		k, _ := kernel.Lookup(name)
		f.Add(k.Functions, k.Body)
	}
	f.Add("FN void f(INOUT(float, a), uint b) { a = -a; }", "float v = 1.5f; f(v, 2u); y[lid.x] = v;")
	f.Add("", "for (uint i = 0u; i < 4u; i += 1u) { if (i == 2u) continue; break; }")
	f.Fuzz(func(t *testing.T, functions, body string) {
		p, err := lang.Parse(small(functions, body))
		if err != nil {
			if !errors.Is(err, lang.ErrSyntax) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		if p.Body == nil {
			t.Fatal("no body")
		}
	})
}

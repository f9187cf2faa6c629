package declared

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/tensor"
)

// small is a file with one of each operation.
const small = `{
  "version": 1, "name": "small", "vocabulary": 11, "max_positions": 16, "pad": 2, "mask": true,
  "blocks": [
    {"path": "tokens", "contract": "token_indices_only",
     "embedding": {"tensor": "emb", "width": 8},
     "layers": [{"op": "rmsnorm", "weight": "norm"}],
     "branches": [
       {"name": "q", "layers": [{"op": "linear", "weight": "q.w", "bias": "q.b", "out": 8}]},
       {"name": "kv", "layers": [{"op": "linear", "weight": "kv.w", "out": 8}]},
       {"name": "score", "layers": [{"op": "linear", "weight": "score.w", "out": 4}, {"op": "activation", "function": "sigmoid"}]}
     ],
     "residual": "raw"}
  ],
  "steps": [
    {"name": "placed", "op": "positions", "from": "tokens.q", "tensor": "pos", "offset": 1},
    {"name": "turned", "op": "rotary", "from": "placed", "heads": 2, "style": "pairs", "dim": 2},
    {"name": "k", "op": "layers", "from": "tokens.kv", "layers": [{"op": "columns", "width": 4}]},
    {"name": "v", "op": "layers", "from": "tokens.kv", "layers": [{"op": "columns", "start": 4, "width": 4}]},
    {"name": "mixed", "op": "attention", "q": "turned", "k": "k", "v": "v", "heads": 2, "kv_heads": 1, "causal": true},
    {"name": "sum", "op": "sum", "of": ["tokens.raw", "mixed"]},
    {"name": "stack", "op": "repeat", "from": "sum", "count": 2, "first": 3, "steps": [
      {"name": "x", "op": "layers", "from": "in", "layers": [
        {"op": "product", "of": [[], [{"op": "linear", "weight": "deep.{i}", "out": 8}, {"op": "scale", "by": -0.5}]]},
        {"op": "layernorm"}]}]},
    {"name": "last", "op": "pool", "from": "stack", "how": "last"},
    {"name": "mean", "op": "pool", "from": "stack", "how": "mean"},
    {"name": "both", "op": "product", "of": ["last", "mean"]}
  ],
  "outputs": [
    {"name": "pooled", "from": "both"},
    {"name": "router", "from": "tokens.score", "decides": 2},
    {"name": "hidden", "from": "stack"}
  ]
}`

func TestParse(t *testing.T) {
	b, err := Parse([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	want := "emb[11,8] norm[8] q.w[8,8] q.b[8] kv.w[8,8] score.w[4,8] pos[17,8] deep.3[8,8] deep.4[8,8]"
	var have []string
	for _, p := range b.Params() {
		have = append(have, p.Name+p.Shape.String())
		if !slices.Equal(p.DTypes, []tensor.DType{tensor.F32}) || p.Ignored || p.TiedTo != "" {
			t.Errorf("%+v", p)
		}
	}
	if got := strings.Join(have, " "); got != want {
		t.Errorf("parameters\n%s, expected\n%s", got, want)
	}
	blocks := b.Blocks()
	if len(blocks) != 1 || blocks[0].Contract != architectures.TokenIndicesOnly || blocks[0].NumTokens != 11 || blocks[0].EmbeddingWidth != 8 {
		t.Fatalf("%+v", blocks)
	}
	// The residual keeps the embedding; all else goes with the block.
	if want := []string{"norm", "q.w", "q.b", "kv.w", "score.w"}; !slices.Equal(blocks[0].Removes, want) {
		t.Errorf("removes %v, expected %v", blocks[0].Removes, want)
	}
	if in := b.Inputs(); !reflect.DeepEqual(in, architectures.InputSpec{Vocabulary: 11, MaxPositions: 16, PadToken: 2, Masks: true}) {
		t.Errorf("%+v", in)
	}
	if d := b.Decisions(); !slices.Equal(d, []architectures.Decision{{Output: "router", Top: 2, Block: "tokens", BlockOutput: "score"}}) {
		t.Errorf("%+v", d)
	}
}

// What a block removes is counted: a tensor with a reader elsewhere stays.
func TestRemovals(t *testing.T) {
	for _, c := range []struct {
		name, old, new string
		removes        string
	}{
		{"without a residual the embedding goes", `"residual": "raw"`, `"comment": "none"`, "emb norm q.w q.b kv.w score.w"},
		{"a head tied to the embedding keeps it",
			`{"name": "both", "op": "product", "of": ["last", "mean"]}`,
			`{"name": "both", "op": "layers", "from": "mean", "layers": [{"op": "linear", "weight": "emb", "out": 11}]}`,
			"norm q.w q.b kv.w score.w"},
		{"a matrix that a step reads too", `"weight": "deep.{i}"`, `"weight": "kv.w"`, "norm q.w q.b score.w"},
		{"a matrix read twice in the block", `"weight": "kv.w"`, `"weight": "q.w"`, "norm q.w q.b score.w"},
	} {
		text := strings.Replace(small, c.old, c.new, 1)
		if strings.Contains(c.name, "without") {
			text = strings.Replace(text, `["tokens.raw", "mixed"]`, `["mixed", "mixed"]`, 1)
		}
		if strings.Contains(c.name, "tied") {
			text = strings.Replace(text, `{"name": "last", "op": "pool", "from": "stack", "how": "last"},`, "", 1)
		}
		b, err := Parse([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := strings.Join(b.Blocks()[0].Removes, " "); got != c.removes {
			t.Errorf("%s: removes %s, expected %s", c.name, got, c.removes)
		}
	}
}

// Two blocks over one embedding: neither can take it away alone.
func TestSharedEmbedding(t *testing.T) {
	b, err := Parse([]byte(`{"version": 1, "name": "two", "vocabulary": 5,
	 "blocks": [
	  {"path": "a", "contract": "token_indices_only", "embedding": {"tensor": "e", "width": 3}, "branches": [{"name": "y", "layers": [{"op": "linear", "weight": "a", "out": 2}]}]},
	  {"path": "b", "contract": "token_indices_only", "refuse": "kept for comparison", "embedding": {"tensor": "e", "width": 3}, "branches": [{"name": "y", "layers": [{"op": "linear", "weight": "b", "out": 2}]}]}],
	 "steps": [{"name": "s", "op": "sum", "of": ["a.y", "b.y"]}], "outputs": [{"name": "s", "from": "s"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	blocks := b.Blocks()
	if got := fmt.Sprintf("%v %v %s", blocks[0].Removes, blocks[1].Removes, blocks[1].Refusal); got != "[a] [b] kept for comparison" {
		t.Error(got)
	}
}

// Every refusal names the place.
func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"version", `"version": 1`, `"version": 2`, "version: 2; this program reads version 1"},
		{"unknown key", `"pad": 2`, `"padding": 2`, `padding: unknown key; known here: blocks, comment, dtype, ignore`},
		{"key in another case", `"mask"`, `"Mask"`, "Mask: unknown key"},
		{"repeated key", `"pad": 2`, `"pad": 2, "pad": 3`, `key "pad" appears twice`},
		{"null", `"pad": 2`, `"pad": null`, "null is no value here"},
		{"boolean as integer", `"pad": 2`, `"pad": true`, "pad: expected an integer from 0 to 10, found true"},
		{"fraction as integer", `"vocabulary": 11`, `"vocabulary": 11.0`, "vocabulary: expected an integer from 1 to 16777216, found 11.0"},
		{"huge vocabulary", `"vocabulary": 11`, `"vocabulary": 99999999`, "vocabulary: expected"},
		{"no name", `"name": "small", `, "", "name: is missing"},
		{"bad name", `"name": "small"`, `"name": "a/b"`, "name: expected letters, digits"},
		{"mask as number", `"mask": true`, `"mask": 1`, "mask: expected true or false, found 1"},
		{"another contract", `token_indices_only`, `anything`, `blocks[0].contract: expected "token_indices_only"`},
		{"no contract", `"contract": "token_indices_only",`, "", "blocks[0].contract: is missing"},
		{"layer list", `"layers": [{"op": "rmsnorm", "weight": "norm"}]`, `"layers": {"op": "rmsnorm"}`, "blocks[0].layers: expected a list of at most 64 entries"},
		{"layer object", `{"op": "rmsnorm", "weight": "norm"}`, `"rmsnorm"`, "blocks[0].layers[0]: expected an object"},
		{"unknown op", `"op": "rmsnorm"`, `"op": "softmax"`, "blocks[0].layers[0].op: expected linear, layernorm"},
		{"attention in a block", `"op": "rmsnorm"`, `"op": "attention"`, "blocks[0].layers[0].op: expected linear, layernorm"},
		{"key of another op", `"weight": "norm"}`, `"weight": "norm", "out": 3}`, "blocks[0].layers[0].out: unknown key; known here: eps, op, weight"},
		{"function", `"function": "sigmoid"`, `"function": "mish"`, "blocks[0].branches[2].layers[1].function: expected one of gelu, "},
		{"no width", `"bias": "q.b", "out": 8`, `"bias": "q.b"`, "blocks[0].branches[0].layers[0].out: is missing"},
		{"epsilon", `"weight": "norm"`, `"weight": "norm", "eps": 1e-60`, "blocks[0].layers[0].eps: expected a number between 0 and 1"},
		{"epsilon as text", `"weight": "norm"`, `"weight": "norm", "eps": "1e-6"`, "blocks[0].layers[0].eps: expected a number, found"},
		{"branch twice", `"name": "kv"`, `"name": "q"`, `blocks[0].branches[1].name: "tokens.q" is used twice`},
		{"residual like a branch", `"residual": "raw"`, `"residual": "q"`, `blocks[0].residual: "tokens.q" is used twice`},
		{"two shapes", `"weight": "kv.w"`, `"weight": "norm"`, `blocks[0].branches[1].layers[0].weight: "norm" is bound to shape [8,8] here and to [8] at blocks[0].layers[0].weight`},
		{"index outside of a repetition", `"weight": "kv.w"`, `"weight": "kv.{i}"`, "{i} has a meaning in a repetition only"},
		{"unknown value", `"from": "tokens.kv", "layers": [{"op": "columns", "width": 4}]`, `"from": "kv", "layers": []`, `steps[2].from: there is no "kv" here; there are: placed, tokens.kv`},
		{"columns outside", `"start": 4, "width": 4`, `"start": 5, "width": 4`, "steps[3].layers[0].width: expected an integer from 1 to 3, found 4"},
		{"heads", `"heads": 2, "kv_heads": 1`, `"heads": 3, "kv_heads": 1`, "steps[4].heads: 3 does not divide the width 8 of q"},
		{"kv heads", `"heads": 2, "kv_heads": 1`, `"heads": 2`, "steps[4].k: 2 heads of size 4 need width 8, k has 4 and v 4"},
		{"rotary size", `"dim": 2`, `"dim": 3`, "steps[1]: rotary embedding: 3 elements cannot rotate in pairs"},
		{"positions without a number", `"max_positions": 16, `, "", "steps[0].op: learned positions need max_positions"},
		{"sum of widths", `["tokens.raw", "mixed"]`, `["tokens.raw", "v"]`, `steps[5].of: "tokens.raw" has one row of width 8 per position, "v" has one row of width 4 per position`},
		{"sum of one", `["tokens.raw", "mixed"]`, `["tokens.raw"]`, "steps[5].of: expected two or more names of values"},
		{"product of pooled and not", `["last", "mean"]`, `["last", "stack"]`, "steps[9].of: \"last\" has one row of width 8 per sequence"},
		{"pool twice", `"op": "pool", "from": "stack", "how": "mean"`, `"op": "pool", "from": "last", "how": "mean"`, `steps[8].from: "last" has one row per sequence`},
		{"pool how", `"how": "mean"`, `"how": "max"`, "steps[8].how: expected one of first, last, mean"},
		{"nested repetition", `{"name": "x", "op": "layers", "from": "in"`, `{"name": "x", "op": "repeat", "from": "in"`, "steps[6].steps[0].op: a repetition cannot hold another"},
		{"repetition of another width", `"weight": "deep.{i}", "out": 8`, `"weight": "deep.{i}", "out": 4`, "steps[6].steps[0].layers[0].of[1]: has width 4, the first chain has 8"},
		{"repetition count", `"count": 2`, `"count": 99999`, "steps[6].count: expected an integer from 1 to 1024"},
		{"combination of one", `[[], [{"op": "linear", "weight": "deep.{i}", "out": 8}, {"op": "scale", "by": -0.5}]]`, `[[]]`, "steps[6].steps[0].layers[0].of: expected 2 or more chains"},
		{"scale beyond float32", `"by": -0.5`, `"by": 1e39`, "expected a number within the range of float32"},
		{"scale missing", `, "by": -0.5`, ``, "by: is missing"},
		{"unread value", `{"name": "hidden", "from": "stack"}`, `{"name": "hidden", "from": "sum"}`, ""},
		{"nothing reads it", `{"name": "router", "from": "tokens.score", "decides": 2},`, ``, `blocks[0].branches[2].name: nothing reads "tokens.score"`},
		{"output twice", `{"name": "hidden"`, `{"name": "router"`, `outputs[2].name: "router" is used twice`},
		{"decides all", `"decides": 2`, `"decides": 4`, "outputs[1].decides: expected an integer from 1 to 3, found 4"},
		{"text after", `"from": "stack"}
  ]
}`, `"from": "stack"}]} x`, "bad architecture file"},
	} {
		text := strings.Replace(small, c.old, c.new, 1)
		if text == small {
			t.Fatalf("%s: nothing was replaced", c.name)
		}
		_, err := Parse([]byte(text))
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nexpected %s", c.name, err, c.want)
		}
	}
	for _, text := range []string{"", "[]", "{}", "1", `{"version": 1}`, strings.Repeat(" ", maxFileBytes+1)} {
		if _, err := Parse([]byte(text)); !errors.Is(err, ErrFile) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

// A file cannot ask for more work than its bound, whatever it repeats.
func TestParseBounds(t *testing.T) {
	step := `{"name": "x", "op": "layers", "from": "in", "layers": [` + strings.Repeat(`{"op": "normalize"},`, 63) + `{"op": "normalize"}]}`
	text := `{"version": 1, "name": "n", "vocabulary": 2,
	 "blocks": [{"path": "t", "contract": "token_indices_only", "embedding": {"tensor": "e", "width": 2}, "branches": [{"name": "y"}]}],
	 "steps": [{"name": "r", "op": "repeat", "from": "t.y", "count": 1000, "steps": [` + step + `]}],
	 "outputs": [{"name": "o", "from": "r"}]}`
	if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), "more than 16384 layers and steps in all") {
		t.Error(err)
	}
	long := `{"name": "x", "op": "layers", "from": "in", ` + strings.Repeat(" ", 1<<15) + `"layers": []}`
	if _, err := Parse([]byte(strings.Replace(text, step, long, 1))); err == nil || !strings.Contains(err.Error(), "steps[0].count: 1000 repetitions of ") {
		t.Error(err)
	}
	deep := strings.Repeat(`{"op": "sum", "of": [[],[`, 40) + `{"op": "normalize"}` + strings.Repeat(`]]}`, 40)
	text = strings.Replace(text, `"count": 1000`, `"count": 1`, 1)
	if _, err := Parse([]byte(strings.Replace(text, step, `{"name": "x", "op": "layers", "from": "in", "layers": [`+deep+`]}`, 1))); !errors.Is(err, ErrFile) {
		t.Error(err)
	}
}

func TestBind(t *testing.T) {
	base := strings.TrimSuffix(strings.TrimSpace(small), "}")
	infos := func(names ...string) (out []loader.TensorInfo) {
		for _, n := range names {
			out = append(out, loader.TensorInfo{Name: n, Shape: tensor.Shape{2}, DType: tensor.BF16, DTypeName: "BF16"})
		}
		return out
	}
	b, err := Parse([]byte(base + `, "keep": ["head.*"], "ignore": ["head.bias", "*.inv_freq", "pos_*"]}`))
	if err != nil {
		t.Fatal(err)
	}
	bound, err := b.Bind(infos("emb", "head.w", "head.bias", "a.inv_freq", "pos_1", "other"))
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, p := range bound.Params()[len(b.Params()):] {
		have = append(have, fmt.Sprintf("%s ignored=%v %v", p.Name, p.Ignored, p.DTypes))
	}
	want := "head.w ignored=false [BF16], head.bias ignored=false [BF16], a.inv_freq ignored=true [], pos_1 ignored=true []"
	if got := strings.Join(have, ", "); got != want {
		t.Errorf("%s\nexpected %s", got, want)
	}
	if _, err := b.Bind(infos("emb", "head.w", "head.bias", "a.inv_freq")); !errors.Is(err, ErrPattern) || !strings.Contains(err.Error(), `ignore[2]: "pos_*"`) {
		t.Errorf("unused pattern: %v", err)
	}
	// A bound tensor is read, whatever a pattern says.
	all, err := Parse([]byte(base + `, "ignore": ["*"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if bound, err = all.Bind(infos("emb", "x")); err != nil || len(bound.Params()) != len(all.Params())+1 {
		t.Errorf("%v, %v", bound, err)
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"a.b", "a.b", true}, {"a.b", "a.bc", false}, {"*", "", true}, {"*", "x.y", true},
		{"a.*", "a.", true}, {"a.*", "b.a.", false}, {"*.pe", "x.pe", true}, {"*.pe", "x.per", false},
		{"a*b*c", "abc", true}, {"a*b*c", "axbybzc", true}, {"a*b*c", "acb", false}, {"ab*ba", "aba", false},
		{"**", "x", true}, {"a*a*a", "aa", false}, {"a[b", "a[b", true},
	} {
		if got := match(c.pattern, c.name); got != c.want {
			t.Errorf("match(%q, %q) = %v", c.pattern, c.name, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	if text, err := os.ReadFile("testdata/uce.json"); err == nil {
		f.Add(text)
	}
	f.Add([]byte(`{"version":1,"name":"a","vocabulary":1,"blocks":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := Parse(data)
		if err != nil {
			if !errors.Is(err, ErrFile) || len(err.Error()) > 1<<16 {
				t.Fatalf("%v", err)
			}
			return
		}
		// What was accepted is consistent: distinct parameters of possible shapes, and
		// blocks that remove parameters that exist.
		known := map[string]bool{}
		for _, p := range b.Params() {
			if _, err := p.Shape.Bytes(tensor.F32); err != nil || known[p.Name] {
				t.Fatalf("%+v: %v", p, err)
			}
			known[p.Name] = true
		}
		for _, k := range b.Blocks() {
			if !known[k.Embedding] || len(k.Outputs) == 0 {
				t.Fatalf("%+v", k)
			}
			for _, name := range k.Removes {
				if !known[name] {
					t.Fatalf("%s removes %s", k.Path, name)
				}
			}
		}
	})
}

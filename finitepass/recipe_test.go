package finitepass_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/tensor"
)

// state is a lookup as a package would keep it.
type state struct {
	recipe  []byte
	tensors map[string]*tensor.Tensor
}

func stateOf(l *finitepass.Lookup) state {
	s := state{l.RecipeJSON(), map[string]*tensor.Tensor{}}
	for _, t := range l.Tensors() {
		s.tensors[t.Name] = t.Tensor
	}
	return s
}

func (s state) get(name string) (*tensor.Tensor, error) { return s.tensors[name], nil }

// profiled is a compiled block with two profiles and an XOR set.
func profiled(t testing.TB) (*fixture, *finitepass.Lookup, *finitepass.BlockReport) {
	f := newFixture(t, &fakeDevice{kernel: rounding}, shape{tokens: 5, width: 64, branches: []int{40, 24}, seed: 3})
	l, r := mustCompile(t, f, f.options(t, twoProfiles...))
	if len(l.Recipe().Sets) != 1 {
		t.Fatal("no XOR set")
	}
	return f, l, r
}

// FF-13, SF-1, SF-8: recipe and tensors give the lookup back.
func TestOpen(t *testing.T) {
	f, l, r := profiled(t)
	plain := newFixture(t, &fakeDevice{}, base())
	one, _ := mustCompile(t, plain, plain.options(t))
	if one.Recipe().Version != 1 || bytes.Contains(one.RecipeJSON(), []byte("row_count_profiles")) {
		t.Errorf("recipe %s", one.RecipeJSON())
	}
	for _, c := range []struct {
		f *fixture
		l *finitepass.Lookup
	}{{f, l}, {plain, one}} {
		s := stateOf(c.l)
		recipe, err := finitepass.ParseRecipe(s.recipe)
		if err != nil {
			t.Fatal(err)
		}
		back, err := finitepass.Open(recipe, s.get, c.f.source.Embedding, c.f.dev)
		if err != nil {
			t.Fatal(err)
		}
		if back.Digest() != c.l.Digest() || !bytes.Equal(back.RecipeJSON(), s.recipe) {
			t.Error("another state")
		}
		for _, ids := range [][]int{{}, {4}, {1, 2}, {0, 1, 2, 3, 4, 4, 3, 2, 1, 0, 0, 1, 2, 3, 4, 4, 3}} {
			equalOn(t, c.f.dev, c.l, back, ids...)
		}
	}
	// Another threshold is another state, for which the report is history.
	recipe := l.Recipe()
	recipe.Profiles[1].MaxRows = 14
	changed, err := finitepass.Open(recipe, stateOf(l).get, f.source.Embedding, f.dev)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Describes(l) || r.Describes(changed) {
		t.Error("the report describes a lookup with another threshold")
	}
	// The lookup kept nothing of the recipe that was changed.
	if l.Recipe().Profiles[1].MaxRows != 15 {
		t.Error("the recipe handed out is the lookup's own")
	}
}

// Every malformed or tampered recipe is refused: SF-9, FF-13.
func TestParseRecipeRefuses(t *testing.T) {
	_, l, _ := profiled(t)
	good := string(l.RecipeJSON())
	replace := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%q is not in %s", old, good)
		}
		return strings.Replace(good, old, new, 1)
	}
	for name, text := range map[string]string{
		"empty":               ``,
		"a list":              `[]`,
		"null":                `null`,
		"more text":           good + `{}`,
		"cut off":             good[:len(good)-1],
		"kind":                replace(`"finite_token_fanout"`, `"finite_lookup"`),
		"kind key":            replace(`"kind"`, `"Kind"`),
		"version 1":           replace(`"version":2`, `"version":1`),
		"version 3":           replace(`"version":2`, `"version":3`),
		"boolean version":     replace(`"version":2`, `"version":true`),
		"contract":            replace(`token_indices_only`, `any_inputs`),
		"unknown key":         replace(`"kind"`, `"training":false,"kind"`),
		"duplicate key":       replace(`"kind"`, `"version":2,"kind"`),
		"tokens 0":            replace(`"num_tokens":5`, `"num_tokens":0`),
		"tokens 6":            replace(`"num_tokens":5`, `"num_tokens":6`),
		"negative tokens":     replace(`"num_tokens":5`, `"num_tokens":-5`),
		"width":               replace(`"width":64`, `"width":65`),
		"dtype":               replace(`"group_0","dtype":"F32"`, `"group_0","dtype":"F64"`),
		"unknown dtype":       replace(`"dtype":"F32"`, `"dtype":"float32"`),
		"integer table":       strings.ReplaceAll(good, `"dtype":"F32"`, `"dtype":"I32"`),
		"rows 2":              replace(`"rows":5`, `"rows":2`),
		"rows 0":              replace(`"rows":5`, `"rows":0`),
		"unknown set":         replace(`"set":{"name":"set_0"`, `"set":{"name":"set_1"`),
		"route of another":    replace(`"route":0`, `"route":1`),
		"route 9":             replace(`"route":0`, `"route":9`),
		"negative route":      replace(`"route":0`, `"route":-1`),
		"name with a dot":     replace(`{"name":"group_0"`, `{"name":"group.0"`),
		"name embedding":      strings.ReplaceAll(good, `"group_0"`, `"embedding"`),
		"empty name":          replace(`{"name":"group_0"`, `{"name":""`),
		"same name":           replace(`{"name":"group_1"`, `{"name":"group_0"`),
		"output renamed":      replace(`"output":"q"`, `"output":"z"`),
		"output twice":        strings.ReplaceAll(good, `"output":"k"`, `"output":"q"`),
		"output width":        replace(`"start":0,"width":40`, `"start":0,"width":39`),
		"output start":        replace(`"start":40,"width":24`, `"start":41,"width":24`),
		"negative start":      replace(`"start":40,"width":24`, `"start":-1,"width":24`),
		"huge start":          replace(`"start":40,"width":24`, `"start":9223372036854775807,"width":24`),
		"zero width":          replace(`"start":40,"width":24`, `"start":40,"width":0`),
		"unknown table":       replace(`"table":"group_0"`, `"table":"group_7"`),
		"part of embedding":   replace(`"table":"embedding","start":0`, `"table":"embedding","start":1`),
		"no embedding":        replace(`"embedding":{"tensor":"embed","dtype":"F32","width":64},`, ``),
		"nameless embedding":  replace(`"tensor":"embed"`, `"tensor":""`),
		"unordered profiles":  replace(`"max_rows":15`, `"max_rows":1`),
		"max_rows 0":          replace(`"max_rows":1,`, `"max_rows":0,`),
		"boolean max_rows":    replace(`"max_rows":1,`, `"max_rows":true,`),
		"no evaluation_rows":  replace(`"evaluation_rows":1,`, ``),
		"missing output list": replace(`"outputs":[`, `"outputs":null,"x":[`),
		"set kind":            replace(`"kind":"xor_tables"`, `"kind":"tables"`),
	} {
		if r, err := finitepass.ParseRecipe([]byte(text)); !errors.Is(err, finitepass.ErrRecipe) {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	if _, err := finitepass.ParseRecipe(l.RecipeJSON()); err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, l.RecipeJSON(), "", "  "); err != nil {
		t.Fatal(err)
	}
	if _, err := finitepass.ParseRecipe(indented.Bytes()); err != nil {
		t.Errorf("white space: %v", err)
	}
}

// Tensors that do not fit the recipe are refused before anything runs.
func TestOpenRefuses(t *testing.T) {
	f, l, _ := profiled(t)
	recipe := l.Recipe()
	for _, stored := range l.Tensors() {
		for name, replacement := range map[string]func() *tensor.Tensor{
			"missing": func() *tensor.Tensor { return nil },
			"longer": func() *tensor.Tensor {
				s := stored.Tensor.Shape().Clone()
				s[0]++
				x, _ := tensor.New(stored.Tensor.DType(), s...)
				return x
			},
			"another type": func() *tensor.Tensor {
				x, _ := tensor.FromBytes(tensor.I8, tensor.Shape{len(stored.Tensor.Bytes())}, stored.Tensor.Bytes())
				return x
			},
		} {
			s := stateOf(l)
			s.tensors[stored.Name] = replacement()
			if _, err := finitepass.Open(recipe, s.get, f.source.Embedding, f.dev); !errors.Is(err, finitepass.ErrRecipe) {
				t.Errorf("%s, %s: %v", stored.Name, name, err)
			}
		}
	}
	if _, err := finitepass.Open(recipe, stateOf(l).get, nil, f.dev); !errors.Is(err, finitepass.ErrRecipe) {
		t.Errorf("no embedding: %v", err)
	}
	other := newFixture(t, f.dev, shape{tokens: 6, width: 64, branches: []int{4}})
	if _, err := finitepass.Open(recipe, stateOf(l).get, other.source.Embedding, f.dev); !errors.Is(err, finitepass.ErrRecipe) {
		t.Errorf("embedding of another size: %v", err)
	}
	broken := errors.New("read failed")
	if _, err := finitepass.Open(recipe, func(string) (*tensor.Tensor, error) { return nil, broken }, f.source.Embedding, f.dev); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

// Whatever is read gives an error, or a lookup that serves every id at every row
// count that its profiles tell apart.
func FuzzOpen(f *testing.F) {
	fix, l, _ := profiled(f)
	s := stateOf(l)
	f.Add(s.recipe, 0, byte(0))
	f.Add(s.recipe, 1<<20, byte(0x80))
	plain := newFixture(f, &fakeDevice{}, base())
	one, _ := mustCompile(f, plain, plain.options(f))
	f.Add(one.RecipeJSON(), 0, byte(1))
	for _, text := range everyRecipe(f) {
		f.Add(text, 0, byte(0))
	}
	f.Add([]byte(strings.Replace(string(s.recipe), `"start":40`, `"start":-40`, 1)), 3, byte(1))
	f.Fuzz(func(t *testing.T, text []byte, at int, flip byte) {
		recipe, err := finitepass.ParseRecipe(text)
		if err != nil {
			if !errors.Is(err, finitepass.ErrRecipe) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		get := func(name string) (*tensor.Tensor, error) {
			x := s.tensors[name]
			if x == nil || at < 0 || at >= len(x.Bytes()) {
				return x, nil
			}
			x = x.Clone()
			x.Bytes()[at] ^= flip
			return x, nil
		}
		back, err := finitepass.Open(recipe, get, fix.source.Embedding, fix.dev)
		if err != nil {
			if !errors.Is(err, finitepass.ErrRecipe) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		for _, n := range []int{0, 1, 2, 15, 16} {
			ids := make([]int, n)
			for i := range ids {
				ids[i] = i % back.NumTokens()
				if d := back.Domain(); d != nil && d.Kind == nn.TokenIDs {
					ids[i] = int(d.Keys[i%d.Size])
				}
			}
			out, err := forward(t, fix.dev, back, ids...)
			if err != nil {
				t.Fatal(err)
			}
			for i, o := range back.Outputs() {
				if !out[i].Shape().Equal(tensor.Shape{n, o.Width}) || out[i].DType() != o.DType {
					t.Fatalf("output %q is %v", o.Name, out[i])
				}
			}
		}
	})
}

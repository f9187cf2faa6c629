package finitepass_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/finitepass"
	"github.com/hfcompress/compress/tensor"
)

// everyRecipe returns recipes of each form that the passes write.
func everyRecipe(t testing.TB) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	plain := newFixture(t, &fakeDevice{}, base())
	l, _ := mustCompile(t, plain, plain.options(t))
	out["version 1"] = l.RecipeJSON()
	_, l, _ = profiled(t)
	out["version 2"] = l.RecipeJSON()

	dev := openCPU(t, "")
	f := adaLN(t, dev, tensor.BF16, declaredSteps(t, tensor.BF16, 6), 32, 1)
	l, _ = mustCompile(t, f, f.optionsFor(t))
	out["timesteps"] = l.RecipeJSON()
	f = rawAndNormalised(t, dev, 23, 64, 9, true)
	o := f.optionsFor(t)
	o.Projected, o.RequireBitwise = true, false
	l, _ = mustCompile(t, f, o)
	out["projected"] = l.RecipeJSON()

	m := newMaker(t, dev, 14, tensor.F32)
	rows := m.embedding("embed", 60, 16)
	for i := 20; i < 60; i++ {
		copy(m.f.weights["embed"].Row(i), m.f.weights["embed"].Row(0))
	}
	m.f.spec.Removes = append(m.f.spec.Removes, "embed")
	f = m.finish(&nn.Fanout{
		Embedding: m.upload(rows), EmbeddingSource: rows, EmbeddingName: "embed",
		Branches: []nn.Branch{{Name: "y", Layers: []nn.RowLocal{m.linear("y", 16, 8, true)}}},
	})
	o = f.optionsFor(t)
	o.Contracts = []string{architectures.ReachableIDsOnly}
	for i := range 50 {
		o.ReachableIDs = append(o.ReachableIDs, i)
	}
	l, _ = mustCompile(t, f, o)
	out["listed ids, indexed"] = l.RecipeJSON()

	zeros, err := tensor.New(tensor.F32, 900, 4)
	if err != nil {
		t.Fatal(err)
	}
	e, _, err := finitepass.StoreEqualRows("zeros", zeros)
	if err != nil {
		t.Fatal(err)
	}
	if out["equal rows"], err = e.Recipe().Encode(); err != nil {
		t.Fatal(err)
	}
	packed, err := nn.TensorRows(randomTensor(t, rand.New(rand.NewPCG(2, 3)), 0.02, 20, 256))
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := finitepass.PackRows(context.Background(), "embed", packed, floatCodec{}, finitepass.PackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if out["packed rows"], err = p.Recipe().Encode(); err != nil {
		t.Fatal(err)
	}
	c := newCheckpoint(t)
	c.add("a", zeros)
	c.add("b", zeros.Clone())
	s, _ := c.share()
	if out["shared tensors"], err = s.Encode(); err != nil {
		t.Fatal(err)
	}
	return out
}

// readRecipe reads a recipe of any kind.
func readRecipe(text []byte) error {
	var kind struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(text, &kind); err != nil {
		return err
	}
	var err error
	switch kind.Kind {
	case finitepass.EqualRowsKind:
		_, err = finitepass.ParseEqualRows(text)
	case finitepass.PackedRowsKind:
		_, err = finitepass.ParsePackedRows(text)
	case finitepass.SharedKind:
		_, err = finitepass.ParseSharing(text)
	default:
		_, err = finitepass.ParseRecipe(text)
	}
	return err
}

// The schema in docs describes what is written, and the reader refuses a recipe
// from which any part was taken, and one with a part more.
func TestRecipeSchema(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "docs", "recipes.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range everyRecipe(t) {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(doc); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		if err := readRecipe(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		top := doc.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(top)) {
			without := maps.Clone(top)
			delete(without, key)
			changed, err := json.Marshal(without)
			if err != nil {
				t.Fatal(err)
			}
			if readRecipe(changed) == nil {
				t.Errorf("%s: read without %q", name, key)
			}
		}
		for _, key := range []string{"training", "Kind"} {
			more := maps.Clone(top)
			more[key] = false
			if schema.Validate(more) == nil {
				t.Errorf("%s: the schema allows %q", name, key)
			}
			changed, err := json.Marshal(more)
			if err != nil {
				t.Fatal(err)
			}
			if err := readRecipe(changed); err == nil || !errors.Is(err, finitepass.ErrRecipe) && key != "Kind" {
				t.Errorf("%s: read with %q: %v", name, key, err)
			}
		}
	}
}

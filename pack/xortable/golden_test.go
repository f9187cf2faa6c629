package xortable_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/hfcompress/compress/pack/xortable"
	"github.com/hfcompress/compress/tensor"
)

// TestGolden opens sets that testdata/golden.py packed from the description of
// the layout, bit by bit.
func TestGolden(t *testing.T) {
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name    string
		Recipe  json.RawMessage
		Tensors map[string]string
		Tables  []string
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) != 8 {
		t.Errorf("%d cases, want 8", len(cases))
	}
	for _, c := range cases {
		recipe, err := xortable.ParseRecipe(c.Recipe)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		fromHex := func(text string, want xortable.TensorRecipe) (*tensor.Tensor, error) {
			b, err := hex.DecodeString(text)
			if err != nil {
				return nil, err
			}
			return tensor.FromBytes(want.DType, want.Shape, b)
		}
		set, err := xortable.Open(recipe, func(name string) (*tensor.Tensor, error) {
			return fromHex(c.Tensors[name], wanted(recipe, name))
		})
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		var tables []*tensor.Tensor
		for _, text := range c.Tables {
			table, err := fromHex(text, wanted(recipe, "base"))
			if err != nil {
				t.Fatal(err)
			}
			tables = append(tables, table)
		}
		if err := set.Verify(tables); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

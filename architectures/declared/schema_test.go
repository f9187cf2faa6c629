package declared

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The schema accepts the files that the parser accepts, and what it forbids the
// parser refuses.
func TestSchema(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "..", "docs", "arch-file.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	validate := func(text string) error {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(text)))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(doc)
	}
	uce, err := os.ReadFile("testdata/uce.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"small": small, "uce": string(uce)} {
		if err := validate(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Parse([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []struct{ name, old, new string }{
		{"version", `"version": 1`, `"version": 2`},
		{"unknown key", `"pad": 2`, `"padding": 2`},
		{"boolean as integer", `"pad": 2`, `"pad": true`},
		{"vocabulary of none", `"vocabulary": 11`, `"vocabulary": 0`},
		{"name", `"name": "small"`, `"name": "a b"`},
		{"contract", `token_indices_only`, `anything`},
		{"op", `"op": "rmsnorm"`, `"op": "attention"`},
		{"key of another op", `"weight": "norm"}`, `"weight": "norm", "out": 3}`},
		{"missing key", `, "out": 4}`, `}`},
		{"function", `"function": "sigmoid"`, `"function": "mish"`},
		{"sum of one value", `["tokens.raw", "mixed"]`, `["tokens.raw"]`},
		{"pool", `"how": "mean"`, `"how": "max"`},
		{"nested repetition", `{"name": "x", "op": "layers", "from": "in", "layers": [`, `{"name": "x", "op": "repeat", "count": 1, "from": "in", "steps": [`},
		{"decides none", `"decides": 2`, `"decides": 0`},
		{"epsilon", `"weight": "norm"`, `"weight": "norm", "eps": 0`},
		{"no outputs", `"outputs": [`, `"outputs": [], "keep": [`},
	} {
		text := strings.Replace(small, c.old, c.new, 1)
		if text == small {
			t.Fatalf("%s: nothing was replaced", c.name)
		}
		if err := validate(text); err == nil {
			t.Errorf("%s: the schema accepts it", c.name)
		}
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s: the parser accepts it", c.name)
		}
	}
}

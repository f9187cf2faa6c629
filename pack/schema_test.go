package pack_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/hfcompress/compress/pack"
)

// The schema in docs describes what is written, and what it forbids is refused
// by the reader too.
func TestManifestSchema(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "docs", "manifest.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	dest := filepath.Join(t.TempDir(), "p")
	if err := write(t, dest, pack.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dest, pack.ManifestName))
	if err != nil {
		t.Fatal(err)
	}
	parse := func() map[string]any {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return doc.(map[string]any)
	}
	if err := schema.Validate(parse()); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(map[string]any){
		"unknown field": func(m map[string]any) { m["extra"] = 1 },
		"schema 2":      func(m map[string]any) { m["schema"] = json.Number("2") },
		"status":        func(m map[string]any) { m["status"] = "smaller" },
		"digest":        func(m map[string]any) { m["digest"] = "abc" },
		"absolute file": func(m map[string]any) { m["files"].([]any)[0].(map[string]any)["name"] = "/etc/passwd" },
		"negative size": func(m map[string]any) {
			m["tensors"].([]any)[0].(map[string]any)["length"] = json.Number("-1")
		},
	} {
		m := parse()
		change(m)
		if err := schema.Validate(m); err == nil {
			t.Errorf("%s: the schema accepts it", name)
		}
		bad, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pack.ParseManifest(bad, pack.Limits{}); err == nil {
			t.Errorf("%s: the reader accepts it", name)
		}
	}
}

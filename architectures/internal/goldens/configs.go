package goldens

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/tensor"
)

// Changed returns the config.json in dir with changes put in; a nil value deletes.
func Changed(tb testing.TB, dir string, changes map[string]any) []byte {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		tb.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		tb.Fatal(err)
	}
	maps.Copy(fields, changes)
	for k, v := range changes {
		if v == nil {
			delete(fields, k)
		}
	}
	if data, err = json.Marshal(fields); err != nil {
		tb.Fatal(err)
	}
	return data
}

// Refusal is a change of a configuration and what the error must say.
type Refusal struct {
	Changes map[string]any
	Want    string
}

// Want is a [Refusal].
func Want(changes map[string]any, message string) Refusal { return Refusal{changes, message} }

// Common are refusals that every text family has.
var Common = []Refusal{
	{map[string]any{"vocab_size": nil, "vocab_size_emb": nil}, "vocab_size"},
	{map[string]any{"vocab_size": -5}, "vocab_size: expected an integer from 1 to"},
	{map[string]any{"vocab_size": 1 << 40}, "vocab_size"},
	{map[string]any{"dtype": "float64", "torch_dtype": nil}, `dtype: expected "float32"`},
	{map[string]any{"model_type": "other"}, "model_type: expected"},
	{map[string]any{"architectures": []string{"Other"}}, "architectures: expected"},
	{map[string]any{"auto_map": map[string]any{"AutoModel": "modeling_other.Other"}}, "code in its repository, which is never run"},
	{map[string]any{"quantization_config": map[string]any{"bits": 4}}, "quantization_config: "},
	{map[string]any{"add_cross_attention": true}, "add_cross_attention: true: cross-attention is not supported"},
	{map[string]any{"pruned_heads": map[string]any{"0": []int{1}}}, "pruned_heads"},
}

// Refuses checks that a family refuses changes of the configuration in dir, each
// in one short line that wraps kind, and that it takes the unchanged one.
func Refuses(t *testing.T, dir string, family string, kind error, list ...Refusal) {
	f, err := architectures.Lookup(family)
	if err != nil {
		t.Fatal(err)
	}
	parse := func(changes map[string]any) (architectures.Blueprint, error) {
		cfg, err := architectures.ParseConfig(Changed(t, dir, changes))
		if err != nil {
			t.Fatal(err)
		}
		return f.New(cfg)
	}
	if b, err := parse(map[string]any{"my_note": 1}); err != nil || b == nil {
		t.Errorf("an unknown setting that changes nothing: %v", err)
	}
	for _, r := range append(Common, list...) {
		_, err := parse(r.Changes)
		if !errors.Is(err, kind) || !strings.Contains(err.Error(), r.Want) {
			t.Errorf("%v: got %v, want %q", r.Changes, err, r.Want)
			continue
		}
		if strings.Contains(err.Error(), "\n") || len(err.Error()) > 400 {
			t.Errorf("%v: not one short line: %v", r.Changes, err)
		}
	}
}

// FuzzConfig feeds a family with variants of its configurations under root:
// errors wrap kind, and what is accepted can be declared.
func FuzzConfig(f *testing.F, root, family string, kind error) {
	fam, err := architectures.Lookup(family)
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range Cases(f, root, 1) {
		data, err := os.ReadFile(filepath.Join(root, name, "config.json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"model_type":"` + family + `"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := architectures.ParseConfig(data)
		if err != nil {
			return
		}
		b, err := fam.New(cfg)
		if err != nil {
			if !errors.Is(err, kind) {
				t.Fatalf("not of its kind: %v", err)
			}
			return
		}
		for _, p := range b.Params() {
			if n, err := p.Shape.Bytes(tensor.F32); !p.Ignored && (err != nil || n <= 0) {
				t.Fatalf("%s %v: %d, %v", p.Name, p.Shape, n, err)
			}
		}
		for _, spec := range b.Blocks() {
			if spec.NumTokens < 1 || len(spec.Outputs) == 0 || len(spec.Removes) == 0 {
				t.Fatalf("%+v", spec)
			}
		}
		if in := b.Inputs(); in.PadToken < 0 || in.PadToken >= in.Vocabulary {
			t.Fatalf("%+v", in)
		}
	})
}

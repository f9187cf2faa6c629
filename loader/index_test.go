package loader_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hfcompress/compress/loader"
)

var badIndexes = []struct{ name, text, says string }{
	{"nothing", ``, `expected "{", found the end`},
	{"no map", `{"metadata":{}}`, "expected a weight_map with tensors, found none"},
	{"empty map", `{"weight_map":{}}`, "found none"},
	{"map null", `{"weight_map":null}`, `weight_map: expected "{"`},
	{"number for a shard", `{"weight_map":{"a":1}}`, `weight_map: tensor "a": expected "\""`},
	{"duplicate tensor", `{"weight_map":{"a":"x.safetensors","a":"y.safetensors"}}`, `duplicate tensor "a"`},
	{"duplicate tensor by escape", `{"weight_map":{"a":"x.safetensors","\u0061":"y.safetensors"}}`, `duplicate tensor "a"`},
	{"duplicate map", `{"weight_map":{"a":"x.safetensors"},"weight_map":{"a":"x.safetensors"}}`, `duplicate key "weight_map"`},
	{"duplicate metadata key", `{"metadata":{"k":1,"k":2},"weight_map":{"a":"x.safetensors"}}`, `duplicate key "k"`},
	{"parent", `{"weight_map":{"a":"../x.safetensors"}}`, `tensor "a": expected the plain name of a .safetensors file, found "../x.safetensors"`},
	{"absolute", `{"weight_map":{"a":"/x.safetensors"}}`, "plain name"},
	{"subdirectory", `{"weight_map":{"a":"d/x.safetensors"}}`, "plain name"},
	{"backslash", `{"weight_map":{"a":"..\\x.safetensors"}}`, "plain name"},
	{"drive", `{"weight_map":{"a":"C:x.safetensors"}}`, "plain name"},
	{"NUL", `{"weight_map":{"a":"x\u0000.safetensors"}}`, "plain name"},
	{"other kind of file", `{"weight_map":{"a":"pytorch_model.bin"}}`, "plain name"},
	{"empty shard name", `{"weight_map":{"a":""}}`, "plain name"},
	{"text after", `{"weight_map":{"a":"x.safetensors"}} {}`, "expected the end"},
	{"deep nesting", `{"metadata":{"k":` + strings.Repeat("[", 65) + strings.Repeat("]", 65) + `},"weight_map":{"a":"x.safetensors"}}`, "nested more than 64 deep"},
	{"broken list", `{"k":[1,],"weight_map":{"a":"x.safetensors"}}`, "expected a value"},
	{"broken object", `{"k":{"a":1,},"weight_map":{"a":"x.safetensors"}}`, `expected "\""`},
	{"brackets crossed", `{"k":[{]},"weight_map":{"a":"x.safetensors"}}`, `expected "\""`},
	{"broken number", `{"k":-,"weight_map":{"a":"x.safetensors"}}`, "expected a digit"},
	{"broken fraction", `{"k":1.,"weight_map":{"a":"x.safetensors"}}`, "expected a digit"},
	{"broken word", `{"k":tru,"weight_map":{"a":"x.safetensors"}}`, "expected a value"},
	{"leading zero", `{"k":01,"weight_map":{"a":"x.safetensors"}}`, `expected ","`},
	{"invalid UTF-8", "{\"weight_map\":{\"\xff\":\"x.safetensors\"}}", "invalid UTF-8"},
}

func TestBadIndexes(t *testing.T) {
	for _, c := range badIndexes {
		_, err := loader.ParseIndex([]byte(c.text), loader.Limits{})
		var e *loader.IndexError
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v does not say %q", c.name, err, c.says)
		}
	}
}

func TestIndexKeepsOrderAndSkipsTheRest(t *testing.T) {
	x, err := loader.ParseIndex([]byte(`{"extra":[{"a":[true,false,null,-1.5e+3,"\u00e9"]},{},[]],"metadata":{"total_size":7,"more":{"k":[[]]}},
		"weight_map":{"b":"2.safetensors","a":"1.safetensors","c":"2.safetensors"}}`), loader.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%d %q %q %q %q", x.TotalSize, x.Shards, x.Names(), x.Shard("c"), x.Shard("d")); got != `7 ["1.safetensors" "2.safetensors"] ["b" "a" "c"] "2.safetensors" ""` {
		t.Error(got)
	}
	for _, total := range []string{`7.5`, `"7"`, `null`, `-1`} {
		x, err := loader.ParseIndex([]byte(`{"metadata":{"total_size":`+total+`},"weight_map":{"a":"1.safetensors"}}`), loader.Limits{})
		if err != nil || x.TotalSize != -1 {
			t.Errorf("total_size %s: %v", total, err)
		}
	}
}

func TestIndexLimits(t *testing.T) {
	text := []byte(`{"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}`)
	for _, l := range []loader.Limits{{Tensors: 1}, {Shards: 1}, {NameBytes: 12}, {IndexBytes: int64(len(text)) - 1}} {
		if _, err := loader.ParseIndex(text, l); !errors.Is(err, loader.ErrLimit) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	if _, err := loader.ParseIndex(text, loader.Limits{Tensors: 2, Shards: 2, NameBytes: 13, IndexBytes: int64(len(text))}); err != nil {
		t.Error(err)
	}
}

package strictjson

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		text string
		o    Options
		says string // "" accepts
	}{
		{`{"a": [1, {"b": null}], "c": "d"}`, Options{}, ""},
		{` 7 `, Options{}, ""},
		{`[{"a": 1}, {"a": 1}]`, Options{}, ""},
		{`{"a": 1, "a": 1}`, Options{}, `"a" appears twice`},
		{`{"a": {"b": 1, "\u0062": 2}}`, Options{}, `"b" appears twice`},
		{`{} {}`, Options{}, "text after"},
		{`{}x`, Options{}, "text after"},
		{``, Options{}, "empty"},
		{" \n", Options{}, "empty"},
		{`{"a"`, Options{}, "unexpected EOF"},
		{`[1 2]`, Options{}, "invalid character"},
		{`{"Input_IDs": 1}`, Options{Key: LowerKey}, "unknown key"},
		{`{"input_ids_2": 1}`, Options{Key: LowerKey}, ""},
		{`{"a": null}`, Options{NoNull: true}, "null"},
		{strings.Repeat("[", 60) + strings.Repeat("]", 60), Options{}, ""},
		{strings.Repeat("[", 70) + strings.Repeat("]", 70), Options{}, "nested"},
	} {
		err := Check([]byte(c.text), c.o)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, expected %q", c.text, err, c.says)
		}
	}
}

// What is accepted is what encoding/json reads.
func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"a": [1, 2.5e3, "x", true, null]}`))
	f.Add([]byte(`{"a": 1, "a": 2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if Check(data, Options{}) == nil && !json.Valid(data) {
			t.Errorf("%q is no JSON", data)
		}
	})
}

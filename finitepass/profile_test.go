package finitepass_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/hfcompress/compress/finitepass"
)

// SF-7 and its neighbours.
func TestParseProfilesRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":              ``,
		"null":                 `null`,
		"empty list":           `[]`,
		"a string":             `"automatic"`,
		"an object":            `{"max_rows":1,"evaluation_rows":1}`,
		"empty object":         `[{}]`,
		"null entry":           `[null]`,
		"list entry":           `[[1,1]]`,
		"no evaluation_rows":   `[{"max_rows":1}]`,
		"no max_rows":          `[{"evaluation_rows":1}]`,
		"boolean":              `[{"max_rows":true,"evaluation_rows":1}]`,
		"boolean evaluation":   `[{"max_rows":1,"evaluation_rows":false}]`,
		"null value":           `[{"max_rows":null,"evaluation_rows":1}]`,
		"text number":          `[{"max_rows":"1","evaluation_rows":1}]`,
		"fraction":             `[{"max_rows":1.0,"evaluation_rows":1}]`,
		"exponent":             `[{"max_rows":1e0,"evaluation_rows":1}]`,
		"zero evaluation_rows": `[{"max_rows":1,"evaluation_rows":0}]`,
		"zero max_rows":        `[{"max_rows":0,"evaluation_rows":1}]`,
		"negative":             `[{"max_rows":-1,"evaluation_rows":1}]`,
		"too large":            `[{"max_rows":1048577,"evaluation_rows":1}]`,
		"beyond int":           `[{"max_rows":99999999999999999999,"evaluation_rows":1}]`,
		"decreasing":           `[{"max_rows":2,"evaluation_rows":1},{"max_rows":1,"evaluation_rows":1}]`,
		"equal":                `[{"max_rows":1,"evaluation_rows":1},{"max_rows":1,"evaluation_rows":1}]`,
		"extra key":            `[{"max_rows":1,"evaluation_rows":1,"name":"x"}]`,
		"other case":           `[{"Max_Rows":1,"evaluation_rows":1}]`,
		"duplicate key":        `[{"max_rows":1,"max_rows":2,"evaluation_rows":1}]`,
		"more text":            `[{"max_rows":1,"evaluation_rows":1}] []`,
		"cut off":              `[{"max_rows":1,"evaluation_rows":1}`,
		"not JSON":             `max_rows: 1`,
	} {
		if p, err := finitepass.ParseProfiles([]byte(text)); !errors.Is(err, finitepass.ErrProfiles) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	many := make([]finitepass.Profile, finitepass.MaxProfiles+1)
	for i := range many {
		many[i] = finitepass.Profile{MaxRows: i + 1, EvaluationRows: 1}
	}
	text, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := finitepass.ParseProfiles(text); !errors.Is(err, finitepass.ErrProfiles) {
		t.Errorf("too many: %v", err)
	}
}

func ExampleParseProfiles() {
	profiles, err := finitepass.ParseProfiles([]byte(`[
		{"max_rows": 1, "evaluation_rows": 1},
		{"max_rows": 15, "evaluation_rows": 2}
	]`))
	fmt.Println(profiles, err)
	// Output: [{1 1} {15 2}] <nil>
}

func FuzzParseProfiles(f *testing.F) {
	f.Add([]byte(`[{"max_rows":1,"evaluation_rows":1},{"max_rows":15,"evaluation_rows":2}]`))
	f.Add([]byte(`[{"max_rows":2,"evaluation_rows":1},{"max_rows":1,"evaluation_rows":1}]`))
	f.Add([]byte(`[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[`))
	f.Add([]byte(` `))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := finitepass.ParseProfiles(data)
		if err != nil {
			if !errors.Is(err, finitepass.ErrProfiles) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		if err := finitepass.CheckProfiles(p); err != nil || len(p) == 0 {
			t.Fatalf("accepted %v, which CheckProfiles refuses: %v", p, err)
		}
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		back, err := finitepass.ParseProfiles(text)
		if err != nil || !slices.Equal(back, p) {
			t.Fatalf("%v came back as %v, %v", p, back, err)
		}
	})
}

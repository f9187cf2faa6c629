package validation_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/validation"
)

var flowSpec = architectures.InputSpec{Flow: &architectures.FlowInput{
	Features: 4, Characters: 5, MaxLength: 12, Timesteps: []float32{0, 0.25, 0.75},
}}

// Batches grow to both sides of powers of two, masks and flags have calls of their
// own, as has every timestep; nothing undeclared is used, and files keep every bit.
func TestFlows(t *testing.T) {
	examples := validation.Generate(flowSpec, validation.Options{MaxRows: 5, MaxPositions: 2000, Boundaries: []int{7}})
	var names []string
	for _, e := range examples {
		names = append(names, e.Name)
		for _, v := range e.Inputs.Tensors["time"].Float32s() {
			if !slices.Contains(flowSpec.Flow.Timesteps, v) {
				t.Errorf("%s: timestep %g", e.Name, v)
			}
		}
		if n := e.Inputs.Tensors["x"].Shape()[1]; n > 12 {
			t.Errorf("%s: %d rows", e.Name, n)
		}
	}
	want := "sequences-1 sequences-2 sequences-3 sequences-4 sequences-5 sequences-6 sequences-7 sequences-8 " +
		"padded no-audio no-text guided guided-padded long timestep-0 timestep-0.25 timestep-0.75"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("%s", got)
	}
	text, err := validation.Format(examples)
	if err != nil {
		t.Fatal(err)
	}
	back, err := validation.Parse(text, validation.Limits{Spec: flowSpec})
	if err != nil || validation.Digest(back) != validation.Digest(examples) {
		t.Errorf("read back: %v", err)
	}
	few := validation.Generate(flowSpec, validation.Options{MaxPositions: 60})
	if len(few) < 3 || len(few) >= len(examples) {
		t.Errorf("%d examples of 60 positions", len(few))
	}
	if none := validation.Generate(architectures.InputSpec{Flow: &architectures.FlowInput{Features: 4, Characters: 5}}, validation.Options{}); len(none) != 0 {
		t.Errorf("%d examples without timesteps", len(none))
	}
}

func TestFlowFilesRefused(t *testing.T) {
	row := func(name, shape string) string {
		return `"` + name + `":{"dtype":"F32","shape":[` + shape + `],"data":"` + strings.Repeat("AAAA", 10) + `AAA="}`
	}
	x, cond := row("x", "1,2,4"), row("cond", "1,2,4")
	step := `"time":{"dtype":"F32","shape":[1],"data":"AAAAAA=="}`
	words := func(b string) string {
		return `"text":{"dtype":"I64","shape":[1,1],"data":"` + b + `AAAAAAAAA="}`
	}
	mask := func(b string) string {
		return `"mask":{"dtype":"I64","shape":[1,2],"data":"` + b + `AAAAAAAAAAAAAAAAAAAA=="}`
	}
	all := func(parts ...string) string { return `[{"tensors":{` + strings.Join(parts, ",") + `}}]` }
	good := []string{x, cond, step, words("BA")}
	with := func(parts ...string) string { return all(append(slices.Clone(good), parts...)...) }
	flagged := func(flags string) string {
		return strings.TrimSuffix(all(good...), "}]") + `,"flags":{` + flags + `}}]`
	}
	for name, text := range map[string]string{
		"plain": all(good...), "masked": with(mask("AQ")), "flags": flagged(`"drop_text":true,"drop_audio_cond":true,"output_hidden_states":true`),
	} {
		if _, err := validation.Parse([]byte(text), validation.Limits{Spec: flowSpec}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]struct{ text, want string }{
		"missing":    {all(x, step), "x, cond, text and time are needed"},
		"characters": {all(x, cond, step, words("BQ")), "text [0] is 5, want -1 to 4"},
		"features":   {all(row("x", "1,4,2"), cond, step, words("BA")), "want F32[batch,length,4]"},
		"known":      {all(x, row("cond", "2,1,4"), step, words("BA")), "cond is F32[2,1,4], want F32[1,2,4]"},
		"time":       {all(x, cond, strings.Replace(step, "F32", "I64", 1), words("BA")), "4 bytes"},
		"mask":       {with(mask("Ag")), "mask [0 0] is 2, want 0 to 1"},
		"other":      {with(strings.Replace(step, "time", "guidance", 1)), "takes no guidance"},
		"attentions": {flagged(`"output_attentions":true`), "no attention weights"},
		"guidance":   {flagged(`"cfg_infer":true,"drop_text":true`), "cfg_infer does not go with"},
		"flag":       {flagged(`"cache":true`), `unknown flag "cache"`},
	} {
		_, err := validation.Parse([]byte(c.text), validation.Limits{Spec: flowSpec})
		if !errors.Is(err, validation.ErrFile) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	long := flowSpec
	long.Flow = &architectures.FlowInput{Features: 4, Characters: 5, MaxLength: 1}
	if _, err := validation.Parse([]byte(all(good...)), validation.Limits{Spec: long}); err == nil || !strings.Contains(err.Error(), "2 rows, the model takes 1") {
		t.Errorf("%v", err)
	}
}

// Whatever is read is within the specification and keeps its bits.
func FuzzFlows(f *testing.F) {
	text, err := validation.Format(validation.Generate(flowSpec, validation.Options{MaxRows: 2, MaxPositions: 60}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`[{"tensors":{"time":{"dtype":"F32","shape":[1],"data":"AQAAAA=="}}}]`))
	limits := validation.Limits{Spec: flowSpec}
	f.Fuzz(func(t *testing.T, data []byte) { readBack(t, data, limits) })
}

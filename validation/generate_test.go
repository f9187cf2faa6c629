package validation_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/tensor"
	"github.com/hfcompress/compress/validation"
)

func shapeOf(e validation.Example) tensor.Shape { return e.Inputs.Tensors["input_ids"].Shape() }

func TestGenerateCoversWhatItPromises(t *testing.T) {
	spec := architectures.InputSpec{Vocabulary: 84, MaxPositions: 64, PadToken: 2, Masks: true}
	examples := validation.Generate(spec, validation.Options{Seed: 1, Boundaries: []int{15, 200}})
	singles := map[int64]bool{}
	rows := map[int]bool{}
	byName := map[string]validation.Example{}
	multi, long := false, false
	for _, e := range examples {
		byName[e.Name] = e
		s := shapeOf(e)
		if s[0] == 1 && s[1] == 1 {
			singles[e.Inputs.Tensors["input_ids"].Int64s()[0]] = true
		}
		rows[s[0]*s[1]] = true
		multi = multi || s[0] > 1 && s[1] > 1
		long = long || s[1] == 64
		if !e.Inputs.Flags["output_hidden_states"] || !e.Inputs.Flags["output_attentions"] {
			t.Errorf("%s: flags %v", e.Name, e.Inputs.Flags)
		}
	}
	if len(singles) != 84 {
		t.Errorf("%d of 84 tokens have a call of their own", len(singles))
	}
	for _, n := range []int{1, 2, 3, 14, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 199, 200, 201} {
		if !rows[n] {
			t.Errorf("no example with %d rows", n)
		}
	}
	if !multi || !long {
		t.Errorf("batches %v, long %v", multi, long)
	}
	right, left := byName["right-padded"], byName["left-padded"]
	if right.Inputs.Tensors["attention_mask"] == nil || right.Inputs.Tensors["position_ids"] != nil {
		t.Error("right padding wants a mask and no positions")
	}
	ids, mask, positions := left.Inputs.Tensors["input_ids"], left.Inputs.Tensors["attention_mask"], left.Inputs.Tensors["position_ids"]
	if ids == nil || mask == nil || positions == nil {
		t.Fatal("left padding wants ids, mask and positions")
	}
	width := ids.Shape()[1]
	for b := range ids.Shape()[0] {
		real := int64(0)
		for i := b * width; i < (b+1)*width; i++ {
			switch mask.Int64s()[i] {
			case 0:
				if ids.Int64s()[i] != 2 || positions.Int64s()[i] != 0 || real > 0 {
					t.Errorf("sequence %d: bad padding at %d", b, i-b*width)
				}
			case 1:
				if positions.Int64s()[i] != real {
					t.Errorf("sequence %d: position %d, want %d", b, positions.Int64s()[i], real)
				}
				real++
			}
		}
	}
	if byName["pair-0-1"].Name == "" || byName["pair-1-0"].Name == "" || byName["repeat-0x12"].Name == "" {
		t.Error("pairs or repeats are missing")
	}
}

// TestGenerateIsBoundedAndValid: for any specification and options the examples
// are accepted by the file reader's checks, stay in the budget and repeat.
func TestGenerateIsBoundedAndValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := architectures.InputSpec{
			Vocabulary:   rapid.IntRange(1, 300).Draw(t, "vocabulary"),
			MaxPositions: rapid.IntRange(0, 40).Draw(t, "positions"),
			PadToken:     rapid.IntRange(-1, 400).Draw(t, "pad"),
			Masks:        rapid.Bool().Draw(t, "masks"),
		}
		o := validation.Options{
			Seed:         rapid.Uint64().Draw(t, "seed"),
			MaxLength:    rapid.IntRange(0, 50).Draw(t, "length"),
			MaxSingles:   rapid.IntRange(0, 40).Draw(t, "singles"),
			MaxPositions: rapid.IntRange(1, 3000).Draw(t, "budget"),
			Boundaries:   rapid.SliceOfN(rapid.IntRange(-2, 300), 0, 3).Draw(t, "boundaries"),
		}
		examples := validation.Generate(spec, o)
		total := 0
		for _, e := range examples {
			total += e.Inputs.Tensors["input_ids"].Len()
		}
		if total > o.MaxPositions || len(examples) == 0 {
			t.Fatalf("%d examples of %d positions, the budget is %d", len(examples), total, o.MaxPositions)
		}
		text, err := validation.Format(examples)
		if err != nil {
			t.Fatal(err)
		}
		back, err := validation.Parse(text, validation.Limits{Spec: spec})
		if err != nil {
			t.Fatal(err)
		}
		if validation.Digest(back) != validation.Digest(examples) || validation.Digest(validation.Generate(spec, o)) != validation.Digest(examples) {
			t.Fatal("examples do not repeat")
		}
	})
}

func TestGenerateLimits(t *testing.T) {
	if e := validation.Generate(architectures.InputSpec{}, validation.Options{}); e != nil {
		t.Errorf("%d examples for no vocabulary", len(e))
	}
	// A large vocabulary is sampled, both ends included.
	names := map[string]bool{}
	for _, e := range validation.Generate(architectures.InputSpec{Vocabulary: 150_000}, validation.Options{MaxLength: 200, MaxSingles: 5}) {
		names[e.Name] = true
		if e.Inputs.Tensors["attention_mask"] != nil {
			t.Errorf("%s has a mask", e.Name)
		}
		if want := shapeOf(e)[1] <= 128; e.Inputs.Flags["output_attentions"] != want {
			t.Errorf("%s: attentions asked %v", e.Name, !want)
		}
	}
	for _, token := range []int{0, 37499, 74999, 112499, 149999} {
		if !names[fmt.Sprintf("token-%d", token)] {
			t.Errorf("token %d is missing", token)
		}
	}
	a := validation.Generate(architectures.InputSpec{Vocabulary: 50}, validation.Options{Seed: 1})
	b := validation.Generate(architectures.InputSpec{Vocabulary: 50}, validation.Options{Seed: 2})
	if validation.Digest(a) == validation.Digest(b) {
		t.Error("the seed changes nothing")
	}
}

func TestNearTiesFindsAPlantedTie(t *testing.T) {
	model := newFake()
	// Token 7's row pointed between tokens 7 and 4, made equal but for 2⁻²⁰.
	w := model.width
	seven, four := model.table[7*w:8*w], model.table[4*w:5*w]
	for i := range seven {
		seven[i] *= 3 // so that 7 and its twin lead
		four[i] = seven[i]
	}
	four[0] *= 1 - 0x1p-20
	spec := architectures.InputSpec{Vocabulary: model.vocabulary}
	ties, err := validation.NearTies(t.Context(), model, spec, validation.TieOptions{Calls: 12, Batch: 4, Keep: 3})
	if err != nil {
		t.Fatal(err)
	}
	if len(ties) != 3 || ties[0].Margin > 1e-3 || ties[0].Margin > ties[1].Margin || ties[1].Margin > ties[2].Margin {
		t.Errorf("%+v", ties)
	}
	if ties[0].Example.Name != "near-tie-1" {
		t.Errorf("name %q", ties[0].Example.Name)
	}
	if *model.calls > 12+3 {
		t.Errorf("%d calls", *model.calls)
	}
	again, err := validation.NearTies(t.Context(), model, spec, validation.TieOptions{Calls: 12, Batch: 4, Keep: 3})
	if err != nil {
		t.Fatal(err)
	}
	for i := range ties {
		if validation.Digest([]validation.Example{ties[i].Example}) != validation.Digest([]validation.Example{again[i].Example}) || ties[i].Margin != again[i].Margin {
			t.Errorf("tie %d does not repeat", i)
		}
	}
	// The gate records the same margin for the example.
	report, err := validation.Run(t.Context(), model, model, []validation.Example{ties[0].Example}, validation.Gate{}, nil)
	if err != nil || *report.Results[0].MinMargin > ties[0].Margin {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestNearTiesImprovesOnItsStart(t *testing.T) {
	model := newFake()
	spec := architectures.InputSpec{Vocabulary: model.vocabulary, MaxPositions: 5}
	short, err := validation.NearTies(t.Context(), model, spec, validation.TieOptions{Calls: 1})
	if err != nil {
		t.Fatal(err)
	}
	long, err := validation.NearTies(t.Context(), model, spec, validation.TieOptions{Calls: 40})
	if err != nil {
		t.Fatal(err)
	}
	if long[0].Margin >= short[0].Margin {
		t.Errorf("40 calls found %v, one call %v", long[0].Margin, short[0].Margin)
	}
	for _, tie := range long {
		if s := shapeOf(tie.Example); s[0] != 1 || s[1] > 5 {
			t.Errorf("%s has shape %v", tie.Example.Name, s)
		}
	}
}

func TestNearTiesErrors(t *testing.T) {
	model := newFake()
	spec := architectures.InputSpec{Vocabulary: model.vocabulary}
	if _, err := validation.NearTies(t.Context(), model, architectures.InputSpec{}, validation.TieOptions{}); !errors.Is(err, validation.ErrNothing) {
		t.Errorf("no vocabulary: %v", err)
	}
	for output, want := range map[string]string{"scores": "no output", "experts": "want values of shape"} {
		if _, err := validation.NearTies(t.Context(), model, spec, validation.TieOptions{Output: output}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", output, err)
		}
	}
	sick := model.with(func(_ int, out architectures.Outputs) (architectures.Outputs, error) {
		out[0].Tensor.Float32s()[out[0].Tensor.Len()-1] = inf
		return out, nil
	})
	if _, err := validation.NearTies(t.Context(), sick, spec, validation.TieOptions{}); err == nil || !strings.Contains(err.Error(), "infinite") {
		t.Errorf("infinity: %v", err)
	}
	broken := errors.New("broken")
	fail := model.with(func(int, architectures.Outputs) (architectures.Outputs, error) { return nil, broken })
	if _, err := validation.NearTies(t.Context(), fail, spec, validation.TieOptions{}); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// Further inputs come in their own shapes and ranges, survive a file, and are
// held against the specification there.
func TestFurtherInputs(t *testing.T) {
	spec := architectures.InputSpec{Vocabulary: 9, Further: []architectures.FurtherInput{
		{Name: "token_type_ids", Values: 2},
		{Name: "decoder_input_ids", Values: 40, OwnLength: true},
		{Name: "attention_mask", Values: 2, Padding: true},
	}}
	examples := validation.Generate(spec, validation.Options{})
	seen, shapes, values := map[string]int{}, map[bool]int{}, map[int64]bool{}
	hidden := 0
	for _, e := range examples {
		ids := e.Inputs.Tensors["input_ids"].Shape()
		for _, f := range spec.Further {
			x := e.Inputs.Tensors[f.Name]
			if x == nil {
				continue
			}
			seen[f.Name]++
			if s := x.Shape(); s[0] != ids[0] || s[1] < 1 || !f.OwnLength && s[1] != ids[1] {
				t.Errorf("%s: %s has shape %v, input_ids %v", e.Name, f.Name, s, ids)
			} else if f.OwnLength {
				shapes[s[1] == ids[1]]++
			}
			for _, v := range x.Int64s() {
				if v < 0 || v >= int64(f.Values) {
					t.Errorf("%s: %s is %d", e.Name, f.Name, v)
				}
				if f.OwnLength {
					values[v] = true
				}
				if f.Padding && v == 0 {
					hidden++
				}
			}
		}
	}
	if len(seen) != 3 || shapes[false] == 0 || len(values) != 40 || hidden == 0 {
		t.Errorf("inputs %v, lengths like input_ids or not %v, %d values, %d hidden positions", seen, shapes, len(values), hidden)
	}

	text, err := validation.Format(examples)
	if err != nil {
		t.Fatal(err)
	}
	back, err := validation.Parse(text, validation.Limits{Spec: spec})
	if err != nil || validation.Digest(back) != validation.Digest(examples) {
		t.Errorf("read back: %v", err)
	}
	free := []byte(`[{"input_ids": [[1]], "inputs": {"labels": [[1], [2]]}}]`)
	if _, err := validation.Parse(free, validation.Limits{}); err != nil {
		t.Errorf("without a specification: %v", err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"unknown":       {`[{"input_ids": [[1]], "inputs": {"labels": [[1]]}}]`, "takes no labels"},
		"value":         {`[{"input_ids": [[1]], "inputs": {"token_type_ids": [[2]]}}]`, "token_type_ids [0 0] is 2"},
		"length":        {`[{"input_ids": [[1]], "inputs": {"token_type_ids": [[1, 1]]}}]`, "token_type_ids have shape [1,2]"},
		"sequences":     {`[{"input_ids": [[1]], "inputs": {"decoder_input_ids": [[1], [2]]}}]`, "decoder_input_ids have shape [2,1]"},
		"of its own":    {`[{"input_ids": [[1]], "inputs": {"attention_mask": [[1]]}}]`, "a key of its own"},
		"not rectangle": {`[{"input_ids": [[1]], "inputs": {"decoder_input_ids": []}}]`, "no sequences"},
	} {
		if _, err := validation.Parse([]byte(c.text), validation.Limits{Spec: spec}); !errors.Is(err, validation.ErrFile) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Where only some ids may occur, examples use those, in every input of token ids,
// and files are held against them.
func TestListedIDs(t *testing.T) {
	spec := architectures.InputSpec{Vocabulary: 50, IDs: []int{3, 4, 17}, Masks: true, Further: []architectures.FurtherInput{
		{Name: "decoder_input_ids", Values: 50, Tokens: true, OwnLength: true}, {Name: "token_type_ids", Values: 2}}}
	examples := validation.Generate(spec, validation.Options{MaxPositions: 3000})
	seen := map[int64]bool{}
	for _, e := range examples {
		for _, name := range []string{"input_ids", "decoder_input_ids"} {
			if x := e.Inputs.Tensors[name]; x != nil {
				for _, v := range x.Int64s() {
					seen[v] = true
				}
			}
		}
	}
	if len(seen) != 3 || !seen[3] || !seen[4] || !seen[17] {
		t.Errorf("ids %v", seen)
	}
	text, err := validation.Format(examples)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := validation.Parse(text, validation.Limits{Spec: spec}); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{`[{"input_ids": [[3, 5]]}]`, `[{"input_ids": [[3]], "inputs": {"decoder_input_ids": [[4, 5]]}}]`} {
		if _, err := validation.Parse([]byte(bad), validation.Limits{Spec: spec}); !errors.Is(err, validation.ErrFile) || !strings.Contains(err.Error(), "is 5, which is not among the 3 ids that may occur") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

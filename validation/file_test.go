package validation_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/tensor"
	"github.com/hfcompress/compress/validation"
)

var fileLimits = validation.Limits{Spec: architectures.InputSpec{Vocabulary: 84, MaxPositions: 8, Masks: true}, MaxExamples: 3, MaxPositions: 20}

const goodJSON = `{"examples":[{"name":"padded","input_ids":[[1,2,3],[4,5,0]],"attention_mask":[[1,1,1],[1,1,0]],` +
	`"position_ids":[[0,1,2],[0,1,1]],"flags":{"output_hidden_states":true}},{"input_ids":[[7]]}]}`

func TestReadFileJSON(t *testing.T) {
	dir := t.TempDir()
	bare := strings.TrimSuffix(strings.TrimPrefix(goodJSON, `{"examples":`), `}`)
	for name, text := range map[string]string{"object.json": goodJSON, "list.json": " \n" + bare + "\n"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		examples, err := validation.ReadFile(path, fileLimits)
		if err != nil {
			t.Fatal(err)
		}
		if len(examples) != 2 || examples[0].Name != "padded" || examples[1].Name != "example-2" {
			t.Fatalf("%s: %+v", name, examples)
		}
		in := examples[0].Inputs
		if !in.Flags["output_hidden_states"] || in.Tensors["attention_mask"].Int64s()[5] != 0 || in.Tensors["position_ids"].Int64s()[2] != 2 ||
			in.Tensors["input_ids"].String() != "I64[2,3]" {
			t.Errorf("%s: %+v", name, in)
		}
		if examples[1].Inputs.Tensors["attention_mask"] != nil {
			t.Errorf("%s: a mask came from nowhere", name)
		}
	}
	if _, err := validation.ReadFile(filepath.Join(dir, "none.json"), fileLimits); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	small := fileLimits
	small.MaxBytes = 10
	if _, err := validation.ReadFile(filepath.Join(dir, "object.json"), small); !errors.Is(err, validation.ErrFile) || !strings.Contains(err.Error(), "object.json") {
		t.Error(err)
	}
}

func TestJSONRefusals(t *testing.T) {
	one := func(fields string) string { return `[{` + fields + `}]` }
	for _, c := range []struct{ name, text, want string }{
		{"empty file", ``, "empty"},
		{"no examples", `[]`, "no examples"},
		{"empty object", `{}`, "no examples"},
		{"a number", `7`, "the list of examples: found a number"},
		{"cut", `[{"input_ids":[[1]]}`, "EOF"},
		{"text after", `[{"input_ids":[[1]]}] x`, "after"},
		{"brace after", `[{"input_ids":[[1]]}]]`, "after"},
		{"no ids", one(`"name":"a"`), "input_ids are missing"},
		{"null ids", one(`"input_ids":null`), "null"},
		{"no sequences", one(`"input_ids":[]`), "no sequences"},
		{"empty sequence", one(`"input_ids":[[]]`), "both positive"},
		{"flat ids", one(`"input_ids":[1,2]`), "input_ids: found a number"},
		{"ragged", one(`"input_ids":[[1,2],[3]]`), "sequence 1 has 1 entries"},
		{"fraction", one(`"input_ids":[[1.5]]`), "1.5"},
		{"float spelling", one(`"input_ids":[[1.0]]`), "1.0"},
		{"boolean", one(`"input_ids":[[true]]`), "bool"},
		{"huge", one(`"input_ids":[[99999999999999999999]]`), "99999999999999999999"},
		{"id too large", one(`"name":"big","input_ids":[[1,84]]`), `example "big": input_ids [0 1] is 84, want 0 to 83`},
		{"negative id", one(`"input_ids":[[-1]]`), "is -1"},
		{"too long", one(`"input_ids":[[1,2,3,4,5,6,7,8,9]]`), "9 positions, the model takes 8"},
		{"mask of 2", one(`"input_ids":[[1]],"attention_mask":[[2]]`), "attention_mask [0 0] is 2"},
		{"mask shape", one(`"input_ids":[[1]],"attention_mask":[[1,1]]`), "attention_mask have shape [1,2]"},
		{"position too large", one(`"input_ids":[[1]],"position_ids":[[8]]`), "position_ids [0 0] is 8"},
		{"unknown field", one(`"input_ids":[[1]],"labels":[[1]]`), "labels"},
		{"unknown flag", one(`"input_ids":[[1]],"flags":{"use_cache":true}`), "use_cache"},
		{"flag as number", one(`"input_ids":[[1]],"flags":{"output_attentions":1}`), "flags: found a number"},
		{"repeated key", one(`"input_ids":[[1]],"input_ids":[[2]]`), "twice"},
		{"repeated flag", one(`"input_ids":[[1]],"flags":{"output_attentions":true,"output_attentions":false}`), "twice"},
		{"case trick", one(`"input_ids":[[1]],"Input_IDs":[[2]]`), "unknown key"},
		{"long s trick", one(`"input_ids":[[1]],"poſition_ids":[[0]]`), "unknown key"},
		{"same name", `[{"name":"a","input_ids":[[1]]},{"name":"a","input_ids":[[1]]}]`, `two examples are called "a"`},
		{"taken default name", `[{"name":"example-2","input_ids":[[1]]},{"input_ids":[[1]]}]`, "two examples"},
		{"long name", one(`"name":"` + strings.Repeat("n", 201) + `","input_ids":[[1]]`), "longer than 200"},
		{"too many", `[` + strings.Repeat(`{"input_ids":[[1]]},`, 3) + `{"input_ids":[[1]]}]`, "4 examples, the limit is 3"},
		{"too much", `[{"input_ids":[[1,1,1,1,1,1,1],[1,1,1,1,1,1,1],[1,1,1,1,1,1,1]]}]`, "more than 20 token positions"},
	} {
		if _, err := validation.Parse([]byte(c.text), fileLimits); !errors.Is(err, validation.ErrFile) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	noMasks := fileLimits
	noMasks.Spec.Masks = false
	if _, err := validation.Parse([]byte(goodJSON), noMasks); err == nil || !strings.Contains(err.Error(), "takes no attention_mask") {
		t.Error(err)
	}
}

// safetensorsFile builds a file from a header and a body.
func safetensorsFile(header string, body ...byte) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), body...)
}

func ints(values ...int64) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

func TestReadFileSafetensors(t *testing.T) {
	file := safetensorsFile(`{"__metadata__":{"made":"by hand"},`+
		`"b.input_ids":{"dtype":"I64","shape":[1,2],"data_offsets":[0,16]},`+
		`"a.input_ids":{"dtype":"I32","shape":[2,1],"data_offsets":[16,24]},`+
		`"b.attention_mask":{"dtype":"I64","shape":[1,2],"data_offsets":[24,40]}}`,
		append(append(ints(5, 83), 7, 0, 0, 0, 8, 0, 0, 0), ints(1, 0)...)...)
	examples, err := validation.Parse(file, fileLimits)
	if err != nil {
		t.Fatal(err)
	}
	if len(examples) != 2 || examples[0].Name != "b" || examples[1].Name != "a" {
		t.Fatalf("%+v", examples)
	}
	if got := examples[0].Inputs.Tensors; got["input_ids"].Int64s()[1] != 83 || got["attention_mask"].Int64s()[1] != 0 {
		t.Errorf("%v", got)
	}
	if got := examples[1].Inputs.Tensors["input_ids"]; got.String() != "I64[2,1]" || got.Int64s()[1] != 8 {
		t.Errorf("%v", got)
	}
	single, err := validation.Parse(safetensorsFile(`{"input_ids":{"dtype":"I64","shape":[1,1],"data_offsets":[0,8]}}`, ints(3)...), fileLimits)
	if err != nil || len(single) != 1 || single[0].Inputs.Tensors["input_ids"].Int64s()[0] != 3 {
		t.Errorf("%+v, %v", single, err)
	}
}

func TestSafetensorsRefusals(t *testing.T) {
	entry := func(name, dtype, shape, offsets string) string {
		return fmt.Sprintf(`%q:{"dtype":%q,"shape":%s,"data_offsets":%s}`, name, dtype, shape, offsets)
	}
	good := entry("a.input_ids", "I64", "[1,1]", "[0,8]")
	for _, c := range []struct {
		name, header string
		body         []byte
		want         string
	}{
		{"empty", `{}`, nil, "no examples"},
		{"not an object", `[1]`, nil, "header"},
		{"text after", `{} x`, nil, "after"},
		{"repeated tensor", `{` + good + `,` + good + `}`, ints(1), "twice"},
		{"unknown input", `{` + entry("a.labels", "I64", "[1,1]", "[0,8]") + `}`, ints(1), "want <example>.input_ids"},
		{"no example name", `{` + entry(".input_ids", "I64", "[1,1]", "[0,8]") + `}`, ints(1), "want <example>"},
		{"clash with the default", `{` + entry("input_ids", "I64", "[1,1]", "[0,8]") + `,` + entry("example-1.input_ids", "I64", "[1,1]", "[8,16]") + `}`, ints(1, 2), "already"},
		{"floats", `{` + entry("a.input_ids", "F64", "[1,1]", "[0,8]") + `}`, ints(1), "want I64 or I32"},
		{"unknown dtype", `{` + entry("a.input_ids", "I128", "[1,1]", "[0,16]") + `}`, ints(1, 1), "I128"},
		{"negative extent", `{` + entry("a.input_ids", "I64", "[-1,1]", "[0,8]") + `}`, ints(1), "negative"},
		{"overflow", `{` + entry("a.input_ids", "I64", "[4611686018427387904,8]", "[0,8]") + `}`, ints(1), "too many"},
		{"many axes", `{` + entry("a.input_ids", "I64", "[1,1,1,1,1,1,1,1,1]", "[0,8]") + `}`, ints(1), "9 axes"},
		{"wrong size", `{` + entry("a.input_ids", "I64", "[1,2]", "[0,8]") + `}`, ints(1), "needs 16"},
		{"backwards", `{` + entry("a.input_ids", "I64", "[1,1]", "[8,0]") + `}`, ints(1), "data_offsets"},
		{"one offset", `{` + entry("a.input_ids", "I64", "[1,1]", "[8]") + `}`, ints(1), "data_offsets"},
		{"beyond", `{` + entry("a.input_ids", "I64", "[1,1]", "[8,16]") + `}`, ints(1), "data_offsets"},
		{"gap", `{` + entry("a.input_ids", "I64", "[1,1]", "[8,16]") + `}`, ints(1, 1), "starts at byte 8, want 0"},
		{"overlap", `{` + good + `,` + entry("b.input_ids", "I64", "[1,1]", "[0,8]") + `}`, ints(1), "starts at byte 0, want 8"},
		{"rest", `{` + good + `}`, ints(1, 2), "after the last"},
		{"extra key", `{"a.input_ids":{"dtype":"I64","shape":[1,1],"data_offsets":[0,8],"x":1}}`, ints(1), "x"},
		{"metadata", `{"__metadata__":{"a":1},` + good + `}`, ints(1), "__metadata__"},
		{"id out of range", `{` + good + `}`, ints(84), "is 84"},
		{"one axis", `{` + entry("a.input_ids", "I64", "[1]", "[0,8]") + `}`, ints(1), "[batch, length]"},
		{"too many", `{` + good + `,` + entry("b.input_ids", "I64", "[1,1]", "[8,16]") + `,` + entry("c.input_ids", "I64", "[1,1]", "[16,24]") + `,` +
			entry("d.input_ids", "I64", "[1,1]", "[24,32]") + `}`, ints(1, 1, 1, 1), "more than 3"},
	} {
		if _, err := validation.Parse(safetensorsFile(c.header, c.body...), fileLimits); !errors.Is(err, validation.ErrFile) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	long := binary.LittleEndian.AppendUint64(nil, 1<<40)
	if _, err := validation.Parse(long, fileLimits); !errors.Is(err, validation.ErrFile) {
		t.Errorf("a header beyond the file: %v", err)
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ties.json")
	examples, err := validation.Parse([]byte(goodJSON), fileLimits)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time over an existing file
		if err := validation.WriteFile(path, examples); err != nil {
			t.Fatal(err)
		}
	}
	back, err := validation.ReadFile(path, fileLimits)
	if err != nil || validation.Digest(back) != validation.Digest(examples) {
		t.Errorf("%v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	if err := validation.WriteFile(filepath.Join(dir, "none", "x.json"), examples); err == nil {
		t.Error("wrote into a directory that is not there")
	}
	pixels, err := tensor.FromFloat32s([]float32{1}, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	examples[0].Inputs.Tensors["pixels"] = pixels
	if _, err := validation.Format(examples); err == nil || !strings.Contains(err.Error(), "pixels") {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(goodJSON))
	f.Add([]byte(`[{"input_ids":[[1]],"flags":{}}]`))
	f.Add(safetensorsFile(`{"input_ids":{"dtype":"I64","shape":[1,1],"data_offsets":[0,8]}}`, ints(3)...))
	f.Add(safetensorsFile(`{"a.input_ids":{"dtype":"I32","shape":[1,2],"data_offsets":[0,8]}}`, ints(3)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		examples := readBack(t, data, fileLimits)
		// What was accepted is within the limits.
		positions := 0
		for _, e := range examples {
			positions += e.Inputs.Tensors["input_ids"].Len()
		}
		if len(examples) > 3 || positions > 20 {
			t.Fatalf("%d examples, %d positions", len(examples), positions)
		}
	})
}

// readBack reads a file; what it accepts survives its own format, and what it
// refuses is a fault of the file.
func readBack(t *testing.T, data []byte, limits validation.Limits) []validation.Example {
	t.Helper()
	examples, err := validation.Parse(data, limits)
	if err != nil {
		if !errors.Is(err, validation.ErrFile) {
			t.Fatal(err)
		}
		return nil
	}
	text, err := validation.Format(examples)
	if err != nil {
		t.Fatal(err)
	}
	back, err := validation.Parse(text, limits)
	if err != nil || validation.Digest(back) != validation.Digest(examples) {
		t.Fatalf("%v after %s", err, text)
	}
	return examples
}

// TestFurtherShapes: a decoder's mask has the shape of the decoder's ids where
// they are given, and else that of input_ids.
func TestFurtherShapes(t *testing.T) {
	limits := validation.Limits{Spec: architectures.InputSpec{Vocabulary: 9, Further: []architectures.FurtherInput{
		{Name: "decoder_input_ids", Values: 9, Tokens: true, OwnLength: true},
		{Name: "decoder_attention_mask", Values: 2, Padding: true, Like: "decoder_input_ids"},
	}}}
	for _, c := range []struct{ inputs, want string }{
		{`"decoder_input_ids":[[1,2,3]],"decoder_attention_mask":[[1,1,0]]`, ""},
		{`"decoder_attention_mask":[[1,0]]`, ""},
		{`"decoder_input_ids":[[1,2,3]],"decoder_attention_mask":[[1,0]]`, "decoder_attention_mask have shape [1,2], decoder_input_ids have [1,3]"},
		{`"decoder_attention_mask":[[1,1,0]]`, "decoder_attention_mask have shape [1,3], input_ids have [1,2]"},
		{`"decoder_input_ids":[[1],[2]],"decoder_attention_mask":[[1],[1]]`, "decoder_input_ids have shape [2,1], input_ids have [1,2]"},
	} {
		_, err := validation.Parse([]byte(`[{"input_ids":[[1,2]],"inputs":{`+c.inputs+`}}]`), limits)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, expected %q", c.inputs, err, c.want)
		}
	}
}

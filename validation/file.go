package validation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/internal/strictjson"
	"github.com/hfcompress/compress/tensor"
)

// ErrFile is wrapped by every error about the contents of a validation file.
var ErrFile = errors.New("bad validation file")

// Limits bound and check what [ReadFile] accepts.
type Limits struct {
	// Spec is what the model takes: ids, lengths and inputs are checked against it.
	// An empty vocabulary leaves ids unbounded above.
	Spec architectures.InputSpec
	// MaxBytes is the largest file, 0 for 64 MiB.
	MaxBytes int64
	// MaxExamples is the largest number of examples, 0 for 10,000.
	MaxExamples int
	// MaxPositions bounds the token positions of all examples together, 0 for
	// 1,048,576.
	MaxPositions int
}

func (l Limits) effective() Limits {
	if l.MaxBytes <= 0 {
		l.MaxBytes = 64 << 20
	}
	if l.MaxExamples <= 0 {
		l.MaxExamples = 10_000
	}
	if l.MaxPositions <= 0 {
		l.MaxPositions = 1 << 20
	}
	return l
}

// ReadFile reads a caller's examples from a JSON or a safetensors file; the
// contents decide which it is. docs/validation.md describes both. Errors name the
// file and the example, and those about contents wrap [ErrFile].
func ReadFile(path string, limits Limits) ([]Example, error) {
	limits = limits.effective()
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limits.MaxBytes+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limits.MaxBytes {
		return nil, fmt.Errorf("%w: %s has more than %d bytes", ErrFile, path, limits.MaxBytes)
	}
	examples, err := Parse(data, limits)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return examples, nil
}

// Parse is [ReadFile] for contents that are already in memory.
func Parse(data []byte, limits Limits) ([]Example, error) {
	limits = limits.effective()
	if int64(len(data)) > limits.MaxBytes {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrFile, limits.MaxBytes)
	}
	parse := parseJSON
	// A safetensors file starts with the length of its header, whose bytes 3 to 7
	// are zero below 16 MiB; no JSON text has them.
	if len(data) >= 8 && data[6] == 0 && data[7] == 0 {
		parse = parseSafetensors
	}
	examples, err := parse(data, limits)
	if err == nil {
		err = check(examples, limits)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	return examples, nil
}

// fileExample is one example of the JSON form.
type fileExample struct {
	Name          string    `json:"name,omitempty"`
	InputIDs      [][]int64 `json:"input_ids,omitempty"`
	AttentionMask [][]int64 `json:"attention_mask,omitempty"`
	PositionIDs   [][]int64 `json:"position_ids,omitempty"`
	// Inputs are the model's further ones by name.
	Inputs map[string][][]int64 `json:"inputs,omitempty"`
	// Tensors are all inputs of a model that takes no token ids.
	Tensors map[string]fileTensor `json:"tensors,omitempty"`
	Flags   map[string]bool       `json:"flags,omitempty"`
}

type fileExamples struct {
	Examples []fileExample `json:"examples"`
}

func parseJSON(data []byte, limits Limits) ([]Example, error) {
	if err := strictjson.Check(data, strictjson.Options{Key: strictjson.LowerKey, NoNull: true}); err != nil {
		return nil, err
	}
	var file fileExamples
	var target any = &file
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '[' {
		target = &file.Examples
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(target); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			where := wrong.Field
			if where == "" {
				where = "the list of examples"
			}
			return nil, fmt.Errorf("%s: found a %s where it does not belong; an example is an object with input_ids, attention_mask and position_ids, lists of lists of integers, and flags, which are true or false", where, wrong.Value)
		}
		return nil, err
	}
	if len(file.Examples) > limits.MaxExamples {
		return nil, fmt.Errorf("%d examples, the limit is %d", len(file.Examples), limits.MaxExamples)
	}
	var out []Example
	for i, e := range file.Examples {
		name := e.Name
		if name == "" {
			name = fmt.Sprintf("example-%d", i+1)
		}
		inputs := architectures.Inputs{Tensors: map[string]*tensor.Tensor{}, Flags: e.Flags}
		for _, in := range []struct {
			name string
			rows [][]int64
		}{{inputIDs, e.InputIDs}, {attentionMask, e.AttentionMask}, {positionIDs, e.PositionIDs}} {
			if in.rows == nil {
				continue
			}
			t, err := rectangle(in.rows)
			if err != nil {
				return nil, fmt.Errorf("example %.80q, %s: %w", name, in.name, err)
			}
			inputs.Tensors[in.name] = t
		}
		for _, other := range slices.Sorted(maps.Keys(e.Inputs)) {
			if isUsual(other) {
				return nil, fmt.Errorf("example %.80q: %s is no further input: it has a key of its own", name, other)
			}
			t, err := rectangle(e.Inputs[other])
			if err != nil {
				return nil, fmt.Errorf("example %.80q, %.80s: %w", name, other, err)
			}
			inputs.Tensors[other] = t
		}
		if len(e.Tensors) > 0 && len(inputs.Tensors) > 0 {
			return nil, fmt.Errorf("example %.80q: tensors are for models without token ids, and there are other inputs", name)
		}
		for _, input := range slices.Sorted(maps.Keys(e.Tensors)) {
			t, err := e.Tensors[input].tensor()
			if err != nil {
				return nil, fmt.Errorf("example %.80q, %.80s: %w", name, input, err)
			}
			inputs.Tensors[input] = t
		}
		out = append(out, Example{name, inputs})
	}
	return out, nil
}

func rectangle(rows [][]int64) (*tensor.Tensor, error) {
	if len(rows) == 0 {
		return nil, errors.New("no sequences")
	}
	var flat []int64
	for i, r := range rows {
		if len(r) != len(rows[0]) {
			return nil, fmt.Errorf("sequence %d has %d entries, the first has %d: pad them and give an attention_mask", i, len(r), len(rows[0]))
		}
		flat = append(flat, r...)
	}
	return tensor.FromInt64s(flat, len(rows), len(rows[0]))
}

// check applies the limits and the model's input specification.
func check(examples []Example, limits Limits) error {
	if len(examples) == 0 {
		return errors.New("no examples")
	}
	names := map[string]bool{}
	left := limits.MaxPositions
	for _, e := range examples {
		if len(e.Name) > 200 {
			return fmt.Errorf("example name %.40q… is longer than 200 bytes", e.Name)
		}
		if names[e.Name] {
			return fmt.Errorf("two examples are called %q", e.Name)
		}
		names[e.Name] = true
		if err := checkInputs(e.Inputs, limits.Spec); err != nil {
			return fmt.Errorf("example %q: %w", e.Name, err)
		}
		if left -= e.positions(); left < 0 {
			return fmt.Errorf("example %q: more than %d token positions in all", e.Name, limits.MaxPositions)
		}
	}
	return nil
}

func checkInputs(in architectures.Inputs, spec architectures.InputSpec) error {
	if spec.Latent != nil {
		return checkLatent(in, spec.Latent)
	}
	if spec.Flow != nil {
		return checkFlow(in, spec.Flow)
	}
	ids := in.Tensors[inputIDs]
	if ids == nil {
		return fmt.Errorf("%s are missing", inputIDs)
	}
	shape := ids.Shape()
	if len(shape) != 2 || shape[0] < 1 || shape[1] < 1 {
		return fmt.Errorf("%w: %s have shape %v, want [batch, length], both positive", tensor.ErrShape, inputIDs, shape)
	}
	if spec.MaxPositions > 0 && shape[1] > spec.MaxPositions {
		return fmt.Errorf("%d positions, the model takes %d", shape[1], spec.MaxPositions)
	}
	vocabulary := int64(spec.Vocabulary)
	if vocabulary == 0 {
		vocabulary = math.MaxInt64
	}
	if err := inRange(ids, vocabulary, inputIDs); err != nil {
		return err
	}
	if err := amongIDs(ids, spec, inputIDs); err != nil {
		return err
	}
	for _, input := range []struct {
		name  string
		limit int64
	}{{attentionMask, 2}, {positionIDs, positionLimit(spec)}} {
		t := in.Tensors[input.name]
		if t == nil {
			continue
		}
		if !spec.Masks && !slices.ContainsFunc(spec.Further, func(f architectures.FurtherInput) bool { return f.Name == input.name }) {
			return fmt.Errorf("the model takes no %s", input.name)
		}
		if !t.Shape().Equal(shape) {
			return fmt.Errorf("%w: %s have shape %v, %s have %v", tensor.ErrShape, input.name, t.Shape(), inputIDs, shape)
		}
		if err := inRange(t, input.limit, input.name); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in.Tensors)) {
		if isUsual(name) {
			continue
		}
		if err := checkFurther(in, name, shape, spec); err != nil {
			return err
		}
	}
	return checkFlags(in)
}

func checkFlags(in architectures.Inputs) error {
	for flag := range in.Flags {
		if flag != flagHiddenStates && flag != flagAttentions {
			return fmt.Errorf("unknown flag %.40q", flag)
		}
	}
	return nil
}

// checkFurther holds an input against the specification. Without a vocabulary
// there is none, and any input will do.
func checkFurther(in architectures.Inputs, name string, ids tensor.Shape, spec architectures.InputSpec) error {
	t := in.Tensors[name]
	at := slices.IndexFunc(spec.Further, func(f architectures.FurtherInput) bool { return f.Name == name })
	if at < 0 {
		if spec.Vocabulary == 0 {
			return inRange(t, math.MaxInt64, name)
		}
		return fmt.Errorf("the model takes no %.80s", name)
	}
	f := spec.Further[at]
	shape, like, expected := t.Shape(), inputIDs, ids
	if other := in.Tensors[f.Like]; other != nil && len(other.Shape()) == 2 {
		like, expected = f.Like, other.Shape()
	}
	if len(shape) != 2 || shape[0] != expected[0] || shape[1] < 1 || !f.OwnLength && shape[1] != expected[1] {
		return fmt.Errorf("%w: %s have shape %v, %s have %v", tensor.ErrShape, name, shape, like, expected)
	}
	if err := inRange(t, int64(f.Values), name); err != nil || !f.Tokens {
		return err
	}
	return amongIDs(t, spec, name)
}

// amongIDs refuses token ids that the caller has promised never to use.
func amongIDs(t *tensor.Tensor, spec architectures.InputSpec, what string) error {
	if len(spec.IDs) == 0 {
		return nil
	}
	for i, v := range t.Int64s() {
		if _, found := slices.BinarySearch(spec.IDs, int(v)); !found {
			return fmt.Errorf("%s %v is %d, which is not among the %d ids that may occur", what, unravel(i, t.Shape()), v, len(spec.IDs))
		}
	}
	return nil
}

func positionLimit(spec architectures.InputSpec) int64 {
	if spec.MaxPositions > 0 {
		return int64(spec.MaxPositions)
	}
	return math.MaxInt32
}

func inRange(t *tensor.Tensor, limit int64, what string) error {
	for i, v := range t.Int64s() {
		if v < 0 || v >= limit {
			return fmt.Errorf("%s %v is %d, want 0 to %d", what, unravel(i, t.Shape()), v, limit-1)
		}
	}
	return nil
}

// WriteFile keeps examples, such as those of [NearTies], in the JSON form that
// [ReadFile] reads. The file appears whole or not at all.
func WriteFile(path string, examples []Example) error {
	data, err := Format(examples)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Format gives the bytes that [WriteFile] writes; equal examples give equal
// bytes.
func Format(examples []Example) ([]byte, error) {
	file := fileExamples{Examples: []fileExample{}}
	for _, e := range examples {
		out := fileExample{Name: e.Name, Flags: e.Inputs.Flags}
		if e.Inputs.Tensors[inputIDs] == nil {
			out.Tensors = map[string]fileTensor{}
		}
		for name, t := range e.Inputs.Tensors {
			if out.Tensors != nil {
				out.Tensors[name] = fileTensor{t.DType(), t.Shape(), t.Bytes()}
				continue
			}
			if t.DType() != tensor.I64 || len(t.Shape()) != 2 {
				return nil, fmt.Errorf("%w: example %q: %s is %v, want I64 of two axes", tensor.ErrShape, e.Name, name, t)
			}
			rows := make([][]int64, t.Shape()[0])
			for i := range rows {
				width := t.Shape()[1]
				rows[i] = t.Int64s()[i*width : (i+1)*width]
			}
			switch name {
			case inputIDs:
				out.InputIDs = rows
			case attentionMask:
				out.AttentionMask = rows
			case positionIDs:
				out.PositionIDs = rows
			default:
				if out.Inputs == nil {
					out.Inputs = map[string][][]int64{}
				}
				out.Inputs[name] = rows
			}
		}
		file.Examples = append(file.Examples, out)
	}
	var b bytes.Buffer
	b.WriteString("{\"examples\":[")
	for i, e := range file.Examples { // one a line, so that files can be compared
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
		text, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		b.Write(text)
	}
	b.WriteString("\n]}\n")
	return b.Bytes(), nil
}

package validation

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hfcompress/compress/architectures"
	"github.com/hfcompress/compress/internal/strictjson"
	"github.com/hfcompress/compress/tensor"
)

// maxHeaderBytes bounds the header of a safetensors file of examples.
const maxHeaderBytes = 8 << 20

type headerEntry struct {
	DType   tensor.DType `json:"dtype"`
	Shape   tensor.Shape `json:"shape"`
	Offsets []int64      `json:"data_offsets"`

	name string
}

// parseSafetensors reads tensors called <example>.<input>, or <input> alone for
// a single example, as I64 or I32. Examples come in the order of their data.
func parseSafetensors(data []byte, limits Limits) ([]Example, error) {
	entries, body, err := parseHeader(data)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	byName := map[string]int{}
	var out []Example
	for _, e := range entries {
		example, input := "example-1", e.name
		if dot := strings.LastIndexByte(e.name, '.'); dot >= 0 {
			example, input = e.name[:dot], e.name[dot+1:]
		}
		further := slices.ContainsFunc(limits.Spec.Further, func(f architectures.FurtherInput) bool { return f.Name == input })
		if example == "" || !isUsual(input) && !further {
			return nil, fmt.Errorf("tensor %.80q: want <example>.%s, .%s or .%s", e.name, inputIDs, attentionMask, positionIDs)
		}
		t, err := integers(e, body)
		if err != nil {
			return nil, fmt.Errorf("tensor %.80q: %w", e.name, err)
		}
		i, ok := byName[example]
		if !ok {
			if i = len(out); i == limits.MaxExamples {
				return nil, fmt.Errorf("more than %d examples", limits.MaxExamples)
			}
			byName[example] = i
			out = append(out, Example{example, architectures.Inputs{Tensors: map[string]*tensor.Tensor{}}})
		}
		if out[i].Inputs.Tensors[input] != nil { // "input_ids" beside "example-1.input_ids"
			return nil, fmt.Errorf("tensor %.80q: example %q has %s already", e.name, example, input)
		}
		out[i].Inputs.Tensors[input] = t
	}
	return out, nil
}

// integers returns an entry's values as I64.
func integers(e headerEntry, body []byte) (*tensor.Tensor, error) {
	data := body[e.Offsets[0]:e.Offsets[1]]
	switch e.DType {
	case tensor.I64:
		return tensor.FromBytes(tensor.I64, e.Shape, data)
	case tensor.I32:
		values := make([]int64, len(data)/4)
		for i := range values {
			values[i] = int64(int32(binary.LittleEndian.Uint32(data[4*i:])))
		}
		return tensor.FromInt64s(values, e.Shape...)
	}
	return nil, fmt.Errorf("%w %v, want I64 or I32", tensor.ErrDType, e.DType)
}

// parseHeader returns the tensors by offset, which must cover the body without
// gap or overlap.
func parseHeader(data []byte) ([]headerEntry, []byte, error) {
	size := binary.LittleEndian.Uint64(data)
	if size > maxHeaderBytes || size > uint64(len(data)-8) {
		return nil, nil, fmt.Errorf("header of %d bytes, the file has %d and the limit is %d", size, len(data), maxHeaderBytes)
	}
	header, body := data[8:8+size], data[8+size:]
	if err := strictjson.Check(header, strictjson.Options{NoNull: true}); err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(header, &raw); err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	var entries []headerEntry
	for name, text := range raw {
		if name == "__metadata__" {
			var metadata map[string]string
			if err := json.Unmarshal(text, &metadata); err != nil {
				return nil, nil, fmt.Errorf("header: __metadata__: %w", err)
			}
			continue
		}
		var e headerEntry
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&e); err != nil {
			return nil, nil, fmt.Errorf("header: tensor %.80q: %w", name, err)
		}
		e.name = name
		if len(e.Shape) > 8 {
			return nil, nil, fmt.Errorf("tensor %.80q: %w: %d axes", name, tensor.ErrShape, len(e.Shape))
		}
		want, err := e.Shape.Bytes(e.DType)
		if err != nil {
			return nil, nil, fmt.Errorf("tensor %.80q: %w", name, err)
		}
		if len(e.Offsets) != 2 || e.Offsets[0] < 0 || e.Offsets[1] < e.Offsets[0] || e.Offsets[1] > int64(len(body)) {
			return nil, nil, fmt.Errorf("tensor %.80q: data_offsets %v of %d bytes", name, e.Offsets, len(body))
		}
		if e.Offsets[1]-e.Offsets[0] != int64(want) {
			return nil, nil, fmt.Errorf("tensor %.80q: %d bytes, %v%v needs %d", name, e.Offsets[1]-e.Offsets[0], e.DType, e.Shape, want)
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b headerEntry) int {
		return cmp.Or(cmp.Compare(a.Offsets[0], b.Offsets[0]), cmp.Compare(a.Offsets[1], b.Offsets[1]), strings.Compare(a.name, b.name))
	})
	var at int64
	for _, e := range entries {
		if e.Offsets[0] != at {
			return nil, nil, fmt.Errorf("tensor %.80q starts at byte %d, want %d: gaps and overlaps are refused", e.name, e.Offsets[0], at)
		}
		at = e.Offsets[1]
	}
	if at != int64(len(body)) {
		return nil, nil, errors.New("bytes after the last tensor")
	}
	return entries, body, nil
}

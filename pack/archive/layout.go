package archive

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/hfcompress/compress/tensor"
)

// segment is a stretch of a source file; a tensor if it has a name.
type segment struct {
	off, size int64
	tensor    bool
	name      string
	dtype     tensor.DType
	shape     tensor.Shape
}

const (
	// maxHeader is the longest safetensors header that is looked at, as in the
	// format's reference implementation.
	maxHeader = 100_000_000
	maxRank   = 16
)

// layout cuts a file into segments that cover it without gaps. What the header
// of a safetensors file describes soundly becomes a tensor; the header itself,
// bytes between tensors and after them, and whatever does not add up are bytes
// like any others. It never fails for what a file says, only for reading.
func layout(r io.ReaderAt, size int64) ([]segment, error) {
	tensors, start, err := scanSafetensors(r, size)
	if err != nil {
		return nil, err
	}
	if len(tensors) == 0 {
		if size == 0 {
			return nil, nil
		}
		return []segment{{size: size}}, nil
	}
	slices.SortStableFunc(tensors, func(a, b segment) int {
		return cmp.Or(cmp.Compare(a.off, b.off), cmp.Compare(a.size, b.size))
	})
	out := make([]segment, 1, len(tensors)+2)
	out[0].size = start
	at := start
	for _, t := range tensors {
		if t.off < at { // overlaps the one before
			continue
		}
		if t.off > at {
			out = append(out, segment{off: at, size: t.off - at})
		}
		out = append(out, t)
		at = t.off + t.size
	}
	if at < size {
		out = append(out, segment{off: at, size: size - at})
	}
	return out, nil
}

// scanSafetensors lists the tensors that a header describes and says where it
// ends; no tensors if the file is not in this format.
func scanSafetensors(r io.ReaderAt, size int64) (out []segment, start int64, err error) {
	var head [9]byte
	if size < int64(len(head)) {
		return nil, 0, nil
	}
	if err := fillAt(r, head[:], 0); err != nil {
		return nil, 0, err
	}
	n := binary.LittleEndian.Uint64(head[:])
	if head[8] != '{' || n > maxHeader || int64(n) > size-8 {
		return nil, 0, nil
	}
	start = 8 + int64(n)
	source := &errReader{r: io.NewSectionReader(r, 8, int64(n))}
	dec := json.NewDecoder(source)
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, 0, source.err
	}
	names := map[string]bool{}
	for dec.More() {
		key, err := dec.Token()
		name, ok := key.(string)
		if err != nil || !ok {
			return nil, 0, source.err
		}
		var entry struct {
			DType   string  `json:"dtype"`
			Shape   []int64 `json:"shape"`
			Offsets []int64 `json:"data_offsets"`
		}
		if name == "__metadata__" {
			var value json.RawMessage
			if err := dec.Decode(&value); err != nil {
				return nil, 0, source.err
			}
			continue
		}
		if err := dec.Decode(&entry); err != nil {
			var other *json.UnmarshalTypeError
			if errors.As(err, &other) { // a value, but of no tensor
				continue
			}
			return nil, 0, source.err
		}
		s, ok := describe(name, entry.DType, entry.Shape, entry.Offsets, size-start)
		if !ok || names[name] {
			continue
		}
		names[name] = true
		s.off += start
		out = append(out, s)
	}
	if _, err := dec.Token(); err != nil { // the closing brace
		return nil, 0, source.err
	}
	return out, start, nil
}

func describe(name, dtype string, shape, offsets []int64, room int64) (s segment, ok bool) {
	d, err := tensor.ParseDType(dtype)
	if err != nil || len(offsets) != 2 || len(shape) > maxRank || len(name) > maxName || !utf8.ValidString(name) {
		return s, false
	}
	if _, known := dtypeCode(d); !known || offsets[0] < 0 || offsets[1] < offsets[0] || offsets[1] > room {
		return s, false
	}
	s = segment{off: offsets[0], size: offsets[1] - offsets[0], tensor: true, name: name, dtype: d, shape: make(tensor.Shape, len(shape))}
	for i, v := range shape {
		if s.shape[i] = int(v); int64(s.shape[i]) != v {
			return s, false
		}
	}
	n, err := s.shape.Bytes(d)
	return s, err == nil && int64(n) == s.size
}

// errReader tells faults of reading from those of parsing.
type errReader struct {
	r   io.Reader
	err error
}

func (e *errReader) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if err != nil && err != io.EOF {
		e.err = err
	}
	return n, err
}

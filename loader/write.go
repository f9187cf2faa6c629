package loader

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/hfcompress/compress/tensor"
)

// Entry is one tensor to write.
type Entry struct {
	// Name is the tensor's name: valid UTF-8, not "__metadata__".
	Name string
	// Tensor holds the values. When it is nil, DType, Shape and Data take its
	// place.
	Tensor *tensor.Tensor
	// DType and Shape describe what Data yields.
	DType tensor.DType
	Shape tensor.Shape
	// Data streams the values, little-endian and row-major. It is read once, to its
	// end, when the tensor's turn comes, and must yield exactly the bytes that
	// DType and Shape call for.
	Data io.Reader
}

func (e *Entry) layout() (tensor.DType, tensor.Shape) {
	if e.Tensor != nil {
		return e.Tensor.DType(), e.Tensor.Shape()
	}
	return e.DType, e.Shape
}

// WriteOptions say how safetensors files are written.
type WriteOptions struct {
	// Metadata becomes __metadata__, with sorted keys; nil writes none. Models on
	// the Hub carry {"format": "pt"}.
	Metadata map[string]string
	// Overwrite lets writers of files replace what is there; otherwise they refuse
	// with ErrExists. Writers to an io.Writer do not use it.
	Overwrite bool
}

// Write streams a safetensors file to w and returns the number of bytes written.
// Tensors are stored in the order given, one after the other, and the header is
// spelled as the reference implementation spells it: without white space,
// padded with blanks to a multiple of eight bytes. The same entries and options
// always give the same bytes. On an error w holds an incomplete file.
func Write(w io.Writer, entries []Entry, o WriteOptions) (int64, error) {
	raw, err := encodeHeader(entries, o.Metadata)
	if err != nil {
		return 0, err
	}
	byName := make(map[string]*Entry, len(entries))
	for i := range entries {
		byName[entries[i].Name] = &entries[i]
	}
	// The scanner reads back what was just composed, under the limits that others
	// will read it with.
	return WriteVerbatim(w, raw, func(info TensorInfo) (io.Reader, error) {
		return byName[info.Name].reader()
	})
}

func (e *Entry) reader() (io.Reader, error) {
	switch {
	case e.Tensor != nil:
		return bytes.NewReader(e.Tensor.Bytes()), nil
	case e.Data != nil:
		return e.Data, nil
	}
	if n, err := e.Shape.Bytes(e.DType); err == nil && n == 0 {
		return bytes.NewReader(nil), nil
	}
	return nil, fmt.Errorf("tensor %s: neither Tensor nor Data is given", quote(e.Name))
}

// WriteVerbatim streams a safetensors file with the given header text, byte for
// byte, and returns the number of bytes written. data is asked for each tensor's
// bytes in file order, opaque element types included. The header is checked
// first, with the default [Limits].
func WriteVerbatim(w io.Writer, header []byte, data func(TensorInfo) (io.Reader, error)) (int64, error) {
	h, err := ParseHeader(header, Limits{OpaqueDTypes: true})
	if err != nil {
		return 0, err
	}
	var total int64
	put := func(b []byte) error {
		n, err := w.Write(b)
		total += int64(n)
		return err
	}
	if err := put(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))); err != nil {
		return total, fmt.Errorf("writing safetensors: %w", err)
	}
	if err := put(header); err != nil {
		return total, fmt.Errorf("writing safetensors: %w", err)
	}
	for i := range h.tensors {
		info := &h.tensors[i]
		r, err := data(*info)
		if err != nil {
			return total, fmt.Errorf("writing tensor %s: %w", quote(info.Name), err)
		}
		n, err := copyExactly(w, r, info.Bytes())
		total += n
		if err != nil {
			return total, fmt.Errorf("writing tensor %s: %w", quote(info.Name), err)
		}
	}
	return total, nil
}

// errLength says that a stream has not the length that was declared.
var errLength = errors.New("data of another length than declared")

// copyExactly copies want bytes and makes sure that r holds no more.
func copyExactly(w io.Writer, r io.Reader, want int64) (int64, error) {
	if b, ok := r.(*bytes.Reader); ok && int64(b.Len()) == want {
		return b.WriteTo(w) // at once, without a buffer between
	}
	n, err := io.Copy(w, io.LimitReader(r, want))
	if err != nil {
		return n, err
	}
	if n < want {
		return n, fmt.Errorf("%w: expected %d bytes, found %d", errLength, want, n)
	}
	var one [1]byte
	for range 100 {
		m, err := r.Read(one[:])
		switch {
		case m > 0:
			return n, fmt.Errorf("%w: expected %d bytes, found more", errLength, want)
		case errors.Is(err, io.EOF):
			return n, nil
		case err != nil:
			return n, err
		}
	}
	return n, io.ErrNoProgress
}

// encodeHeader composes the header text.
func encodeHeader(entries []Entry, metadata map[string]string) ([]byte, error) {
	b := []byte{'{'}
	separate := func() {
		if len(b) > 1 {
			b = append(b, ',')
		}
	}
	if metadata != nil {
		b = append(appendString(b, metadataKey), ":{"...)
		for i, key := range slices.Sorted(maps.Keys(metadata)) {
			if !utf8.ValidString(key) || !utf8.ValidString(metadata[key]) {
				return nil, fmt.Errorf("metadata %s: expected valid UTF-8", quote(key))
			}
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(append(appendString(b, key), ':'), metadata[key])
		}
		b = append(b, '}')
	}
	end := int64(0)
	for i := range entries {
		e := &entries[i]
		if e.Name == metadataKey || !utf8.ValidString(e.Name) {
			return nil, fmt.Errorf("tensor %s: expected a name that is valid UTF-8 and not %s", quote(e.Name), metadataKey)
		}
		dtype, shape := e.layout()
		n, err := shape.Bytes(dtype)
		if err != nil {
			return nil, fmt.Errorf("tensor %s: %w", quote(e.Name), err)
		}
		if int64(n) > math.MaxInt64-end {
			return nil, fmt.Errorf("tensor %s: %w: the file would be too large", quote(e.Name), tensor.ErrShape)
		}
		separate()
		b = append(appendString(b, e.Name), `:{"dtype":"`...)
		b = append(append(b, dtype.String()...), `","shape":`...)
		b = append(append(b, shape.String()...), `,"data_offsets":[`...)
		b = append(strconv.AppendInt(b, end, 10), ',')
		end += int64(n)
		b = append(strconv.AppendInt(b, end, 10), "]}"...)
	}
	b = append(b, '}')
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	return b, nil
}

// appendString writes a JSON string as the reference implementation does: only
// what must be escaped is. The standard encoder would also escape <, > and &.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\b':
			b = append(b, `\b`...)
		case c == '\f':
			b = append(b, `\f`...)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

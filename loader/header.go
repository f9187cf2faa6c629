package loader

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/bits"
	"slices"

	"github.com/hfcompress/compress/tensor"
)

// Limits bounds what a header or an index may ask for. Each zero field takes
// the default that it names.
type Limits struct {
	// HeaderBytes is the longest header; 100,000,000 by default, as in the format's
	// reference implementation.
	HeaderBytes int64
	// IndexBytes is the longest index file; 100,000,000 by default.
	IndexBytes int64
	// Tensors is the greatest number of tensors in one file or index; 1,000,000 by
	// default.
	Tensors int
	// Rank is the greatest number of axes; 16 by default.
	Rank int
	// NameBytes is the longest tensor or shard name; 4,096 by default.
	NameBytes int
	// Shards is the greatest number of files behind one index; 10,000 by default.
	Shards int
	// OpaqueDTypes keeps tensors of unknown element type instead of refusing the
	// file: for tools that copy bytes without reading values. Their DType is
	// tensor.Invalid, and their length is checked against their neighbours only.
	OpaqueDTypes bool
}

func (l Limits) withDefaults() Limits {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	if l.HeaderBytes <= 0 {
		l.HeaderBytes = 100_000_000
	}
	if l.IndexBytes <= 0 {
		l.IndexBytes = 100_000_000
	}
	set(&l.Tensors, 1_000_000)
	set(&l.Rank, 16)
	set(&l.NameBytes, 4096)
	set(&l.Shards, 10_000)
	return l
}

// TensorInfo describes one stored tensor.
type TensorInfo struct {
	// Name is the tensor's name, any valid UTF-8 text.
	Name string
	// DType is the element type, tensor.Invalid for an opaque one.
	DType tensor.DType
	// DTypeName is the element type as the header spells it.
	DTypeName string
	// Shape is the tensor's shape. It must not be changed.
	Shape tensor.Shape
	// Start and End bound the tensor's bytes, counted from the end of the header.
	Start, End int64
}

// Bytes returns the number of bytes stored.
func (t *TensorInfo) Bytes() int64 { return t.End - t.Start }

// Header is the checked header of one safetensors file. It is immutable and safe
// for concurrent use.
type Header struct {
	raw      []byte
	tensors  []TensorInfo
	metadata map[string]string
	index    map[string]int32
}

// Raw returns the JSON text verbatim, padding included, without the eight bytes
// of its length. It must not be changed.
func (h *Header) Raw() []byte { return h.raw }

// Tensors lists the tensors in file order: that of their bytes, and where
// tensors without bytes share a place, that of the header. It must not be
// changed.
func (h *Header) Tensors() []TensorInfo { return h.tensors }

// Metadata returns a copy of __metadata__, nil when the header has none.
func (h *Header) Metadata() map[string]string { return maps.Clone(h.metadata) }

// Lookup returns the tensor with the given name, or nil.
func (h *Header) Lookup(name string) *TensorInfo {
	if i, ok := h.index[name]; ok {
		return &h.tensors[i]
	}
	return nil
}

// DataBytes returns the number of bytes that follow the header.
func (h *Header) DataBytes() int64 {
	if len(h.tensors) == 0 {
		return 0
	}
	return h.tensors[len(h.tensors)-1].End
}

// FileBytes returns the length of the whole file.
func (h *Header) FileBytes() int64 { return h.dataStart() + h.DataBytes() }

func (h *Header) dataStart() int64 { return 8 + int64(len(h.raw)) }

// ScanHeader reads and checks the header of a safetensors file of size bytes. It
// reads nothing but the header. Memory stays within a small multiple of the
// header's length, which is bounded by size and by limits before it is
// allocated.
//
// Faults are reported as [*HeaderError] or, when size is less than the header
// requires, as [*TruncatedError].
func ScanHeader(r io.ReaderAt, size int64, limits Limits) (*Header, error) {
	limits = limits.withDefaults()
	var length [8]byte
	if size < 8 {
		return nil, &TruncatedError{Expected: 8, Found: max(size, 0)}
	}
	if err := readAt(r, length[:], 0); err != nil {
		return nil, readError(err, 8)
	}
	n := binary.LittleEndian.Uint64(length[:])
	switch {
	case n > uint64(limits.HeaderBytes):
		return nil, &HeaderError{Offset: 0, Err: ErrLimit,
			Reason: fmt.Sprintf("header of %d bytes, the limit is %d", n, limits.HeaderBytes)}
	case n > uint64(size-8):
		return nil, &TruncatedError{Expected: 8 + int64(n), Found: size}
	case n < 2:
		return nil, &HeaderError{Offset: 0, Reason: fmt.Sprintf("header of %d bytes, the shortest is {}", n)}
	}
	// The last byte is asked for before memory for all of them: size may be wrong.
	if err := readAt(r, length[:1], 7+int64(n)); err != nil {
		return nil, readError(err, 8+int64(n))
	}
	raw := make([]byte, n)
	if err := readAt(r, raw, 8); err != nil {
		return nil, readError(err, 8+int64(n))
	}
	h, err := ParseHeader(raw, limits)
	if err != nil {
		return nil, err
	}
	return h, h.checkSize(size)
}

func readAt(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return err
}

func readError(err error, expected int64) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &TruncatedError{Expected: expected, Found: -1}
	}
	return fmt.Errorf("reading a safetensors header: %w", err)
}

// checkSize compares the length of the whole file with what the header needs.
func (h *Header) checkSize(size int64) error {
	want := h.FileBytes()
	if size == want {
		return nil
	}
	if size > want {
		return &HeaderError{Offset: want, Reason: fmt.Sprintf("%d trailing bytes: expected a file of %d bytes, found %d",
			size-want, want, size)}
	}
	for i := range h.tensors {
		if t := &h.tensors[i]; h.dataStart()+t.End > size {
			return &TruncatedError{Tensor: t.Name, Expected: want, Found: size}
		}
	}
	panic("loader: a file was too short for no tensor")
}

// ParseHeader checks the JSON text of a header, of which it keeps raw; the
// file's length remains to be compared with [Header.FileBytes]. Faults are
// reported as [*HeaderError].
func ParseHeader(raw []byte, limits Limits) (*Header, error) {
	limits = limits.withDefaults()
	if int64(len(raw)) > limits.HeaderBytes {
		return nil, &HeaderError{Offset: 0, Err: ErrLimit,
			Reason: fmt.Sprintf("header of %d bytes, the limit is %d", len(raw), limits.HeaderBytes)}
	}
	p := &headerParser{scanner: scanner{b: raw}, limits: limits}
	h, err := p.parse()
	if err == nil {
		return h, nil
	}
	// Every fault becomes a HeaderError, placed relative to the file.
	if he := (*HeaderError)(nil); errors.As(err, &he) {
		return nil, he
	}
	he := &HeaderError{Tensor: p.current, Offset: 8 + int64(p.pos), Reason: err.Error()}
	if se := (*syntaxError)(nil); errors.As(err, &se) {
		he.Offset, he.Reason = 8+int64(se.pos), se.reason
	}
	for _, kind := range []error{ErrLimit, tensor.ErrDType, tensor.ErrShape} {
		if errors.Is(err, kind) {
			he.Err = kind
		}
	}
	return nil, he
}

type headerParser struct {
	scanner
	limits  Limits
	current string // the tensor being read, for errors
	tensors []TensorInfo
	dims    []int // arena for shapes; full pieces are left to the shapes in them
}

func (p *headerParser) parse() (*Header, error) {
	if len(p.b) == 0 || p.b[0] != '{' {
		return nil, p.errorf("expected \"{\", found %s", p.found())
	}
	p.pos++
	// Room for all tensors at once, by a count that a hostile text can inflate
	// only as far as the shortest possible record allows.
	const shortest = len(`"":{"dtype":"U8","shape":[],"data_offsets":[0,0]}`)
	n := min(bytes.Count(p.b, []byte(`"dtype"`)), len(p.b)/shortest, p.limits.Tensors)
	p.tensors = make([]TensorInfo, 0, n)
	h := &Header{raw: p.b, index: make(map[string]int32, n)}
	sawMetadata := false
	for n := 0; ; n++ {
		p.current = ""
		ok, err := p.more('}', n)
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		p.peek()
		start := p.pos
		name, err := p.str(p.limits.NameBytes)
		if err != nil {
			return nil, err
		}
		if name == metadataKey {
			if sawMetadata {
				p.pos = start
				return nil, p.errorf("duplicate key %s", quote(name))
			}
			sawMetadata = true
			if err := p.expect(':'); err != nil {
				return nil, err
			}
			if h.metadata, err = p.metadata(); err != nil {
				return nil, err
			}
			continue
		}
		p.current = name
		if _, ok := h.index[name]; ok {
			p.pos = start
			return nil, p.errorf("duplicate name")
		}
		if len(p.tensors) == p.limits.Tensors {
			p.pos = start
			return nil, limitError{p.errorf("more than %d tensors", p.limits.Tensors)}
		}
		if err := p.expect(':'); err != nil {
			return nil, err
		}
		info, err := p.record(start)
		if err != nil {
			return nil, err
		}
		info.Name = name
		h.index[name] = int32(len(p.tensors))
		p.tensors = append(p.tensors, info)
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	h.tensors = p.tensors
	if err := h.tile(); err != nil {
		return nil, err
	}
	return h, nil
}

const metadataKey = "__metadata__"

func (p *headerParser) metadata() (map[string]string, error) {
	if p.null() {
		return nil, nil
	}
	if err := p.expect('{'); err != nil {
		return nil, within(metadataKey, err)
	}
	m := map[string]string{}
	for n := 0; ; n++ {
		ok, err := p.more('}', n)
		if err != nil || !ok {
			return m, err
		}
		p.peek()
		start := p.pos
		key, err := p.str(math.MaxInt)
		if err != nil {
			return nil, err
		}
		if _, dup := m[key]; dup {
			p.pos = start
			return nil, p.errorf("%s: duplicate key %s", metadataKey, quote(key))
		}
		if err := p.expect(':'); err != nil {
			return nil, err
		}
		if p.peek() != '"' {
			return nil, p.errorf("%s: key %s: expected a string, found %s", metadataKey, quote(key), p.found())
		}
		if m[key], err = p.str(math.MaxInt); err != nil {
			return nil, err
		}
	}
}

// record reads the object of one tensor, whose name stands at start.
func (p *headerParser) record(start int) (TensorInfo, error) {
	var info TensorInfo
	const dtype, shape, offsets = 1, 2, 4
	var seen uint
	if err := p.expect('{'); err != nil {
		return info, err
	}
	for n := 0; ; n++ {
		ok, err := p.more('}', n)
		if err != nil {
			return info, err
		}
		if !ok {
			break
		}
		p.peek()
		at := p.pos
		key, plain, err := p.raw()
		if err != nil {
			return info, err
		}
		if !plain {
			key = decode(key)
		}
		var field uint
		switch string(key) {
		case "dtype":
			field = dtype
		case "shape":
			field = shape
		case "data_offsets":
			field = offsets
		}
		if field == 0 || seen&field != 0 {
			p.pos = at
			if field == 0 {
				return info, p.errorf("unknown key %s", quote(string(key)))
			}
			return info, p.errorf("duplicate key %s", quote(string(key)))
		}
		seen |= field
		if err := p.expect(':'); err != nil {
			return info, err
		}
		switch field {
		case dtype:
			err = p.dtype(&info)
		case shape:
			info.Shape, err = p.shape()
		case offsets:
			info.Start, info.End, err = p.offsets()
		}
		if err != nil {
			return info, err
		}
	}
	if seen != dtype|shape|offsets {
		return info, p.errorf("expected dtype, shape and data_offsets, found %d of them", bits.OnesCount(seen))
	}
	return info, p.check(&info, start)
}

func (p *headerParser) dtype(info *TensorInfo) error {
	if p.peek() != '"' {
		return p.errorf("dtype: expected a string, found %s", p.found())
	}
	at := p.pos
	name, err := p.str(p.limits.NameBytes)
	if err != nil {
		return err
	}
	d, err := tensor.ParseDType(name)
	switch {
	case err == nil:
		info.DType, info.DTypeName = d, d.String() // shares the constant
	case p.limits.OpaqueDTypes:
		info.DTypeName = name
	default:
		p.pos = at
		return err
	}
	return nil
}

func (p *headerParser) shape() (tensor.Shape, error) {
	if err := p.expect('['); err != nil {
		return nil, within("shape", err)
	}
	// Shapes are cut from a shared piece of memory: one allocation for each of a
	// million tensors would double what a large header costs.
	if cap(p.dims)-len(p.dims) < p.limits.Rank {
		p.dims = make([]int, 0, max(min(1024, len(p.b)/16), p.limits.Rank))
	}
	start := len(p.dims)
	for n := 0; ; n++ {
		ok, err := p.more(']', n)
		if err != nil {
			return nil, err
		}
		if !ok {
			return tensor.Shape(p.dims[start:len(p.dims):len(p.dims)]), nil
		}
		if n == p.limits.Rank {
			return nil, limitError{p.errorf("rank above %d", p.limits.Rank)}
		}
		v, err := p.uint()
		if err != nil {
			return nil, within("shape", err)
		}
		if v > math.MaxInt {
			return nil, fmt.Errorf("%w: extent %d", tensor.ErrShape, v)
		}
		p.dims = append(p.dims, int(v))
	}
}

func (p *headerParser) offsets() (start, end int64, err error) {
	if err = p.expect('['); err != nil {
		return 0, 0, within("data_offsets", err)
	}
	if start, err = p.uint(); err == nil {
		err = p.expect(',')
	}
	if err == nil {
		end, err = p.uint()
	}
	if err == nil {
		err = p.expect(']')
	}
	return start, end, within("data_offsets", err)
}

// check holds a record against itself.
func (p *headerParser) check(info *TensorInfo, start int) error {
	fault := func(kind error, format string, args ...any) error {
		return &HeaderError{Tensor: p.current, Offset: 8 + int64(start), Reason: fmt.Sprintf(format, args...), Err: kind}
	}
	if info.Start > info.End || info.End > math.MaxInt64-8-int64(len(p.b)) {
		return fault(nil, "impossible data_offsets [%d,%d]", info.Start, info.End)
	}
	// The reference multiplies from the left and refuses an overflow even where a
	// later extent is 0; a file must not be readable here and not there.
	elements := 1
	for _, d := range info.Shape {
		if elements != 0 && d > math.MaxInt/elements {
			return fault(tensor.ErrShape, "shape %v has too many elements", info.Shape)
		}
		elements *= d
	}
	if info.DType == tensor.Invalid {
		return nil
	}
	want, err := info.Shape.Bytes(info.DType)
	if err != nil {
		return fault(tensor.ErrShape, "%v", err)
	}
	if int64(want) != info.Bytes() {
		return fault(tensor.ErrShape, "%s%v needs %d bytes, data_offsets [%d,%d] hold %d",
			info.DTypeName, info.Shape, want, info.Start, info.End, info.Bytes())
	}
	return nil
}

// tile puts the tensors into file order and requires that their bytes follow
// each other without a gap or an overlap. Tensors without bytes must lie on a
// border too.
func (h *Header) tile() error {
	inOrder := func(a, b TensorInfo) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	}
	if !slices.IsSortedFunc(h.tensors, inOrder) {
		slices.SortStableFunc(h.tensors, inOrder)
		for i := range h.tensors {
			h.index[h.tensors[i].Name] = int32(i)
		}
	}
	end, last := int64(0), ""
	for i := range h.tensors {
		t := &h.tensors[i]
		if t.Start != end {
			kind := "gap"
			if t.Start < end {
				kind = "overlap"
			}
			after := "the start of the data"
			if last != "" {
				after = "tensor " + quote(last)
			}
			return &HeaderError{Tensor: t.Name, Offset: -1, Reason: fmt.Sprintf(
				"%s: expected to start at %d, after %s, found data_offsets [%d,%d]", kind, end, after, t.Start, t.End)}
		}
		end, last = t.End, t.Name
	}
	return nil
}

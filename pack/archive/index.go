package archive

import (
	"encoding/binary"
	"io/fs"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/hfcompress/compress/tensor"
)

// index is the footer: what an archive holds, and where.
type index struct {
	base    *Digest // of the base archive; nil without one
	streams []stream
	files   []file
	tensors []tensorEntry // of all files, in the files' order
}

// stream is a stretch of bytes that is stored once. Files consist of streams.
type stream struct {
	kind   byte
	dtype  byte // code; of differences only
	size   int64
	digest Digest
	// data and table are the lengths of what is stored, chunks first; both 0 for
	// kindCopy and kindJoined.
	data, table int64
	base        int // stream of the base archive, for kinds that need it

	// These follow from the streams before.
	offset int64 // of the first chunk in the archive
	head   int   // the stream whose chunks hold this one; itself, but for kindJoined
	start  int64 // where this stream begins in them
	total  int64 // of a head: the bytes of all streams in its chunks
}

func (s *stream) needsBase() bool {
	return s.differs() || s.kind == kindCopy
}

// differs reports whether a stream holds differences.
func (s *stream) differs() bool {
	return s.kind == kindULP || s.kind == kindXOR || s.kind == kindRank
}

// stores reports whether a stream has chunks of its own.
func (s *stream) stores() bool { return s.kind != kindCopy && s.kind != kindJoined }

// file is one file: its streams in order make its bytes.
type file struct {
	name     string
	mode     fs.FileMode
	size     int64
	digest   Digest
	segments []int32 // streams
	starts   []int64 // of the segments in the file, and the size
	tensors  [2]int  // its range in index.tensors
}

// tensorEntry is a tensor of a safetensors file, which is one of its segments.
type tensorEntry struct {
	file, segment int32
	name          string
	dtype         tensor.DType
	shape         tensor.Shape
}

func (x *index) encode() []byte {
	var b []byte
	put := func(v int64) { b = binary.AppendUvarint(b, uint64(v)) }
	text := func(s string) {
		put(int64(len(s)))
		b = append(b, s...)
	}
	if x.base == nil {
		b = append(b, 0)
	} else {
		b = append(append(b, 1), x.base[:]...)
	}
	put(int64(len(x.streams)))
	for i := range x.streams {
		s := &x.streams[i]
		b = append(b, s.kind)
		put(s.size)
		b = append(b, s.digest[:]...)
		if s.stores() {
			put(s.data)
			put(s.table)
		}
		if s.differs() {
			b = append(b, s.dtype)
		}
		if s.needsBase() {
			put(int64(s.base))
		}
	}
	put(int64(len(x.files)))
	for i := range x.files {
		f := &x.files[i]
		text(f.name)
		put(int64(f.mode))
		put(f.size)
		b = append(b, f.digest[:]...)
		put(int64(len(f.segments)))
		for _, s := range f.segments {
			put(int64(s))
		}
		put(int64(f.tensors[1] - f.tensors[0]))
		next := int32(0)
		for _, t := range x.tensors[f.tensors[0]:f.tensors[1]] {
			put(int64(t.segment - next))
			next = t.segment + 1
			text(t.name)
			code, _ := dtypeCode(t.dtype)
			b = append(b, code)
			put(int64(len(t.shape)))
			for _, d := range t.shape {
				put(int64(d))
			}
		}
	}
	return b
}

// indexReader takes an index apart. The first fault sticks.
type indexReader struct {
	b      []byte
	text   string // the whole index as text, of which names are parts
	end    int    // where b ends in text
	limits Limits
	err    error
}

func (r *indexReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = corruptf("index: "+format, args...)
	}
}

func (r *indexReader) number(limit int64) int64 {
	if r.err != nil {
		return 0
	}
	v, rest, err := uvarint(r.b, uint64(limit))
	if err != nil {
		r.err = err
		return 0
	}
	r.b = rest
	return int64(v)
}

// count reads how many items of at least size bytes each follow.
func (r *indexReader) count(most int, size int, what string) int {
	n := r.number(math.MaxInt64)
	switch {
	case r.err != nil:
		return 0
	case n > int64(len(r.b)/size):
		r.fail("%d %s do not fit", n, what)
		return 0
	case n > int64(most):
		r.err = limitf("%d %s, %d allowed", n, what, most)
		return 0
	}
	return int(n)
}

// size reads the size of a stream or a file.
func (r *indexReader) size(what string) int64 {
	n := r.number(math.MaxInt64)
	if n > r.limits.FileBytes && r.err == nil {
		r.err = limitf("%s of %d bytes, %d allowed", what, n, r.limits.FileBytes)
	}
	return n
}

func (r *indexReader) take(n int64) []byte {
	if r.err != nil || n > int64(len(r.b)) {
		r.fail("cut short")
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *indexReader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *indexReader) digest() (d Digest) {
	copy(d[:], r.take(int64(len(d))))
	return d
}

func (r *indexReader) string() string {
	n := r.number(maxName)
	at := r.end - len(r.b)
	if r.take(n) == nil {
		return ""
	}
	s := r.text[at : at+int(n)]
	if !utf8.ValidString(s) {
		r.fail("a name is not UTF-8")
	}
	return s
}

// Least bytes of a stream, a file and a tensor in an index.
const (
	minStream  = 1 + 1 + 32
	minFile    = 2 + 1 + 1 + 32 + 1 + 1
	minSegment = 1
	minTensor  = 1 + 1 + 1 + 1
)

// parseIndex reads an index of an archive whose index begins at byte end.
func parseIndex(b []byte, end int64, limits Limits) (*index, error) {
	r := &indexReader{b: b, text: string(b), end: len(b), limits: limits}
	x := &index{}
	switch r.byte() {
	case 0:
	case 1:
		d := r.digest()
		x.base = &d
	default:
		r.fail("unknown kind of base")
	}
	r.streams(x, end)
	r.files(x)
	if r.err == nil && len(r.b) > 0 {
		r.fail("%d bytes left over", len(r.b))
	}
	if r.err != nil {
		return nil, r.err
	}
	return x, nil
}

func (r *indexReader) streams(x *index, end int64) {
	x.streams = make([]stream, r.count(r.limits.Tensors, minStream, "streams"))
	at := int64(headerSize)
	for i := range x.streams {
		s := &x.streams[i]
		s.kind = r.byte()
		s.size = r.size("stream")
		s.digest = r.digest()
		s.offset, s.head, s.total = at, i, s.size
		if s.stores() {
			s.data = r.number(end - at)
			s.table = r.number(end - at - s.data)
			at += s.data + s.table
		}
		if s.differs() {
			if s.dtype = r.byte(); int(s.dtype) >= len(dtypes) {
				r.fail("unknown element type %d", s.dtype)
			} else if w := max(dtypes[s.dtype].Size(), 1); s.size%int64(w) != 0 {
				r.fail("stream %d: %d bytes are not whole elements", i, s.size)
			} else if s.kind == kindRank && !hasProducts(dtypes[s.dtype]) {
				r.fail("stream %d: no product can be added to elements of type %v", i, dtypes[s.dtype])
			}
		}
		if s.needsBase() {
			s.base = int(r.number(math.MaxInt32))
			if x.base == nil {
				r.fail("stream %d needs a base, none is named", i)
			}
		}
		if s.kind > kindRank {
			r.fail("stream %d has the unknown kind %d", i, s.kind)
		}
		if s.kind == kindJoined {
			r.join(x, i)
		}
		if s.table > r.limits.TableBytes && r.err == nil {
			r.err = limitf("stream %d has a table of %d bytes, %d allowed", i, s.table, r.limits.TableBytes)
		}
		if r.err != nil {
			return
		}
	}
	if at != end {
		r.fail("streams end at byte %d, the index begins at %d", at, end)
	}
}

// join puts stream i into the chunks of the one before.
func (r *indexReader) join(x *index, i int) {
	if i == 0 || r.err != nil {
		r.fail("stream %d has none before to be joined to", i)
		return
	}
	s := &x.streams[i]
	s.head = x.streams[i-1].head
	head := &x.streams[s.head]
	if head.kind != kindBytes && head.kind != kindFloat {
		r.fail("stream %d is joined to one of kind %d", i, head.kind)
		return
	}
	s.start = head.total
	if head.total += s.size; head.total > r.limits.FileBytes {
		r.err = limitf("joined streams of %d bytes, %d allowed", head.total, r.limits.FileBytes)
	}
}

func (r *indexReader) files(x *index) {
	if r.err != nil {
		return
	}
	used := make([]bool, len(x.streams))
	x.files = make([]file, r.count(r.limits.Files, minFile, "files"))
	names := make(map[string]bool, len(x.files))
	total := int64(0)
	for i := range x.files {
		f := &x.files[i]
		f.name = r.string()
		if r.err == nil {
			if why := nameFault(f.name); why != "" {
				r.err = corruptf("file name %s has %s", quote(f.name), why)
			} else if names[f.name] {
				r.fail("file %s is there twice", quote(f.name))
			}
		}
		names[f.name] = true
		f.mode = fs.FileMode(r.number(int64(fs.ModePerm)))
		f.size = r.size("file")
		if total += f.size; total > r.limits.TotalBytes && r.err == nil {
			r.err = limitf("files of more than %d bytes", r.limits.TotalBytes)
		}
		f.digest = r.digest()
		r.segments(x, f, used)
		r.tensors(x, f, i)
		if r.err != nil {
			return
		}
	}
	for i, ok := range used {
		if !ok {
			r.fail("stream %d belongs to no file", i)
		}
	}
}

func (r *indexReader) segments(x *index, f *file, used []bool) {
	n := r.count(r.limits.Tensors, minSegment, "segments")
	f.segments = make([]int32, n)
	f.starts = make([]int64, n+1)
	at := int64(0)
	for i := range f.segments {
		s := r.number(int64(len(x.streams)) - 1)
		if r.err != nil {
			return
		}
		f.segments[i], f.starts[i] = int32(s), at
		used[s] = true
		if at += x.streams[s].size; at > f.size {
			r.fail("file %s: its parts are larger than it", quote(f.name))
			return
		}
	}
	if f.starts[n] = at; at != f.size {
		r.fail("file %s: its parts have %d bytes, the file %d", quote(f.name), at, f.size)
	}
}

func (r *indexReader) tensors(x *index, f *file, number int) {
	n := r.count(min(r.limits.Tensors-len(x.tensors), len(f.segments)), minTensor, "tensors")
	f.tensors = [2]int{len(x.tensors), len(x.tensors) + n}
	x.tensors = slices.Grow(x.tensors, n)
	next := int64(0)
	names := make(map[string]bool, n)
	dims := make([]int, 0, min(4*n, len(r.b))) // shapes are parts of this, which saves allocations
	for range n {
		if r.err != nil {
			return
		}
		segment := next + r.number(math.MaxInt32)
		if segment >= int64(len(f.segments)) {
			r.fail("file %s: a tensor lies in part %d of %d", quote(f.name), segment, len(f.segments))
			return
		}
		next = segment + 1
		t := tensorEntry{file: int32(number), segment: int32(segment), name: r.string()}
		if names[t.name] {
			r.fail("file %s: tensor %s is there twice", quote(f.name), quote(t.name))
			return
		}
		names[t.name] = true
		code := r.byte()
		if int(code) >= len(dtypes) {
			r.fail("file %s, tensor %s: unknown element type %d", quote(f.name), quote(t.name), code)
			return
		}
		t.dtype = dtypes[code]
		rank := r.count(r.limits.Rank, 1, "axes")
		if cap(dims)-len(dims) < rank {
			dims = make([]int, 0, max(n, rank))
		}
		from := len(dims)
		for range rank {
			dims = append(dims, int(r.number(math.MaxInt)))
		}
		t.shape = dims[from:len(dims):len(dims)]
		if r.err != nil {
			return
		}
		size := x.streams[f.segments[segment]].size
		if bytes, err := t.shape.Bytes(t.dtype); err != nil || int64(bytes) != size {
			r.fail("file %s, tensor %s: %v%v does not have %d bytes", quote(f.name), quote(t.name), t.dtype, t.shape, size)
			return
		}
		x.tensors = append(x.tensors, t)
	}
}

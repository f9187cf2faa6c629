package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/hfcompress/compress/tensor"
)

// ReadOptions say how an archive is opened. The zero value suits most callers.
type ReadOptions struct {
	// Limits bound what the archive may ask for.
	Limits Limits
	// Base is the archive that this one was made against. It is needed only to
	// read what is stored as differences, and must stay open as long.
	Base *Reader
	// Workers is how many goroutines decode one large read; 0 means one for each
	// processor.
	Workers int
}

// Reader reads an archive. It is safe for concurrent use.
type Reader struct {
	r       io.ReaderAt
	size    int64
	end     int64 // of the stored streams
	digest  Digest
	x       *index
	base    *Reader
	limits  Limits
	workers int
	closer  io.Closer
	path    string

	names struct {
		once    sync.Once
		files   map[string]int
		tensors map[string][]int
	}
	tree struct {
		once sync.Once
		dirs map[string]*dirNode
	}
	tables tableCache
	chunks chunkCache
}

// File describes a file in an archive.
type File struct {
	// Name is relative, with slashes.
	Name string
	// Mode has permission bits alone.
	Mode fs.FileMode
	// Size is the length in bytes, SHA256 the digest of the original.
	Size   int64
	SHA256 Digest
	// Stored is what its content takes in the archive. Content that several files,
	// or parts of one, share is counted for the first of them.
	Stored int64
	// Tensors is the number of tensors found in it.
	Tensors int
}

// Tensor describes a tensor in an archive.
type Tensor struct {
	// Name is the tensor's name, File that of the safetensors file it is in.
	Name, File string
	DType      tensor.DType
	// Shape must not be changed.
	Shape tensor.Shape
	// Offset and Size locate its bytes in the file.
	Offset, Size int64
	// Stored is what it takes in the archive, or its share of that if it was
	// joined with others; 0 when it is the same as another one before, or as one
	// of the base.
	Stored int64
	// SHA256 is the digest of its bytes.
	SHA256 Digest
	// Method says how it is stored: "bytes", "float", "ulp", "xor", "rank" or
	// "base".
	Method string
}

var methods = [...]string{kindBytes: "bytes", kindFloat: "float", kindULP: "ulp", kindXOR: "xor", kindCopy: "base", kindRank: "rank"}

// Open opens the archive at path, a regular file.
func Open(path string, o ReadOptions) (*Reader, error) {
	f, info, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	r, err := NewReader(f, info.Size(), o)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r.closer, r.path = f, path
	return r, nil
}

// NewReader opens an archive of size bytes, of which it reads the first 16 bytes,
// the last 64 and the index. Files are compared with their digests when they are
// unpacked or verified, not here.
//
// Errors wrap [ErrCorrupt], [ErrVersion], [ErrLimit], [ErrBase], or come from r.
func NewReader(r io.ReaderAt, size int64, o ReadOptions) (*Reader, error) {
	a := &Reader{r: r, size: size, base: o.Base, limits: o.Limits.withDefaults(), workers: o.Workers}
	if a.workers <= 0 {
		a.workers = runtime.GOMAXPROCS(0)
	}
	if size < headerSize {
		return nil, fmt.Errorf("%w: %d bytes", ErrFormat, size)
	}
	var head [headerSize]byte
	if err := a.readAt(head[:], 0); err != nil {
		return nil, err
	}
	switch {
	case string(head[:len(Magic)]) != Magic:
		return nil, ErrFormat
	case head[len(Magic)] != version:
		return nil, fmt.Errorf("%w %d, this program knows %d", ErrVersion, head[len(Magic)], version)
	case !bytes.Equal(head[:], header):
		return nil, corruptf("the header is damaged")
	case size < headerSize+trailerSize:
		return nil, corruptf("%d bytes are too few", size)
	}
	var tail [trailerSize]byte
	if err := a.readAt(tail[:], size-trailerSize); err != nil {
		return nil, err
	}
	t, err := parseTrailer(tail[:])
	if err != nil {
		return nil, err
	}
	a.digest = t.digest
	switch {
	case t.total != size:
		return nil, corruptf("%d bytes, the trailer says %d", size, t.total)
	case t.indexStored > size-headerSize-trailerSize:
		return nil, corruptf("index of %d bytes in an archive of %d", t.indexStored, size)
	case t.indexStored > a.limits.IndexBytes || t.indexRaw > a.limits.IndexBytes:
		return nil, limitf("index of %d bytes, %d unpacked, %d allowed", t.indexStored, t.indexRaw, a.limits.IndexBytes)
	}
	a.end = size - trailerSize - t.indexStored
	stored := make([]byte, t.indexStored)
	if err := a.readAt(stored, a.end); err != nil {
		return nil, err
	}
	if t.sum(stored) != t.digest {
		return nil, corruptf("the digest of the index differs")
	}
	raw, err := unpackIndex(stored, t.indexRaw)
	if err != nil {
		return nil, err
	}
	if a.x, err = parseIndex(raw, a.end, a.limits); err != nil {
		return nil, err
	}
	return a, a.checkBase()
}

// readAt fills b; less is a fault of the archive.
func (r *Reader) readAt(b []byte, off int64) error {
	n, err := r.r.ReadAt(b, off)
	switch {
	case n == len(b):
		return nil
	case err == nil, errors.Is(err, io.EOF):
		return corruptf("it ends at byte %d: %w", off+int64(n), io.ErrUnexpectedEOF)
	}
	return err
}

// packIndex returns the smaller of b and b as a Zstandard frame.
func packIndex(b []byte) []byte {
	e := newZstd(zstd.SpeedDefault)
	defer e.Close()
	if packed := e.EncodeAll(b, nil); len(packed) < len(b) {
		return packed
	}
	return b
}

func unpackIndex(stored []byte, size int64) ([]byte, error) {
	if size == int64(len(stored)) {
		return stored, nil
	}
	// No frame of Zstandard expands further: a block of 128 KiB takes 4 bytes.
	if size/(32<<10) > int64(len(stored)) {
		return nil, corruptf("index of %d bytes cannot unpack to %d", len(stored), size)
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderMaxWindow(bytesChunk), zstd.WithDecoderMaxMemory(uint64(max(size, bytesChunk))))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	out, err := d.DecodeAll(stored, make([]byte, 0, size))
	if err != nil || int64(len(out)) != size {
		return nil, corruptf("index: frame of %d bytes, expected %d (%v)", len(out), size, err)
	}
	return out, nil
}

// checkBase holds the streams that need a base against the one that was given.
func (r *Reader) checkBase() error {
	if r.base == nil {
		return nil
	}
	if r.x.base == nil {
		r.base = nil // not needed
		return nil
	}
	if r.base.digest != *r.x.base {
		return fmt.Errorf("%w: made against %v, given was %v", ErrBase, r.x.base, r.base.digest)
	}
	for i := range r.x.streams {
		s := &r.x.streams[i]
		if !s.needsBase() {
			continue
		}
		if s.base >= len(r.base.x.streams) {
			return corruptf("stream %d needs stream %d of the base, which has %d", i, s.base, len(r.base.x.streams))
		}
		b := &r.base.x.streams[s.base]
		if b.size != s.size || s.kind == kindCopy && b.digest != s.digest {
			return corruptf("stream %d and stream %d of the base do not match", i, s.base)
		}
	}
	return nil
}

// Close closes the file that [Open] opened; the base stays open.
func (r *Reader) Close() error {
	if r.closer == nil {
		return nil
	}
	return r.closer.Close()
}

// Digest identifies the archive: it is stored at its end, and covers the index,
// which has the digests of all contents.
func (r *Reader) Digest() Digest { return r.digest }

// Base returns the digest of the archive that this one was made against, and
// whether there is one.
func (r *Reader) Base() (Digest, bool) {
	if r.x.base == nil {
		return Digest{}, false
	}
	return *r.x.base, true
}

// Size returns the bytes of the archive.
func (r *Reader) Size() int64 { return r.size }

// Files lists the files in the order of their names.
func (r *Reader) Files() []File {
	out := make([]File, len(r.x.files))
	seen := make([]bool, len(r.x.streams))
	for i := range r.x.files {
		f := &r.x.files[i]
		out[i] = File{Name: f.name, Mode: f.mode, Size: f.size, SHA256: f.digest, Tensors: f.tensors[1] - f.tensors[0]}
		for _, s := range f.segments {
			if !seen[s] {
				seen[s] = true
				out[i].Stored += r.stored(s)
			}
		}
	}
	return out
}

// Tensors lists the tensors of all files, file by file, in the order of their
// bytes.
func (r *Reader) Tensors() []Tensor {
	out := make([]Tensor, len(r.x.tensors))
	seen := make([]bool, len(r.x.streams))
	for i := range out {
		s := r.tensorStream(i)
		out[i] = r.describe(i)
		if seen[s] {
			out[i].Stored = 0
		}
		seen[s] = true
	}
	return out
}

func (r *Reader) tensorStream(i int) int32 {
	t := &r.x.tensors[i]
	return r.x.files[t.file].segments[t.segment]
}

func (r *Reader) describe(i int) Tensor {
	t := &r.x.tensors[i]
	f := &r.x.files[t.file]
	s := &r.x.streams[f.segments[t.segment]]
	return Tensor{Name: t.name, File: f.name, DType: t.dtype, Shape: t.shape, Offset: f.starts[t.segment],
		Size: s.size, Stored: r.stored(f.segments[t.segment]), SHA256: s.digest, Method: methods[r.x.streams[s.head].kind]}
}

// stored returns the bytes that a stream takes. Joined ones share those of their
// chunks and table in proportion to their sizes.
func (r *Reader) stored(i int32) int64 {
	s := &r.x.streams[i]
	head := &r.x.streams[s.head]
	all := head.data + head.table
	if head.total == s.size {
		return all
	}
	part := func(n int64) int64 {
		hi, lo := bits.Mul64(uint64(all), uint64(n))
		q, _ := bits.Div64(hi, lo, uint64(head.total)) // n is at most the total
		return int64(q)
	}
	return part(s.start+s.size) - part(s.start)
}

func (r *Reader) lookups() {
	r.names.once.Do(func() {
		r.names.files = make(map[string]int, len(r.x.files))
		for i := range r.x.files {
			r.names.files[r.x.files[i].name] = i
		}
		r.names.tensors = make(map[string][]int, len(r.x.tensors))
		for i := range r.x.tensors {
			name := r.x.tensors[i].name
			r.names.tensors[name] = append(r.names.tensors[name], i)
		}
	})
}

// findTensor returns the tensor of that name. In an archive with several
// files one name can stand for several tensors; if their bytes differ, the file
// has to be named, as FILE:TENSOR.
func (r *Reader) findTensor(name string) (int, error) {
	r.lookups()
	found := r.names.tensors[name]
	if len(found) == 0 {
		// FILE:TENSOR; both may contain colons, so every one is tried.
		for at := range len(name) {
			if name[at] != ':' {
				continue
			}
			f, ok := r.names.files[name[:at]]
			if !ok {
				continue
			}
			for _, i := range r.names.tensors[name[at+1:]] {
				if int(r.x.tensors[i].file) == f {
					return i, nil
				}
			}
		}
		return 0, fmt.Errorf("tensor %s: %w", quote(name), ErrNotFound)
	}
	first := r.describe(found[0])
	for _, i := range found[1:] {
		if other := r.describe(i); other.SHA256 != first.SHA256 || other.DType != first.DType || !other.Shape.Equal(first.Shape) {
			return 0, fmt.Errorf("tensor %s differs between %s and %s: name it as FILE:TENSOR", quote(name), quote(first.File), quote(other.File))
		}
	}
	return found[0], nil
}

// Lookup describes a tensor by its name, or as FILE:TENSOR where files hold
// different tensors of one name. An unknown name gives an error that wraps
// [ErrNotFound].
func (r *Reader) Lookup(name string) (Tensor, error) {
	i, err := r.findTensor(name)
	if err != nil {
		return Tensor{}, err
	}
	return r.describe(i), nil
}

// Tensor reads a tensor into memory. See [Reader.Lookup] for names.
func (r *Reader) Tensor(name string) (*tensor.Tensor, error) {
	i, err := r.findTensor(name)
	if err != nil {
		return nil, err
	}
	t := r.describe(i)
	if t.Size > r.limits.TensorBytes {
		return nil, limitf("tensor %s has %d bytes, %d allowed", quote(name), t.Size, r.limits.TensorBytes)
	}
	// The table is read before anything is allocated for what it promises.
	s := int(r.tensorStream(i))
	if err := r.probe(s); err != nil {
		return nil, fmt.Errorf("file %s, tensor %s: %w", quote(t.File), quote(t.Name), err)
	}
	out, err := tensor.New(t.DType, t.Shape...)
	if err != nil {
		return nil, err
	}
	if err := r.readStream(s, 0, out.Bytes(), r.workers); err != nil {
		return nil, fmt.Errorf("file %s, tensor %s: %w", quote(t.File), quote(t.Name), err)
	}
	return out, nil
}

// TensorReader gives random access to the bytes of a tensor: a read decodes only
// the chunks that it touches. See [Reader.Lookup] for names.
func (r *Reader) TensorReader(name string) (*io.SectionReader, error) {
	i, err := r.findTensor(name)
	if err != nil {
		return nil, err
	}
	t := &r.x.tensors[i]
	f := r.openFile(int(t.file))
	start := f.f.starts[t.segment]
	return io.NewSectionReader(f, start, f.f.starts[t.segment+1]-start), nil
}

// openRegular opens a regular file or a link to one. What a path is must be known
// before it is opened: opening a pipe waits for somebody to write to it.
func openRegular(path string) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: %w but %s", path, ErrNotRegular, what(info.Mode()))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w but %s", path, ErrNotRegular, what(info.Mode()))
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

package archive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// FileReader reads a file of an archive, in order or anywhere. A small read
// decodes one chunk and keeps it; a large one decodes its chunks in parallel.
// ReadAt is safe for concurrent use, Read and Seek are not. It needs no Close.
type FileReader struct {
	r *Reader
	f *file
	*io.SectionReader

	mu    sync.Mutex
	kept  []byte  // a decoded chunk
	owner *Reader // which archive it is of, and where; nil if there is none
	where chunkID
}

// OpenFile opens a file of the archive. An unknown name gives an error that wraps
// [ErrNotFound].
func (r *Reader) OpenFile(name string) (*FileReader, error) {
	r.lookups()
	i, ok := r.names.files[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrNotFound}
	}
	return r.openFile(i), nil
}

func (r *Reader) openFile(i int) *FileReader {
	f := &FileReader{r: r, f: &r.x.files[i]}
	f.SectionReader = io.NewSectionReader(readerAt{f}, 0, f.f.size)
	return f
}

// readerAt hides the methods of the embedded SectionReader.
type readerAt struct{ f *FileReader }

func (a readerAt) ReadAt(p []byte, off int64) (int, error) { return a.f.ReadAt(p, off) }

// ReadAt implements [io.ReaderAt].
func (f *FileReader) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, &fs.PathError{Op: "read", Path: f.f.name, Err: errors.New("negative offset")}
	}
	if off >= f.f.size {
		if len(p) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	short := int64(len(p)) > f.f.size-off
	if short {
		p = p[:f.f.size-off]
	}
	// The last segment that begins at or before off, empty ones left out.
	i, found := slices.BinarySearch(f.f.starts, off+1)
	_ = found // starts are whole numbers: the first start greater than off
	for i--; n < len(p); i++ {
		at := off + int64(n) - f.f.starts[i]
		part := p[n:]
		if room := f.f.starts[i+1] - f.f.starts[i] - at; int64(len(part)) > room {
			part = part[:room]
		}
		if err := f.readSegment(int(f.f.segments[i]), at, part); err != nil {
			return n, f.name(i, err)
		}
		n += len(part)
	}
	if short {
		return n, io.EOF
	}
	return n, nil
}

// name completes an error with the file, and the tensor if segment i is one.
func (f *FileReader) name(i int, err error) error {
	for _, t := range f.r.x.tensors[f.f.tensors[0]:f.f.tensors[1]] {
		if int(t.segment) == i {
			return fmt.Errorf("file %s, tensor %s: %w", quote(f.f.name), quote(t.name), err)
		}
	}
	return fmt.Errorf("file %s: %w", quote(f.f.name), err)
}

// readSegment fills p from byte off of a stream, through the kept chunk if p is
// small.
func (f *FileReader) readSegment(s int, off int64, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	const large = 64 << 10
	if len(p) >= large {
		return f.r.readStream(s, off, p, f.r.workers)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r, s, first, err := f.r.resolve(s)
	if err != nil {
		return err
	}
	t, err := r.table(s)
	if err != nil {
		return err
	}
	if off += first; r.x.streams[s].total > r.x.streams[s].size {
		return r.readJoined(s, t, off, p)
	}
	for len(p) > 0 {
		c := int(off / int64(t.chunk))
		start := int64(c) * int64(t.chunk)
		if f.owner != r || f.where != (chunkID{s, c}) {
			size := t.chunkSize(c)
			if cap(f.kept) < size {
				f.kept = make([]byte, size)
			}
			f.kept, f.owner = f.kept[:size], nil
			if err := r.readStream(s, start, f.kept, 1); err != nil {
				return err
			}
			f.owner, f.where = r, chunkID{s, c}
		}
		n := copy(p, f.kept[off-start:])
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// Close does nothing; it makes a FileReader an [fs.File].
func (f *FileReader) Close() error { return nil }

// Stat describes the file. Archives keep no times.
func (f *FileReader) Stat() (fs.FileInfo, error) { return fileInfo{f.f}, nil }

type fileInfo struct{ f *file }

func (i fileInfo) Name() string               { return path.Base(i.f.name) }
func (i fileInfo) Size() int64                { return i.f.size }
func (i fileInfo) Mode() fs.FileMode          { return i.f.mode }
func (i fileInfo) ModTime() time.Time         { return time.Time{} }
func (i fileInfo) IsDir() bool                { return false }
func (i fileInfo) Sys() any                   { return nil }
func (i fileInfo) Type() fs.FileMode          { return 0 }
func (i fileInfo) Info() (fs.FileInfo, error) { return i, nil }

// dirNode is a directory; archives have none, they follow from names.
type dirNode struct {
	name    string
	entries []fs.DirEntry
}

func (d *dirNode) Name() string               { return path.Base(d.name) }
func (d *dirNode) Size() int64                { return 0 }
func (d *dirNode) Mode() fs.FileMode          { return fs.ModeDir | 0o755 }
func (d *dirNode) ModTime() time.Time         { return time.Time{} }
func (d *dirNode) IsDir() bool                { return true }
func (d *dirNode) Sys() any                   { return nil }
func (d *dirNode) Type() fs.FileMode          { return fs.ModeDir }
func (d *dirNode) Info() (fs.FileInfo, error) { return d, nil }

// openDir is a directory being read.
type openDir struct {
	*dirNode
	at int
}

func (d *openDir) Stat() (fs.FileInfo, error) { return d.dirNode, nil }
func (d *openDir) Close() error               { return nil }
func (d *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.name, Err: errors.New("is a directory")}
}

func (d *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	rest := d.entries[d.at:]
	if n > 0 {
		if len(rest) == 0 {
			return nil, io.EOF
		}
		rest = rest[:min(n, len(rest))]
	}
	d.at += len(rest)
	return slices.Clone(rest), nil
}

// Open implements [fs.FS]: files are [*FileReader], and directories are made
// from the names of files.
func (r *Reader) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	r.tree.once.Do(r.makeTree)
	if d, ok := r.tree.dirs[name]; ok {
		return &openDir{dirNode: d}, nil
	}
	return r.OpenFile(name)
}

func (r *Reader) makeTree() {
	r.tree.dirs = map[string]*dirNode{".": {name: "."}}
	var dir func(name string) *dirNode
	dir = func(name string) *dirNode {
		d := r.tree.dirs[name]
		if d == nil {
			d = &dirNode{name: name}
			r.tree.dirs[name] = d
			parent := dir(path.Dir(name))
			parent.entries = append(parent.entries, d)
		}
		return d
	}
	for i := range r.x.files {
		f := &r.x.files[i]
		d := dir(path.Dir(f.name))
		d.entries = append(d.entries, fileInfo{f})
	}
	for _, d := range r.tree.dirs {
		slices.SortFunc(d.entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	}
}

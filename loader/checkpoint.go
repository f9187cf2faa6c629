package loader

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/hfcompress/compress/tensor"
)

// Options say how [Open] finds and reads a checkpoint. The zero value suits most
// callers.
type Options struct {
	// File chooses a .safetensors file or an index within a directory; needed only
	// where there are several.
	File string
	// Limits bounds what headers and indexes may ask for.
	Limits Limits
	// NoMap reads tensors into memory of their own instead of mapping files. It
	// makes no difference where mapping is not supported.
	NoMap bool
}

// Checkpoint is an open checkpoint of one or more safetensors files. It is safe
// for concurrent use, Close included.
type Checkpoint struct {
	volume    volume
	container io.Closer // nil if the files lie in a file system
	path      string
	index     *Index
	files     []*file
	names     []string
	where     map[string]place
	opts      Options

	mu     sync.RWMutex // held for reading by every use of an open file
	closed bool
}

type place struct{ file, tensor int32 }

// file is one open shard.
type file struct {
	name   string
	path   string
	f      handle
	size   int64
	header *Header

	mapOnce sync.Once
	mapped  []byte
	mapErr  error
}

// File describes one safetensors file of a checkpoint.
type File struct {
	// Name is the file's name, Path where it was opened.
	Name, Path string
	// Size is the length of the whole file in bytes.
	Size int64
	// Header is its checked header.
	Header *Header
}

// Open opens the checkpoint at path: a .safetensors file, an index
// (*.safetensors.index.json), or a directory that holds one checkpoint.
// Symbolic links are followed, since the Hub's cache consists of them. Every
// header is read and checked, and an index must agree with its shards both ways;
// tensors are not read.
//
// A file of a format known by [RegisterContainer] is taken as the directory of
// what it holds.
//
// Faults are reported as [*HeaderError], [*TruncatedError], [*IndexError],
// [*MissingShardError], [*ChoiceError] or an error of the file system.
func Open(path string, o Options) (*Checkpoint, error) {
	container, err := openContainer(path)
	if err != nil {
		return nil, fmt.Errorf("opening a checkpoint: %w", err)
	}
	if container == nil {
		return open(disk{}, path, o)
	}
	c, err := open(inside{container, path}, ".", o)
	if err != nil {
		return nil, errors.Join(err, container.Close())
	}
	c.container = container
	return c, nil
}

// OpenFS is [Open] for a checkpoint in fsys, whose files must implement
// io.ReaderAt. name is a slash-separated path as [fs.FS] has it, "." for the
// root. Tensors are read into memory of their own. fsys must stay usable until
// Close.
func OpenFS(fsys fs.FS, name string, o Options) (*Checkpoint, error) {
	return open(inside{fsys: fsys}, name, o)
}

func open(v volume, path string, o Options) (*Checkpoint, error) {
	chosen, err := find(v, path, o)
	if err != nil {
		return nil, fmt.Errorf("opening a checkpoint: %w", err)
	}
	c := &Checkpoint{volume: v, path: v.show(chosen), opts: o, where: map[string]place{}}
	if strings.HasSuffix(chosen, ".json") {
		err = c.openIndex(chosen)
	} else {
		err = c.openShard(chosen)
	}
	if err != nil {
		c.Close() // read only: nothing can be lost
		return nil, err
	}
	for i, f := range c.files {
		for j := range f.header.tensors {
			name := f.header.tensors[j].Name
			c.where[name] = place{int32(i), int32(j)}
			c.names = append(c.names, name)
		}
	}
	return c, nil
}

func (c *Checkpoint) openShard(path string) (err error) {
	f, info, err := c.volume.open(path)
	if err != nil {
		return err
	}
	shown := c.volume.show(path)
	defer func() {
		if err != nil {
			err = withFile(err, shown)
			f.Close()
		}
	}()
	header, err := ScanHeader(f, info.Size(), c.opts.Limits)
	if err != nil {
		return err
	}
	c.files = append(c.files, &file{name: filepath.Base(path), path: shown, f: f, size: info.Size(), header: header})
	return nil
}

// withFile completes an error that was made where the file's name was unknown.
func withFile(err error, path string) error {
	var he *HeaderError
	var te *TruncatedError
	switch {
	case errors.As(err, &he):
		he.File = path
	case errors.As(err, &te):
		te.File = path
	}
	return err
}

func (c *Checkpoint) openIndex(path string) error {
	x, err := readIndex(c.volume, path, c.opts.Limits)
	if err != nil {
		return err
	}
	c.index = x
	expected := make([]int, len(x.Shards))
	for _, i := range x.shard {
		expected[i]++
	}
	for i, shard := range x.Shards {
		err := c.openShard(c.volume.join(c.volume.dir(path), shard))
		if errors.Is(err, fs.ErrNotExist) {
			return &MissingShardError{Index: c.path, Shard: shard, Tensors: expected[i]}
		}
		if err != nil {
			return err
		}
	}
	var problems []string
	for f := range c.files {
		header := c.files[f].header
		for i := range header.tensors {
			name := header.tensors[i].Name
			switch want, ok := x.shard[name]; {
			case !ok:
				problems = append(problems, fmt.Sprintf("tensor %s is in %s, the index does not list it", quote(name), x.Shards[f]))
			case int(want) != f:
				problems = append(problems, fmt.Sprintf("tensor %s is in %s, the index places it in %s", quote(name), x.Shards[f], x.Shards[want]))
			}
		}
	}
	for _, name := range x.names {
		if want := x.shard[name]; c.files[want].header.Lookup(name) == nil {
			problems = append(problems, fmt.Sprintf("tensor %s is not in %s, where the index places it", quote(name), x.Shards[want]))
		}
	}
	if len(problems) > 0 {
		return &IndexError{File: c.path, Problems: problems}
	}
	return nil
}

// Path returns the path of the file or index that was opened.
func (c *Checkpoint) Path() string { return c.path }

// Index returns the index, nil for a checkpoint of a single file without one.
func (c *Checkpoint) Index() *Index { return c.index }

// Names lists all tensors in file order, shard by shard. It must not be changed.
func (c *Checkpoint) Names() []string { return c.names }

// Files lists the checkpoint's safetensors files.
func (c *Checkpoint) Files() []File {
	out := make([]File, len(c.files))
	for i, f := range c.files {
		out[i] = File{f.name, f.path, f.size, f.header}
	}
	return out
}

// TotalBytes returns the number of bytes of all tensors, headers not included.
func (c *Checkpoint) TotalBytes() int64 {
	var n int64
	for _, f := range c.files {
		n += f.header.DataBytes()
	}
	return n
}

// Info describes a tensor from its header alone. An unknown name gives an error
// that wraps [ErrNoTensor].
func (c *Checkpoint) Info(name string) (TensorInfo, error) {
	_, info, err := c.lookup(name)
	if err != nil {
		return TensorInfo{}, err
	}
	return *info, nil
}

// FileOf returns the name of the file that holds a tensor, or "" for an unknown
// one.
func (c *Checkpoint) FileOf(name string) string {
	f, _, err := c.lookup(name)
	if err != nil {
		return ""
	}
	return f.name
}

func (c *Checkpoint) lookup(name string) (*file, *TensorInfo, error) {
	p, ok := c.where[name]
	if !ok {
		return nil, nil, fmt.Errorf("%s: %w %s", c.path, ErrNoTensor, quote(name))
	}
	f := c.files[p.file]
	return f, &f.header.tensors[p.tensor], nil
}

// Tensor returns a tensor. Its storage is a view of a memory map where the file
// is mapped and the tensor lies aligned for its type, else a copy; a view must
// not be written to, and not be used after Close. See the package's notes on
// memory for what mapping implies.
//
// A file that was cut since it was opened gives a [*TruncatedError], an opaque
// element type an error that wraps [tensor.ErrDType].
func (c *Checkpoint) Tensor(name string) (*tensor.Tensor, error) {
	f, info, err := c.lookup(name)
	if err != nil {
		return nil, err
	}
	if info.DType == tensor.Invalid {
		return nil, fmt.Errorf("%s: tensor %s: %w %s", f.path, quote(name), tensor.ErrDType, quote(info.DTypeName))
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return nil, fmt.Errorf("%s: %w", c.path, ErrClosed)
	}
	if err := f.checkLength(info); err != nil {
		return nil, err
	}
	if info.Bytes() == 0 {
		return tensor.FromBytes(info.DType, info.Shape, nil)
	}
	if onDisk, ok := f.f.(*os.File); ok && !c.opts.NoMap && canMap {
		f.mapOnce.Do(func() { f.mapped, f.mapErr = mapFile(onDisk, f.size) })
		if f.mapErr == nil {
			at := f.header.dataStart()
			data := f.mapped[at+info.Start : at+info.End : at+info.End]
			return tensor.FromBytes(info.DType, info.Shape, data)
		}
		// Some file systems cannot map; reading gives the same bytes.
	}
	t, err := tensor.New(info.DType, info.Shape...)
	if err != nil {
		return nil, err
	}
	_, err = io.ReadFull(c.section(f, info), t.Bytes())
	return t, err
}

// checkLength makes sure that the bytes of a tensor are still there.
func (f *file) checkLength(info *TensorInfo) error {
	now, err := f.f.Stat()
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	if want := f.header.dataStart() + info.End; now.Size() < want {
		return &TruncatedError{File: f.path, Tensor: info.Name, Expected: want, Found: now.Size()}
	}
	return nil
}

// Reader streams the bytes of a tensor of any element type, opaque ones
// included, without mapping; its Size is the tensor's length. It ends with
// [io.EOF] only after the last byte: a file that was cut since it was opened
// gives a [*TruncatedError]. Readers of one checkpoint are independent of each
// other.
func (c *Checkpoint) Reader(name string) (*io.SectionReader, error) {
	f, info, err := c.lookup(name)
	if err != nil {
		return nil, err
	}
	return c.section(f, info), nil
}

func (c *Checkpoint) section(f *file, info *TensorInfo) *io.SectionReader {
	return io.NewSectionReader(&guardedFile{c, f, info}, f.header.dataStart()+info.Start, info.Bytes())
}

// guardedFile turns an early end into an error that names the tensor.
type guardedFile struct {
	c    *Checkpoint
	f    *file
	info *TensorInfo
}

func (g *guardedFile) ReadAt(b []byte, off int64) (int, error) {
	g.c.mu.RLock()
	defer g.c.mu.RUnlock()
	if g.c.closed {
		return 0, fmt.Errorf("%s: %w", g.f.path, ErrClosed)
	}
	n, err := g.f.f.ReadAt(b, off)
	switch {
	case n == len(b):
		return n, nil
	case errors.Is(err, io.EOF):
		return n, &TruncatedError{File: g.f.path, Tensor: g.info.Name,
			Expected: g.f.header.dataStart() + g.info.End, Found: off + int64(n)}
	}
	return n, fmt.Errorf("%s: tensor %s: %w", g.f.path, quote(g.info.Name), err)
}

// Close unmaps and closes all files. Tensors that are views of a map must not be
// used afterwards. A second Close does nothing.
func (c *Checkpoint) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	var errs []error
	for _, f := range c.files {
		if f.mapped != nil {
			errs = append(errs, unmapFile(f.mapped))
			f.mapped = nil
		}
		errs = append(errs, f.f.Close())
	}
	if c.container != nil {
		errs = append(errs, c.container.Close())
	}
	return errors.Join(errs...)
}

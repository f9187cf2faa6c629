package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"sync"

	"github.com/hfcompress/compress/pack/archive/internal/pairsum"
	"github.com/hfcompress/compress/pack/floatcodec"
	"github.com/hfcompress/compress/tensor"
)

// Options say how an archive is made. The zero value is the fast level on all
// processors.
type Options struct {
	// Level trades time for size.
	Level floatcodec.Level
	// Workers is how many goroutines encode; 0 means one for each processor. The
	// bytes do not depend on it.
	Workers int
	// Base is an archive from which tensors of the same name, type and shape may
	// be stored as differences, and equal content left out. Reading then needs it
	// too.
	Base *Reader
	// Progress, if not nil, is called from the goroutine that adds a file with the
	// bytes of it that were read.
	Progress func(file string, done, size int64)
}

// Stats sums up what a writer did.
type Stats struct {
	// Files and Tensors count what was added.
	Files   int `json:"files"`
	Tensors int `json:"tensors"`
	// Bytes is the size of the files, Stored that of the archive.
	Bytes  int64 `json:"bytes"`
	Stored int64 `json:"stored"`
	// Repeated is how many bytes were left out because they are in the archive
	// already, or in the base. Deltas is how many were stored as differences.
	Repeated int64 `json:"repeated"`
	Deltas   int64 `json:"deltas"`
	// Base says whether reading needs the base: not if nothing in it was of use.
	Base bool `json:"base"`
	// EmptyDirs is how many directories were left out because there is no file in
	// them; of [Pack] and [PackTo] only.
	EmptyDirs int `json:"empty_dirs"`
	// Digest identifies the archive.
	Digest Digest `json:"digest"`
}

// Writer streams an archive: files are added one after the other, and the index
// follows at the end. It is for one goroutine; the work is spread over others.
// The bytes depend on the files, their order, the level and the base alone.
//
// A failed writer stays failed. Close must be called in any case.
type Writer struct {
	opts  Options
	x     index
	names *nameSet
	byKey map[Digest][]*outStream // streams by the key of their samples
	// byDigest has the small tensors.
	byDigest map[Digest]*outStream
	baseN    map[int64]bool // sizes of the base's streams
	baseD    map[Digest]int // the base's streams
	outs     []*outStream   // by stream
	stats    Stats
	open     bool
	fileSums []*Digest // of files with several segments; under mu

	free        chan *unit
	work        chan *unit
	order       chan *unit
	sums        chan hashing
	running     sync.WaitGroup // encoders
	hashed, out sync.WaitGroup
	w           io.Writer
	off         int64 // the emitter's

	mu  sync.Mutex
	err error
}

// unit is one chunk on its way, or the end of a stream.
type unit struct {
	s     *outStream
	chunk int
	raw   []byte
	enc   []byte
	done  chan struct{} // closed when enc is there
	users sync.WaitGroup
	end   bool
}

// outStream is a stream that is being written.
type outStream struct {
	choice *choice
	number int
	sum    *pairsum.Digest
	hashed chan struct{} // closed when digest is there
	digest Digest

	lengths []int // the emitter's
	data    int64
	table   int64
}

// hashing is a step of the running digests of a stream, a file or both; finish,
// if not nil, ends one.
type hashing struct {
	stream, file *pairsum.Digest
	u            *unit
	finish       func()
}

// NewWriter begins an archive on w.
func NewWriter(w io.Writer, o Options) (*Writer, error) {
	if o.Level > floatcodec.Max {
		return nil, fmt.Errorf("archive: unknown level %v", o.Level)
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	a := &Writer{
		opts: o, w: w, open: true, names: newNameSet(), byKey: map[Digest][]*outStream{}, byDigest: map[Digest]*outStream{},
		// Units that are being encoded, and some that wait for that, for the digests
		// or to be written.
		free: make(chan *unit, 3*o.Workers+3),
		work: make(chan *unit, 3*o.Workers+3), order: make(chan *unit, 3*o.Workers+3),
		sums: make(chan hashing, 3*o.Workers+3),
	}
	if o.Base != nil {
		d := o.Base.digest
		a.x.base = &d
		a.baseN, a.baseD = map[int64]bool{}, map[Digest]int{}
		for i := range o.Base.x.streams {
			s := &o.Base.x.streams[i]
			a.baseN[s.size] = true
			if _, known := a.baseD[s.digest]; !known {
				a.baseD[s.digest] = i
			}
		}
	}
	for range cap(a.free) {
		a.free <- &unit{}
	}
	if err := a.write(header); err != nil {
		return nil, err
	}
	a.running.Add(o.Workers)
	for range o.Workers {
		go a.encodeAll()
	}
	a.hashed.Add(1)
	go a.hashAll()
	a.out.Add(1)
	go a.emitAll()
	return a, nil
}

// number gives a stream its place in the index, which is that in the archive.
func (w *Writer) number(s *outStream, e stream) {
	s.number = len(w.outs)
	w.outs = append(w.outs, s)
	w.x.streams = append(w.x.streams, e)
}

func (w *Writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
}

func (w *Writer) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *Writer) write(b []byte) error {
	n, err := w.w.Write(b)
	w.off += int64(n)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return err
}

func (w *Writer) encodeAll() {
	defer w.running.Done()
	for u := range w.work {
		if w.failed() == nil {
			if err := w.encode(u); err != nil {
				w.fail(err)
			}
		}
		close(u.done)
		u.users.Done()
	}
}

func (w *Writer) encode(u *unit) error {
	c := u.s.choice
	u.enc = u.enc[:0]
	switch c.kind {
	case kindBytes:
		u.enc = appendBytesChunk(u.enc, u.chunk, u.raw, w.opts.Level)
	case kindFloat:
		u.enc = c.model.AppendChunk(u.enc, u.chunk, u.raw)
	default:
		base := make([]byte, len(u.raw))
		off := int64(u.chunk) * int64(floatcodec.ChunkElements*c.delta.form.width)
		if err := w.opts.Base.readStream(c.base, off, base, 1); err != nil {
			return fmt.Errorf("base archive: %w", err)
		}
		c.delta.prepare(base, int64(u.chunk)*floatcodec.ChunkElements)
		u.enc = c.delta.appendChunk(u.enc, u.chunk, u.raw, base)
	}
	return nil
}

func (w *Writer) hashAll() {
	defer w.hashed.Done()
	for s := range w.sums {
		switch {
		case s.stream != nil && s.file != nil:
			pairsum.Write(s.stream, s.file, s.u.raw)
		case s.stream != nil:
			s.stream.Write(s.u.raw)
		case s.file != nil:
			s.file.Write(s.u.raw)
		}
		if s.u != nil {
			s.u.users.Done()
		}
		if s.finish != nil {
			s.finish()
		}
	}
}

// emitAll writes chunks in the order in which they were read.
func (w *Writer) emitAll() {
	defer w.out.Done()
	for u := range w.order {
		if u.end {
			if w.failed() == nil {
				w.emitTable(u.s)
			}
			continue
		}
		<-u.done
		if w.failed() == nil {
			u.s.lengths = append(u.s.lengths, len(u.enc))
			u.s.data += int64(len(u.enc))
			if err := w.write(u.enc); err != nil {
				w.fail(err)
			}
		}
		u.users.Done()
	}
}

func (w *Writer) emitTable(s *outStream) {
	b := encodeTable(s.choice, s.lengths)
	s.lengths = nil
	s.table = int64(len(b))
	if err := w.write(b); err != nil {
		w.fail(err)
	}
}

// Stats returns what was done; it is complete after Close.
func (w *Writer) Stats() Stats { return w.stats }

// AddFile adds a file of size bytes under a relative name (see [CheckName]) with
// the permission bits of mode. It reads src twice in places, for samples first
// and then in order, so src must not change; a size that is not what src has
// gives an error that wraps [ErrChanged]. AddFile returns before the last chunks
// are written.
func (w *Writer) AddFile(ctx context.Context, name string, mode fs.FileMode, src io.ReaderAt, size int64) error {
	if !w.open {
		return errors.New("archive: AddFile after Close")
	}
	if err := w.failed(); err != nil {
		return err
	}
	if err := w.addFile(ctx, name, mode, src, size); err != nil {
		err = fmt.Errorf("file %s: %w", quote(name), err)
		w.fail(err)
		return err
	}
	return nil
}

func (w *Writer) addFile(ctx context.Context, name string, mode fs.FileMode, src io.ReaderAt, size int64) error {
	if size < 0 {
		return fmt.Errorf("negative size %d", size)
	}
	if err := w.names.add(name); err != nil {
		return err
	}
	segments, err := layout(src, size)
	if err != nil {
		return err
	}
	f := file{name: name, mode: mode.Perm(), size: size, tensors: [2]int{len(w.x.tensors), len(w.x.tensors)}}
	in := &adding{w: w, ctx: ctx, name: name, size: size, src: src, sum: pairsum.New(), single: len(segments) == 1,
		open: map[tensor.DType]*group{}}
	parts := make([]*outStream, len(segments))
	if err := in.chooseAhead(segments); err != nil {
		return err
	}
	defer in.stop()
	for i := range segments {
		seg := &segments[i]
		if parts[i], err = in.add(seg, i); err != nil {
			if seg.tensor {
				return fmt.Errorf("tensor %s: %w", quote(seg.name), err)
			}
			return err
		}
		if seg.tensor {
			w.x.tensors = append(w.x.tensors, tensorEntry{file: int32(len(w.x.files)), segment: int32(i),
				name: seg.name, dtype: seg.dtype, shape: seg.shape})
			f.tensors[1]++
		}
	}
	if err := in.finish(); err != nil {
		return err
	}
	for _, s := range parts {
		f.segments = append(f.segments, int32(s.number))
	}
	w.x.files = append(w.x.files, f)
	w.stats.Files++
	w.stats.Tensors += f.tensors[1] - f.tensors[0]
	w.stats.Bytes += size
	number := len(w.x.files) - 1
	if in.single {
		return w.failed() // its digest is that of its one stream
	}
	w.sums <- hashing{finish: func() { w.setDigest(number, in.sum.Sum()) }}
	return w.failed()
}

// setDigest is called while digests are computed: meanwhile files may be added.
func (w *Writer) setDigest(file int, d Digest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.fileSums) <= file {
		w.fileSums = append(w.fileSums, nil)
	}
	w.fileSums[file] = &d
}

// Close writes the index and waits for all work to end. It does not close the
// underlying writer.
func (w *Writer) Close() error {
	if !w.open {
		return w.failed()
	}
	w.open = false
	close(w.work)
	w.running.Wait()
	close(w.order)
	w.out.Wait()
	close(w.sums)
	w.hashed.Wait()
	if err := w.failed(); err != nil {
		return err
	}
	if err := w.writeIndex(); err != nil {
		w.fail(err)
		return err
	}
	return nil
}

func (w *Writer) writeIndex() error {
	for i, s := range w.outs {
		e := &w.x.streams[i]
		e.digest, e.data, e.table = s.digest, s.data, s.table
		w.stats.Base = w.stats.Base || e.needsBase()
	}
	if !w.stats.Base {
		w.x.base = nil
	}
	for i := range w.x.files {
		f := &w.x.files[i]
		if len(f.segments) == 1 {
			f.digest = w.x.streams[f.segments[0]].digest
		} else {
			f.digest = *w.fileSums[i]
		}
	}
	raw := w.x.encode()
	// What was just built is read back before it is relied on.
	limits := Limits{IndexBytes: int64(len(raw)), FileBytes: 1 << 62, TotalBytes: 1 << 62}
	if _, err := parseIndex(raw, w.off, limits.withDefaults()); err != nil {
		return fmt.Errorf("the archive would not be readable: %w", err)
	}
	packed := packIndex(raw)
	t := trailer{indexStored: int64(len(packed)), indexRaw: int64(len(raw))}
	t.total = w.off + t.indexStored + trailerSize
	t.digest = t.sum(packed)
	if err := w.write(packed); err != nil {
		return err
	}
	if err := w.write(t.encode()); err != nil {
		return err
	}
	w.stats.Stored, w.stats.Digest = w.off, t.digest
	return nil
}

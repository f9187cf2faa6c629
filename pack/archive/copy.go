package archive

import (
	"context"
	"fmt"
	"io"

	"github.com/hfcompress/compress/pack/archive/internal/pairsum"
)

// job is a stretch of one segment that is decoded at once, or several whole
// segments that are joined in the archive as they are in the file.
type job struct {
	segment int
	n       int // segments
	off     int64
	buf     []byte
	last    bool // of its segment
	err     error
	done    chan struct{}
}

// copyFile decodes a file in parallel and hands its bytes to sink in order, before
// that to first, if it is not nil, from another goroutine. The buffers in use do
// not depend on the file's size. After each segment, segment is called if it is
// not nil.
func (r *Reader) copyFile(ctx context.Context, number, workers int, first func([]byte), sink func([]byte) error, segment func(int) error) error {
	f := &r.x.files[number]
	view := &FileReader{r: r, f: f}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if workers <= 0 {
		workers = r.workers
	}
	order := make(chan *job, 2*workers)
	work := make(chan *job, 2*workers)
	free := make(chan *job, 2*workers+2)
	for range cap(free) {
		free <- &job{}
	}
	for range workers {
		go func() {
			for j := range work {
				j.err = r.readStream(int(f.segments[j.segment]), j.off, j.buf, 1)
				close(j.done)
			}
		}()
	}
	var failed error
	go func() {
		defer close(order)
		defer close(work)
		failed = r.feed(ctx, f, view, free, order, work)
	}()
	ready := order
	if first != nil {
		ready = make(chan *job, cap(order))
		go func() {
			defer close(ready)
			for j := range order {
				<-j.done
				if j.err == nil && ctx.Err() == nil {
					first(j.buf)
				}
				ready <- j
			}
		}()
	}
	var err error
	for j := range ready {
		<-j.done
		if err == nil {
			err = r.deliver(f, view, j, sink, segment)
		}
		if err != nil {
			cancel()
			continue
		}
		free <- j
	}
	if err == nil {
		err = failed
	}
	return err
}

func (r *Reader) deliver(f *file, view *FileReader, j *job, sink func([]byte) error, segment func(int) error) error {
	if j.err != nil {
		return view.name(r.faulty(f, j), j.err)
	}
	rest := j.buf
	for i := j.segment; i < j.segment+j.n; i++ {
		part := rest
		if j.n > 1 {
			part = rest[:f.starts[i+1]-f.starts[i]]
		}
		rest = rest[len(part):]
		if err := sink(part); err != nil {
			return err
		}
		if j.last && segment != nil {
			if err := segment(i); err != nil {
				return view.name(i, err)
			}
		}
	}
	return nil
}

// faulty returns the first segment of a failed job that cannot be read.
func (r *Reader) faulty(f *file, j *job) int {
	for i := j.segment; i < j.segment+j.n; i++ {
		b := make([]byte, min(f.starts[i+1]-f.starts[i], int64(len(j.buf))))
		if j.n > 1 && r.readStream(int(f.segments[i]), 0, b, 1) != nil {
			return i
		}
	}
	return j.segment
}

// together returns how many segments from i on lie together in the archive too,
// and their size.
func (r *Reader) together(f *file, i int) (n int, size int64) {
	n, size = 1, f.starts[i+1]-f.starts[i]
	owner, head, at, err := r.resolve(int(f.segments[i]))
	if err != nil {
		return n, size // reading it will say so
	}
	for i += n; i < len(f.segments); i++ {
		next := f.starts[i+1] - f.starts[i]
		o, h, start, err := r.resolve(int(f.segments[i]))
		if err != nil || o != owner || h != head || start != at+size || size+next > runBytes {
			break
		}
		n, size = n+1, size+next
	}
	return n, size
}

// feed cuts a file into jobs of whole chunks.
func (r *Reader) feed(ctx context.Context, f *file, view *FileReader, free, order, work chan *job) error {
	for i := 0; i < len(f.segments); {
		s := f.segments[i]
		together, size := r.together(f, i)
		step := int64(runBytes)
		if size > 0 {
			owner, at, _, err := r.resolve(int(s))
			if err != nil {
				return view.name(i, err)
			}
			t, err := owner.table(at)
			if err != nil {
				return view.name(i, err)
			}
			step = max(int64(runBytes/t.chunk), 1) * int64(t.chunk)
		}
		if together > 1 {
			step = size
		}
		for off := int64(0); ; off += step {
			n := min(step, size-off)
			var j *job
			select {
			case j = <-free:
			case <-ctx.Done():
				return ctx.Err()
			}
			if int64(cap(j.buf)) < n {
				j.buf = make([]byte, n)
			}
			*j = job{segment: i, n: together, off: off, buf: j.buf[:n], last: off+n == size, done: make(chan struct{})}
			order <- j
			work <- j
			if j.last {
				break
			}
		}
		i += together
	}
	return nil
}

// writeFile writes a file to w and compares its SHA-256.
func (r *Reader) writeFile(ctx context.Context, number, workers int, w io.Writer, progress func(int)) error {
	sum := pairsum.New()
	err := r.copyFile(ctx, number, workers, func(b []byte) { sum.Write(b) }, func(b []byte) error {
		if progress != nil {
			progress(len(b))
		}
		_, err := w.Write(b)
		return err
	}, nil)
	if err != nil {
		return err
	}
	return checkSum(sum.Sum(), &r.x.files[number])
}

func checkSum(got Digest, f *file) error {
	if got != f.digest {
		return fmt.Errorf("file %s: %w", quote(f.name), corruptf("SHA-256 is %v, stored is %v", got, f.digest))
	}
	return nil
}

// VerifyReport says what [Reader.Verify] looked at.
type VerifyReport struct {
	Files, Tensors int
	// Bytes is the size of all files together, Stored that of the archive.
	Bytes, Stored int64
}

// Verify decodes everything and compares all checksums and digests: of chunks,
// tensors and files. Any change of an archive's bytes is found, since each byte
// is covered by a checksum or has only one possible value. The first fault is
// returned; it wraps [ErrCorrupt] and names the file and the tensor. progress,
// if not nil, is told of every stretch of bytes that was checked, from the
// calling goroutine.
func (r *Reader) Verify(ctx context.Context, progress func(bytes int)) (*VerifyReport, error) {
	report := &VerifyReport{Files: len(r.x.files), Tensors: len(r.x.tensors), Stored: r.size}
	checked := make([]bool, len(r.x.streams))
	for i := range r.x.files {
		f := &r.x.files[i]
		var sum Digest
		whole, part := pairsum.New(), pairsum.New()
		single := len(f.segments) == 1 // whose digest must be the file's
		err := r.copyFile(ctx, i, 0, nil, func(b []byte) error {
			if single {
				part.Write(b)
			} else {
				pairsum.Write(whole, part, b)
			}
			if progress != nil {
				progress(len(b))
			}
			return nil
		}, func(segment int) error {
			s := f.segments[segment]
			digest := Digest(part.Sum())
			if digest != r.x.streams[s].digest {
				return corruptf("SHA-256 is %v, stored is %v", digest, r.x.streams[s].digest)
			}
			checked[s] = true
			if single {
				sum = digest
			} else {
				part = pairsum.New()
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if !single {
			sum = whole.Sum()
		}
		if err := checkSum(sum, f); err != nil {
			return nil, err
		}
		report.Bytes += f.size
	}
	// Streams that decode to nothing have tables too.
	for i := range checked {
		if r.x.streams[i].size == 0 {
			if err := r.probe(i); err != nil {
				return nil, fmt.Errorf("stream %d: %w", i, err)
			}
		}
	}
	return report, nil
}

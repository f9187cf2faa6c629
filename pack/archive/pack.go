package archive

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// PackOptions say how [Pack] works.
type PackOptions struct {
	Options
	// Overwrite lets the archive take the place of an existing file.
	Overwrite bool
}

// Pack makes the archive dest from files and directories (see [Sources]). The
// archive appears whole or not at all: it is written under a temporary name in
// the same directory, flushed to disk and then renamed, or linked, which fails
// if somebody else has taken the name meanwhile. After an error, and after the
// process was killed, dest is as it was.
//
// An existing dest gives an error that wraps [ErrExists] unless Overwrite is
// set; dest being one of the sources, the base, or one that the base is read with,
// is refused in any case, and so are devices, pipes and sockets, with an error that wraps [ErrNotRegular]. A
// source whose identity, size or time of modification changes while it is read
// gives an error that wraps [ErrChanged].
func Pack(ctx context.Context, dest string, paths []string, o PackOptions) (stats Stats, err error) {
	list, empty, err := packable(paths)
	if err != nil {
		return stats, err
	}
	if err := mayReplace(dest, list, o); err != nil {
		return stats, err
	}
	f, err := createTemp(dest)
	if err != nil {
		return stats, err
	}
	temp := f.Name()
	defer func() {
		if err != nil {
			f.Close() // a second Close does no harm
			os.Remove(temp)
		}
	}()
	buffered := bufio.NewWriterSize(f, 1<<18)
	if stats, err = packTo(ctx, buffered, list, o.Options); err != nil {
		return stats, err
	}
	stats.EmptyDirs = empty
	if err := buffered.Flush(); err != nil {
		return stats, err
	}
	if err := f.Sync(); err != nil {
		return stats, err
	}
	if err := f.Close(); err != nil {
		return stats, err
	}
	if err := publish(temp, dest, o.Overwrite); err != nil {
		return stats, err
	}
	return stats, syncDir(filepath.Dir(dest))
}

// PackTo writes the archive of files and directories (see [Sources]) to w, front
// to back. After an error, what was written is no archive: readers refuse it.
func PackTo(ctx context.Context, w io.Writer, paths []string, o Options) (Stats, error) {
	list, empty, err := packable(paths)
	if err != nil {
		return Stats{}, err
	}
	stats, err := packTo(ctx, w, list, o)
	stats.EmptyDirs = empty
	return stats, err
}

// packable lists the files of paths, of which there must be some.
func packable(paths []string) (list []Source, empty int, err error) {
	list, empty, err = sources(paths)
	if err == nil && len(list) == 0 {
		err = errors.New("there is nothing to pack")
	}
	return list, empty, err
}

func packTo(ctx context.Context, dst io.Writer, list []Source, o Options) (Stats, error) {
	w, err := NewWriter(dst, o)
	if err != nil {
		return Stats{}, err
	}
	for _, s := range list {
		if err = w.addSource(ctx, s); err != nil {
			break
		}
	}
	err = errors.Join(err, ignoreRepeated(w.Close(), err))
	return w.Stats(), err
}

// ignoreRepeated drops the error of a Close that repeats an earlier one.
func ignoreRepeated(err, earlier error) error {
	if earlier != nil {
		return nil
	}
	return err
}

// addSource adds a file and makes sure that it stayed what it was.
func (w *Writer) addSource(ctx context.Context, s Source) error {
	f, before, err := openRegular(s.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := w.AddFile(ctx, s.Name, before.Mode(), f, before.Size()); err != nil {
		return err
	}
	after, err := os.Stat(s.Path)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", s.Path, ErrChanged, err)
	}
	if !os.SameFile(before, after) || after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()) {
		return fmt.Errorf("%s: %w", s.Path, ErrChanged)
	}
	return nil
}

// mayReplace refuses a destination that must not be written.
func mayReplace(dest string, sources []Source, o PackOptions) error {
	info, err := os.Stat(dest)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(dest); err == nil && !o.Overwrite { // a link to nothing
			return &fs.PathError{Op: "pack", Path: dest, Err: ErrExists}
		}
		return nil
	}
	if err != nil {
		return err
	}
	for _, s := range sources {
		if other, err := os.Stat(s.Path); err == nil && os.SameFile(info, other) {
			return fmt.Errorf("%s is the archive to be made and a source at once", dest)
		}
	}
	for base := o.Base; base != nil; base = base.base { // all are needed to unpack
		if base.path == "" {
			continue
		}
		if other, err := os.Stat(base.path); err == nil && os.SameFile(info, other) {
			return fmt.Errorf("%s is the archive to be made and its base, or the base of that, at once", dest)
		}
	}
	if !o.Overwrite || info.IsDir() {
		return &fs.PathError{Op: "pack", Path: dest, Err: ErrExists}
	}
	if !info.Mode().IsRegular() { // the rename would put a file in place of /dev/null
		return fmt.Errorf("%s: %w, which no archive may replace", dest, ErrNotRegular)
	}
	return nil
}

// publish gives a finished file its name. A link fails where the name is taken,
// which a rename does not; on file systems without links the name is looked up
// once more just before, and only a race of two writers can then replace a file.
func publish(temp, dest string, overwrite bool) error {
	if !overwrite {
		switch err := os.Link(temp, dest); {
		case err == nil:
			if err := os.Remove(temp); err != nil {
				return fmt.Errorf("%s is complete, but its temporary name remains: %w", dest, err)
			}
			return nil
		case errors.Is(err, fs.ErrExist):
			return &fs.PathError{Op: "pack", Path: dest, Err: ErrExists}
		}
		if _, err := os.Lstat(dest); !errors.Is(err, fs.ErrNotExist) {
			return &fs.PathError{Op: "pack", Path: dest, Err: ErrExists}
		}
	}
	return os.Rename(temp, dest)
}

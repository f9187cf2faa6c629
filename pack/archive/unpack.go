package archive

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// UnpackOptions say how an archive is unpacked. The zero value replaces nothing.
type UnpackOptions struct {
	// Overwrite lets files take the place of existing ones and of symbolic links,
	// but not of directories, devices, pipes and sockets.
	Overwrite bool
	// Workers is how many goroutines decode; 0 means what the Reader was opened
	// with.
	Workers int
	// Progress, if not nil, is called from the calling goroutine with the file at
	// hand and how many bytes of all files are done.
	Progress func(file string, done, total int64)
}

// tempPrefix begins the names of directories in which files wait for theirs.
const tempPrefix = ".unpack-"

// Unpack writes all files to dir, which is made if it is not there. Each file's
// SHA-256 is compared before any of them gets its name: after an error dir is as
// it was, except that with Overwrite a failure of the file system at the very
// end can leave some files replaced and others not. Files below dir are reached
// without following symbolic links out of it.
//
// Names that some file system takes for the same, or that stand in each other's
// way, are refused, with an error that wraps [ErrName]; files that exist, with
// [ErrExists]. What a killed process left under temporary names is removed by the
// next Unpack to the same place. Memory is bounded as described for the package.
func (r *Reader) Unpack(ctx context.Context, dir string, o UnpackOptions) (err error) {
	names := newNameSet()
	for i := range r.x.files {
		if err := names.add(r.x.files[i].name); err != nil {
			return err
		}
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r.unpackNew(ctx, dir, o)
	case err != nil:
		return err
	case !info.IsDir():
		return &fs.PathError{Op: "unpack", Path: dir, Err: ErrExists}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := r.mayWrite(root, o.Overwrite); err != nil {
		return err
	}
	removeStaleDirs(dir, tempPrefix)
	temp := tempPrefix + rand.Text()[:12] + ".tmp"
	if err := root.Mkdir(temp, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.RemoveAll(temp)) }()
	defer lockDir(filepath.Join(dir, temp))()
	within, err := root.OpenRoot(temp)
	if err != nil {
		return err
	}
	defer within.Close()
	if err := r.unpackInto(ctx, within, o); err != nil {
		return err
	}
	return r.moveAll(root, temp, o.Overwrite)
}

// unpackNew makes the directory under a temporary name and renames it.
func (r *Reader) unpackNew(ctx context.Context, dir string, o UnpackOptions) (err error) {
	dir = filepath.Clean(dir)
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return err
	}
	prefix := "." + filepath.Base(dir) + "."
	removeStaleDirs(parent, prefix)
	temp := filepath.Join(parent, prefix+rand.Text()[:12]+".tmp")
	if err := os.Mkdir(temp, 0o777); err != nil {
		return err
	}
	defer lockDir(temp)()
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temp))
		}
	}()
	root, err := os.OpenRoot(temp)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := r.unpackInto(ctx, root, o); err != nil {
		return err
	}
	if err := os.Rename(temp, dir); err != nil {
		return err
	}
	return syncDir(parent)
}

// mayWrite finds what stands in the way before anything is decoded.
func (r *Reader) mayWrite(root *os.Root, overwrite bool) error {
	for i := range r.x.files {
		name := filepath.FromSlash(r.x.files[i].name)
		info, err := root.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case !overwrite, !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0:
			return &fs.PathError{Op: "unpack", Path: filepath.Join(root.Name(), name), Err: ErrExists}
		}
	}
	return nil
}

// unpackInto writes all files below root, which holds nothing yet.
func (r *Reader) unpackInto(ctx context.Context, root *os.Root, o UnpackOptions) error {
	var done, total int64
	for i := range r.x.files {
		total += r.x.files[i].size
	}
	dirs := map[string]bool{}
	for i := range r.x.files {
		f := &r.x.files[i]
		dir := path.Dir(f.name)
		if !dirs[dir] {
			if err := root.MkdirAll(filepath.FromSlash(dir), 0o777); err != nil {
				return err
			}
			for d := dir; !dirs[d]; d = path.Dir(d) {
				dirs[d] = true
			}
		}
		err := r.unpackFile(ctx, root, i, o.Workers, func(n int) {
			done += int64(n)
			if o.Progress != nil {
				o.Progress(f.name, done, total)
			}
		})
		if err != nil {
			return err
		}
	}
	for dir := range dirs {
		if err := syncDir(filepath.Join(root.Name(), filepath.FromSlash(dir))); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) unpackFile(ctx context.Context, root *os.Root, i, workers int, progress func(int)) (err error) {
	f := &r.x.files[i]
	out, err := root.OpenFile(filepath.FromSlash(f.name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := r.writeFile(ctx, i, workers, out, progress); err != nil {
		return err
	}
	if err := out.Chmod(f.mode); err != nil {
		return err
	}
	return out.Sync()
}

// moveAll gives finished files their names. Without overwrite a link is made,
// which fails where the name is taken, and if one fails, those made before are
// removed.
func (r *Reader) moveAll(root *os.Root, temp string, overwrite bool) (err error) {
	var made []string
	defer func() {
		if err == nil {
			return
		}
		for _, name := range slices.Backward(made) {
			err = errors.Join(err, root.Remove(name))
		}
	}()
	for i := range r.x.files {
		name := filepath.FromSlash(r.x.files[i].name)
		if made, err = makeDirs(root, filepath.Dir(name), made); err != nil {
			return err
		}
		from := filepath.Join(temp, name)
		if overwrite {
			if err := root.Rename(from, name); err != nil {
				return err
			}
			continue
		}
		switch err := root.Link(from, name); {
		case err == nil:
		case errors.Is(err, fs.ErrExist):
			return &fs.PathError{Op: "unpack", Path: filepath.Join(root.Name(), name), Err: ErrExists}
		default: // a file system without links
			if _, err := root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
				return &fs.PathError{Op: "unpack", Path: filepath.Join(root.Name(), name), Err: ErrExists}
			}
			if err := root.Rename(from, name); err != nil {
				return fmt.Errorf("unpack: %w", err)
			}
		}
		made = append(made, name)
	}
	return nil
}

// makeDirs makes a directory and its parents, and adds those that were not there
// to made.
func makeDirs(root *os.Root, dir string, made []string) ([]string, error) {
	if dir == "." {
		return made, nil
	}
	if info, err := root.Stat(dir); err == nil && info.IsDir() {
		return made, nil
	}
	made, err := makeDirs(root, filepath.Dir(dir), made)
	if err != nil {
		return made, err
	}
	if err := root.Mkdir(dir, 0o777); err != nil {
		return made, err
	}
	return append(made, dir), nil
}

// syncDir makes new names last. Directories cannot be flushed everywhere, and the
// files themselves are safe already, so only the attempt is made.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = d.Sync()
	return d.Close()
}

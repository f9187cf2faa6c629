package loader

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
)

// handle is an open file of a volume.
type handle interface {
	io.ReaderAt
	Stat() (fs.FileInfo, error)
	Close() error
}

// volume is where the files of a checkpoint lie: in the file system of this
// machine, or in an [fs.FS] such as an archive.
type volume interface {
	stat(name string) (fs.FileInfo, error)
	readDir(name string) ([]fs.DirEntry, error)
	// open opens a regular file, or a link to one.
	open(name string) (handle, fs.FileInfo, error)
	join(dir, name string) string
	dir(name string) string
	// show gives a name as errors and users see it.
	show(name string) string
}

// disk is the file system of this machine.
type disk struct{}

func (disk) stat(name string) (fs.FileInfo, error)      { return os.Stat(name) }
func (disk) readDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }
func (disk) join(dir, name string) string               { return filepath.Join(dir, name) }
func (disk) dir(name string) string                     { return filepath.Dir(name) }
func (disk) show(name string) string                    { return name }

func (disk) open(name string) (handle, fs.FileInfo, error) {
	f, info, err := openRegular(name)
	if err != nil {
		return nil, nil, err // and not a handle that holds a nil pointer
	}
	return f, info, nil
}

// inside is an fs.FS; of is what it was opened from, or empty.
type inside struct {
	fsys fs.FS
	of   string
}

func (v inside) stat(name string) (fs.FileInfo, error)      { return fs.Stat(v.fsys, name) }
func (v inside) readDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(v.fsys, name) }
func (v inside) join(dir, name string) string               { return path.Join(dir, filepath.ToSlash(name)) }
func (v inside) dir(name string) string                     { return path.Dir(name) }

func (v inside) show(name string) string {
	if v.of == "" {
		return name
	}
	return v.of + ":" + name
}

func (v inside) open(name string) (handle, fs.FileInfo, error) {
	f, err := v.fsys.Open(name)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		f.Close()
		return nil, nil, fmt.Errorf("%s: expected a regular file, found one of mode %v", v.show(name), info.Mode())
	}
	h, ok := f.(handle)
	if !ok {
		f.Close()
		return nil, nil, fmt.Errorf("%s: cannot be read at any place", v.show(name))
	}
	return h, info, nil
}

// Container is an open file that holds other files, such as an archive. Its files
// must implement io.ReaderAt.
type Container interface {
	fs.FS
	io.Closer
}

var containers struct {
	sync.RWMutex
	formats []containerFormat
}

type containerFormat struct {
	magic string
	open  func(path string) (Container, error)
}

// RegisterContainer lets [Open] read checkpoints from files that begin with
// magic, by opening them as containers. Packages that know such a format call it
// when they are initialised, as image formats are registered with package image.
// It is safe for concurrent use and panics if magic is empty or taken.
func RegisterContainer(magic string, open func(path string) (Container, error)) {
	containers.Lock()
	defer containers.Unlock()
	for _, f := range containers.formats {
		if magic == "" || f.magic == magic {
			panic(fmt.Sprintf("loader: container format %q is empty or registered twice", magic))
		}
	}
	containers.formats = append(containers.formats, containerFormat{magic, open})
}

// openContainer opens path if it is a container, and returns nil if it is not.
func openContainer(path string) (Container, error) {
	containers.RLock()
	formats := containers.formats
	containers.RUnlock()
	longest := 0
	for _, f := range formats {
		longest = max(longest, len(f.magic))
	}
	if longest == 0 {
		return nil, nil
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil, nil // whatever is wrong, opening it as a checkpoint will tell
	}
	f, _, err := openRegular(path)
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	head := make([]byte, longest)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, nil
	}
	for _, format := range formats {
		if n >= len(format.magic) && string(head[:len(format.magic)]) == format.magic {
			return format.open(path)
		}
	}
	return nil, nil
}

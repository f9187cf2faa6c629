package compress

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hfcompress/compress/loader"
	"github.com/hfcompress/compress/pack"
	"github.com/hfcompress/compress/pack/archive"
)

// files are the files of a source, wherever they lie.
type files interface {
	fs.StatFS
	io.Closer
	// weights opens the checkpoint of a safetensors file or index.
	weights(file string) (*loader.Checkpoint, error)
}

// openFiles opens a directory or an archive.
func openFiles(path string) (files, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return folder(path), nil // whatever is wrong, listing it will tell
	}
	r, err := archive.Open(path, archive.ReadOptions{})
	if errors.Is(err, archive.ErrFormat) {
		return nil, fmt.Errorf("neither a directory nor an archive: %w", err)
	}
	if err != nil {
		return nil, err
	}
	if base, ok := r.Base(); ok {
		err := fmt.Errorf("%s: %w: it was made against %v, so it has to be unpacked first", path, archive.ErrBase, base)
		return nil, errors.Join(err, r.Close())
	}
	return archived{r, path}, nil
}

// folder is a directory. Unlike with [os.DirFS], errors have its name, and files
// may have names that are not UTF-8.
type folder string

func (d folder) Open(name string) (fs.File, error)          { return os.Open(d.join(name)) }
func (d folder) Stat(name string) (fs.FileInfo, error)      { return os.Stat(d.join(name)) }
func (d folder) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(d.join(name)) }
func (d folder) Close() error                               { return nil }

func (d folder) join(name string) string {
	if name == "." {
		return string(d) // an empty name of a directory stays an error
	}
	return filepath.Join(string(d), filepath.FromSlash(name))
}

// weights maps files where that can be done.
func (d folder) weights(file string) (*loader.Checkpoint, error) {
	return loader.Open(d.join(file), loader.Options{})
}

// archived are the files of an archive.
type archived struct {
	*archive.Reader
	path string
}

func (a archived) Open(name string) (fs.File, error) {
	f, err := a.Reader.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.path, err)
	}
	return f, nil
}

func (a archived) Stat(name string) (fs.FileInfo, error) {
	f, err := a.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stat()
}

// weights opens the archive once more, so that errors about tensors name it.
func (a archived) weights(file string) (*loader.Checkpoint, error) {
	return loader.Open(a.path, loader.Options{File: file})
}

// digest returns the entry of a file under its own name.
func (s *snapshot) digest(name string) (pack.File, error) {
	f, err := s.files.Open(name)
	if err != nil {
		return pack.File{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return pack.File{}, fmt.Errorf("%s: %s: %w", s.path, name, err)
	}
	return pack.File{Name: name, Size: n, SHA256: hex.EncodeToString(h.Sum(nil))}, nil
}

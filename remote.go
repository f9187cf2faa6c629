package compress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hfcompress/compress/hub"
)

// remoteFS is the commit of a repository as a file system: what is in the cache
// is read there, the rest by ranges over the network. It holds plain files of
// one folder, which is all that a checkpoint needs.
type remoteFS struct {
	ctx    context.Context
	client *hub.Client
	repo   hub.Repo
	commit hub.Commit
	// cached is the snapshot's folder, where files may or may not be.
	cached string
	files  []hub.File
}

// Open implements fs.FS.
func (r *remoteFS) Open(name string) (fs.File, error) {
	if f, err := os.Open(filepath.Join(r.cached, filepath.FromSlash(name))); err == nil {
		return f, nil
	}
	i := slices.IndexFunc(r.files, func(f hub.File) bool { return f.Path == name })
	if i < 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	remote, err := r.client.OpenRemote(r.ctx, r.repo, string(r.commit), name)
	if err != nil {
		return nil, err
	}
	if remote.Size() != r.files[i].Size {
		return nil, fmt.Errorf("%s: the listing says %d bytes, the file has %d", name, r.files[i].Size, remote.Size())
	}
	return &remoteFile{SectionReader: io.NewSectionReader(&headed{r: remote}, 0, remote.Size()), info: remoteInfo{r.files[i]}}, nil
}

// ReadDir implements fs.ReadDirFS for the folder that holds the weights.
func (r *remoteFS) ReadDir(name string) ([]fs.DirEntry, error) {
	var out []fs.DirEntry
	for _, f := range r.files {
		if path.Dir(f.Path) == name {
			out = append(out, fs.FileInfoToDirEntry(remoteInfo{f}))
		}
	}
	return out, nil
}

// Stat implements fs.StatFS.
func (r *remoteFS) Stat(name string) (fs.FileInfo, error) {
	for _, f := range r.files {
		if f.Path == name {
			return remoteInfo{f}, nil
		}
		if name == "." || strings.HasPrefix(f.Path, name+"/") {
			return remoteInfo{hub.File{Path: name, Size: -1}}, nil
		}
	}
	return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
}

// headed reads the first bytes of a file once: a header's length, its end and
// its text are asked for one after the other.
type headed struct {
	r    io.ReaderAt
	head []byte
	size int // 0 until it was tried
}

// headBytes covers the headers of most files.
const headBytes = 128 << 10

func (h *headed) ReadAt(p []byte, off int64) (int, error) {
	if h.size == 0 && off < headBytes {
		head := make([]byte, headBytes)
		n, err := h.r.ReadAt(head, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		h.head, h.size = head[:n], headBytes
	}
	if off+int64(len(p)) <= int64(len(h.head)) {
		return copy(p, h.head[off:]), nil
	}
	return h.r.ReadAt(p, off)
}

type remoteFile struct {
	*io.SectionReader
	info remoteInfo
}

func (f *remoteFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *remoteFile) Close() error               { return nil }

// remoteInfo describes a file, or a folder when its size is negative.
type remoteInfo struct{ f hub.File }

func (i remoteInfo) Name() string     { return path.Base(i.f.Path) }
func (i remoteInfo) Size() int64      { return max(i.f.Size, 0) }
func (remoteInfo) ModTime() time.Time { return time.Time{} }
func (i remoteInfo) IsDir() bool      { return i.f.Size < 0 }
func (remoteInfo) Sys() any           { return nil }

func (i remoteInfo) Mode() fs.FileMode {
	if i.IsDir() {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

package hub

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// cacheDirTag is the text that tells backup tools to skip a directory.
const cacheDirTag = "Signature: 8a477f597d28d172789f06886806bc55\n" +
	"# This file marks a cache directory: its contents can be downloaded again.\n" +
	"# See https://bford.info/cachedir/ for what it means to other programs.\n"

// maxSmallFile bounds refs and other small files of the cache.
const maxSmallFile = 4 << 10

// repoCache is one repository's part of the cache.
type repoCache struct {
	root string // the cache
	dir  string // models--ns--name
	name string // last element of dir
}

func (c *Client) cacheOf(r Repo) repoCache {
	return repoCache{root: c.opts.CacheDir, dir: filepath.Join(c.opts.CacheDir, r.folder()), name: r.folder()}
}

func (rc repoCache) blobs() string             { return filepath.Join(rc.dir, "blobs") }
func (rc repoCache) blob(etag string) string   { return filepath.Join(rc.dir, "blobs", etag) }
func (rc repoCache) snapshot(cm Commit) string { return filepath.Join(rc.dir, "snapshots", string(cm)) }
func (rc repoCache) spot(etag string) spot {
	return spot{dir: rc.blobs(), stem: etag, final: rc.blob(etag)}
}
func (rc repoCache) lockPath(etag string) string {
	return filepath.Join(rc.root, ".locks", rc.name, etag+".lock")
}

// pointer is where a file of a commit appears.
func (rc repoCache) pointer(cm Commit, file string) (string, error) {
	return safeJoin(rc.snapshot(cm), file)
}

// exists follows links: a dangling pointer counts as missing. A directory is
// no file.
func exists(path string) bool {
	st, err := os.Stat(extended(path))
	return err == nil && !st.IsDir()
}

// extended gives Windows the long form of a path that exceeds its old limit.
func extended(path string) string {
	if runtime.GOOS != "windows" || len(path) < 255 || strings.HasPrefix(path, `\\?\`) {
		return path
	}
	if strings.HasPrefix(path, `\\`) {
		return `\\?\UNC\` + path[2:]
	}
	return `\\?\` + path
}

func randomHex(n int) string {
	b := make([]byte, n/2)
	_, _ = rand.Read(b) // never fails on supported systems
	return hex.EncodeToString(b)
}

// tagCache writes CACHEDIR.TAG if it is absent. Failure does not matter.
func tagCache(dir string) {
	p := filepath.Join(dir, "CACHEDIR.TAG")
	if _, err := os.Lstat(p); err == nil {
		return
	}
	_ = writeFileAtomic(p, []byte(cacheDirTag))
}

// writeFileAtomic writes a small file under a temporary name beside it and
// renames it, so that no reader ever sees a part.
func writeFileAtomic(path string, data []byte) (err error) {
	tmp := extended(path + "." + randomHex(8) + ".tmp")
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp)
		}
	}()
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp, extended(path))
}

// readSmall reads a file that must not be large.
func readSmall(path string, limit int64) ([]byte, error) {
	f, err := os.Open(extended(path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s is longer than %d bytes", path, limit)
	}
	return b, err
}

// readOnly reports whether an error means that the cache cannot be written.
func readOnly(err error) bool {
	return errors.Is(err, fs.ErrPermission) || isReadOnlyFS(err)
}

// symlinkProbe finds out once per client whether the cache can hold relative
// symbolic links.
type symlinkProbe struct {
	disabled bool
	mu       sync.Mutex
	done     bool
	ok       bool
	// link replaces os.Symlink in tests.
	link func(target, name string) error
}

func (s *symlinkProbe) symlink(target, name string) error {
	if s.link != nil {
		return s.link(target, name)
	}
	return os.Symlink(target, name)
}

// supported probes in a temporary directory of the cache. The result is
// published only after the probe has ended, so that concurrent callers never
// act on a guess. The directory is called as what a deletion leaves, so that a
// prune takes away the probe of a process that was killed.
func (s *symlinkProbe) supported(dir string) bool {
	if s.disabled {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return s.ok
	}
	// Not knowing is not an answer: ask again next time.
	const unknown = true
	tmp := filepath.Join(dir, ".locks", trashPrefix+randomHex(8))
	if os.MkdirAll(extended(tmp), 0o777) != nil {
		return unknown
	}
	defer os.RemoveAll(extended(tmp))
	if os.WriteFile(extended(filepath.Join(tmp, "target")), []byte("x"), 0o600) != nil {
		return unknown
	}
	link := extended(filepath.Join(tmp, "link"))
	err := s.symlink("target", link)
	if err == nil {
		var b []byte
		b, err = os.ReadFile(link)
		s.ok = err == nil && string(b) == "x"
	}
	if errors.Is(err, fs.ErrNotExist) {
		return unknown // a prune was faster
	}
	s.done = true
	return s.ok
}

// place makes a verified blob appear in a snapshot. With symbolic links it
// is a relative link. Without them a new blob is moved there and an older one
// copied, as Python does.
func (c *Client) place(rc repoCache, blob, pointer string, newBlob bool) error {
	if err := os.MkdirAll(extended(filepath.Dir(pointer)), 0o777); err != nil {
		return err
	}
	if c.symlinks.supported(rc.root) {
		rel, err := filepath.Rel(filepath.Dir(pointer), blob)
		if err != nil {
			return err
		}
		tmp := pointer + "." + randomHex(8) + ".tmp"
		// A stray file in a snapshot confuses scanners, so the link is born
		// in blobs/ and moved from there; it is relative to its last place.
		tmp = filepath.Join(rc.blobs(), filepath.Base(tmp)+".incomplete")
		if err := c.symlinks.symlink(rel, extended(tmp)); err == nil {
			if err := os.Rename(extended(tmp), extended(pointer)); err != nil {
				_ = os.Remove(extended(tmp))
				return err
			}
			return nil
		} else if readOnly(err) && runtime.GOOS != "windows" {
			return err
		}
	}
	if newBlob {
		return os.Rename(extended(blob), extended(pointer))
	}
	return copyFile(rc.blobs(), blob, pointer)
}

// tidy removes partials of content that is there already: a process may have
// died between giving a file its name and removing its journal.
func (c *Client) tidy(at spot, etag string, size int64) {
	if p := c.adopt(at, etag, size); p != nil {
		p.remove()
	}
}

// copyFile copies a file through a temporary name in another directory of the
// destination's volume.
func copyFile(tmpDir, from, to string) (err error) {
	src, err := os.Open(extended(from))
	if err != nil {
		return err
	}
	defer src.Close()
	tmp := extended(filepath.Join(tmpDir, filepath.Base(from)+"."+randomHex(8)+".copy.incomplete"))
	dst, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp)
		}
	}()
	_, err = io.Copy(dst, src)
	if err == nil {
		err = dst.Sync()
	}
	if cerr := dst.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp, extended(to))
}

// markNoExist remembers that a commit lacks a file. Failure does not matter.
func (rc repoCache) markNoExist(cm Commit, file string) {
	p, err := safeJoin(filepath.Join(rc.dir, ".no_exist", string(cm)), file)
	if err != nil || exists(p) {
		return
	}
	if os.MkdirAll(extended(filepath.Dir(p)), 0o777) == nil {
		if f, err := os.OpenFile(extended(p), os.O_CREATE|os.O_WRONLY, 0o666); err == nil {
			_ = f.Close()
		}
	}
}

// knownMissing reports whether a commit is known to lack a file.
func (rc repoCache) knownMissing(cm Commit, file string) bool {
	p, err := safeJoin(filepath.Join(rc.dir, ".no_exist", string(cm)), file)
	return err == nil && exists(p)
}

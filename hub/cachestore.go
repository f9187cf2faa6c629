package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

const (
	storeRefs = ".refs"
	storeLock = ".lock"
)

// sharedBlobs is the store of contents that several repositories of a cache
// share. A nil store holds nothing.
type sharedBlobs struct{ cache, dir string }

// openStore returns the store of a cache, or nil where blobs/ is missing or
// not marked as a store of the known layout.
func openStore(cache string) *sharedBlobs {
	s := &sharedBlobs{cache: cache, dir: filepath.Join(cache, "blobs")}
	mark := filepath.Join(s.dir, sharedMarker)
	if !realDir(s.dir) || !regular(mark) {
		return nil
	}
	if b, err := readSmall(mark, 16); err != nil || string(b) != sharedVersion {
		return nil
	}
	return s
}

// payload is where a content lies in the store.
func (s *sharedBlobs) payload(hash string) string { return filepath.Join(s.dir, hash[:2], hash) }

// markerTemp is what a client leaves that dies while it marks a store.
var markerTemp = regexp.MustCompile(`^` + regexp.QuoteMeta(sharedMarker) + `\.[0-9a-f]{8}\.tmp$`)

// makeStore opens a cache's store or makes one. A directory blobs/ with
// anything in it and no mark is somebody else's and is left alone.
func makeStore(cache string) (*sharedBlobs, error) {
	if s := openStore(cache); s != nil {
		return s, nil
	}
	s := &sharedBlobs{cache: cache, dir: filepath.Join(cache, "blobs")}
	if err := s.makeDir(s.dir); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(extended(s.dir))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !markerTemp.MatchString(e.Name()) || !e.Type().IsRegular() {
			if openStore(cache) != nil {
				return s, nil // somebody marked it meanwhile
			}
			return nil, fmt.Errorf("%s is not a shared store", s.dir)
		}
	}
	mark := filepath.Join(s.dir, sharedMarker)
	if err := writeFileAtomic(mark, []byte(sharedVersion)); err != nil {
		return nil, err
	}
	return s, os.Chmod(extended(mark), s.fileMode())
}

// makePrefix makes a folder of the store.
func (s *sharedBlobs) makePrefix(prefix string) error { return s.makeDir(filepath.Join(s.dir, prefix)) }

// makeDir makes a directory that whoever may use the cache may use as well.
func (s *sharedBlobs) makeDir(dir string) error {
	err := os.Mkdir(extended(dir), 0o777)
	switch {
	case errors.Is(err, fs.ErrExist):
		if !realDir(dir) {
			return fmt.Errorf("%s is no directory", dir)
		}
		return nil
	case err != nil || runtime.GOOS == "windows":
		return err
	}
	st, err := os.Stat(s.cache)
	if err != nil {
		return err
	}
	return os.Chmod(dir, st.Mode()&(fs.ModePerm|fs.ModeSetgid|fs.ModeSticky))
}

// fileMode lets whoever can enter the cache read, and nobody write.
func (s *sharedBlobs) fileMode() fs.FileMode {
	if runtime.GOOS == "windows" {
		return 0o666 // a read-only file could not be replaced there
	}
	mode := fs.FileMode(0o400)
	if st, err := os.Stat(s.cache); err == nil {
		mode |= st.Mode() & 0o011 << 2
	}
	return mode
}

// regular reports whether a path is a regular file and no link to one.
func regular(path string) bool {
	st, err := os.Lstat(extended(path))
	return err == nil && st.Mode().IsRegular()
}

// target is the payload to which a repository's blob links, or "".
func (s *sharedBlobs) target(blob string) string {
	if s == nil {
		return ""
	}
	to, err := os.Readlink(extended(blob))
	if err != nil {
		return ""
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(blob), to)
	}
	rel, err := filepath.Rel(s.dir, to)
	if err != nil {
		return ""
	}
	prefix, hash, ok := strings.Cut(filepath.ToSlash(rel), "/")
	if !ok || !isHex(hash, 64) || prefix != hash[:2] {
		return ""
	}
	return filepath.Join(s.dir, prefix, hash)
}

// payloads are the contents in the store. Links and foreign names are none.
func (s *sharedBlobs) payloads() []CacheFile {
	if s == nil {
		return nil
	}
	var out []CacheFile
	prefixes, _ := os.ReadDir(extended(s.dir))
	for _, p := range prefixes {
		if !p.IsDir() || !isHex(p.Name(), 2) {
			continue
		}
		entries, _ := os.ReadDir(extended(filepath.Join(s.dir, p.Name())))
		for _, e := range entries {
			st, err := e.Info()
			if err == nil && isHex(e.Name(), 64) && strings.HasPrefix(e.Name(), p.Name()) && st.Mode().IsRegular() {
				out = append(out, CacheFile{Path: filepath.Join(s.dir, p.Name(), e.Name()), Size: st.Size()})
			}
		}
	}
	return out
}

// references are the blobs that link to a payload, by its manifest. Every
// line is held against the file system: a line whose link is gone or leads
// elsewhere does not count. ok is false where the manifest is missing or
// cannot be read, which proves nothing.
func (s *sharedBlobs) references(payload string) (blobs []string, ok bool) {
	if s == nil || !regular(payload+storeRefs) {
		return nil, false
	}
	b, err := readSmall(payload+storeRefs, maxManifest)
	if err != nil {
		return nil, false
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, "\r\n")
		parts := strings.Split(line, "/")
		if len(parts) != 3 || parts[1] != "blobs" || seen[line] || checkPath(line) != nil {
			continue
		}
		seen[line] = true
		blob := filepath.Join(s.cache, filepath.FromSlash(line))
		st, err := os.Lstat(extended(blob))
		switch {
		case err == nil && st.Mode()&fs.ModeSymlink != 0:
			if s.target(blob) == payload {
				blobs = append(blobs, blob)
			}
		case err != nil && !os.IsNotExist(err):
			return nil, false // not knowing is no proof
		}
	}
	return blobs, true
}

// sweep removes a payload if its manifest proves that nothing refers to it.
// The lock is the one under which clients link to the payload.
func (s *sharedBlobs) sweep(payload string) (int64, error) {
	if s == nil || !regular(payload) || !realDir(filepath.Dir(payload)) {
		return 0, nil
	}
	f, _, err := openLockFile(payload + storeLock)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	// Without locks there is no proof that nobody links to it right now.
	if err := lockFile(f); err != nil || !stillThere(f, payload+storeLock) {
		return 0, ErrInUse
	}
	defer unlockFile(f)
	blobs, ok := s.references(payload)
	st, err := os.Lstat(extended(payload))
	if err != nil || !ok || len(blobs) > 0 || !st.Mode().IsRegular() {
		return 0, nil
	}
	if err := os.Remove(extended(payload)); err != nil {
		return 0, err
	}
	_ = os.Remove(extended(payload + storeRefs))
	return st.Size(), nil
}

package archive

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// createTemp makes a new file beside dest with the permissions that the user's
// mask gives ordinary files, and removes what killed writers of dest left.
func createTemp(dest string) (*os.File, error) {
	dir, base := filepath.Split(dest)
	if dir == "" {
		dir = "."
	}
	prefix := "." + base + "."
	removeStale(dir, prefix)
	for range 16 {
		f, err := os.OpenFile(filepath.Join(dir, prefix+rand.Text()[:12]+".tmp"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if errors.Is(err, fs.ErrNotExist) { // and not that of the temporary file
			return nil, &fs.PathError{Op: "pack", Path: filepath.Clean(dir), Err: fs.ErrNotExist}
		}
		if err != nil {
			return nil, err
		}
		// Locked for as long as this process lives, which tells it from remains.
		// One that another writer has just taken for such is given up.
		if tryLock(f) {
			if _, err := os.Lstat(f.Name()); err == nil {
				return f, nil
			}
		}
		f.Close()
	}
	return nil, fmt.Errorf("cannot make a temporary file beside %s", dest)
}

func removeStale(dir, prefix string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // the file itself will say what is wrong
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !strings.HasPrefix(e.Name(), prefix) || !strings.HasSuffix(e.Name(), ".tmp") ||
			len(e.Name()) != len(prefix)+12+len(".tmp") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			continue
		}
		if canLock && tryLock(f) {
			os.Remove(path)
		}
		f.Close()
	}
}

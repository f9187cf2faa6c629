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
		if !e.Type().IsRegular() || !temporary(e.Name(), prefix) {
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

// temporary reports whether a name is one of those that are made up here.
func temporary(name, prefix string) bool {
	return len(name) == len(prefix)+12+len(".tmp") && strings.HasPrefix(name, prefix) && strings.HasSuffix(name, ".tmp")
}

// lockDir locks a temporary directory for as long as this process lives, or
// until the function that it returns is called. Where that cannot be done,
// removeStaleDirs removes nothing.
func lockDir(path string) (unlock func()) {
	d, err := os.Open(path)
	if err != nil {
		return func() {}
	}
	tryLock(d)
	return func() { d.Close() }
}

// removeStaleDirs removes directories that killed processes left. One that has
// just been made, and is not locked yet, is empty: it is left alone.
func removeStaleDirs(dir, prefix string) {
	entries, err := os.ReadDir(dir)
	if err != nil || !canLock {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !temporary(e.Name(), prefix) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		d, err := os.Open(path)
		if err != nil {
			continue
		}
		if names, err := d.Readdirnames(1); err == nil && len(names) > 0 && tryLock(d) {
			os.RemoveAll(path)
		}
		d.Close()
	}
}

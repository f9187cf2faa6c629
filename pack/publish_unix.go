//go:build unix

package pack

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// makeLockedTemp makes a directory that this process holds an exclusive lock
// on for as long as it lives, which is how others tell it from the remains of a
// killed one.
func makeLockedTemp(parent, prefix string) (string, io.Closer, error) {
	for range 16 {
		dir, err := makeTempDir(parent, prefix)
		if err != nil {
			return "", nil, err
		}
		f, err := os.Open(dir)
		if errors.Is(err, os.ErrNotExist) {
			continue // removed as stale before it was locked
		}
		if err != nil {
			return "", nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			f.Close()
			continue // another process is just removing it
		}
		if _, err := os.Lstat(dir); err != nil {
			f.Close()
			continue
		}
		return dir, f, nil
	}
	return "", nil, fmt.Errorf("cannot make a temporary directory in %s", parent)
}

// removeStale removes temporary directories whose writers are gone.
func removeStale(parent, prefix string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) || !strings.HasSuffix(e.Name(), tempSuffix) {
			continue
		}
		dir := filepath.Join(parent, e.Name())
		f, err := os.Open(dir)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			os.RemoveAll(dir)
		}
		f.Close()
	}
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

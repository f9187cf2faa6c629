package pack

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
)

const tempSuffix = ".tmp"

// makeTempDir makes a directory with an unused name. Unlike os.MkdirTemp it
// leaves the mode to the umask, since the directory becomes the package.
func makeTempDir(parent, prefix string) (string, error) {
	var id [6]byte
	rand.Read(id[:]) // never fails
	dir := filepath.Join(parent, prefix+hex.EncodeToString(id[:])+tempSuffix)
	return dir, os.Mkdir(dir, 0o777)
}

// publishByRename moves an existing destination aside, renames, and removes the
// old one; if the rename fails the old one is put back.
func publishByRename(temp, dest string) error {
	old := temp + ".old"
	err := os.Rename(dest, old)
	if os.IsNotExist(err) {
		return os.Rename(temp, dest)
	}
	if err != nil {
		return err
	}
	if err := os.Rename(temp, dest); err != nil {
		if back := os.Rename(old, dest); back != nil {
			return back
		}
		return err
	}
	return os.RemoveAll(old)
}

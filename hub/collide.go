package hub

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// checkCollisions refuses files that cannot lie beside each other below dir:
// one in the place of another's folder, or two whose names the file system
// takes for the same. Without the check the second would be found under the
// name of the first. files are sorted by path.
func (c *Client) checkCollisions(dir string, files []File) error {
	names := make(map[string]bool, len(files))
	for _, f := range files {
		names[f.Path] = true
	}
	folded := make(map[string]string, len(files))
	var alike [2]string
	for _, f := range files {
		for i, ch := range f.Path {
			if ch == '/' && names[f.Path[:i]] {
				return &Error{Kind: ErrMetadata, File: f.Path, Message: fmt.Sprintf("%q is listed as a file and as a folder", clip(f.Path[:i], 128))}
			}
		}
		key := strings.ToLower(f.Path)
		if other, ok := folded[key]; ok && alike[0] == "" {
			alike = [2]string{other, f.Path}
		}
		folded[key] = f.Path
	}
	if alike[0] != "" && c.foldsCase(dir) {
		return &Error{Kind: ErrUnsafePath, File: alike[1], Message: fmt.Sprintf("%q and %q are one name on this file system", clip(alike[0], 128), clip(alike[1], 128)),
			Hint: "leave one of them out by a pattern"}
	}
	return nil
}

// foldsCase asks the file system of a directory, or of its nearest parent that
// exists, whether it takes capitals for small letters.
func foldsCase(dir string) bool {
	for {
		if ok, _ := isDir(dir); ok || filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	f, err := os.CreateTemp(dir, ".hub-case-probe-a-")
	if err != nil {
		return false // nothing can be written here anyway
	}
	name := f.Name()
	_ = f.Close()
	defer os.Remove(name)
	_, err = os.Lstat(filepath.Join(filepath.Dir(name), strings.ToUpper(filepath.Base(name))))
	return err == nil
}

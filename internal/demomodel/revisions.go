package demomodel

import (
	"io/fs"
	"strings"
)

// Revisions returns the files of each revision by name. The contents are
// copies.
func Revisions() (map[string]map[string][]byte, error) {
	revisions := map[string]map[string][]byte{}
	err := fs.WalkDir(FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(FS(), path)
		if err != nil {
			return err
		}
		revision, name, _ := strings.Cut(path, "/")
		if revisions[revision] == nil {
			revisions[revision] = map[string][]byte{}
		}
		revisions[revision][name] = data
		return nil
	})
	return revisions, err
}

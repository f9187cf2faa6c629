package loader

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// find turns the path that a caller gave into that of a .safetensors file or an
// index.
func find(v volume, path string, o Options) (string, error) {
	info, err := v.stat(path)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		if o.File != "" {
			return "", fmt.Errorf("%s is a file: file %s can be chosen in a directory only", path, quote(o.File))
		}
		return path, nil
	}
	if o.File != "" {
		if !filepath.IsLocal(o.File) {
			return "", fmt.Errorf("%s: file %s lies outside the directory", v.show(path), quote(o.File))
		}
		chosen := v.join(path, o.File)
		if _, err := v.stat(chosen); err != nil {
			return "", err
		}
		return chosen, nil
	}
	candidates, err := candidates(v, path, o.Limits)
	switch {
	case err != nil:
		return "", err
	case len(candidates) == 0:
		return "", fmt.Errorf("%s: no .safetensors file and no index of one: %w", v.show(path), fs.ErrNotExist)
	case len(candidates) > 1:
		return "", &ChoiceError{Dir: v.show(path), Candidates: candidates}
	}
	return v.join(path, candidates[0]), nil
}

// candidates lists the checkpoints of a directory: its indexes, and the files
// that are no index's shard. Subdirectories are not searched.
func candidates(v volume, dir string, limits Limits) ([]string, error) {
	entries, err := v.readDir(dir)
	if err != nil {
		return nil, err
	}
	var files, found []string
	shards := map[string]bool{}
	for _, e := range entries {
		name := e.Name()
		switch {
		case strings.HasPrefix(name, "."):
		case strings.HasSuffix(name, indexSuffix):
			x, err := readIndex(v, v.join(dir, name), limits)
			if err != nil {
				return nil, err
			}
			found = append(found, name)
			for _, s := range x.Shards {
				shards[s] = true
			}
		case strings.HasSuffix(name, ".safetensors"):
			files = append(files, name)
		}
	}
	for _, name := range files {
		if !shards[name] {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found, nil
}

// openRegular opens a regular file, or a link to one. What a path is must be
// known before it is opened: opening a pipe waits for somebody to write to it.
func openRegular(path string) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: expected a regular file, found one of mode %v", path, info.Mode())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Source is a regular file to be packed.
type Source struct {
	// Name is its name in the archive, Path where it is read.
	Name, Path string
}

// Sources lists the files that paths stand for, sorted by name. A directory
// stands for all files below it, an only directory under names relative to it;
// otherwise every path is named by its last element. Directories themselves are
// not kept, so that empty ones are lost; [Stats] has their number.
//
// A symbolic link given as a path is followed. Below a directory, links are
// followed only as the Hub's cache has them, from snapshots/REVISION to a regular
// file in blobs; any other link, a device, a socket or a pipe gives an error
// that names it and wraps [ErrNotRegular].
func Sources(paths ...string) ([]Source, error) {
	out, _, err := sources(paths)
	return out, err
}

// sources lists files and counts empty directories.
func sources(paths []string) (out []Source, empty int, err error) {
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, 0, err
		}
		absolute, err := filepath.Abs(p)
		if err != nil {
			return nil, 0, err
		}
		base := filepath.Base(absolute)
		switch {
		case info.Mode().IsRegular():
			out = append(out, Source{Name: base, Path: p})
		case !info.IsDir():
			return nil, 0, fmt.Errorf("%s: %w but %s", p, ErrNotRegular, what(info.Mode()))
		default:
			prefix := base + "/"
			if len(paths) == 1 {
				prefix = ""
			}
			var none int
			if out, none, err = walk(out, p, prefix); err != nil {
				return nil, 0, err
			}
			empty += none
		}
	}
	slices.SortFunc(out, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
	names := newNameSet()
	for _, s := range out {
		if err := names.add(s.Name); err != nil {
			return nil, 0, fmt.Errorf("%s: %w", s.Path, err)
		}
	}
	return out, empty, nil
}

// walk adds the files below dir, and counts the directories that hold nothing.
func walk(out []Source, dir, prefix string) (files []Source, empty int, err error) {
	// A directory given as a link is walked as what it leads to.
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, 0, err
	}
	bare := map[string]bool{} // directories of which nothing was seen
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		shown := filepath.Join(dir, relative)
		delete(bare, filepath.Dir(path))
		switch mode := e.Type(); {
		case mode.IsDir():
			bare[path] = true
			return nil
		case mode&fs.ModeSymlink != 0:
			if err := blobLink(path); err != nil {
				return fmt.Errorf("%s: %w", shown, err)
			}
		case !mode.IsRegular():
			return fmt.Errorf("%s: %w but %s", shown, ErrNotRegular, what(mode))
		}
		out = append(out, Source{Name: prefix + filepath.ToSlash(relative), Path: path})
		return nil
	})
	return out, len(bare), err
}

// blobLink accepts links from a snapshot of the Hub's cache to a blob of the same
// repository: REPO/snapshots/REVISION/… to REPO/blobs/….
func blobLink(path string) error {
	refused := fmt.Errorf("%w but a symbolic link that leads out of its directory", ErrNotRegular)
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w but a symbolic link to nothing", ErrNotRegular)
	}
	if err != nil {
		return err
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if target, err = filepath.Abs(target); err != nil {
		return err
	}
	for dir := filepath.Dir(absolute); ; dir = filepath.Dir(dir) {
		if filepath.Base(dir) == "snapshots" && filepath.Dir(target) == filepath.Join(filepath.Dir(dir), "blobs") {
			break
		}
		if dir == filepath.Dir(dir) {
			return refused
		}
	}
	info, err := os.Stat(target)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return refused
	}
	return nil
}

func what(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	case m.IsDir():
		return "a directory"
	}
	return m.Type().String()
}

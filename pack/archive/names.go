package archive

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CheckName says whether name may be the name of a file in an archive. Names are
// relative, with slashes; the rules of POSIX and of Windows hold on every
// system: no absolute, drive or UNC name, no empty, "." or ".." part between
// slashes of either kind, no control characters, no device names. The error
// wraps [ErrName].
func CheckName(name string) error {
	if why := nameFault(name); why != "" {
		return fmt.Errorf("%w: %s has %s", ErrName, quote(name), why)
	}
	return nil
}

const maxName = 4096

func nameFault(name string) string {
	switch {
	case name == "":
		return "no characters"
	case len(name) > maxName:
		return "too many characters"
	case !utf8.ValidString(name):
		return "bytes that are not UTF-8"
	case name[0] == '/' || name[0] == '\\':
		return "a leading slash"
	}
	for i := range len(name) {
		if name[i] < 0x20 || name[i] == 0x7f {
			return "a control character"
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" {
			return "an empty part"
		}
		if strings.ContainsRune(part, '\\') {
			return "a backslash"
		}
		if part == "." || part == ".." {
			return "a . or .. part"
		}
		if len(part) >= 2 && part[1] == ':' {
			return "a drive letter"
		}
		if device(part) {
			return "the name of a device"
		}
	}
	return ""
}

// device reports whether Windows would open a device instead of a file.
func device(part string) bool {
	base, _, _ := strings.Cut(strings.ToUpper(part), ".")
	base = strings.TrimRight(base, " ")
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	return len(base) == 4 && (strings.HasPrefix(base, "COM") || strings.HasPrefix(base, "LPT")) && base[3] >= '0' && base[3] <= '9'
}

// nameSet notices names that some file system could take for the same, and
// names of files that others use as a directory.
type nameSet struct {
	files map[string]string // folded name to name
	dirs  map[string]string // folded directory to a name within
}

func newNameSet() *nameSet {
	return &nameSet{files: map[string]string{}, dirs: map[string]string{}}
}

func (s *nameSet) add(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	key := fold(name)
	if other, taken := s.files[key]; taken {
		if other == name {
			return fmt.Errorf("%w: %s is there twice", ErrName, quote(name))
		}
		return fmt.Errorf("%w: %s and %s are one name on some systems", ErrName, quote(other), quote(name))
	}
	if other, taken := s.dirs[key]; taken {
		return fmt.Errorf("%w: %s is the directory of %s", ErrName, quote(name), quote(other))
	}
	s.files[key] = name
	for dir := path.Dir(key); dir != "."; dir = path.Dir(dir) {
		if other, taken := s.files[dir]; taken {
			return fmt.Errorf("%w: %s is the directory of %s", ErrName, quote(other), quote(name))
		}
		if _, known := s.dirs[dir]; known {
			break
		}
		s.dirs[dir] = name
	}
	return nil
}

// fold maps characters that differ in case alone to the same one.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		low := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			low = min(low, next)
		}
		return low
	}, name)
}

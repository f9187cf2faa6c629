package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/hfcompress/compress/pack/floatcodec"
)

var (
	// ErrCorrupt is wrapped by every error about an archive that is cut short,
	// altered, or that no writer makes.
	ErrCorrupt = errors.New("corrupt archive")
	// ErrFormat is wrapped, beside ErrCorrupt, when a file does not begin as an
	// archive does.
	ErrFormat = fmt.Errorf("not an archive: %w", ErrCorrupt)
	// ErrVersion is wrapped when an archive has a version that this package does
	// not know.
	ErrVersion = errors.New("unknown archive version")
	// ErrLimit is wrapped by every refusal that a limit of [Limits] caused.
	ErrLimit = errors.New("limit exceeded")
	// ErrBase is wrapped when an archive needs a base that was not given, or
	// another one than was given.
	ErrBase = errors.New("wrong or missing base archive")
	// ErrExists is wrapped when something would be replaced and that was not asked
	// for.
	ErrExists = fs.ErrExist
	// ErrNotFound is wrapped when an archive is asked for what it does not have.
	ErrNotFound = fs.ErrNotExist
	// ErrChanged is wrapped when a source changed while it was packed.
	ErrChanged = errors.New("source changed while it was packed")
	// ErrName is wrapped when a name must not be joined to a directory, or stands
	// in the way of another.
	ErrName = errors.New("unsafe file name")
	// ErrNotRegular is wrapped when a source is neither a regular file nor a
	// directory, or what an archive is to replace is not a regular file.
	ErrNotRegular = errors.New("not a regular file")
)

func corruptf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrCorrupt, fmt.Errorf(format, args...))
}

// codecError makes faults that the codec finds faults of the archive.
func codecError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, floatcodec.ErrTooLarge):
		return fmt.Errorf("%w: %w", ErrLimit, err)
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// quote prints text from an archive so that it cannot flood a terminal.
func quote(s string) string {
	const most = 200
	if len(s) <= most {
		return strconv.Quote(s)
	}
	return strconv.Quote(s[:most]) + "…"
}

func limitf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrLimit, fmt.Errorf(format, args...))
}

//go:build !linux

package hub

import "os"

// preallocate sets the length; the file may be sparse.
func preallocate(f *os.File, size int64) error { return f.Truncate(size) }

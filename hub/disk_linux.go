//go:build linux

package hub

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// preallocate reserves space, so that a full disk shows before the transfer.
// File systems without the call get a sparse file. So does memory (tmpfs): it
// would be cleared page by page, only to be written over, and whether there is
// enough of it was asked before.
func preallocate(f *os.File, size int64) error {
	var fs unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &fs) == nil && int64(fs.Type) == unix.TMPFS_MAGIC {
		return f.Truncate(size)
	}
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	if err == nil || isNoSpace(err) {
		return err
	}
	if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
		return f.Truncate(size)
	}
	return err
}

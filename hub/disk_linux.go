//go:build linux

package hub

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// preallocate reserves space, so that a full disk shows before the transfer.
// File systems without the call get a sparse file.
func preallocate(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	if err == nil || isNoSpace(err) {
		return err
	}
	if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
		return f.Truncate(size)
	}
	return err
}

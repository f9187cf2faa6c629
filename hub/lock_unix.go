//go:build unix

package hub

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const noFollow = unix.O_NOFOLLOW

// lockFile takes flock, the lock that Python's filelock uses.
func lockFile(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			return lockError(err)
		}
	}
}

// lockError says what a failure of flock means.
func lockError(err error) error {
	switch {
	case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, unix.EACCES):
		return errLocked
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOLCK), errors.Is(err, unix.ENOTSUP):
		return errNoLocks
	}
	return err
}

func unlockFile(f *os.File) { _ = unix.Flock(int(f.Fd()), unix.LOCK_UN) }

func isReadOnlyFS(err error) bool { return errors.Is(err, unix.EROFS) }

func isNoSpace(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// syncDir makes a rename in a directory durable.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

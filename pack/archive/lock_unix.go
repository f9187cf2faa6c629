//go:build unix && !solaris && !aix

package archive

import (
	"os"

	"golang.org/x/sys/unix"
)

const canLock = true

// tryLock reports whether this process now holds the lock of f.
func tryLock(f *os.File) bool { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil }

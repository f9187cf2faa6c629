package pack

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// publish renames temp to dest. An existing destination is exchanged with it in
// one step, so that there is a whole package under the name at any time.
func publish(temp, dest string) error {
	err := unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, dest, unix.RENAME_NOREPLACE)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EEXIST):
		if err := unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, dest, unix.RENAME_EXCHANGE); err != nil {
			return &os.LinkError{Op: "exchange", Old: temp, New: dest, Err: err}
		}
		return os.RemoveAll(temp)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		return publishByRename(temp, dest) // a file system without renameat2 flags
	}
	return &os.LinkError{Op: "rename", Old: temp, New: dest, Err: err}
}

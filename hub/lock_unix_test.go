//go:build unix

package hub

import (
	"errors"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// What systems without locks answer leads to soft locks, what a taken lock
// answers to waiting.
func TestLockErrors(t *testing.T) {
	for _, tc := range []struct{ err, want error }{
		{nil, nil},
		{unix.EWOULDBLOCK, errLocked},
		{unix.EACCES, errLocked},
		{unix.ENOSYS, errNoLocks},
		{unix.ENOLCK, errNoLocks},
		{unix.EOPNOTSUPP, errNoLocks},
		{io.ErrClosedPipe, io.ErrClosedPipe},
	} {
		err := tc.err
		if err != nil {
			err = &os.PathError{Op: "flock", Err: err}
		}
		if got := lockError(err); !errors.Is(got, tc.want) || (got == nil) != (tc.want == nil) {
			t.Errorf("%v became %v, want %v", tc.err, got, tc.want)
		}
	}
}

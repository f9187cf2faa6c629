//go:build unix

package hub

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// freeSpace is what the volume of a directory offers to this user.
func freeSpace(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:unconvert // types differ between systems
}

// allocated is how many bytes a file really occupies.
func allocated(st os.FileInfo) int64 {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return int64(s.Blocks) * 512 //nolint:unconvert // types differ between systems
	}
	return st.Size()
}

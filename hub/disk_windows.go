//go:build windows

package hub

import (
	"os"

	"golang.org/x/sys/windows"
)

// freeSpace is what the volume of a directory offers to this user.
func freeSpace(dir string) (int64, error) {
	p, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(p, &free, nil, nil); err != nil {
		return 0, err
	}
	return int64(min(free, 1<<62)), nil
}

// allocated is how many bytes a file occupies.
func allocated(st os.FileInfo) int64 { return st.Size() }

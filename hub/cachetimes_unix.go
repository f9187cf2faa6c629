//go:build unix

package hub

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// accessed is when a file was read last, as far as the system keeps that.
func accessed(path string, st os.FileInfo) time.Time {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return st.ModTime()
	}
	return time.Unix(s.Atim.Unix())
}

//go:build windows

package hub

import (
	"os"
	"syscall"
	"time"
)

// accessed is when a file was read last, as far as the system keeps that.
func accessed(_ string, st os.FileInfo) time.Time {
	if s, ok := st.Sys().(*syscall.Win32FileAttributeData); ok {
		return time.Unix(0, s.LastAccessTime.Nanoseconds())
	}
	return st.ModTime()
}

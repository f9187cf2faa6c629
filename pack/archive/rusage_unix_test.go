//go:build unix

package archive_test

import (
	"os"
	"runtime"
	"syscall"
)

// peakMiB returns the largest resident set of a process that has ended.
func peakMiB(s *os.ProcessState) float64 {
	max := float64(s.SysUsage().(*syscall.Rusage).Maxrss)
	if runtime.GOOS == "darwin" { // bytes there, kilobytes elsewhere
		max /= 1024
	}
	return max / 1024
}

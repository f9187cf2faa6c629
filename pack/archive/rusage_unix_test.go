//go:build unix

package archive_test

import (
	"os"
	"runtime"
	"syscall"
)

const canLimitFiles, canLockDirs = true, true

// limitFiles makes writing beyond n bytes of a file fail.
func limitFiles(n uint64) error {
	var l syscall.Rlimit
	set(&l.Cur, n)
	set(&l.Max, n)
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l)
}

// set is for fields whose type depends on the system.
func set[T int64 | uint64](field *T, v uint64) { *field = T(v) }

// peakMiB returns the largest resident set of a process that has ended.
func peakMiB(s *os.ProcessState) float64 {
	max := float64(s.SysUsage().(*syscall.Rusage).Maxrss)
	if runtime.GOOS == "darwin" { // bytes there, kilobytes elsewhere
		max /= 1024
	}
	return max / 1024
}

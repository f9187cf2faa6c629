//go:build linux || darwin || freebsd

package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the CPU time of this process: the archive's work is spread over
// goroutines, whatever the number of workers.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

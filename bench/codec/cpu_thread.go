//go:build linux || darwin || freebsd

package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpu returns the CPU time of this thread.
func cpu() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

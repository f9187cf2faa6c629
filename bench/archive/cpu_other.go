//go:build !linux && !darwin && !freebsd

package main

import "time"

var started = time.Now()

// cpuTime returns the time that passed: use a quiet machine.
func cpuTime() time.Duration { return time.Since(started) }

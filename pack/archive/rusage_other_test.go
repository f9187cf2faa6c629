//go:build !unix

package archive_test

import "os"

func peakMiB(*os.ProcessState) float64 { return 0 }

const canLimitFiles, canLockDirs = false, false

func limitFiles(uint64) error { return nil }

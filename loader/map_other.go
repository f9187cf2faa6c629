//go:build !unix

package loader

import (
	"errors"
	"os"
)

const canMap = false

func mapFile(*os.File, int64) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmapFile([]byte) error { return nil }

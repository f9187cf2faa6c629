//go:build !darwin

package metal

import (
	"fmt"
	"runtime"

	"github.com/hfcompress/compress/metalgpu/internal/driver"
)

// Devices fails: Metal is a part of macOS.
func Devices() ([]driver.Info, error) { return nil, unavailable() }

// Open fails: Metal is a part of macOS.
func Open(int) (driver.Driver, error) { return nil, unavailable() }

func unavailable() error {
	return fmt.Errorf("metal: %w on %s", driver.ErrUnavailable, runtime.GOOS)
}

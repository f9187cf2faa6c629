//go:build nogpu || !(linux || windows) || !(amd64 || arm64)

package vulkan

import (
	"fmt"
	"runtime"

	"github.com/hfcompress/compress/metalgpu/internal/driver"
)

func unavailable() error {
	return fmt.Errorf("vulkan: %w: this program was built without Vulkan (%s/%s)", driver.ErrUnavailable, runtime.GOOS, runtime.GOARCH)
}

// Devices lists the devices; there are none here.
func Devices() ([]driver.Info, error) { return nil, unavailable() }

// Open opens a device; there are none here.
func Open(int, Options) (driver.Driver, error) { return nil, unavailable() }

//go:build (amd64 || arm64) && !nogpu

package vulkan

import (
	"fmt"
	"syscall"
)

// loadLibrary opens the loader and returns the address of
// vkGetInstanceProcAddr. The library stays open as long as the process runs.
func loadLibrary() (uintptr, error) {
	lib, err := syscall.LoadLibrary("vulkan-1.dll")
	if err != nil {
		return 0, fmt.Errorf("no Vulkan loader: %w", err)
	}
	return syscall.GetProcAddress(lib, "vkGetInstanceProcAddr")
}

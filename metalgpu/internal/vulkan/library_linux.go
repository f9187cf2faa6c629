//go:build linux && (amd64 || arm64) && !nogpu

package vulkan

import (
	"fmt"

	"github.com/ebitengine/purego"
)

// loadLibrary opens the loader and returns the address of
// vkGetInstanceProcAddr. The library stays open as long as the process runs.
func loadLibrary() (uintptr, error) {
	lib, err := purego.Dlopen("libvulkan.so.1", purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return 0, fmt.Errorf("no Vulkan loader: %w", err)
	}
	return purego.Dlsym(lib, "vkGetInstanceProcAddr")
}

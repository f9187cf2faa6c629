//go:build (linux || windows) && (amd64 || arm64) && !nogpu

package kerneltest_test

import (
	"errors"
	"os"
	"testing"

	"github.com/hfcompress/compress/metalgpu/internal/vulkan"
)

// The cases on a Vulkan device: a software one unless HFCOMPRESS_TEST_GPU asks for
// hardware.
func TestVulkan(t *testing.T) {
	infos, err := vulkan.Devices()
	if err == nil && len(infos) == 0 {
		err = errors.New("no device")
	}
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("CI must have a Vulkan device, such as Mesa's lavapipe: %v", err)
		}
		t.Skipf("this machine has no Vulkan device: %v", err)
	}
	index := 0
	for i, info := range infos {
		if (info.Kind == "cpu") == (os.Getenv("HFCOMPRESS_TEST_GPU") == "") {
			index = i
			break
		}
	}
	d, err := vulkan.Open(index, vulkan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	conform(t, d)
}

//go:build (linux || windows) && (amd64 || arm64) && !nogpu

package kerneltest_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/hfcompress/compress/metalgpu/internal/kerneltest"
	"github.com/hfcompress/compress/metalgpu/internal/vulkan"
)

// The cases on a Vulkan device: a software one unless HFCOMPRESS_TEST_GPU asks for
// hardware. Each runs three times and must give the same bytes.
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
	ctx := context.Background()
	for _, f := range kerneltest.Families {
		t.Run(f.Name, func(t *testing.T) {
			for _, c := range f.Cases(1, 4) {
				got, err := c.Run(ctx, d)
				if err == nil {
					err = c.Check(got)
				}
				if err != nil {
					t.Error(err)
					continue
				}
				for range 2 {
					again, err := c.Run(ctx, d)
					if err != nil {
						t.Fatal(err)
					}
					for i := range got {
						if !slices.Equal(got[i], again[i]) {
							t.Errorf("%s: buffer %d is another one when run again", c.Name, i)
						}
					}
				}
			}
		})
	}
}

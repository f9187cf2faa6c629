package vulkan

import (
	"fmt"

	"github.com/hfcompress/compress/metalgpu/internal/driver"
)

// result is a VkResult that is a failure.
type result int32

var resultNames = map[result]string{
	resultTimeout: "timeout", resultIncomplete: "incomplete", resultOutOfHost: "out of host memory",
	resultOutOfDevice: "out of device memory", resultInitFailed: "initialisation failed", resultLost: "device lost",
	resultMapFailed: "memory map failed", resultLayerNotPresent: "layer not present", resultExtension: "extension not present",
	resultFeature: "feature not present", resultIncompatible: "incompatible driver", resultTooManyObjects: "too many objects",
	resultFragmentedPool: "fragmented pool", resultOutOfPoolMemory: "out of pool memory", resultInvalidShaderCode: "invalid shader",
}

func (r result) Error() string {
	if name, ok := resultNames[r]; ok {
		return name
	}
	return fmt.Sprintf("VkResult %d", int32(r))
}

// Is makes errors.Is find the driver's error behind a result.
func (r result) Is(target error) bool {
	switch r {
	case resultLost:
		return target == driver.ErrLost
	case resultOutOfDevice, resultOutOfHost:
		return target == driver.ErrOutOfMemory
	case resultIncompatible, resultLayerNotPresent, resultExtension:
		return target == driver.ErrUnavailable
	}
	return false
}

// check turns a result of the function into an error.
func check(r int32, function string) error {
	if r >= 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", function, result(r))
}

//go:build (linux || windows) && (amd64 || arm64) && !nogpu

package vulkan

import (
	"fmt"
	"reflect"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/hfcompress/compress/metalgpu/internal/driver"
)

// address is that of a Vulkan function.
type address uintptr

// call calls the function; pointers among the arguments must be converted in the
// argument list.
//
//go:uintptrescapes
func (f address) call(args ...uintptr) int32 {
	r, _, _ := purego.SyscallN(uintptr(f), args...)
	return int32(r)
}

// globalFunctions need no instance. A field is looked up by its name with "vk" in
// front.
type globalFunctions struct {
	CreateInstance                   address
	EnumerateInstanceVersion         address
	EnumerateInstanceLayerProperties address
}

type instanceFunctions struct {
	DestroyInstance                        address
	EnumeratePhysicalDevices               address
	GetPhysicalDeviceProperties2           address
	GetPhysicalDeviceQueueFamilyProperties address
	GetPhysicalDeviceMemoryProperties      address
	EnumerateDeviceExtensionProperties     address
	CreateDevice                           address
	GetDeviceProcAddr                      address
}

type messengerFunctions struct {
	CreateDebugUtilsMessengerEXT  address
	DestroyDebugUtilsMessengerEXT address
}

type deviceFunctions struct {
	DestroyDevice               address
	GetDeviceQueue              address
	DeviceWaitIdle              address
	AllocateMemory              address
	FreeMemory                  address
	MapMemory                   address
	CreateBuffer                address
	DestroyBuffer               address
	GetBufferMemoryRequirements address
	BindBufferMemory            address
	CreateShaderModule          address
	DestroyShaderModule         address
	CreateDescriptorSetLayout   address
	DestroyDescriptorSetLayout  address
	CreatePipelineLayout        address
	DestroyPipelineLayout       address
	CreateComputePipelines      address
	DestroyPipeline             address
	CreateDescriptorPool        address
	DestroyDescriptorPool       address
	ResetDescriptorPool         address
	AllocateDescriptorSets      address
	UpdateDescriptorSets        address
	CreateCommandPool           address
	DestroyCommandPool          address
	ResetCommandPool            address
	AllocateCommandBuffers      address
	BeginCommandBuffer          address
	EndCommandBuffer            address
	CmdBindPipeline             address
	CmdBindDescriptorSets       address
	CmdPushConstants            address
	CmdDispatch                 address
	CmdCopyBuffer               address
	CmdPipelineBarrier          address
	CreateFence                 address
	DestroyFence                address
	ResetFences                 address
	WaitForFences               address
	QueueSubmit                 address
}

// lookup fills the fields of the structure at table.
func lookup(table any, get address, from handle) error {
	v := reflect.ValueOf(table).Elem()
	for i := range v.NumField() {
		name := "vk" + v.Type().Field(i).Name
		c := cstring(name)
		p, _, _ := purego.SyscallN(uintptr(get), uintptr(from), uintptr(unsafe.Pointer(c)))
		if p == 0 {
			return fmt.Errorf("the Vulkan loader has no %s", name)
		}
		v.Field(i).SetUint(uint64(p))
	}
	return nil
}

var library = sync.OnceValues(func() (*loader, error) {
	get, err := loadLibrary()
	if err != nil {
		return nil, fmt.Errorf("vulkan: %w: %w", driver.ErrUnavailable, err)
	}
	l := &loader{getInstanceProcAddr: address(get)}
	if err := lookup(&l.fn, l.getInstanceProcAddr, 0); err != nil {
		return nil, fmt.Errorf("vulkan: %w: %w", driver.ErrUnavailable, err)
	}
	return l, nil
})

// loader is the opened library.
type loader struct {
	getInstanceProcAddr address
	fn                  globalFunctions
}

//go:build (linux || windows) && (amd64 || arm64) && !nogpu

package vulkan

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/hfcompress/compress/metalgpu/internal/driver"
)

// live counts the objects that were made and not yet destroyed, for the tests.
var live atomic.Int64

const (
	version11       = 1<<22 | 1<<12
	version12       = 1<<22 | 2<<12
	version13       = 1<<22 | 3<<12
	validationLayer = "VK_LAYER_KHRONOS_validation"
)

// instance is a VkInstance with what the validation layer needs.
type instance struct {
	loader    *loader
	h         handle
	fn        instanceFunctions
	debug     messengerFunctions
	messenger handle
	listener  uintptr
}

func newInstance(opt Options) (*instance, error) {
	l, err := library()
	if err != nil {
		return nil, err
	}
	var version uint32
	l.fn.EnumerateInstanceVersion.call(uintptr(unsafe.Pointer(&version)))
	if version < version11 {
		return nil, fmt.Errorf("vulkan: %w: the loader has version %s, expected 1.1 or later", driver.ErrUnavailable, versionText(version))
	}
	in := &instance{loader: l}
	app := &applicationInfo{sType: typeApplicationInfo, name: cstring("hfcompress"), apiVersion: min(version, version13)}
	info := &instanceCreateInfo{sType: typeInstanceCreateInfo, application: app}
	var messages *messengerCreateInfo
	if opt.Validation {
		if !l.hasLayer(validationLayer) {
			return nil, fmt.Errorf("vulkan: %w: the layer %s is not installed", driver.ErrUnavailable, validationLayer)
		}
		in.listener = listen(opt.Message)
		messages = &messengerCreateInfo{
			sType:    typeDebugMessenger,
			severity: 0x1000 | 0x100, // errors and warnings
			types:    0x7,            // general, validation, performance
			callback: messageCallback(), user: in.listener,
		}
		synchronisation := []uint32{4}
		info.next = unsafe.Pointer(&validationFeatures{
			sType: typeValidationFeatures, next: unsafe.Pointer(messages),
			enabledCount: 1, enabled: &synchronisation[0],
		})
		layers, extensions := []*byte{cstring(validationLayer)}, []*byte{cstring("VK_EXT_debug_utils")}
		info.layerCount, info.layers = 1, &layers[0]
		info.extensionCount, info.extensions = 1, &extensions[0]
	}
	if err := check(l.fn.CreateInstance.call(uintptr(unsafe.Pointer(info)), 0, uintptr(unsafe.Pointer(&in.h))), "vkCreateInstance"); err != nil {
		unlisten(in.listener)
		return nil, fmt.Errorf("vulkan: %w", err)
	}
	live.Add(1)
	if err := lookup(&in.fn, l.getInstanceProcAddr, in.h); err != nil {
		// Without its destructor nothing can be done about the instance.
		return nil, fmt.Errorf("vulkan: %w: %w", driver.ErrUnavailable, err)
	}
	if opt.Validation {
		if err := lookup(&in.debug, l.getInstanceProcAddr, in.h); err != nil {
			in.close()
			return nil, fmt.Errorf("vulkan: %w: %w", driver.ErrUnavailable, err)
		}
		messages.next = nil
		err := check(in.debug.CreateDebugUtilsMessengerEXT.call(uintptr(in.h), uintptr(unsafe.Pointer(messages)), 0, uintptr(unsafe.Pointer(&in.messenger))), "vkCreateDebugUtilsMessengerEXT")
		if err != nil {
			in.close()
			return nil, fmt.Errorf("vulkan: %w", err)
		}
		live.Add(1)
	}
	return in, nil
}

func (in *instance) close() {
	if in.messenger != 0 {
		in.debug.DestroyDebugUtilsMessengerEXT.call(uintptr(in.h), uintptr(in.messenger), 0)
		live.Add(-1)
	}
	in.fn.DestroyInstance.call(uintptr(in.h), 0)
	live.Add(-1)
	unlisten(in.listener)
}

func (l *loader) hasLayer(name string) bool {
	var n uint32
	l.fn.EnumerateInstanceLayerProperties.call(uintptr(unsafe.Pointer(&n)), 0)
	if n == 0 {
		return false
	}
	layers := make([]layerProperties, n)
	l.fn.EnumerateInstanceLayerProperties.call(uintptr(unsafe.Pointer(&n)), uintptr(unsafe.Pointer(&layers[0])))
	for i := range layers[:n] {
		if text(layers[i].name[:]) == name {
			return true
		}
	}
	return false
}

// devices returns the handles of the physical devices that have a compute queue
// and Vulkan 1.1, in the loader's order.
func (in *instance) devices() ([]physical, error) {
	var n uint32
	if err := check(in.fn.EnumeratePhysicalDevices.call(uintptr(in.h), uintptr(unsafe.Pointer(&n)), 0), "vkEnumeratePhysicalDevices"); err != nil {
		return nil, fmt.Errorf("vulkan: %w", err)
	}
	if n == 0 {
		return nil, nil
	}
	handles := make([]handle, n)
	if err := check(in.fn.EnumeratePhysicalDevices.call(uintptr(in.h), uintptr(unsafe.Pointer(&n)), uintptr(unsafe.Pointer(&handles[0]))), "vkEnumeratePhysicalDevices"); err != nil {
		return nil, fmt.Errorf("vulkan: %w", err)
	}
	var out []physical
	for _, h := range handles[:n] {
		if p, ok := in.describe(h, len(out)); ok {
			out = append(out, p)
		}
	}
	return out, nil
}

// The validation layer calls one function for all instances; the number that an
// instance registered says whose message it is.
var listeners struct {
	sync.Mutex
	next  uintptr
	table map[uintptr]func(string)
}

func listen(f func(string)) uintptr {
	listeners.Lock()
	defer listeners.Unlock()
	if listeners.table == nil {
		listeners.table = map[uintptr]func(string){}
	}
	if f == nil {
		f = func(string) {}
	}
	listeners.next++
	listeners.table[listeners.next] = f
	return listeners.next
}

func unlisten(id uintptr) {
	listeners.Lock()
	defer listeners.Unlock()
	delete(listeners.table, id)
}

var messageCallback = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(_, _ uintptr, data *messengerData, user uintptr) uintptr {
		listeners.Lock()
		f := listeners.table[user]
		listeners.Unlock()
		if f != nil && data != nil {
			f(gostring(data.message, 1<<16))
		}
		return 0
	})
})

func versionText(v uint32) string {
	return fmt.Sprintf("%d.%d.%d", v>>22&0x7f, v>>12&0x3ff, v&0xfff)
}

//go:build (linux || windows) && (amd64 || arm64) && !nogpu

package vulkan

import (
	"fmt"
	"unsafe"

	"github.com/hfcompress/compress/metalgpu/internal/driver"
)

// physical is a device that was found and not opened.
type physical struct {
	h       handle
	info    driver.Info
	family  uint32
	memory  memoryProperties
	floats  floatControls
	limits  limits
	version uint32
	// extension says that float controls come from an extension, which a device
	// of version 1.1 has to be asked for.
	extension bool
}

const floatControlsExtension = "VK_KHR_shader_float_controls"

var vendors = map[uint32]string{0x1002: "AMD", 0x1010: "Imagination", 0x106b: "Apple", 0x10de: "NVIDIA", 0x13b5: "Arm", 0x5143: "Qualcomm", 0x8086: "Intel", 0x10005: "Mesa"}

var kinds = [...]string{"other", "integrated", "discrete", "virtual", "cpu"}

// describe asks for everything about a device; it reports false for one that
// cannot run the kernels.
func (in *instance) describe(h handle, index int) (physical, bool) {
	p := physical{h: h}
	first := &properties2{sType: typeProperties2}
	in.fn.GetPhysicalDeviceProperties2.call(uintptr(h), uintptr(unsafe.Pointer(first)))
	p.version = first.p.apiVersion
	if p.version < version11 || !in.computeQueue(&p) {
		return physical{}, false
	}
	extensions := in.extensions(h)
	p.extension = p.version < version12 && extensions[floatControlsExtension]
	floats := &floatControls{sType: typeFloatControls}
	drv := &driverProperties{sType: typeDriverProperties}
	m3 := &maintenance3{sType: typeMaintenance3}
	all := &properties2{sType: typeProperties2, next: unsafe.Pointer(m3)}
	if p.version >= version12 || p.extension {
		floats.next, m3.next = m3.next, unsafe.Pointer(floats)
	}
	if p.version >= version12 || extensions["VK_KHR_driver_properties"] {
		drv.next, m3.next = m3.next, unsafe.Pointer(drv)
	}
	in.fn.GetPhysicalDeviceProperties2.call(uintptr(h), uintptr(unsafe.Pointer(all)))
	in.fn.GetPhysicalDeviceMemoryProperties.call(uintptr(h), uintptr(unsafe.Pointer(&p.memory)))
	p.limits, p.floats = all.p.limits, *floats
	p.floats.next = nil
	kind := "other"
	if int(all.p.kind) < len(kinds) {
		kind = kinds[all.p.kind]
	}
	vendor := vendors[all.p.vendor]
	if vendor == "" {
		vendor = fmt.Sprintf("%#04x", all.p.vendor)
	}
	version := fmt.Sprintf("%#x", all.p.driverVersion)
	if info := text(drv.info[:]); info != "" {
		version = info + " (" + version + ")"
	}
	if c := drv.conformance; c != [4]byte{} {
		version += fmt.Sprintf(" conformance %d.%d.%d.%d", c[0], c[1], c[2], c[3])
	}
	_, heap, ok := p.memoryType(^uint32(0), driver.Device)
	if !ok {
		return physical{}, false
	}
	p.info = driver.Info{
		API: "vulkan", Index: index, Name: text(all.p.name[:]), Kind: kind, Vendor: vendor,
		DriverName: text(drv.name[:]), DriverVersion: version, APIVersion: versionText(p.version),
		KeepsSubnormals: floats.denormPreserve32 != 0,
		Limits: driver.Limits{
			MemoryBytes:          int64(p.memory.heaps[heap].size),
			MaxBufferBytes:       bufferLimit(uint64(p.limits.maxStorageBufferRange), m3.maxAllocation, p.memory.heaps[heap].size),
			MaxWorkgroupSize:     p.limits.maxWorkgroupInvocations,
			MaxWorkgroups:        p.limits.maxWorkgroupCount,
			SharedMemoryBytes:    int64(p.limits.maxSharedMemory),
			BufferOffsetMultiple: int64(max(p.limits.storageOffsetAlignment, 4)),
		},
	}
	return p, true
}

// bufferLimit is the smallest of the limits, in whole words, none of which may be
// beyond what an int64 can hold.
func bufferLimit(bytes ...uint64) int64 {
	least := uint64(1) << 62
	for _, b := range bytes {
		if b > 0 {
			least = min(least, b)
		}
	}
	return int64(least &^ 3)
}

// computeQueue finds a family of queues that compute, preferring one that does
// nothing else.
func (in *instance) computeQueue(p *physical) bool {
	var n uint32
	in.fn.GetPhysicalDeviceQueueFamilyProperties.call(uintptr(p.h), uintptr(unsafe.Pointer(&n)), 0)
	if n == 0 {
		return false
	}
	families := make([]queueFamily, n)
	in.fn.GetPhysicalDeviceQueueFamilyProperties.call(uintptr(p.h), uintptr(unsafe.Pointer(&n)), uintptr(unsafe.Pointer(&families[0])))
	found := false
	for i, f := range families[:n] {
		if f.flags&queueCompute == 0 || f.count == 0 {
			continue
		}
		const graphics = 1
		if !found || f.flags&graphics == 0 {
			p.family, found = uint32(i), true
		}
		if f.flags&graphics == 0 {
			break
		}
	}
	return found
}

func (in *instance) extensions(h handle) map[string]bool {
	var n uint32
	in.fn.EnumerateDeviceExtensionProperties.call(uintptr(h), 0, uintptr(unsafe.Pointer(&n)), 0)
	out := map[string]bool{}
	if n == 0 {
		return out
	}
	list := make([]extensionProperties, n)
	in.fn.EnumerateDeviceExtensionProperties.call(uintptr(h), 0, uintptr(unsafe.Pointer(&n)), uintptr(unsafe.Pointer(&list[0])))
	for i := range list[:n] {
		out[text(list[i].name[:])] = true
	}
	return out
}

// memoryType picks the best of the allowed types, a set of bits, and says in
// which heap it lies.
func (p *physical) memoryType(allowed uint32, where driver.Memory) (index, heap uint32, ok bool) {
	best := -1
	for i := range p.memory.typeCount {
		t := p.memory.types[i]
		if allowed>>i&1 == 0 {
			continue
		}
		score := 0
		if where == driver.Device {
			// Memory that the processor sees as well may be a small window.
			if t.flags&memoryDeviceLocal != 0 {
				score += 2
			}
			if t.flags&memoryHostVisible == 0 {
				score++
			}
		} else {
			if t.flags&memoryHostVisible == 0 || t.flags&memoryHostCoherent == 0 {
				continue
			}
			if t.flags&memoryHostCached != 0 {
				score += 2
			}
			if t.flags&memoryDeviceLocal == 0 {
				score++
			}
		}
		if score > best {
			best, index, heap, ok = score, i, t.heap, true
		}
	}
	return index, heap, ok
}

// Devices lists the devices that can run the kernels. It opens none. An error
// wraps [driver.ErrUnavailable] where there is no loader or no driver.
func Devices() ([]driver.Info, error) {
	in, err := newInstance(Options{})
	if err != nil {
		return nil, err
	}
	defer in.close()
	found, err := in.devices()
	if err != nil {
		return nil, err
	}
	infos := make([]driver.Info, len(found))
	for i, p := range found {
		infos[i] = p.info
	}
	return infos, nil
}

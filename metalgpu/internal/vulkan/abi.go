package vulkan

//lint:file-ignore U1000 fields that are never set are part of the layout

import "unsafe"

// The structures of vulkan_core.h that compute needs, field by field. Handles
// are 64 bits on all platforms that the package supports.
type handle uint64

// Values of VkStructureType.
const (
	typeApplicationInfo         = 0
	typeInstanceCreateInfo      = 1
	typeDeviceQueueCreateInfo   = 2
	typeDeviceCreateInfo        = 3
	typeSubmitInfo              = 4
	typeMemoryAllocateInfo      = 5
	typeFenceCreateInfo         = 8
	typeBufferCreateInfo        = 12
	typeShaderModuleCreateInfo  = 16
	typeShaderStageCreateInfo   = 18
	typeComputePipelineInfo     = 29
	typePipelineLayoutInfo      = 30
	typeDescriptorSetLayoutInfo = 32
	typeDescriptorPoolInfo      = 33
	typeDescriptorSetAllocate   = 34
	typeWriteDescriptorSet      = 35
	typeCommandPoolInfo         = 39
	typeCommandBufferAllocate   = 40
	typeCommandBufferBegin      = 42
	typeMemoryBarrier           = 46
	typeProperties2             = 1000059001
	typeDebugMessenger          = 1000128004
	typeMaintenance3            = 1000168000
	typeDriverProperties        = 1000196000
	typeFloatControls           = 1000197000
	typeValidationFeatures      = 1000247000
)

// Values of VkResult. Successes are not negative.
const (
	resultSuccess           = 0
	resultTimeout           = 2
	resultIncomplete        = 5
	resultOutOfHost         = -1
	resultOutOfDevice       = -2
	resultInitFailed        = -3
	resultLost              = -4
	resultMapFailed         = -5
	resultLayerNotPresent   = -6
	resultExtension         = -7
	resultFeature           = -8
	resultIncompatible      = -9
	resultTooManyObjects    = -10
	resultFragmentedPool    = -12
	resultOutOfPoolMemory   = -1000069000
	resultInvalidShaderCode = -1000012000
)

// Flags and enumerators.
const (
	bufferTransferSrc = 0x1
	bufferTransferDst = 0x2
	bufferStorage     = 0x20

	memoryDeviceLocal  = 0x1
	memoryHostVisible  = 0x2
	memoryHostCoherent = 0x4
	memoryHostCached   = 0x8

	queueCompute = 0x2

	descriptorStorageBuffer = 7
	bindCompute             = 1
	shaderCompute           = 0x20

	stageCompute  = 0x800
	stageTransfer = 0x1000
	stageHost     = 0x4000
	stageAll      = 0x10000

	accessHostRead    = 0x2000
	accessMemoryRead  = 0x8000
	accessMemoryWrite = 0x10000

	onceCommandBuffer = 1
	transientPool     = 1
)

type applicationInfo struct {
	sType         uint32
	next          unsafe.Pointer
	name          *byte
	version       uint32
	engine        *byte
	engineVersion uint32
	apiVersion    uint32
}

type instanceCreateInfo struct {
	sType          uint32
	next           unsafe.Pointer
	flags          uint32
	application    *applicationInfo
	layerCount     uint32
	layers         **byte
	extensionCount uint32
	extensions     **byte
}

type validationFeatures struct {
	sType         uint32
	next          unsafe.Pointer
	enabledCount  uint32
	enabled       *uint32
	disabledCount uint32
	disabled      *uint32
}

type messengerCreateInfo struct {
	sType    uint32
	next     unsafe.Pointer
	flags    uint32
	severity uint32
	types    uint32
	callback uintptr
	user     uintptr
}

// messengerData is the start of VkDebugUtilsMessengerCallbackDataEXT.
type messengerData struct {
	sType    uint32
	next     unsafe.Pointer
	flags    uint32
	idName   *byte
	idNumber int32
	message  *byte
}

type queueCreateInfo struct {
	sType      uint32
	next       unsafe.Pointer
	flags      uint32
	family     uint32
	count      uint32
	priorities *float32
}

type deviceCreateInfo struct {
	sType          uint32
	next           unsafe.Pointer
	flags          uint32
	queueCount     uint32
	queues         *queueCreateInfo
	layerCount     uint32
	layers         **byte
	extensionCount uint32
	extensions     **byte
	features       unsafe.Pointer
}

type queueFamily struct {
	flags, count, timestampBits uint32
	granularity                 [3]uint32
}

type extensionProperties struct {
	name    [256]byte
	version uint32
}

type layerProperties struct {
	name            [256]byte
	specVersion     uint32
	implementation  uint32
	descriptionText [256]byte
}

type properties2 struct {
	sType uint32
	next  unsafe.Pointer
	p     properties
}

type properties struct {
	apiVersion, driverVersion, vendor, device, kind uint32
	name                                            [256]byte
	cacheID                                         [16]byte
	limits                                          limits
	sparse                                          [5]uint32
}

// limits is VkPhysicalDeviceLimits; a test holds the offsets of the named fields
// to those that a C compiler gives.
type limits struct {
	_                       [28]byte
	maxStorageBufferRange   uint32
	maxPushConstantsSize    uint32
	maxAllocationCount      uint32
	_                       [36]byte
	maxStageStorageBuffers  uint32
	_                       [136]byte
	maxSharedMemory         uint32
	maxWorkgroupCount       [3]uint32
	maxWorkgroupInvocations uint32
	maxWorkgroupSize        [3]uint32
	_                       [80]byte
	storageOffsetAlignment  uint64
	_                       [21]uint64
}

type maintenance3 struct {
	sType             uint32
	next              unsafe.Pointer
	maxSetDescriptors uint32
	maxAllocation     uint64
}

type driverProperties struct {
	sType       uint32
	next        unsafe.Pointer
	id          uint32
	name        [256]byte
	info        [256]byte
	conformance [4]byte
}

type floatControls struct {
	sType                                       uint32
	next                                        unsafe.Pointer
	denormIndependence, roundingIndependence    uint32
	signedZero16, signedZero32, signedZero64    uint32
	denormPreserve16, denormPreserve32          uint32
	denormPreserve64                            uint32
	denormFlush16, denormFlush32, denormFlush64 uint32
	roundEven16, roundEven32, roundEven64       uint32
	roundToZero16, roundToZero32, roundToZero64 uint32
}

type memoryProperties struct {
	typeCount uint32
	types     [32]struct{ flags, heap uint32 }
	heapCount uint32
	heaps     [16]struct {
		size  uint64
		flags uint32
	}
}

type memoryRequirements struct {
	size, alignment uint64
	types           uint32
}

type memoryAllocateInfo struct {
	sType uint32
	next  unsafe.Pointer
	size  uint64
	index uint32
}

type bufferCreateInfo struct {
	sType       uint32
	next        unsafe.Pointer
	flags       uint32
	size        uint64
	usage       uint32
	sharing     uint32
	familyCount uint32
	families    *uint32
}

type shaderModuleInfo struct {
	sType uint32
	next  unsafe.Pointer
	flags uint32
	size  uintptr
	code  *uint32
}

type setLayoutBinding struct {
	binding, kind, count, stages uint32
	samplers                     unsafe.Pointer
}

type setLayoutInfo struct {
	sType    uint32
	next     unsafe.Pointer
	flags    uint32
	count    uint32
	bindings *setLayoutBinding
}

type pushRange struct{ stages, offset, size uint32 }

type pipelineLayoutInfo struct {
	sType     uint32
	next      unsafe.Pointer
	flags     uint32
	setCount  uint32
	sets      *handle
	pushCount uint32
	pushes    *pushRange
}

type shaderStageInfo struct {
	sType          uint32
	next           unsafe.Pointer
	flags          uint32
	stage          uint32
	module         handle
	name           *byte
	specialization unsafe.Pointer
}

type computePipelineInfo struct {
	sType     uint32
	next      unsafe.Pointer
	flags     uint32
	stage     shaderStageInfo
	layout    handle
	base      handle
	baseIndex int32
}

type descriptorPoolSize struct{ kind, count uint32 }

type descriptorPoolInfo struct {
	sType     uint32
	next      unsafe.Pointer
	flags     uint32
	maxSets   uint32
	sizeCount uint32
	sizes     *descriptorPoolSize
}

type descriptorSetInfo struct {
	sType   uint32
	next    unsafe.Pointer
	pool    handle
	count   uint32
	layouts *handle
}

type descriptorBuffer struct {
	buffer      handle
	offset, len uint64
}

type writeDescriptorSet struct {
	sType   uint32
	next    unsafe.Pointer
	set     handle
	binding uint32
	element uint32
	count   uint32
	kind    uint32
	images  unsafe.Pointer
	buffers *descriptorBuffer
	views   unsafe.Pointer
}

type commandPoolInfo struct {
	sType  uint32
	next   unsafe.Pointer
	flags  uint32
	family uint32
}

type commandBufferInfo struct {
	sType uint32
	next  unsafe.Pointer
	pool  handle
	level uint32
	count uint32
}

type commandBufferBegin struct {
	sType       uint32
	next        unsafe.Pointer
	flags       uint32
	inheritance unsafe.Pointer
}

type submitInfo struct {
	sType       uint32
	next        unsafe.Pointer
	waitCount   uint32
	waits       unsafe.Pointer
	waitStages  unsafe.Pointer
	bufferCount uint32
	buffers     *handle
	signalCount uint32
	signals     unsafe.Pointer
}

type fenceInfo struct {
	sType uint32
	next  unsafe.Pointer
	flags uint32
}

type memoryBarrier struct {
	sType    uint32
	next     unsafe.Pointer
	from, to uint32
}

type bufferCopy struct{ from, to, size uint64 }

// cstring returns s with a NUL behind it.
func cstring(s string) *byte {
	b := append([]byte(s), 0)
	return &b[0]
}

// text returns the characters of a fixed array before its NUL.
func text(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

// gostring returns the C string at p, up to limit bytes.
func gostring(p *byte, limit int) string {
	if p == nil {
		return ""
	}
	n := 0
	for n < limit && *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

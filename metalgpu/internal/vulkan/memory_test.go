//go:build (linux || windows) && (amd64 || arm64) && !nogpu

package vulkan

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// TestBlock takes and gives random ranges: none may overlap, and what was given
// must be one range again in the end.
func TestBlock(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const size = 1 << 12
	for range 50 {
		b := &block{size: size, free: []span{{0, size}}}
		var taken []span
		used := int64(0)
		for range 400 {
			if len(taken) > 0 && r.IntN(2) == 0 {
				i := r.IntN(len(taken))
				b.give(taken[i])
				used -= taken[i].size
				taken = slices.Delete(taken, i, i+1)
				continue
			}
			n := 1 + r.Int64N(300)
			offset, ok := b.take(n)
			if !ok {
				continue
			}
			for _, s := range taken {
				if offset < s.offset+s.size && s.offset < offset+n {
					t.Fatalf("[%d,%d) was given out twice", offset, offset+n)
				}
			}
			taken = append(taken, span{offset, n})
			used += n
			free := int64(0)
			for i, s := range b.free {
				free += s.size
				if i > 0 && b.free[i-1].offset+b.free[i-1].size >= s.offset {
					t.Fatalf("free ranges touch: %v", b.free)
				}
			}
			if free+used != size {
				t.Fatalf("%d free and %d used of %d", free, used, size)
			}
		}
		for _, s := range taken {
			b.give(s)
		}
		if !b.empty() {
			t.Fatalf("all was given back, free are %v", b.free)
		}
	}
}

// TestLayout holds the structures to sizes and offsets that a C compiler printed
// for vulkan_core.h 1.3.239 on a 64-bit machine.
func TestLayout(t *testing.T) {
	var l limits
	var p properties
	for name, c := range map[string][2]uintptr{
		"limits":                  {unsafe.Sizeof(l), 504},
		"maxStorageBufferRange":   {unsafe.Offsetof(l.maxStorageBufferRange), 28},
		"maxPushConstantsSize":    {unsafe.Offsetof(l.maxPushConstantsSize), 32},
		"maxAllocationCount":      {unsafe.Offsetof(l.maxAllocationCount), 36},
		"maxStageStorageBuffers":  {unsafe.Offsetof(l.maxStageStorageBuffers), 76},
		"maxSharedMemory":         {unsafe.Offsetof(l.maxSharedMemory), 216},
		"maxWorkgroupCount":       {unsafe.Offsetof(l.maxWorkgroupCount), 220},
		"maxWorkgroupInvocations": {unsafe.Offsetof(l.maxWorkgroupInvocations), 232},
		"maxWorkgroupSize":        {unsafe.Offsetof(l.maxWorkgroupSize), 236},
		"storageOffsetAlignment":  {unsafe.Offsetof(l.storageOffsetAlignment), 328},
		"properties":              {unsafe.Sizeof(p), 824},
		"properties.limits":       {unsafe.Offsetof(p.limits), 296},
		"properties2":             {unsafe.Sizeof(properties2{}), 840},
		"maintenance3":            {unsafe.Sizeof(maintenance3{}), 32},
		"driverProperties":        {unsafe.Sizeof(driverProperties{}), 536},
		"floatControls":           {unsafe.Sizeof(floatControls{}), 88},
		"memoryProperties":        {unsafe.Sizeof(memoryProperties{}), 520},
		"memoryRequirements":      {unsafe.Sizeof(memoryRequirements{}), 24},
		"memoryAllocateInfo":      {unsafe.Sizeof(memoryAllocateInfo{}), 32},
		"bufferCreateInfo":        {unsafe.Sizeof(bufferCreateInfo{}), 56},
		"shaderModuleInfo":        {unsafe.Sizeof(shaderModuleInfo{}), 40},
		"setLayoutBinding":        {unsafe.Sizeof(setLayoutBinding{}), 24},
		"setLayoutInfo":           {unsafe.Sizeof(setLayoutInfo{}), 32},
		"pushRange":               {unsafe.Sizeof(pushRange{}), 12},
		"pipelineLayoutInfo":      {unsafe.Sizeof(pipelineLayoutInfo{}), 48},
		"shaderStageInfo":         {unsafe.Sizeof(shaderStageInfo{}), 48},
		"computePipelineInfo":     {unsafe.Sizeof(computePipelineInfo{}), 96},
		"descriptorPoolInfo":      {unsafe.Sizeof(descriptorPoolInfo{}), 40},
		"descriptorSetInfo":       {unsafe.Sizeof(descriptorSetInfo{}), 40},
		"descriptorBuffer":        {unsafe.Sizeof(descriptorBuffer{}), 24},
		"writeDescriptorSet":      {unsafe.Sizeof(writeDescriptorSet{}), 64},
		"commandPoolInfo":         {unsafe.Sizeof(commandPoolInfo{}), 24},
		"commandBufferInfo":       {unsafe.Sizeof(commandBufferInfo{}), 32},
		"commandBufferBegin":      {unsafe.Sizeof(commandBufferBegin{}), 32},
		"submitInfo":              {unsafe.Sizeof(submitInfo{}), 72},
		"fenceInfo":               {unsafe.Sizeof(fenceInfo{}), 24},
		"memoryBarrier":           {unsafe.Sizeof(memoryBarrier{}), 24},
		"bufferCopy":              {unsafe.Sizeof(bufferCopy{}), 24},
		"applicationInfo":         {unsafe.Sizeof(applicationInfo{}), 48},
		"instanceCreateInfo":      {unsafe.Sizeof(instanceCreateInfo{}), 64},
		"queueCreateInfo":         {unsafe.Sizeof(queueCreateInfo{}), 40},
		"deviceCreateInfo":        {unsafe.Sizeof(deviceCreateInfo{}), 72},
		"queueFamily":             {unsafe.Sizeof(queueFamily{}), 24},
		"extensionProperties":     {unsafe.Sizeof(extensionProperties{}), 260},
		"layerProperties":         {unsafe.Sizeof(layerProperties{}), 520},
		"messengerCreateInfo":     {unsafe.Sizeof(messengerCreateInfo{}), 48},
		"validationFeatures":      {unsafe.Sizeof(validationFeatures{}), 48},
		"messengerData.message":   {unsafe.Offsetof(messengerData{}.message), 40},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %d, want %d", name, c[0], c[1])
		}
	}
}

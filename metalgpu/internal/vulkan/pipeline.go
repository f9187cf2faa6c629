//go:build (linux || windows) && (amd64 || arm64) && !nogpu

package vulkan

import (
	"fmt"
	"unsafe"

	"github.com/hfcompress/compress/metalgpu/internal/driver"
	"github.com/hfcompress/compress/metalgpu/internal/kernel"
)

// pipeline is the [driver.Pipeline].
type pipeline struct {
	device         *device
	kernel         *kernel.Kernel
	set, layout, h handle
	module         handle
}

func (p *pipeline) Kernel() *kernel.Kernel { return p.kernel }

func (d *device) NewPipeline(k *kernel.Kernel) (driver.Pipeline, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	d.pipelineLock.Lock()
	defer d.pipelineLock.Unlock()
	if p, ok := d.pipelines[k]; ok {
		return p, nil
	}
	if err := d.fits(k); err != nil {
		return nil, err
	}
	code, err := d.code(k)
	if err == nil {
		code, err = withFloatControls(code, d.physical.floats.modes())
	}
	if err != nil {
		return nil, fmt.Errorf("vulkan: kernel %s: %w", k.Name, err)
	}
	p := &pipeline{device: d, kernel: k}
	if err := p.make(code); err != nil {
		p.destroy()
		return nil, fmt.Errorf("kernel %s: %w", k.Name, err)
	}
	d.pipelines[k] = p
	return p, nil
}

// fits holds a kernel to the device's limits.
func (d *device) fits(k *kernel.Kernel) error {
	size := uint64(k.Workgroup[0]) * uint64(k.Workgroup[1]) * uint64(k.Workgroup[2])
	shared := 0
	for _, s := range k.Shared {
		shared += 4 * s.Elements
	}
	l := &d.physical.limits
	for _, c := range []struct {
		what        string
		have, limit uint64
	}{
		{"invocations of a workgroup", size, uint64(l.maxWorkgroupInvocations)},
		{"invocations along x", uint64(k.Workgroup[0]), uint64(l.maxWorkgroupSize[0])},
		{"invocations along y", uint64(k.Workgroup[1]), uint64(l.maxWorkgroupSize[1])},
		{"invocations along z", uint64(k.Workgroup[2]), uint64(l.maxWorkgroupSize[2])},
		{"bytes of shared memory", uint64(shared), uint64(l.maxSharedMemory)},
		{"buffers", uint64(len(k.Buffers)), uint64(l.maxStageStorageBuffers)},
		{"bytes of push constants", uint64(4 * len(k.Push)), uint64(l.maxPushConstantsSize)},
	} {
		if c.have > c.limit {
			return fmt.Errorf("vulkan: %s: %w: kernel %s needs %d %s, expected at most %d", d.physical.info.Name, driver.ErrLimit, k.Name, c.have, c.what, c.limit)
		}
	}
	return nil
}

func (p *pipeline) make(code []uint32) error {
	d := p.device
	module := &shaderModuleInfo{sType: typeShaderModuleCreateInfo, size: uintptr(4 * len(code)), code: &code[0]}
	if err := p.created(d.fn.CreateShaderModule.call(uintptr(d.h), uintptr(unsafe.Pointer(module)), 0, uintptr(unsafe.Pointer(&p.module))), "vkCreateShaderModule"); err != nil {
		return err
	}
	bindings := make([]setLayoutBinding, len(p.kernel.Buffers))
	for i := range bindings {
		bindings[i] = setLayoutBinding{binding: uint32(i), kind: descriptorStorageBuffer, count: 1, stages: shaderCompute}
	}
	set := &setLayoutInfo{sType: typeDescriptorSetLayoutInfo, count: uint32(len(bindings))}
	if len(bindings) > 0 {
		set.bindings = &bindings[0]
	}
	if err := p.created(d.fn.CreateDescriptorSetLayout.call(uintptr(d.h), uintptr(unsafe.Pointer(set)), 0, uintptr(unsafe.Pointer(&p.set))), "vkCreateDescriptorSetLayout"); err != nil {
		return err
	}
	sets := []handle{p.set}
	layout := &pipelineLayoutInfo{sType: typePipelineLayoutInfo, setCount: 1, sets: &sets[0]}
	if n := len(p.kernel.Push); n > 0 {
		layout.pushCount, layout.pushes = 1, &pushRange{stages: shaderCompute, size: uint32(4 * n)}
	}
	if err := p.created(d.fn.CreatePipelineLayout.call(uintptr(d.h), uintptr(unsafe.Pointer(layout)), 0, uintptr(unsafe.Pointer(&p.layout))), "vkCreatePipelineLayout"); err != nil {
		return err
	}
	compute := &computePipelineInfo{
		sType: typeComputePipelineInfo, layout: p.layout, baseIndex: -1,
		stage: shaderStageInfo{sType: typeShaderStageCreateInfo, stage: shaderCompute, module: p.module, name: cstring("main")},
	}
	return p.created(d.fn.CreateComputePipelines.call(uintptr(d.h), 0, 1, uintptr(unsafe.Pointer(compute)), 0, uintptr(unsafe.Pointer(&p.h))), "vkCreateComputePipelines")
}

func (p *pipeline) created(r int32, function string) error {
	if r == resultSuccess {
		live.Add(1)
	}
	return p.device.fail(r, function)
}

func (p *pipeline) destroy() {
	d := p.device
	for _, o := range []struct {
		h       *handle
		destroy address
	}{{&p.h, d.fn.DestroyPipeline}, {&p.layout, d.fn.DestroyPipelineLayout}, {&p.set, d.fn.DestroyDescriptorSetLayout}, {&p.module, d.fn.DestroyShaderModule}} {
		if *o.h != 0 {
			o.destroy.call(uintptr(d.h), uintptr(*o.h), 0)
			*o.h = 0
			live.Add(-1)
		}
	}
}

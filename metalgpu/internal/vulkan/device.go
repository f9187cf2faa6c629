//go:build (linux || windows) && (amd64 || arm64) && !nogpu

package vulkan

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/hfcompress/compress/metalgpu/internal/driver"
	"github.com/hfcompress/compress/metalgpu/internal/kernel"
)

// device is the [driver.Driver] that [Open] returns.
type device struct {
	instance *instance
	physical physical
	h        handle
	fn       deviceFunctions
	lost     atomic.Bool
	closed   atomic.Bool

	queueLock sync.Mutex
	queue     handle

	memory heapsOf

	pipelineLock sync.Mutex
	pipelines    map[*kernel.Kernel]*pipeline

	code func(*kernel.Kernel) ([]uint32, error)

	listLock sync.Mutex
	lists    []*commands // all of them
	idle     []*commands // closed ones, kept for the next Begin
}

// Open opens the device that [Devices] lists under index.
func Open(index int, opt Options) (driver.Driver, error) {
	in, err := newInstance(opt)
	if err != nil {
		return nil, err
	}
	found, err := in.devices()
	if err != nil {
		in.close()
		return nil, err
	}
	if index < 0 || index >= len(found) {
		in.close()
		return nil, fmt.Errorf("vulkan: %w: index %d of %d", driver.ErrUnavailable, index, len(found))
	}
	d, err := in.open(found[index])
	if err != nil {
		in.close()
		return nil, fmt.Errorf("vulkan: %s: %w", found[index].info.Name, err)
	}
	if d.code = opt.Code; d.code == nil {
		d.code = (*kernel.Kernel).SPIRV
	}
	d.memory.init(d, opt.MemoryLimit)
	return d, nil
}

func (in *instance) open(p physical) (*device, error) {
	priority := float32(1)
	queue := &queueCreateInfo{sType: typeDeviceQueueCreateInfo, family: p.family, count: 1, priorities: &priority}
	info := &deviceCreateInfo{sType: typeDeviceCreateInfo, queueCount: 1, queues: queue}
	if p.extension {
		names := []*byte{cstring(floatControlsExtension)}
		info.extensionCount, info.extensions = 1, &names[0]
	}
	d := &device{instance: in, physical: p, pipelines: map[*kernel.Kernel]*pipeline{}}
	if err := check(in.fn.CreateDevice.call(uintptr(p.h), uintptr(unsafe.Pointer(info)), 0, uintptr(unsafe.Pointer(&d.h))), "vkCreateDevice"); err != nil {
		return nil, err
	}
	live.Add(1)
	if err := lookup(&d.fn, in.fn.GetDeviceProcAddr, d.h); err != nil {
		if d.fn.DestroyDevice != 0 {
			d.fn.DestroyDevice.call(uintptr(d.h), 0)
			live.Add(-1)
		}
		return nil, err
	}
	d.fn.GetDeviceQueue.call(uintptr(d.h), uintptr(p.family), 0, uintptr(unsafe.Pointer(&d.queue)))
	return d, nil
}

func (d *device) Info() driver.Info { return d.physical.info }

// fail turns a result into an error of the device and remembers its loss.
func (d *device) fail(r int32, function string) error {
	if r >= 0 {
		return nil
	}
	if r == resultLost {
		d.lost.Store(true)
	}
	return fmt.Errorf("vulkan: %s: %w", d.physical.info.Name, check(r, function))
}

// usable reports why the device cannot be used any more.
func (d *device) usable() error {
	switch {
	case d.closed.Load():
		return fmt.Errorf("vulkan: %s: the device is closed", d.physical.info.Name)
	case d.lost.Load():
		return fmt.Errorf("vulkan: %s: %w", d.physical.info.Name, driver.ErrLost)
	}
	return nil
}

// Close waits for what runs and frees everything. Lists of commands that are
// still open are freed, too.
func (d *device) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	d.queueLock.Lock()
	r := d.fn.DeviceWaitIdle.call(uintptr(d.h))
	d.queueLock.Unlock()
	err := d.fail(r, "vkDeviceWaitIdle")
	if d.lost.Load() {
		err = nil // said before; what is left is to free it
	}
	d.listLock.Lock()
	for _, c := range d.lists {
		c.destroy()
	}
	d.lists, d.idle = nil, nil
	d.listLock.Unlock()
	d.pipelineLock.Lock()
	for _, p := range d.pipelines {
		p.destroy()
	}
	clear(d.pipelines)
	d.pipelineLock.Unlock()
	d.memory.destroy()
	d.fn.DestroyDevice.call(uintptr(d.h), 0)
	live.Add(-1)
	d.instance.close()
	return err
}

//go:build (linux || windows) && (amd64 || arm64) && !nogpu

package vulkan

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/hfcompress/compress/metalgpu/internal/driver"
)

const (
	// setsPerPool and descriptorsPerPool size a descriptor pool; lists take as many
	// pools as they need.
	setsPerPool        = 256
	descriptorsPerPool = 4 * setsPerPool
	// hazardLimit bounds the ranges that are remembered before a barrier.
	hazardLimit = 64
	// waitNanoseconds is how long one wait for a fence takes before the device's
	// loss is looked for again.
	waitNanoseconds = 500_000_000
)

// commands is the [driver.Commands].
type commands struct {
	device            *device
	pool, list, fence handle
	descriptors       []handle
	full              int // pools that are used up
	begun             bool
	commands          int
	err               error
	reads, writes     []access // since the last barrier
	infos             []descriptorBuffer
	updates           []writeDescriptorSet
	closed            bool
}

// access is a range of a block that a command touches.
type access struct {
	block    *block
	from, to int64
}

func (a access) overlaps(b access) bool { return a.block == b.block && a.from < b.to && b.from < a.to }

func (d *device) Begin() (driver.Commands, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	d.listLock.Lock()
	if n := len(d.idle); n > 0 {
		c := d.idle[n-1]
		d.idle = d.idle[:n-1]
		d.listLock.Unlock()
		c.closed = false
		return c, nil
	}
	d.listLock.Unlock()
	c := &commands{device: d}
	if err := c.make(); err != nil {
		c.destroy()
		return nil, err
	}
	d.listLock.Lock()
	d.lists = append(d.lists, c)
	d.listLock.Unlock()
	return c, nil
}

func (c *commands) make() error {
	d := c.device
	pool := &commandPoolInfo{sType: typeCommandPoolInfo, flags: transientPool, family: d.physical.family}
	if err := c.created(d.fn.CreateCommandPool.call(uintptr(d.h), uintptr(unsafe.Pointer(pool)), 0, uintptr(unsafe.Pointer(&c.pool))), "vkCreateCommandPool"); err != nil {
		return err
	}
	list := &commandBufferInfo{sType: typeCommandBufferAllocate, pool: c.pool, count: 1}
	if err := d.fail(d.fn.AllocateCommandBuffers.call(uintptr(d.h), uintptr(unsafe.Pointer(list)), uintptr(unsafe.Pointer(&c.list))), "vkAllocateCommandBuffers"); err != nil {
		return err
	}
	fence := &fenceInfo{sType: typeFenceCreateInfo}
	return c.created(d.fn.CreateFence.call(uintptr(d.h), uintptr(unsafe.Pointer(fence)), 0, uintptr(unsafe.Pointer(&c.fence))), "vkCreateFence")
}

func (c *commands) created(r int32, function string) error {
	if r == resultSuccess {
		live.Add(1)
	}
	return c.device.fail(r, function)
}

func (c *commands) destroy() {
	d := c.device
	for _, p := range c.descriptors {
		d.fn.DestroyDescriptorPool.call(uintptr(d.h), uintptr(p), 0)
		live.Add(-1)
	}
	c.descriptors = nil
	if c.fence != 0 {
		d.fn.DestroyFence.call(uintptr(d.h), uintptr(c.fence), 0)
		live.Add(-1)
	}
	if c.pool != 0 { // the list goes with it
		d.fn.DestroyCommandPool.call(uintptr(d.h), uintptr(c.pool), 0)
		live.Add(-1)
	}
	c.fence, c.pool, c.list = 0, 0, 0
}

// start begins the recording with a barrier behind everything that ran before on
// the queue. It reports whether a command can be recorded.
func (c *commands) start() bool {
	if c.err != nil {
		return false
	}
	if c.closed {
		c.err = fmt.Errorf("vulkan: %s: the list of commands is closed", c.device.physical.info.Name)
		return false
	}
	if c.err = c.device.usable(); c.err != nil {
		return false
	}
	if !c.begun {
		info := &commandBufferBegin{sType: typeCommandBufferBegin, flags: onceCommandBuffer}
		if c.err = c.device.fail(c.device.fn.BeginCommandBuffer.call(uintptr(c.list), uintptr(unsafe.Pointer(info))), "vkBeginCommandBuffer"); c.err != nil {
			return false
		}
		c.begun = true
		c.barrier(stageAll, stageCompute|stageTransfer, accessMemoryWrite, accessMemoryRead|accessMemoryWrite)
	}
	c.commands++
	return true
}

func (c *commands) barrier(fromStage, toStage, from, to uint32) {
	b := &memoryBarrier{sType: typeMemoryBarrier, from: from, to: to}
	c.device.fn.CmdPipelineBarrier.call(uintptr(c.list), uintptr(fromStage), uintptr(toStage), 0, 1, uintptr(unsafe.Pointer(b)), 0, 0, 0, 0)
	c.reads, c.writes = c.reads[:0], c.writes[:0]
}

// depend puts a barrier in front of a command that touches what an earlier one
// wrote, or writes what an earlier one reads.
func (c *commands) depend(reads, writes []access) {
	conflict := len(c.reads)+len(c.writes) > hazardLimit
	for _, w := range c.writes {
		for _, r := range reads {
			conflict = conflict || w.overlaps(r)
		}
	}
	for _, w := range writes {
		for _, o := range c.writes {
			conflict = conflict || w.overlaps(o)
		}
		for _, o := range c.reads {
			conflict = conflict || w.overlaps(o)
		}
	}
	if conflict {
		const stages = stageCompute | stageTransfer
		c.barrier(stages, stages, accessMemoryWrite, accessMemoryRead|accessMemoryWrite)
	}
	c.reads, c.writes = append(c.reads, reads...), append(c.writes, writes...)
}

// resolve checks a range of a buffer of this device.
func (c *commands) resolve(b driver.Buffer, offset, bytes int64) (access, error) {
	own, ok := b.(*buffer)
	switch {
	case !ok || own == nil || own.device != c.device:
		return access{}, fmt.Errorf("vulkan: a buffer of another device")
	case own.freed:
		return access{}, fmt.Errorf("vulkan: a buffer that was freed")
	case offset < 0 || bytes < 0 || offset > own.size || bytes > own.size-offset:
		return access{}, fmt.Errorf("vulkan: %w: bytes %d to %d of a buffer of %d", driver.ErrLimit, offset, offset+bytes, own.size)
	}
	return access{own.block, own.offset + offset, own.offset + offset + bytes}, nil
}

func (c *commands) Dispatch(p driver.Pipeline, groups [3]uint32, buffers []driver.Binding, push []uint32) {
	if !c.start() {
		return
	}
	d := c.device
	own, ok := p.(*pipeline)
	if !ok || own == nil || own.device != d {
		c.err = fmt.Errorf("vulkan: a pipeline of another device")
		return
	}
	k := own.kernel
	if len(buffers) != len(k.Buffers) || len(push) != len(k.Push) {
		c.err = fmt.Errorf("vulkan: kernel %s has %d buffers and %d constants, given %d and %d", k.Name, len(k.Buffers), len(k.Push), len(buffers), len(push))
		return
	}
	for i, n := range groups {
		if n > d.physical.limits.maxWorkgroupCount[i] {
			c.err = fmt.Errorf("vulkan: %s: %w: kernel %s over %v workgroups, expected at most %v", d.physical.info.Name, driver.ErrLimit, k.Name, groups, d.physical.limits.maxWorkgroupCount)
			return
		}
		if n == 0 {
			return
		}
	}
	set, err := c.newSet(own)
	if err != nil {
		c.err = err
		return
	}
	c.infos, c.updates = c.infos[:0], c.updates[:0]
	var reads, writes []access
	for i, b := range buffers {
		if b.Bytes == 0 && b.Buffer != nil {
			b.Bytes = b.Buffer.Size() - b.Offset
		}
		a, err := c.resolve(b.Buffer, b.Offset, b.Bytes)
		if err == nil && (b.Offset%d.physical.info.Limits.BufferOffsetMultiple != 0 || b.Bytes == 0) {
			err = fmt.Errorf("vulkan: %w: %d bytes from %d on, expected a multiple of %d", driver.ErrLimit, b.Bytes, b.Offset, d.physical.info.Limits.BufferOffsetMultiple)
		}
		if err != nil {
			c.err = fmt.Errorf("kernel %s, buffer %s: %w", k.Name, k.Buffers[i].Name, err)
			return
		}
		c.infos = append(c.infos, descriptorBuffer{a.block.buffer, uint64(a.from), uint64(a.to - a.from)})
		if k.Buffers[i].Writes {
			writes = append(writes, a)
		} else {
			reads = append(reads, a)
		}
	}
	for i := range c.infos {
		c.updates = append(c.updates, writeDescriptorSet{sType: typeWriteDescriptorSet, set: set, binding: uint32(i), count: 1, kind: descriptorStorageBuffer, buffers: &c.infos[i]})
	}
	if len(c.updates) > 0 {
		d.fn.UpdateDescriptorSets.call(uintptr(d.h), uintptr(len(c.updates)), uintptr(unsafe.Pointer(&c.updates[0])), 0, 0)
	}
	c.depend(reads, writes)
	list := uintptr(c.list)
	d.fn.CmdBindPipeline.call(list, bindCompute, uintptr(own.h))
	d.fn.CmdBindDescriptorSets.call(list, bindCompute, uintptr(own.layout), 0, 1, uintptr(unsafe.Pointer(&set)), 0, 0)
	if len(push) > 0 {
		d.fn.CmdPushConstants.call(list, uintptr(own.layout), shaderCompute, 0, uintptr(4*len(push)), uintptr(unsafe.Pointer(&push[0])))
	}
	d.fn.CmdDispatch.call(list, uintptr(groups[0]), uintptr(groups[1]), uintptr(groups[2]))
}

// newSet takes a descriptor set from the first pool with room.
func (c *commands) newSet(p *pipeline) (handle, error) {
	d := c.device
	for {
		fresh := c.full == len(c.descriptors)
		if fresh {
			sizes := []descriptorPoolSize{{descriptorStorageBuffer, descriptorsPerPool}}
			info := &descriptorPoolInfo{sType: typeDescriptorPoolInfo, maxSets: setsPerPool, sizeCount: 1, sizes: &sizes[0]}
			var pool handle
			if err := c.created(d.fn.CreateDescriptorPool.call(uintptr(d.h), uintptr(unsafe.Pointer(info)), 0, uintptr(unsafe.Pointer(&pool))), "vkCreateDescriptorPool"); err != nil {
				return 0, err
			}
			c.descriptors = append(c.descriptors, pool)
		}
		layouts := []handle{p.set}
		ask := &descriptorSetInfo{sType: typeDescriptorSetAllocate, pool: c.descriptors[c.full], count: 1, layouts: &layouts[0]}
		var set handle
		r := d.fn.AllocateDescriptorSets.call(uintptr(d.h), uintptr(unsafe.Pointer(ask)), uintptr(unsafe.Pointer(&set)))
		if (r == resultOutOfPoolMemory || r == resultFragmentedPool) && !fresh {
			c.full++
			continue
		}
		return set, d.fail(r, "vkAllocateDescriptorSets")
	}
}

func (c *commands) Copy(dst driver.Buffer, dstOffset int64, src driver.Buffer, srcOffset, bytes int64) {
	if bytes == 0 || !c.start() {
		return
	}
	to, err := c.resolve(dst, dstOffset, bytes)
	var from access
	if err == nil {
		from, err = c.resolve(src, srcOffset, bytes)
	}
	switch {
	case err != nil:
		c.err = fmt.Errorf("copy: %w", err)
		return
	case (dstOffset|srcOffset|bytes)%4 != 0:
		c.err = fmt.Errorf("vulkan: copy: %w: %d bytes from %d to %d, expected multiples of 4", driver.ErrLimit, bytes, srcOffset, dstOffset)
		return
	case to.overlaps(from):
		c.err = fmt.Errorf("vulkan: copy: %w: the ranges overlap", driver.ErrLimit)
		return
	}
	c.depend([]access{from}, []access{to})
	region := &bufferCopy{uint64(from.from), uint64(to.from), uint64(bytes)}
	c.device.fn.CmdCopyBuffer.call(uintptr(c.list), uintptr(from.block.buffer), uintptr(to.block.buffer), 1, uintptr(unsafe.Pointer(region)))
}

func (c *commands) Run(ctx context.Context) error {
	err := c.submit(ctx)
	c.err = nil
	if reset := c.reset(); err == nil {
		err = reset
	}
	return err
}

// submit runs what was recorded. A list that was submitted is waited for in any
// case, since a device cannot be stopped: its buffers are in use until then.
func (c *commands) submit(ctx context.Context) error {
	d := c.device
	if c.err != nil {
		return c.err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := d.usable(); err != nil {
		return err
	}
	if !c.begun {
		return nil
	}
	c.barrier(stageAll, stageHost, accessMemoryWrite, accessHostRead)
	c.begun = false
	if err := d.fail(d.fn.EndCommandBuffer.call(uintptr(c.list)), "vkEndCommandBuffer"); err != nil {
		return err
	}
	lists := []handle{c.list}
	info := &submitInfo{sType: typeSubmitInfo, bufferCount: 1, buffers: &lists[0]}
	d.queueLock.Lock()
	r := d.fn.QueueSubmit.call(uintptr(d.queue), 1, uintptr(unsafe.Pointer(info)), uintptr(c.fence))
	d.queueLock.Unlock()
	if err := d.fail(r, "vkQueueSubmit"); err != nil {
		return err
	}
	fences := []handle{c.fence}
	for {
		r := d.fn.WaitForFences.call(uintptr(d.h), 1, uintptr(unsafe.Pointer(&fences[0])), 1, waitNanoseconds)
		if r == resultSuccess {
			break
		}
		if r != resultTimeout {
			// Nobody can say any more when the buffers are free.
			d.lost.Store(true)
			return d.fail(r, "vkWaitForFences")
		}
		if d.lost.Load() {
			return d.usable()
		}
	}
	if err := d.fail(d.fn.ResetFences.call(uintptr(d.h), 1, uintptr(unsafe.Pointer(&fences[0]))), "vkResetFences"); err != nil {
		return err
	}
	return ctx.Err()
}

// reset empties the list.
func (c *commands) reset() error {
	d := c.device
	c.begun, c.reads, c.writes = false, c.reads[:0], c.writes[:0]
	used := c.commands
	c.commands = 0
	if used == 0 || d.lost.Load() || d.closed.Load() {
		return nil
	}
	err := d.fail(d.fn.ResetCommandPool.call(uintptr(d.h), uintptr(c.pool), 0), "vkResetCommandPool")
	for i := range min(len(c.descriptors), c.full+1) {
		d.fn.ResetDescriptorPool.call(uintptr(d.h), uintptr(c.descriptors[i]), 0)
	}
	c.full = 0
	return err
}

// Close keeps the list for the next Begin.
func (c *commands) Close() {
	if c.closed {
		return
	}
	c.closed = true
	c.err = nil
	c.reset()
	d := c.device
	d.listLock.Lock()
	defer d.listLock.Unlock()
	if !d.closed.Load() {
		d.idle = append(d.idle, c)
	}
}

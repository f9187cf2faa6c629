//go:build (linux || windows) && (amd64 || arm64) && !nogpu

package vulkan

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/hfcompress/compress/metalgpu/internal/driver"
)

// blockBytes is how much memory is taken from the device at a time. A buffer of
// more than half of it gets a block of its own.
const blockBytes = 32 << 20

// heapsOf hands out ranges of blocks of device memory.
type heapsOf struct {
	device    *device
	lock      sync.Mutex
	alignment int64
	limit     int64
	inUse     int64       // bytes of blocks
	blocks    [2][]*block // by driver.Memory
}

// block is a piece of device memory with one VkBuffer over all of it.
type block struct {
	memory, buffer handle
	size           int64
	data           []byte // mapped, for Host memory
	free           []span // by offset, never adjacent
	own            bool   // serves one buffer
}

type span struct{ offset, size int64 }

// buffer is the [driver.Buffer]: a range of a block.
type buffer struct {
	device *device
	block  *block
	where  driver.Memory
	offset int64
	size   int64 // as asked for, in whole words
	taken  int64 // with what alignment adds
	freed  bool
}

func (m *heapsOf) init(d *device, limit int64) {
	m.device, m.limit = d, d.physical.info.Limits.MemoryBytes
	if limit > 0 {
		m.limit = min(m.limit, limit)
	}
	// Ranges start where any binding may, and never share a cache line.
	m.alignment = max(256, d.physical.info.Limits.BufferOffsetMultiple)
}

func (d *device) NewBuffer(bytes int64, where driver.Memory) (driver.Buffer, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	limit := d.physical.info.Limits.MaxBufferBytes
	if bytes < 1 || bytes > limit {
		return nil, fmt.Errorf("vulkan: %s: %w: a buffer of %d bytes, expected 1 to %d", d.physical.info.Name, driver.ErrLimit, bytes, limit)
	}
	return d.memory.take((bytes+3)&^3, where)
}

func (m *heapsOf) take(bytes int64, where driver.Memory) (driver.Buffer, error) {
	need := (bytes + m.alignment - 1) / m.alignment * m.alignment
	m.lock.Lock()
	defer m.lock.Unlock()
	if need <= blockBytes/2 {
		for _, b := range m.blocks[where] {
			if offset, ok := b.take(need); ok {
				return &buffer{device: m.device, block: b, where: where, offset: offset, size: bytes, taken: need}, nil
			}
		}
	}
	b, err := m.grow(need, where)
	if err != nil {
		return nil, err
	}
	offset, _ := b.take(need)
	return &buffer{device: m.device, block: b, where: where, offset: offset, size: bytes, taken: need}, nil
}

// grow takes a block from the device that holds at least need bytes.
func (m *heapsOf) grow(need int64, where driver.Memory) (*block, error) {
	size := int64(blockBytes)
	own := need > blockBytes/2
	if own {
		size = need
	}
	short := func() error {
		return fmt.Errorf("vulkan: %w", &driver.MemoryError{Device: m.device.physical.info.Name, Wanted: need, InUse: m.inUse, Capacity: m.limit})
	}
	if size > m.limit-m.inUse {
		if own || need > m.limit-m.inUse {
			return nil, short()
		}
		size = need // the last of it
	}
	if blocks := len(m.blocks[0]) + len(m.blocks[1]); blocks >= int(m.device.physical.limits.maxAllocationCount) {
		return nil, fmt.Errorf("vulkan: %s: %w: %d allocations", m.device.physical.info.Name, driver.ErrLimit, blocks)
	}
	b := &block{size: size, own: own}
	if err := m.device.allocate(b, where); err != nil {
		var r result
		if errors.As(err, &r) && (r == resultOutOfDevice || r == resultOutOfHost || r == resultTooManyObjects) {
			return nil, short()
		}
		return nil, err
	}
	b.free = []span{{0, size}}
	m.inUse += size
	m.blocks[where] = append(m.blocks[where], b)
	return b, nil
}

// allocate makes the memory and the buffer of b.
func (d *device) allocate(b *block, where driver.Memory) error {
	info := &bufferCreateInfo{sType: typeBufferCreateInfo, size: uint64(b.size), usage: bufferStorage | bufferTransferSrc | bufferTransferDst}
	if err := d.fail(d.fn.CreateBuffer.call(uintptr(d.h), uintptr(unsafe.Pointer(info)), 0, uintptr(unsafe.Pointer(&b.buffer))), "vkCreateBuffer"); err != nil {
		return err
	}
	live.Add(1)
	var need memoryRequirements
	d.fn.GetBufferMemoryRequirements.call(uintptr(d.h), uintptr(b.buffer), uintptr(unsafe.Pointer(&need)))
	index, _, ok := d.physical.memoryType(need.types, where)
	if !ok {
		d.release(b)
		return fmt.Errorf("vulkan: %s: no memory type for buffers among %#x", d.physical.info.Name, need.types)
	}
	ask := &memoryAllocateInfo{sType: typeMemoryAllocateInfo, size: need.size, index: index}
	if err := d.fail(d.fn.AllocateMemory.call(uintptr(d.h), uintptr(unsafe.Pointer(ask)), 0, uintptr(unsafe.Pointer(&b.memory))), "vkAllocateMemory"); err != nil {
		b.memory = 0
		d.release(b)
		return err
	}
	live.Add(1)
	err := d.fail(d.fn.BindBufferMemory.call(uintptr(d.h), uintptr(b.buffer), uintptr(b.memory), 0), "vkBindBufferMemory")
	if err == nil && where == driver.Host {
		var p unsafe.Pointer
		const whole = ^uintptr(0)
		err = d.fail(d.fn.MapMemory.call(uintptr(d.h), uintptr(b.memory), 0, whole, 0, uintptr(unsafe.Pointer(&p))), "vkMapMemory")
		if err == nil {
			b.data = unsafe.Slice((*byte)(p), b.size)
		}
	}
	if err != nil {
		d.release(b)
	}
	return err
}

// release frees what b has. Freeing memory unmaps it.
func (d *device) release(b *block) {
	if b.buffer != 0 {
		d.fn.DestroyBuffer.call(uintptr(d.h), uintptr(b.buffer), 0)
		live.Add(-1)
	}
	if b.memory != 0 {
		d.fn.FreeMemory.call(uintptr(d.h), uintptr(b.memory), 0)
		live.Add(-1)
	}
	b.buffer, b.memory, b.data = 0, 0, nil
}

// take finds the first free range of at least size bytes.
func (b *block) take(size int64) (int64, bool) {
	for i, s := range b.free {
		if s.size < size {
			continue
		}
		if s.size == size {
			b.free = slices.Delete(b.free, i, i+1)
		} else {
			b.free[i] = span{s.offset + size, s.size - size}
		}
		return s.offset, true
	}
	return 0, false
}

// give returns a range and joins it with its neighbours.
func (b *block) give(s span) {
	i, _ := slices.BinarySearchFunc(b.free, s, func(a, t span) int { return int(a.offset - t.offset) })
	b.free = slices.Insert(b.free, i, s)
	if i+1 < len(b.free) && b.free[i].offset+b.free[i].size == b.free[i+1].offset {
		b.free[i].size += b.free[i+1].size
		b.free = slices.Delete(b.free, i+1, i+2)
	}
	if i > 0 && b.free[i-1].offset+b.free[i-1].size == b.free[i].offset {
		b.free[i-1].size += b.free[i].size
		b.free = slices.Delete(b.free, i, i+1)
	}
}

func (b *block) empty() bool { return len(b.free) == 1 && b.free[0].size == b.size }

func (m *heapsOf) destroy() {
	m.lock.Lock()
	defer m.lock.Unlock()
	for i := range m.blocks {
		for _, b := range m.blocks[i] {
			m.device.release(b)
		}
		m.blocks[i] = nil
	}
	m.inUse = 0
}

func (b *buffer) Size() int64 { return b.size }

func (b *buffer) Bytes() []byte {
	if b.where != driver.Host || b.freed {
		return nil
	}
	return b.block.data[b.offset : b.offset+b.size : b.offset+b.size]
}

// Free returns the range. A block that is all free goes back to the device,
// unless it is the last shared one of its kind.
func (b *buffer) Free() {
	m := &b.device.memory
	m.lock.Lock()
	defer m.lock.Unlock()
	if b.freed || b.device.closed.Load() {
		return
	}
	b.freed = true
	b.block.give(span{b.offset, b.taken})
	if !b.block.empty() {
		return
	}
	shared := 0
	for _, o := range m.blocks[b.where] {
		if !o.own {
			shared++
		}
	}
	if b.block.own || shared > 1 {
		m.blocks[b.where] = slices.DeleteFunc(m.blocks[b.where], func(o *block) bool { return o == b.block })
		m.inUse -= b.block.size
		m.device.release(b.block)
	}
}

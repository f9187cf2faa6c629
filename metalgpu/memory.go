package metalgpu

import (
	"errors"
	"math/bits"
	"runtime"
	"sync"

	"github.com/hfcompress/compress/metalgpu/internal/driver"
)

const (
	// minBuffer is the smallest size class. Bindings begin at multiples of at most
	// 256 bytes on all devices.
	minBuffer = 256
	// addressable bounds a buffer's bytes, since kernels index elements by 32 bits.
	addressable = 4 << 30
)

// memory hands out buffers by size class and keeps those that come back.
type memory struct {
	drv         driver.Driver
	device      string
	bufferLimit int64
	limit       int64 // of held, 0 for none

	lock   sync.Mutex
	held   int64 // bytes of all buffers, idle ones included
	idle   [2]map[int64][]driver.Buffer
	closed bool
}

func (m *memory) init(drv driver.Driver, limit int64) {
	info := drv.Info()
	m.drv, m.device, m.limit = drv, info.Name, limit
	m.bufferLimit = min(info.Limits.MaxBufferBytes, addressable)
	m.idle = [2]map[int64][]driver.Buffer{{}, {}}
}

// fits returns a [driver.MemoryError] unless so many bytes more can be held.
func (m *memory) fits(bytes int64) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	capacity := m.drv.Info().Limits.MemoryBytes
	if m.limit > 0 && (capacity <= 0 || m.limit < capacity) {
		capacity = m.limit
	}
	if capacity <= 0 || bytes <= capacity-m.held {
		return nil
	}
	return &driver.MemoryError{Device: m.device, Wanted: bytes, InUse: m.held, Capacity: capacity}
}

// class rounds up to a size that many requests share: four for each power of
// two.
func class(bytes int64) int64 {
	if bytes <= minBuffer {
		return minBuffer
	}
	step := int64(1) << (bits.Len64(uint64(bytes-1)) - 3)
	return (bytes + step - 1) / step * step
}

// take returns a buffer of at least the given size. When memory runs out, what
// is idle, and what the collector finds, is freed before it gives up.
func (m *memory) take(bytes int64, where driver.Memory) (driver.Buffer, error) {
	size := class(bytes)
	if size > m.bufferLimit {
		size = (bytes + 3) &^ 3 // the last class may be beyond what is allowed
	}
	b, err := m.try(size, where)
	// Cleanups run side by side, so that one turn of the collector need not be
	// enough.
	for attempt := 0; attempt < 6 && errors.Is(err, driver.ErrOutOfMemory); attempt++ {
		if attempt > 0 {
			collect()
		}
		m.trim()
		b, err = m.try(size, where)
	}
	return b, err
}

// collect runs the collector and waits for a cleanup that it queued, besides those
// that give buffers back.
func collect() {
	runtime.GC()
	done := make(chan struct{})
	runtime.AddCleanup(new([16]byte), func(done chan struct{}) { close(done) }, done)
	runtime.GC()
	<-done
}

func (m *memory) try(size int64, where driver.Memory) (driver.Buffer, error) {
	m.lock.Lock()
	if list := m.idle[where][size]; len(list) > 0 {
		b := list[len(list)-1]
		m.idle[where][size] = list[:len(list)-1]
		m.lock.Unlock()
		return b, nil
	}
	if m.limit > 0 && size > m.limit-m.held {
		err := &driver.MemoryError{Device: m.device, Wanted: size, InUse: m.held, Capacity: m.limit}
		m.lock.Unlock()
		return nil, err
	}
	m.held += size
	m.lock.Unlock()
	b, err := m.drv.NewBuffer(size, where)
	if err != nil {
		m.lock.Lock()
		m.held -= size
		m.lock.Unlock()
	}
	return b, err
}

// give keeps a buffer that no pending command uses.
func (m *memory) give(b driver.Buffer) {
	where := driver.Device
	if b.Bytes() != nil {
		where = driver.Host
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	if !m.closed {
		m.idle[where][b.Size()] = append(m.idle[where][b.Size()], b)
	}
}

// trim frees what is idle.
func (m *memory) trim() {
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, idle := range m.idle {
		for size, list := range idle {
			for _, b := range list {
				if !m.closed {
					b.Free()
				}
				m.held -= size
			}
			delete(idle, size)
		}
	}
}

// close forgets all buffers: the driver frees them.
func (m *memory) close() {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.closed = true
	m.idle = [2]map[int64][]driver.Buffer{{}, {}}
}

// resident is uploaded data: buffers that go back when nothing refers to it any
// more.
type resident struct {
	buffers []driver.Buffer
	// host is the memory that was uploaded, where others may ask for it again: it
	// keeps its address from being used for something else.
	host []byte
}

// adopt makes a resident of buffers. Pending commands that use it must keep it
// alive.
func (m *memory) adopt(buffers ...driver.Buffer) *resident {
	r := &resident{buffers: buffers}
	runtime.AddCleanup(r, m.release, buffers)
	return r
}

func (m *memory) release(buffers []driver.Buffer) {
	for _, b := range buffers {
		m.give(b)
	}
}

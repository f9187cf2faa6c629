// Package driver is the small interface behind which the graphics APIs stand:
// buffers, pipelines made from the kernel table, and command lists that run in
// order. Vulkan, Metal and a driver in plain Go implement it.
package driver

import (
	"context"
	"errors"
	"fmt"

	"github.com/hfcompress/compress/metalgpu/internal/kernel"
)

// The errors of drivers; they come wrapped, with the device's name and the
// numbers.
var (
	// ErrUnavailable says that an API or a device is not there: no loader, no
	// driver, no such index.
	ErrUnavailable = errors.New("no such device")
	// ErrOutOfMemory says that the device has not enough memory for a buffer.
	ErrOutOfMemory = errors.New("out of device memory")
	// ErrLost says that the device was lost; everything on it is gone.
	ErrLost = errors.New("device lost")
	// ErrLimit says that a size is beyond a limit of the device.
	ErrLimit = errors.New("beyond a limit of the device")
)

// MemoryError is an [ErrOutOfMemory] with its numbers, in bytes.
type MemoryError struct {
	Device                  string
	Wanted, InUse, Capacity int64
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("%s: %v: %d bytes wanted, %d in use of %d", e.Device, ErrOutOfMemory, e.Wanted, e.InUse, e.Capacity)
}

func (e *MemoryError) Unwrap() error { return ErrOutOfMemory }

// Info describes a device. It does not change while the device is open.
type Info struct {
	// API is "vulkan", "metal" or "go".
	API string `json:"api"`
	// Index counts the devices of the API from 0.
	Index int    `json:"index"`
	Name  string `json:"name"`
	// Kind is "discrete", "integrated", "virtual", "cpu" or "other".
	Kind          string `json:"kind"`
	Vendor        string `json:"vendor,omitempty"`
	DriverName    string `json:"driver,omitempty"`
	DriverVersion string `json:"driver_version,omitempty"`
	APIVersion    string `json:"api_version,omitempty"`
	Limits        Limits `json:"limits"`
	// KeepsSubnormals says that the API promises float32 results below 2^-126
	// rather than zeros. The self-test of the device looks for itself.
	KeepsSubnormals bool `json:"keeps_subnormals"`
}

// Limits are the sizes, in bytes and in invocations, that a device can serve.
type Limits struct {
	MemoryBytes          int64     `json:"memory_bytes"`
	MaxBufferBytes       int64     `json:"max_buffer_bytes"`
	MaxWorkgroupSize     uint32    `json:"max_workgroup_size"`
	MaxWorkgroups        [3]uint32 `json:"max_workgroups"`
	SharedMemoryBytes    int64     `json:"shared_memory_bytes"`
	BufferOffsetMultiple int64     `json:"buffer_offset_multiple"`
}

// Driver is an open device. Its methods may be called by several goroutines;
// one Commands is used by one goroutine at a time.
type Driver interface {
	Info() Info
	// NewBuffer returns a buffer of at least the given size with undefined
	// content. A host buffer is visible to the processor.
	NewBuffer(bytes int64, where Memory) (Buffer, error)
	// NewPipeline makes the kernel ready to run. Pipelines belong to the driver
	// and are freed with it; asking again for a kernel gives the same one.
	NewPipeline(k *kernel.Kernel) (Pipeline, error)
	// Begin returns an empty list of commands.
	Begin() (Commands, error)
	// Close frees everything. Buffers must not be used afterwards.
	Close() error
}

// Memory says where a buffer lies.
type Memory uint8

const (
	// Device memory is the fastest for kernels; the processor does not see it.
	Device Memory = iota
	// Host memory is mapped: Bytes is its content.
	Host
)

// Buffer is memory that kernels read and write.
type Buffer interface {
	Size() int64
	// Bytes is the mapped content of a Host buffer, nil for Device memory. What
	// the processor wrote is seen by commands submitted later, and the other way
	// round once Wait has returned.
	Bytes() []byte
	// Free returns the memory. Commands that use the buffer must have ended.
	Free()
}

// Pipeline is a kernel made ready for one driver.
type Pipeline interface{ Kernel() *kernel.Kernel }

// Binding is a range of a buffer. Offset is a multiple of
// Limits.BufferOffsetMultiple; Bytes of 0 means the rest of the buffer.
type Binding struct {
	Buffer        Buffer
	Offset, Bytes int64
}

// Commands is a list of work that runs in order: each command sees what the
// ones before it wrote.
type Commands interface {
	// Dispatch runs the kernel over groups workgroups. Buffers and push constants
	// are in the order in which the kernel declares them.
	Dispatch(p Pipeline, groups [3]uint32, buffers []Binding, push []uint32)
	// Copy copies bytes; offsets and the length are multiples of 4.
	Copy(dst Buffer, dstOffset int64, src Buffer, srcOffset, bytes int64)
	// Run submits the list and waits until it has run, or, where ctx ends first,
	// until it is safe to free the buffers. It returns the first failure of any
	// of the calls. The list is empty afterwards and may be filled again.
	Run(ctx context.Context) error
	// Close frees the list.
	Close()
}

package soft

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/hfcompress/compress/metalgpu/internal/driver"
	"github.com/hfcompress/compress/metalgpu/internal/kernel"
)

// ErrKernel is wrapped by errors about what a kernel did; they name the kernel,
// the line and the invocation.
var ErrKernel = errors.New("kernel fault")

// Fault is a way in which the driver computes wrongly on purpose, so that tests
// can see whether a self-test finds out.
type Fault uint8

const (
	// None is IEEE 754 arithmetic.
	None Fault = iota
	// Contract makes one rounding of a product and the sum that takes it in, as
	// compilers do that may use fused multiply-add.
	Contract
	// FlushSubnormals takes operands and results below 2^−126 for zeros.
	FlushSubnormals
)

// Options configures [Open]. The zero value computes exactly with 4 GiB.
type Options struct {
	Fault Fault
	// MemoryBytes bounds all buffers together; 0 means 4 GiB.
	MemoryBytes int64
	// LoseAfter, when not 0, loses the device at the dispatch of that number.
	LoseAfter int
}

// offsetMultiple is the largest that Vulkan and Metal devices ask for.
const offsetMultiple = 256

// device is the [driver.Driver].
type device struct {
	opt  Options
	info driver.Info

	mu         sync.Mutex // guards what follows, and runs: machines have state
	pipelines  map[*kernel.Kernel]*pipeline
	machines   map[*kernel.Kernel]*machine
	inUse      int64
	dispatches int
	closed     bool
}

// Open returns the driver. It never fails.
func Open(opt Options) driver.Driver {
	if opt.MemoryBytes == 0 {
		opt.MemoryBytes = 4 << 30
	}
	return &device{
		opt:       opt,
		pipelines: map[*kernel.Kernel]*pipeline{},
		machines:  map[*kernel.Kernel]*machine{},
		info: driver.Info{
			API: "go", Name: "kernel interpreter", Kind: "cpu", DriverName: "soft", DriverVersion: "1",
			Limits: driver.Limits{
				MemoryBytes: opt.MemoryBytes, MaxBufferBytes: min(opt.MemoryBytes, 1<<31), MaxWorkgroupSize: 256,
				MaxWorkgroups: [3]uint32{65535, 65535, 65535}, SharedMemoryBytes: 16 << 10, BufferOffsetMultiple: offsetMultiple,
			},
			KeepsSubnormals: opt.Fault != FlushSubnormals,
		},
	}
}

func (d *device) Info() driver.Info { return d.info }

func (d *device) NewBuffer(bytes int64, where driver.Memory) (driver.Buffer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return nil, fmt.Errorf("%s: closed", d.info.Name)
	case bytes < 0 || bytes > d.info.Limits.MaxBufferBytes:
		return nil, fmt.Errorf("%s: %w: a buffer of %d bytes, at most %d", d.info.Name, driver.ErrLimit, bytes, d.info.Limits.MaxBufferBytes)
	case bytes > d.opt.MemoryBytes-d.inUse:
		return nil, &driver.MemoryError{Device: d.info.Name, Wanted: bytes, InUse: d.inUse, Capacity: d.opt.MemoryBytes}
	}
	size := (bytes + 3) / 4
	d.inUse += size * 4
	b := &buffer{device: d, where: where, words: make([]uint32, size)}
	for i := range b.words {
		b.words[i] = undefined
	}
	return b, nil
}

func (d *device) NewPipeline(k *kernel.Kernel) (driver.Pipeline, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fmt.Errorf("%s: closed", d.info.Name)
	}
	if p := d.pipelines[k]; p != nil {
		return p, nil
	}
	p, err := newPipeline(k)
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", k.Name, err)
	}
	p.device = d
	d.pipelines[k] = p
	return p, nil
}

func (d *device) Begin() (driver.Commands, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fmt.Errorf("%s: closed", d.info.Name)
	}
	return &commands{device: d}, nil
}

func (d *device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.pipelines, d.machines = nil, nil
	return nil
}

// buffer is memory of the processor. Its words are freed with it.
type buffer struct {
	device *device
	where  driver.Memory
	words  []uint32
	// What finds races in kernels that write the buffer; made when one does.
	wrote, read    []uint32
	writer, reader []int32
}

func (b *buffer) Size() int64 { return int64(len(b.words)) * 4 }

func (b *buffer) Bytes() []byte {
	if b.where != driver.Host || len(b.words) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(b.words))), len(b.words)*4)
}

func (b *buffer) Free() {
	b.device.mu.Lock()
	defer b.device.mu.Unlock()
	b.device.inUse -= b.Size()
	b.words, b.wrote, b.read, b.writer, b.reader = nil, nil, nil, nil, nil
}

// commands is a list of closures.
type commands struct {
	device *device
	list   []func(ctx context.Context) error
	err    error
	closed bool
}

func (c *commands) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(c.device.info.Name+": "+format, args...)
	}
}

func (c *commands) Dispatch(p driver.Pipeline, groups [3]uint32, buffers []driver.Binding, push []uint32) {
	mine, ok := p.(*pipeline)
	if !ok || mine.device != c.device {
		c.fail("a pipeline of another device")
		return
	}
	k := mine.kernel
	if len(buffers) != len(k.Buffers) || len(push) != len(k.Push) {
		c.fail("kernel %s: %d buffers and %d push constants, it has %d and %d", k.Name, len(buffers), len(push), len(k.Buffers), len(k.Push))
		return
	}
	for axis, n := range groups {
		if n > c.device.info.Limits.MaxWorkgroups[axis] {
			c.fail("kernel %s: %w: a grid of %v", k.Name, driver.ErrLimit, groups)
			return
		}
	}
	for i, b := range buffers {
		own, ok := b.Buffer.(*buffer)
		if !ok || own.device != c.device {
			c.fail("kernel %s: buffer %s is of another device", k.Name, k.Buffers[i].Name)
			return
		}
		if b.Offset < 0 || b.Offset%offsetMultiple != 0 || b.Bytes < 0 || b.Bytes%4 != 0 || b.Offset > own.Size() || b.Bytes > own.Size()-b.Offset {
			c.fail("kernel %s: buffer %s: %d bytes at %d of %d", k.Name, k.Buffers[i].Name, b.Bytes, b.Offset, own.Size())
			return
		}
	}
	buffers, push = slices.Clone(buffers), slices.Clone(push)
	c.list = append(c.list, func(ctx context.Context) error { return c.device.dispatch(ctx, mine, groups, buffers, push) })
}

func (c *commands) Copy(dst driver.Buffer, dstOffset int64, src driver.Buffer, srcOffset, bytes int64) {
	d, ok1 := dst.(*buffer)
	s, ok2 := src.(*buffer)
	if !ok1 || !ok2 || d.device != c.device || s.device != c.device {
		c.fail("copy: a buffer of another device")
		return
	}
	if (dstOffset|srcOffset|bytes)&3 != 0 || dstOffset < 0 || srcOffset < 0 || bytes < 0 ||
		dstOffset > d.Size()-bytes || srcOffset > s.Size()-bytes {
		c.fail("copy: %d bytes from %d of %d to %d of %d", bytes, srcOffset, s.Size(), dstOffset, d.Size())
		return
	}
	c.list = append(c.list, func(context.Context) error {
		if d.Size() < dstOffset+bytes || s.Size() < srcOffset+bytes {
			return fmt.Errorf("%s: copy: a buffer was freed", c.device.info.Name)
		}
		copy(d.words[dstOffset/4:(dstOffset+bytes)/4], s.words[srcOffset/4:])
		return nil
	})
}

func (c *commands) Run(ctx context.Context) error {
	list, err := c.list, c.err
	c.list, c.err = nil, nil
	if err != nil {
		return err
	}
	c.device.mu.Lock()
	defer c.device.mu.Unlock()
	if c.closed || c.device.closed {
		return fmt.Errorf("%s: closed", c.device.info.Name)
	}
	for _, f := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *commands) Close() { c.closed, c.list = true, nil }

// dispatch runs a grid, one workgroup after the other.
func (d *device) dispatch(ctx context.Context, p *pipeline, groups [3]uint32, buffers []driver.Binding, push []uint32) error {
	d.dispatches++
	if d.opt.LoseAfter > 0 && d.dispatches >= d.opt.LoseAfter {
		return fmt.Errorf("%s: %w", d.info.Name, driver.ErrLost)
	}
	m := d.machines[p.kernel]
	if m == nil {
		m = newMachine(p, d.opt.Fault)
		d.machines[p.kernel] = m
	}
	m.dispatch = uint32(d.dispatches)
	for i, v := range push {
		for lane := range m.constants[i] {
			m.constants[i][lane] = v
		}
	}
	m.buffers = m.buffers[:0]
	for i, b := range buffers {
		own := b.Buffer.(*buffer)
		from, to := b.Offset/4, (b.Offset+b.Bytes)/4
		if b.Bytes == 0 {
			to = int64(len(own.words))
		}
		if to > int64(len(own.words)) || own.words == nil && own.Size() > 0 {
			return fmt.Errorf("%s: kernel %s: buffer %s was freed", d.info.Name, p.kernel.Name, p.kernel.Buffers[i].Name)
		}
		mem := memory{words: own.words[from:to]}
		if p.kernel.Buffers[i].Writes {
			if own.wrote == nil {
				n := len(own.words)
				own.wrote, own.read, own.writer, own.reader = make([]uint32, n), make([]uint32, n), make([]int32, n), make([]int32, n)
			}
			mem.wrote, mem.read, mem.writer, mem.reader = own.wrote[from:to], own.read[from:to], own.writer[from:to], own.reader[from:to]
		}
		m.buffers = append(m.buffers, mem)
	}
	n := 0
	for z := range groups[2] {
		for y := range groups[1] {
			for x := range groups[0] {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := m.run(p, x, y, z, n); err != nil {
					return fmt.Errorf("%s: %w", d.info.Name, err)
				}
				n++
			}
		}
	}
	return nil
}

//go:build (linux || windows) && (amd64 || arm64) && !nogpu

package vulkan

import (
	"context"
	"errors"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/hfcompress/compress/metalgpu/internal/driver"
)

// replace puts a function that always answers with r in place of a Vulkan
// function, which shows failures that no healthy device has.
func replace(t *testing.T, f *address, r int32) {
	real := *f
	*f = address(purego.NewCallback(func() uintptr { return uintptr(uint32(r)) }))
	t.Cleanup(func() { *f = real })
}

func TestDeviceLoss(t *testing.T) {
	for _, name := range []string{"submit", "wait", "begin"} {
		t.Run(name, func(t *testing.T) {
			before := live.Load()
			d := openTest(t, Options{})
			a, b := newBuffer(t, d, 64, driver.Host), newBuffer(t, d, 64, driver.Device)
			c := begin(t, d)
			switch name {
			case "submit":
				replace(t, &d.fn.QueueSubmit, resultLost)
			case "wait":
				replace(t, &d.fn.WaitForFences, resultLost)
			case "begin":
				replace(t, &d.fn.BeginCommandBuffer, resultLost)
			}
			c.Copy(b, 0, a, 0, 64)
			if err := c.Run(context.Background()); !errors.Is(err, driver.ErrLost) {
				t.Fatalf("a lost device gives %v", err)
			}
			for name, err := range map[string]error{
				"run":      c.Run(context.Background()),
				"buffer":   second(d.NewBuffer(4, driver.Host)),
				"begin":    second(d.Begin()),
				"pipeline": second(d.NewPipeline(addKernel)),
			} {
				if !errors.Is(err, driver.ErrLost) {
					t.Errorf("%s after the loss: %v", name, err)
				}
			}
			a.Free()
			c.Close()
			if err := d.Close(); err != nil {
				t.Errorf("closing a lost device: %v", err)
			}
			if n := live.Load() - before; n != 0 {
				t.Errorf("%d objects are left", n)
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }

func TestOutOfMemory(t *testing.T) {
	d := openTest(t, Options{})
	for name, f := range map[string]struct {
		f *address
		r int32
	}{
		"allocate, device": {&d.fn.AllocateMemory, resultOutOfDevice},
		"allocate, host":   {&d.fn.AllocateMemory, resultOutOfHost},
		"allocate, count":  {&d.fn.AllocateMemory, resultTooManyObjects},
		"create buffer":    {&d.fn.CreateBuffer, resultOutOfDevice},
		"bind":             {&d.fn.BindBufferMemory, resultOutOfDevice},
		"map":              {&d.fn.MapMemory, resultOutOfHost},
	} {
		t.Run(name, func(t *testing.T) {
			before, inUse := live.Load(), d.memory.inUse
			replace(t, f.f, f.r)
			_, err := d.NewBuffer(blockBytes, driver.Host)
			var e *driver.MemoryError
			if !errors.As(err, &e) || !errors.Is(err, driver.ErrOutOfMemory) {
				t.Fatalf("out of memory gives %v", err)
			}
			if e.Wanted < blockBytes || e.InUse != inUse || e.Capacity != d.Info().Limits.MemoryBytes {
				t.Errorf("the numbers are %+v", e)
			}
			if live.Load() != before || d.memory.inUse != inUse {
				t.Errorf("%d objects and %d bytes are left", live.Load()-before, d.memory.inUse-inUse)
			}
		})
	}
	// The device goes on.
	newBuffer(t, d, 1<<20, driver.Host).Free()
}

func TestPipelineFailure(t *testing.T) {
	for _, name := range []string{"module", "set", "layout", "pipeline"} {
		d := openTest(t, Options{})
		before := live.Load()
		switch name {
		case "module":
			replace(t, &d.fn.CreateShaderModule, resultOutOfHost)
		case "set":
			replace(t, &d.fn.CreateDescriptorSetLayout, resultOutOfHost)
		case "layout":
			replace(t, &d.fn.CreatePipelineLayout, resultOutOfHost)
		case "pipeline":
			replace(t, &d.fn.CreateComputePipelines, resultOutOfHost)
		}
		if _, err := d.NewPipeline(addKernel); !errors.Is(err, driver.ErrOutOfMemory) {
			t.Errorf("%s: %v", name, err)
		}
		if n := live.Load() - before; n != 0 {
			t.Errorf("%s: %d objects are left", name, n)
		}
	}
}

func TestMemoryLimit(t *testing.T) {
	d := openTest(t, Options{MemoryLimit: 3*blockBytes + 1000})
	var held []driver.Buffer
	for {
		b, err := d.NewBuffer(blockBytes/4, driver.Device)
		if err == nil {
			if held = append(held, b); len(held) > 100 {
				t.Fatal("the limit does not limit")
			}
			continue
		}
		var e *driver.MemoryError
		if !errors.As(err, &e) || e.InUse+e.Wanted <= e.Capacity || e.Capacity != 3*blockBytes+1000 {
			t.Errorf("beyond the limit: %v", err)
		}
		break
	}
	if len(held) != 12 {
		t.Errorf("%d buffers of %d bytes fitted", len(held), blockBytes/4)
	}
	for _, b := range held {
		b.Free()
	}
	if got := d.memory.inUse; got != blockBytes {
		t.Errorf("%d bytes are held when all is free, want one block", got)
	}
}

// TestValidationSpeaks is the negative control of the tests under the layer: a
// wrong call must be reported.
func TestValidationSpeaks(t *testing.T) {
	index := testDevice(t)
	var messages []string
	d, err := Open(index, Options{Validation: true, Message: func(text string) { messages = append(messages, text) }})
	if err != nil {
		if validate() || !errors.Is(err, driver.ErrUnavailable) {
			t.Fatal(err)
		}
		return // the layer is not installed, and that is what the error says
	}
	defer d.Close()
	own := d.(*device)
	own.code = testCode
	var h handle
	info := &bufferCreateInfo{sType: typeBufferCreateInfo, usage: bufferStorage} // of no bytes
	own.fn.CreateBuffer.call(uintptr(own.h), uintptr(unsafe.Pointer(info)), 0, uintptr(unsafe.Pointer(&h)))
	if len(messages) == 0 {
		t.Error("the layer let a buffer of no bytes pass")
	}
	if h != 0 {
		own.fn.DestroyBuffer.call(uintptr(own.h), uintptr(h), 0)
	}
	messages = nil
	// Two copies to the same range without a barrier between them.
	b := newBuffer(t, d, 1024, driver.Device)
	x := newBuffer(t, d, 1024, driver.Device)
	c := begin(t, d).(*commands)
	for range 2 {
		c.Copy(b, 0, x, 0, 64)
		c.reads, c.writes = nil, nil
	}
	if err := c.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(messages) == 0 {
		t.Error("the layer let a missing barrier pass")
	}
}

// TestBarriers counts the barriers between commands, which a device that runs
// them one after the other cannot show to be missing.
func TestBarriers(t *testing.T) {
	d := openTest(t, Options{})
	var buffers [3]driver.Buffer
	for i := range buffers {
		buffers[i] = newBuffer(t, d, 1024, driver.Device)
	}
	add := pipelineOf(t, d, addKernel)
	count := 0
	real := d.fn.CmdPipelineBarrier
	defer func() { d.fn.CmdPipelineBarrier = real }()
	d.fn.CmdPipelineBarrier = address(purego.NewCallback(func(list, from, to, flags, n, b, n2, b2, n3, b3 uintptr) uintptr {
		count++
		return uintptr(real.call(list, from, to, flags, n, b, n2, b2, n3, b3))
	}))
	type command struct{ from, fromOffset, to, toOffset int }
	for name, c := range map[string]struct {
		commands []command
		barriers int
	}{
		"nothing shared":        {[]command{{0, 0, 1, 0}, {0, 0, 2, 0}}, 0},
		"other parts":           {[]command{{0, 0, 1, 0}, {0, 0, 1, 256}, {1, 512, 2, 0}}, 0},
		"read after write":      {[]command{{0, 0, 1, 0}, {1, 0, 2, 0}}, 1},
		"write after write":     {[]command{{0, 0, 1, 0}, {2, 0, 1, 0}}, 1},
		"write after read":      {[]command{{0, 0, 1, 0}, {2, 0, 0, 0}}, 1},
		"a barrier serves once": {[]command{{0, 0, 1, 0}, {1, 0, 2, 0}, {1, 0, 2, 256}, {2, 0, 0, 0}}, 2},
	} {
		for _, copies := range []bool{false, true} {
			list := begin(t, d).(*commands)
			list.Copy(buffers[0], 768, buffers[1], 768, 4)
			count = 0
			for _, x := range c.commands {
				if copies {
					list.Copy(buffers[x.to], int64(x.toOffset), buffers[x.from], int64(x.fromOffset), 256)
				} else {
					list.Dispatch(add, [3]uint32{1, 1, 1}, []driver.Binding{{Buffer: buffers[x.from], Offset: int64(x.fromOffset), Bytes: 256}, {Buffer: buffers[x.to], Offset: int64(x.toOffset), Bytes: 256}}, []uint32{0, 0})
				}
			}
			if count != c.barriers || list.err != nil {
				t.Errorf("%s, copies %t: %d barriers, want %d (%v)", name, copies, count, c.barriers, list.err)
			}
			list.Close()
		}
	}
}

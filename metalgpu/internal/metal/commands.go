package metal

import (
	"context"
	"errors"
	"fmt"

	"github.com/hfcompress/compress/metalgpu/internal/driver"
)

// commands keeps its work in Go until Run, which then encodes, commits and
// waits on one thread within one pool: encoders are autoreleased, and a pool
// belongs to a thread.
type commands struct {
	gpu  *gpu
	work []command
	err  error
}

// command is a dispatch, or a copy where pipeline is nil.
type command struct {
	pipeline *pipeline
	groups   [3]uint32
	bindings []driver.Binding
	push     []uint32
	// of a copy
	dst, src             id
	dstOffset, srcOffset int64
	bytes                int64
}

func (g *gpu) Begin() (driver.Commands, error) {
	if g.lost.Load() {
		return nil, fmt.Errorf("metal: %s: %w", g.info.Name, driver.ErrLost)
	}
	return &commands{gpu: g}, nil
}

func (c *commands) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("metal: %s: "+format, append([]any{c.gpu.info.Name}, args...)...)
	}
}

func (c *commands) Dispatch(p driver.Pipeline, groups [3]uint32, buffers []driver.Binding, push []uint32) {
	pipe, ok := p.(*pipeline)
	if !ok {
		c.fail("a pipeline of another driver")
		return
	}
	k := pipe.kernel
	if len(buffers) != len(k.Buffers) || len(push) != len(k.Push) {
		c.fail("kernel %s: %d buffers and %d constants, expected %d and %d", k.Name, len(buffers), len(push), len(k.Buffers), len(k.Push))
		return
	}
	for i, b := range buffers {
		buf, ok := b.Buffer.(*buffer)
		if !ok || buf.id == 0 || b.Offset < 0 || b.Bytes < 0 || b.Offset+b.Bytes > buf.size || b.Offset%c.gpu.info.Limits.BufferOffsetMultiple != 0 {
			c.fail("kernel %s: buffer %s does not lie in its memory", k.Name, k.Buffers[i].Name)
			return
		}
	}
	if groups[0] == 0 || groups[1] == 0 || groups[2] == 0 {
		return
	}
	c.work = append(c.work, command{pipeline: pipe, groups: groups,
		bindings: append([]driver.Binding(nil), buffers...), push: append([]uint32(nil), push...)})
}

func (c *commands) Copy(dst driver.Buffer, dstOffset int64, src driver.Buffer, srcOffset, bytes int64) {
	to, ok1 := dst.(*buffer)
	from, ok2 := src.(*buffer)
	if !ok1 || !ok2 || to.id == 0 || from.id == 0 || dstOffset < 0 || srcOffset < 0 || bytes < 0 ||
		dstOffset+bytes > to.size || srcOffset+bytes > from.size || (dstOffset|srcOffset|bytes)%4 != 0 {
		c.fail("a copy of %d bytes does not lie in its buffers, or not on multiples of 4", bytes)
		return
	}
	if bytes > 0 {
		c.work = append(c.work, command{dst: to.id, src: from.id, dstOffset: dstOffset, srcOffset: srcOffset, bytes: bytes})
	}
}

// How a command buffer ended (MTLCommandBufferStatus, MTLCommandBufferError).
const (
	statusError = 5

	errorAccessRevoked = 4
	errorOutOfMemory   = 8
	errorDeviceRemoved = 11
)

func (c *commands) Run(ctx context.Context) error {
	work, err := c.work, c.err
	c.work, c.err = nil, nil
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(work) == 0 {
		return nil
	}
	c.gpu.m.pool(func() { err = c.gpu.run(work) })
	if err != nil {
		return fmt.Errorf("metal: %s: %w", c.gpu.info.Name, err)
	}
	return ctx.Err()
}

// run encodes the work, commits it and waits. Commands of one encoder run in
// order, since the buffers' hazards are tracked by Metal; kernels and copies need
// encoders of different kinds, which run in order too.
func (g *gpu) run(work []command) error {
	m := g.m
	list := id(m.send(g.queue, "commandBuffer"))
	if list == 0 {
		return errors.New("no command buffer")
	}
	var encoder id
	computes := false
	end := func() {
		if encoder != 0 {
			m.send(encoder, "endEncoding")
			encoder = 0
		}
	}
	for _, w := range work {
		if encoder == 0 || computes != (w.pipeline != nil) {
			end()
			computes = w.pipeline != nil
			kind := "blitCommandEncoder"
			if computes {
				kind = "computeCommandEncoder"
			}
			if encoder = id(m.send(list, kind)); encoder == 0 {
				return errors.New("no " + kind)
			}
		}
		if !computes {
			m.send(encoder, "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:",
				uintptr(w.src), uintptr(w.srcOffset), uintptr(w.dst), uintptr(w.dstOffset), uintptr(w.bytes))
			continue
		}
		m.send(encoder, "setComputePipelineState:", uintptr(w.pipeline.state))
		for i, b := range w.bindings {
			m.send(encoder, "setBuffer:offset:atIndex:", uintptr(b.Buffer.(*buffer).id), uintptr(b.Offset), uintptr(i))
		}
		if len(w.push) > 0 {
			m.setBytes(encoder, w.push, len(w.bindings))
		}
		k := w.pipeline.kernel
		m.dispatch(encoder, size{uint(w.groups[0]), uint(w.groups[1]), uint(w.groups[2])},
			size{uint(k.Workgroup[0]), uint(k.Workgroup[1]), uint(k.Workgroup[2])})
	}
	end()
	m.send(list, "commit")
	m.send(list, "waitUntilCompleted")
	if m.send(list, "status") != statusError {
		return nil
	}
	failure := id(m.send(list, "error"))
	text := m.text(id(m.send(failure, "localizedDescription")))
	switch m.send(failure, "code") {
	case errorOutOfMemory:
		return fmt.Errorf("%w: %s", &driver.MemoryError{Device: g.info.Name, InUse: g.inUse.Load(), Capacity: g.info.Limits.MemoryBytes}, text)
	case errorAccessRevoked, errorDeviceRemoved:
		g.lost.Store(true)
		return fmt.Errorf("%w: %s", driver.ErrLost, text)
	}
	return errors.New(text)
}

func (c *commands) Close() { c.work = nil }

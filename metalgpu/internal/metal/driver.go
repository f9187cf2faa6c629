package metal

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hfcompress/compress/metalgpu/internal/driver"
	"github.com/hfcompress/compress/metalgpu/internal/kernel"
)

// gpu is an open device.
type gpu struct {
	m             messenger
	device, queue id
	info          driver.Info
	inUse         atomic.Int64 // bytes of buffers
	lost          atomic.Bool

	mu        sync.Mutex
	pipelines map[*kernel.Kernel]*pipeline
	closed    bool
}

func open(m messenger, index int) (driver.Driver, error) {
	ids, err := m.devices()
	if err != nil {
		return nil, fmt.Errorf("metal: %w: %w", driver.ErrUnavailable, err)
	}
	g := &gpu{m: m, pipelines: map[*kernel.Kernel]*pipeline{}}
	m.pool(func() {
		for i, d := range ids {
			if i == index {
				g.device, g.info = d, describe(m, d, i)
			} else {
				m.send(d, "release")
			}
		}
		if g.device != 0 {
			g.queue = id(m.send(g.device, "newCommandQueue"))
		}
	})
	if g.device == 0 {
		return nil, fmt.Errorf("metal: %w: index %d of %d", driver.ErrUnavailable, index, len(ids))
	}
	if g.queue == 0 {
		m.send(g.device, "release")
		return nil, fmt.Errorf("metal: %s: no command queue", g.info.Name)
	}
	return g, nil
}

func (g *gpu) Info() driver.Info { return g.info }

// Storage modes of a buffer (MTLResourceOptions).
const (
	storageShared  = 0
	storagePrivate = 2 << 4
)

func (g *gpu) NewBuffer(bytes int64, where driver.Memory) (driver.Buffer, error) {
	if bytes < 1 || bytes > g.info.Limits.MaxBufferBytes {
		return nil, fmt.Errorf("metal: %s: %w: a buffer of %d bytes, expected 1 to %d", g.info.Name, driver.ErrLimit, bytes, g.info.Limits.MaxBufferBytes)
	}
	bytes = (bytes + 3) &^ 3
	tooMuch := &driver.MemoryError{Device: g.info.Name, Wanted: bytes, Capacity: g.info.Limits.MemoryBytes}
	if tooMuch.InUse = g.inUse.Add(bytes) - bytes; tooMuch.InUse+bytes > tooMuch.Capacity {
		g.inUse.Add(-bytes)
		return nil, tooMuch
	}
	b := &buffer{gpu: g, size: bytes}
	options := uintptr(storagePrivate)
	if where == driver.Host {
		options = storageShared
	}
	g.m.pool(func() { b.id = id(g.m.send(g.device, "newBufferWithLength:options:", uintptr(bytes), options)) })
	if b.id == 0 {
		g.inUse.Add(-bytes)
		return nil, tooMuch
	}
	if where == driver.Host {
		b.data = g.m.memory(b.id, bytes)
	}
	return b, nil
}

type buffer struct {
	gpu  *gpu
	id   id
	size int64
	data []byte
}

func (b *buffer) Size() int64   { return b.size }
func (b *buffer) Bytes() []byte { return b.data }

func (b *buffer) Free() {
	if b.id != 0 {
		b.gpu.m.send(b.id, "release")
		b.gpu.inUse.Add(-b.size)
		b.id, b.data = 0, nil
	}
}

type pipeline struct {
	kernel *kernel.Kernel
	state  id
}

func (p *pipeline) Kernel() *kernel.Kernel { return p.kernel }

func (g *gpu) NewPipeline(k *kernel.Kernel) (driver.Pipeline, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, fmt.Errorf("metal: %s: kernel %s: %w", g.info.Name, k.Name, errClosed)
	}
	if p := g.pipelines[k]; p != nil {
		return p, nil
	}
	threads := k.Workgroup[0] * k.Workgroup[1] * k.Workgroup[2]
	var state id
	var most int
	var err error
	g.m.pool(func() {
		if state, err = g.compile(k); err == nil {
			most = int(g.m.send(state, "maxTotalThreadsPerThreadgroup"))
		}
	})
	if err == nil && threads > most {
		g.m.send(state, "release")
		err = fmt.Errorf("%w: a workgroup of %d, this kernel allows %d", driver.ErrLimit, threads, most)
	}
	if err != nil {
		return nil, fmt.Errorf("metal: %s: kernel %s: %w", g.info.Name, k.Name, err)
	}
	p := &pipeline{kernel: k, state: state}
	g.pipelines[k] = p
	return p, nil
}

// compile makes the pipeline state of a kernel, inside a pool. Before macOS 15
// the options have no mathMode; the older switch then forbids fast arithmetic.
func (g *gpu) compile(k *kernel.Kernel) (id, error) {
	m := g.m
	options := id(m.send(m.class("MTLCompileOptions"), "new"))
	defer m.send(options, "release")
	if truth(m.send(options, "respondsToSelector:", m.selector("setMathMode:"))) {
		m.send(options, "setMathMode:", 0)                   // MTLMathModeSafe
		m.send(options, "setMathFloatingPointFunctions:", 1) // MTLMathFloatingPointFunctionsPrecise
	} else {
		m.send(options, "setFastMathEnabled:", 0)
	}
	library, err := m.sendForError(g.device, "newLibraryWithSource:options:error:", uintptr(m.nsstring(k.MSL())), uintptr(options))
	if err != nil {
		return 0, fmt.Errorf("compiling: %w", err)
	}
	defer m.send(library, "release")
	function := id(m.send(library, "newFunctionWithName:", uintptr(m.nsstring(k.Name))))
	if function == 0 {
		return 0, errors.New("its source has no such function")
	}
	defer m.send(function, "release")
	state, err := m.sendForError(g.device, "newComputePipelineStateWithFunction:error:", uintptr(function))
	if err != nil {
		return 0, fmt.Errorf("making it ready: %w", err)
	}
	return state, nil
}

var errClosed = errors.New("the device is closed")

func (g *gpu) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	for _, p := range g.pipelines {
		g.m.send(p.state, "release")
	}
	clear(g.pipelines)
	g.m.send(g.queue, "release")
	g.m.send(g.device, "release")
	return nil
}

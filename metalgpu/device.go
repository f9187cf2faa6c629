package metalgpu

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/metalgpu/internal/driver"
	"github.com/hfcompress/compress/metalgpu/internal/kernel"
	"github.com/hfcompress/compress/tensor"
)

// device is the [nn.Device] that [Open] returns.
type device struct {
	drv    driver.Driver
	info   nn.Info
	limits driver.Limits
	memory memory
	// dummy is bound where a kernel's optional operand is absent.
	dummy driver.Buffer

	// life is held for reading by whatever uses the driver, and for writing by
	// Close.
	life   sync.RWMutex
	closed bool
	lost   atomic.Bool

	pipelines sync.Map // of kernel names

	// budget is the work, in multiplications, after which a session submits what
	// it recorded. It follows the device's speed.
	budget atomic.Int64

	// roots are the factors of long convolutions' transforms.
	roots longRoots

	// shared finds the uploaded bases of packed tables by where they lie in host
	// memory.
	sharedLock sync.Mutex
	shared     map[uintptr]weak.Pointer[resident]
}

// The bounds of a session's submission: its work as the device's speed is not
// known yet, and the number of its commands.
const (
	firstBudget = 1 << 26
	maxCommands = 2000
)

func newDevice(drv driver.Driver, name string, memoryLimit int64) (*device, error) {
	d := &device{drv: drv, limits: drv.Info().Limits, shared: map[uintptr]weak.Pointer[resident]{}}
	d.info.Name = name
	d.budget.Store(firstBudget)
	d.memory.init(drv, memoryLimit)
	var err error
	d.dummy, err = d.memory.take(minBuffer, driver.Device)
	return d, err
}

// describe completes Info by what the self-test found.
func (d *device) describe(r *Report) {
	i := r.Device
	d.info.Strict = r.Strict
	d.info.Fingerprint = r.Fingerprint
	d.info.Regimes = regimes()
	d.info.Detail = map[string]string{
		"api": i.API, "device": i.Name, "kind": i.Kind, "vendor": i.Vendor, "driver": i.DriverName,
		"driver version": i.DriverVersion, "api version": i.APIVersion,
		"memory bytes": fmt.Sprint(i.Limits.MemoryBytes), "kernels": r.Kernels, "numerics": r.Numerics,
	}
}

// tiledRows is the first row count of linear maps that are computed in tiles.
const tiledRows = 16

// regimes are the intervals in which linear maps have one order of summation.
func regimes() []nn.Regime {
	return []nn.Regime{
		{Name: "lanes", MinRows: 1, MaxRows: tiledRows - 1},
		{Name: "tiled", MinRows: tiledRows},
	}
}

func (d *device) Info() nn.Info { return d.info }

// Fits implements [nn.Bounded].
func (d *device) Fits(bytes int64) error { return d.memory.fits(bytes) }

// enter reports whether the driver may be used; leave must follow then.
func (d *device) enter() error {
	d.life.RLock()
	if d.closed {
		d.life.RUnlock()
		return fmt.Errorf("gpu device: %w", nn.ErrClosed)
	}
	if d.lost.Load() {
		d.life.RUnlock()
		return fmt.Errorf("gpu device: %w", ErrLost)
	}
	return nil
}

// submit runs a list and remembers when the device is lost.
func (d *device) submit(ctx context.Context, list driver.Commands) error {
	err := list.Run(ctx)
	if errors.Is(err, ErrLost) {
		d.lost.Store(true)
	}
	return err
}

func (d *device) leave() { d.life.RUnlock() }

// Close frees the device's memory. It waits for operations under way; those that
// come later fail.
func (d *device) Close() error {
	d.life.Lock()
	defer d.life.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	d.memory.close()
	return d.drv.Close()
}

// pipeline returns the kernel made ready.
func (d *device) pipeline(name string) (driver.Pipeline, error) {
	if p, ok := d.pipelines.Load(name); ok {
		return p.(driver.Pipeline), nil
	}
	k, ok := kernel.Lookup(name)
	if !ok {
		return nil, fmt.Errorf("there is no kernel %s", name)
	}
	p, err := d.drv.NewPipeline(k)
	if err != nil {
		return nil, err
	}
	d.pipelines.Store(name, p)
	return p, nil
}

func (d *device) Begin(ctx context.Context) nn.Session {
	s := &session{device: d, ctx: ctx, grown: map[*cache]int{}}
	if err := d.enter(); err != nil {
		s.fail("begin", err)
		return s
	}
	d.leave()
	return s
}

func (d *device) NewKVCache(batch, width, capacity int) (nn.KVCache, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	if _, err := (tensor.Shape{batch, capacity, width}).Bytes(tensor.F32); err != nil || batch < 1 || width < 1 || capacity < 1 {
		return nil, fmt.Errorf("key/value cache: %w: %d sequences of %d positions of width %d", tensor.ErrShape, batch, capacity, width)
	}
	bytes := 4 * int64(batch) * int64(width) * int64(capacity)
	if bytes > d.memory.bufferLimit {
		return nil, fmt.Errorf("key/value cache: %w: %d bytes, expected at most %d", ErrLimit, bytes, d.memory.bufferLimit)
	}
	return &cache{device: d, batch: batch, width: width, capacity: capacity}, nil
}

package metalgpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/hfcompress/compress/architectures/nn"
	"github.com/hfcompress/compress/metalgpu/internal/driver"
	"github.com/hfcompress/compress/metalgpu/internal/metal"
	"github.com/hfcompress/compress/metalgpu/internal/soft"
	"github.com/hfcompress/compress/metalgpu/internal/vulkan"
)

// Errors that opening and using a device wraps.
var (
	// ErrUnavailable says that there is no such device: no loader, no driver, no
	// such API or index.
	ErrUnavailable = driver.ErrUnavailable
	// ErrOutOfMemory says that the device's memory does not suffice. The error is a
	// [*MemoryError], with the numbers.
	ErrOutOfMemory = driver.ErrOutOfMemory
	// ErrLost says that the device was lost, as when its driver was reset. It has to
	// be opened again, and weights have to be uploaded again.
	ErrLost = driver.ErrLost
	// ErrLimit says that a value is larger than the device's buffers can be.
	ErrLimit = driver.ErrLimit
	// ErrNotStrict says that the self-test found arithmetic that breaks the numeric
	// contract.
	ErrNotStrict = errors.New("the device does not keep the numeric contract")
)

// MemoryError is an [ErrOutOfMemory] with its numbers, in bytes.
type MemoryError = driver.MemoryError

// DeviceInfo describes a device that was found.
type DeviceInfo = driver.Info

// Options choose and configure a device. The zero value is the best GPU.
type Options struct {
	// API is "vulkan", "metal", "go" (the kernels on the processor, slowly), or empty
	// for whatever [Devices] lists.
	API string
	// Index counts the devices of the API, or, where API is empty, the list that
	// [Devices] returns.
	Index int
	// MemoryLimit bounds the bytes of buffers; 0 means what the device has.
	MemoryLimit int64
	// Validation runs Vulkan under the Khronos validation layer, which has to be
	// installed; Message receives what it has to say. For tests.
	Validation bool
	Message    func(text string)
	// Lenient opens a device that fails the self-test, too: its Info says so.
	Lenient bool
}

// api is one way to reach devices.
type api struct {
	name    string
	devices func() ([]driver.Info, error)
	open    func(index int, o Options) (driver.Driver, error)
	// explicit says that the devices are used only where the API is named.
	explicit bool
}

var apis = []api{
	{
		name:    "metal",
		devices: metal.Devices,
		open:    func(index int, _ Options) (driver.Driver, error) { return metal.Open(index) },
	},
	{
		name:    "vulkan",
		devices: vulkan.Devices,
		open: func(index int, o Options) (driver.Driver, error) {
			return vulkan.Open(index, vulkan.Options{Validation: o.Validation, Message: o.Message})
		},
	},
	{
		name:     "go",
		explicit: true,
		devices:  func() ([]driver.Info, error) { return []driver.Info{soft.Open(soft.Options{}).Info()}, nil },
		open: func(index int, _ Options) (driver.Driver, error) {
			if index != 0 {
				return nil, fmt.Errorf("go: %w: index %d of 1", ErrUnavailable, index)
			}
			return soft.Open(soft.Options{}), nil
		},
	},
}

// kindOrder sorts devices: the fastest kind first.
var kindOrder = []string{"discrete", "integrated", "virtual", "other", "cpu"}

// Devices lists the GPUs that can be opened, the fastest kind first; index N of
// the list is "gpu:N". Software implementations of a graphics API are listed, as
// the kind "cpu"; the driver in plain Go is not. An error wraps [ErrUnavailable]
// where nothing is found, with the reasons.
func Devices() ([]DeviceInfo, error) {
	var all []driver.Info
	var errs []error
	for _, a := range apis {
		if a.explicit {
			continue
		}
		infos, err := a.devices()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, infos...)
	}
	if len(all) == 0 {
		if len(errs) == 0 {
			errs = append(errs, ErrUnavailable)
		}
		return nil, fmt.Errorf("no GPU was found on %s/%s: %w", runtime.GOOS, runtime.GOARCH, errors.Join(errs...))
	}
	slices.SortStableFunc(all, func(a, b driver.Info) int {
		return cmp.Compare(slices.Index(kindOrder, a.Kind), slices.Index(kindOrder, b.Kind))
	})
	return all, nil
}

// DeviceName is the name of number i of the list that [Devices] returns, as the
// command line takes it and [nn.Info] has it.
func DeviceName(i int) string {
	if i == 0 {
		return "gpu"
	}
	return fmt.Sprintf("gpu:%d", i)
}

// Open opens a device and tests its arithmetic. Without [Options.Lenient] a device
// that does not keep the numeric contract gives an error that wraps [ErrNotStrict]
// and says what was found. Close the device when it is no longer used: it holds
// threads and memory that the collector does not know.
func Open(ctx context.Context, o Options) (nn.Device, error) {
	_, d, err := OpenReport(ctx, o)
	return d, err
}

// OpenReport is [Open] with what the self-test found.
func OpenReport(ctx context.Context, o Options) (*Report, nn.Device, error) {
	name, drv, err := find(o)
	if err != nil {
		return nil, nil, err
	}
	return openStrict(ctx, drv, name, o)
}

// openStrict makes a device of a driver if its arithmetic is right.
func openStrict(ctx context.Context, drv driver.Driver, name string, o Options) (*Report, nn.Device, error) {
	d, report, err := open(ctx, drv, name, o)
	if err != nil {
		return nil, nil, err
	}
	if !report.Strict && !o.Lenient {
		err := fmt.Errorf("%s: %w: %s", report.Device.Name, ErrNotStrict, report.finding())
		return report, nil, errors.Join(err, d.Close())
	}
	return report, d, nil
}

// open makes a device of a driver, strict or not. It closes the driver where it
// fails.
func open(ctx context.Context, drv driver.Driver, name string, o Options) (*device, *Report, error) {
	d, err := newDevice(drv, name, o.MemoryLimit)
	if err != nil {
		return nil, nil, errors.Join(err, drv.Close())
	}
	report, err := d.arithmetic(ctx)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("self-test of %s: %w", drv.Info().Name, err), d.Close())
	}
	d.describe(report)
	return d, report, nil
}

// find opens the driver that o asks for and says how the command line calls it.
func find(o Options) (string, driver.Driver, error) {
	listed, listErr := Devices()
	if o.API == "" {
		if listErr != nil {
			return "", nil, listErr
		}
		if o.Index < 0 || o.Index >= len(listed) {
			return "", nil, fmt.Errorf("%w: gpu:%d of %d", ErrUnavailable, o.Index, len(listed))
		}
		o.API, o.Index = listed[o.Index].API, listed[o.Index].Index
	}
	at := slices.IndexFunc(apis, func(a api) bool { return a.name == o.API })
	if at < 0 {
		names := make([]string, len(apis))
		for i, a := range apis {
			names[i] = a.name
		}
		return "", nil, fmt.Errorf("%w: API %q; there are %q", ErrUnavailable, o.API, names)
	}
	drv, err := apis[at].open(o.Index, o)
	if err != nil {
		return "", nil, err
	}
	name := "gpu:" + o.API
	for i, info := range listed {
		if info.API == o.API && info.Index == o.Index {
			name = DeviceName(i)
		}
	}
	return name, drv, nil
}
